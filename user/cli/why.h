/* SPDX-License-Identifier: BSD-2-Clause */
/* From what a scan has found to what is printed: roots get names, equal paths become one row. */
#ifndef MEMTRACE_CLI_WHY_H
#define MEMTRACE_CLI_WHY_H

#include "heap/why.h"
#include "profile/why.h"

/* The report's rows are those of why's paths, one for each, in their order: why_report__merge()
 * puts them together. Free ret with why_report__clear(). 0 or -ENOMEM. */
int why_report__make(pid_t pid, const struct why *why, bool asked, struct why_report *ret);

struct registers;

/* Adds the registers of a process as roots. registers: NULL: they cannot be read. 0 or negative
 * errno. */
int why_registers__add(struct registers *registers, struct root_threads *threads);

#endif
