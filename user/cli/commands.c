// SPDX-License-Identifier: BSD-2-Clause
#include "cli/cli.h"
#include "cli/options.h"

const struct command *const commands[] = {
	&command_record, &command_top, &command_report, &command_diff,	&command_leaks,
	&command_heap,	 &command_why, &command_agent,	&command_check, NULL,
};
