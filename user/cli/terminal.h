/* SPDX-License-Identifier: BSD-2-Clause */
/* Uses the terminal as a screen, with ncurses. There is only one screen, and nothing else writes to
 * the terminal meanwhile. When memtrace ends, except by SIGKILL, the terminal is restored. */
#ifndef MEMTRACE_CLI_TERMINAL_H
#define MEMTRACE_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/top_view.h"

/* Can standard input and output be a screen? Changes nothing. Call this before capabilities are
 * given up: it opens the terminal anew, and the terminal may belong to another user (sudo's). 0 or
 * negative errno with err. */
int terminal__check(struct error *err);

/* Takes over the screen until terminal__close() or exit(). 0 or negative errno with err. Catches
 * SIGWINCH and SIGTSTP: block these except at moments when they do no harm. */
int terminal__open(struct error *err);
void terminal__close(void);

/* Gets the number of the screen's columns and lines. */
void terminal__size(size_t *ret_width, size_t *ret_height);

/* Draws the screen. If the terminal has not taken all of an earlier screen yet, does nothing. */
void terminal__show(const struct top_screen *screen);

/* Gets the next key that was pressed (a code point or one of enum top_key); 0: the screen has
 * another size, or must be drawn again. Returns false if no key is waiting. */
bool terminal__next_key(uint32_t *ret);

#endif
