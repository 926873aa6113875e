// SPDX-License-Identifier: BSD-2-Clause
#include "cli/terminal.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <curses.h>
#include <term.h>
#undef columns /* macros of its own for capabilities of these names */
#undef lines

#include "base/cleanup.h"
#include "encode/text.h"

#define CTRL_L 0x0c

static SCREEN *screen;

/* What leads back, for a handler that may call no more than write() and tcsetattr(). */
static struct {
	struct termios modes;
	char sequences[256];
	size_t n;
	pid_t pid;
} back;

static const int deadly[] = {SIGSEGV, SIGABRT, SIGBUS,	SIGFPE,	 SIGILL,  SIGSYS,
			     SIGTRAP, SIGXCPU, SIGXFSZ, SIGALRM, SIGUSR2, SIGVTALRM};

int terminal__check(struct error *err)
{
	const char *name = getenv("TERM");
	int found = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return error__set(err, -ENOTTY, "top needs a terminal: standard input and output must be one");
	if (!name || !*name)
		return error__set(err, -ENOTTY, "TERM is not set: which kind of terminal is this?");
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return error__set(err, -ENOTTY, "no terminal of the kind '%s' (TERM) is known here", name);
	found = cursor_address && *cursor_address;
	del_curterm(cur_term);
	if (!found)
		return error__set(err, -ENOTTY, "a terminal of the kind '%s' (TERM) is no screen", name);
	return 0;
}

static int keep_byte(int c)
{
	if (back.n < sizeof(back.sequences))
		back.sequences[back.n++] = (char)c;
	return c;
}

/* The signal comes again, and then does what it does to everybody. */
static void on_deadly(int sig)
{
	if (getpid() == back.pid) {
		ssize_t ignored = write(STDOUT_FILENO, back.sequences, back.n);

		(void)ignored;
		tcsetattr(STDOUT_FILENO, TCSANOW, &back.modes);
	}
	raise(sig);
}

static void prepare_for_the_worst(void)
{
	/* also when it is the stack that has no room */
	static char stack[16 << 10];
	const char *const sequences[] = {exit_attribute_mode, orig_pair, keypad_local, cursor_normal, exit_ca_mode};
	struct sigaction action = {.sa_handler = on_deadly, .sa_flags = SA_RESETHAND | SA_ONSTACK};

	back.n = 0;
	for (size_t i = 0; i < sizeof(sequences) / sizeof(*sequences); i++)
		if (sequences[i])
			tputs(sequences[i], 1, keep_byte);
	back.pid = getpid();
	sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		sigaction(deadly[i], &action, NULL);
}

int terminal__open(struct error *err)
{
	/* characters only: numbers stay as they are everywhere */
	setlocale(LC_CTYPE, "");
	if (tcgetattr(STDOUT_FILENO, &back.modes))
		return error__set(err, -errno, "cannot ask the terminal: %s", strerror(errno));
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return error__set(err, -ENOTTY, "the terminal cannot be made a screen");
	prepare_for_the_worst();
	atexit(terminal__close);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	if (!getenv("NO_COLOR") && has_colors() && start_color() == OK && use_default_colors() == OK)
		init_pair(1, COLOR_YELLOW, -1);
	return 0;
}

void terminal__close(void)
{
	if (!screen)
		return;
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		signal(deadly[i], SIG_DFL);
	endwin();
	tcsetattr(STDOUT_FILENO, TCSADRAIN, &back.modes);
	delscreen(screen);
	screen = NULL;
}

void terminal__size(size_t *ret_width, size_t *ret_height)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	*ret_width = width > 0 ? (size_t)width : 1;
	*ret_height = height > 0 ? (size_t)height : 1;
}

/* As many characters as have room; some take two columns. What has none of its own (a combining
 * one), or is none in this locale, is a '?'. */
static void show_line(int y, const struct top_line *line, int width)
{
	const attr_t styles[] = {[TOP_PLAIN] = A_NORMAL,
				 [TOP_HEAD] = A_BOLD,
				 [TOP_WARNING] = A_BOLD | (attr_t)COLOR_PAIR(1),
				 [TOP_TITLES] = A_BOLD,
				 [TOP_SELECTED] = A_REVERSE};
	_cleanup_free_ wchar_t *text = calloc((size_t)width + 1, sizeof(*text));
	const char *from = line->text;
	uint32_t code;
	int used = 0, n = 0;

	if (!text)
		return;
	for (size_t len; (len = utf8_next(from, &code)) != 0; from += len) {
		int columns = wcwidth((wchar_t)code);

		if (columns < 1) {
			code = '?';
			columns = 1;
		}
		if (used + columns > width)
			break;
		text[n++] = (wchar_t)code;
		used += columns;
	}
	if (line->style == TOP_SELECTED)
		for (; used < width; used++)
			text[n++] = ' ';
	attrset((int)styles[line->style]);
	mvaddnwstr(y, 0, text, n);
	attrset(A_NORMAL);
	if (used < width)
		clrtoeol();
}

void terminal__show(const struct top_screen *what)
{
	int height, width;

	getmaxyx(stdscr, height, width);
	for (int y = 0; y < height && (size_t)y < what->n; y++)
		show_line(y, &what->lines[y], width);
	refresh();
}

bool terminal__next_key(uint32_t *ret)
{
	static const struct {
		wint_t curses;
		uint32_t key;
	} keys[] = {{KEY_UP, TOP_KEY_UP},	    {KEY_DOWN, TOP_KEY_DOWN},	{KEY_PPAGE, TOP_KEY_PAGE_UP},
		    {KEY_NPAGE, TOP_KEY_PAGE_DOWN}, {KEY_HOME, TOP_KEY_HOME},	{KEY_END, TOP_KEY_END},
		    {KEY_LEFT, TOP_KEY_LEFT},	    {KEY_RIGHT, TOP_KEY_RIGHT}, {KEY_ENTER, TOP_KEY_ENTER},
		    {KEY_BACKSPACE, TOP_KEY_BACKSPACE}};
	wint_t got;
	int kind = get_wch(&got);

	if (kind == ERR)
		return false;
	*ret = 0;
	if (kind == KEY_CODE_YES) {
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			if (keys[i].curses == got)
				*ret = keys[i].key;
		return true;
	}
	switch (got) {
	case '\r':
	case '\n':
		*ret = TOP_KEY_ENTER;
		break;
	case '\b':
	case 0x7f:
		*ret = TOP_KEY_BACKSPACE;
		break;
	case 0x1b:
		*ret = TOP_KEY_ESCAPE;
		break;
	case CTRL_L:
		clearok(stdscr, TRUE);
		break;
	default:
		*ret = (uint32_t)got;
	}
	return true;
}
