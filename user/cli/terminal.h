/* SPDX-License-Identifier: BSD-2-Clause */
/* The terminal as a screen, by ncurses. There is one; nothing else writes to it meanwhile.
 * However memtrace ends, but by SIGKILL, it is as it was before. */
#ifndef MEMTRACE_CLI_TERMINAL_H
#define MEMTRACE_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/top_view.h"

/* Can standard input and output be one? Changes nothing, and opens the terminal anew, which may be
 * another user's (sudo's): before capabilities are given up. 0 or negative errno with err. */
int terminal__check(struct error *err);

/* The screen is ours until terminal__close(), or exit(). 0 or negative errno with err. Catches
 * SIGWINCH and SIGTSTP, which should be blocked but for the moments when nothing minds. */
int terminal__open(struct error *err);
void terminal__close(void);

/* Columns and lines that it has. */
void terminal__size(size_t *ret_width, size_t *ret_height);

void terminal__show(const struct top_screen *screen);

/* The next key that was pressed (a code point or one of enum top_key); 0: it has another size,
 * or is to be drawn again. false: there is nothing. */
bool terminal__next_key(uint32_t *ret);

#endif
