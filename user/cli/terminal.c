// SPDX-License-Identifier: BSD-2-Clause
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <curses.h>
#include <term.h>
#undef columns /* term.h has macros of these two names */
#undef lines

#include "base/cleanup.h"
#include "cli/nowait.h"
#include "encode/text.h"

#define CTRL_L	 0x0c
#define LEAVE_MS 200 /* terminal__close() waits at most this long until the last output is read */

static SCREEN *screen;

/* ncurses waits until the terminal has read all output, but perhaps nobody reads (Ctrl-S, a hung
 * connection). So ncurses writes into memory, and memtrace sends from there as much as fits. As
 * long as a part of a frame is not sent, no other frame is made. So once the last part is sent, the
 * terminal shows what ncurses expects. */
static struct {
	int tty;    /* the original standard output */
	int to;	    /* descriptor of the same terminal; it does not block */
	int memory; /* a file in memory, which ncurses writes to */
	char *left;
	size_t n;
	WINDOW *keys; /* a pad to read keys from: reading from a window would also draw it */
	bool skipped; /* a frame was skipped, and must be drawn later */
} out = {-1, -1, -1, NULL, 0, NULL, false};

/* The data with which a signal handler restores the terminal. The handler may only call write() and
 * tcsetattr(). */
static struct {
	struct termios modes;
	char sequences[256];
	size_t n;
	pid_t pid;
} back;

/* Signals that would end memtrace at once. SIGVTALRM is not here, because demangle() uses it. */
static const int deadly[] = {SIGSEGV, SIGABRT, SIGBUS,	SIGFPE,	 SIGILL, SIGSYS,
			     SIGTRAP, SIGXCPU, SIGXFSZ, SIGALRM, SIGUSR2};

int terminal__check(struct error *err)
{
	const char *name = getenv("TERM");
	int found = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return error__set(err, -ENOTTY,
				  "top needs a terminal as its standard input and output; without "
				  "one, use memtrace -p PID -d SECONDS");
	if (!name || !*name)
		return error__set(err, -ENOTTY,
				  "TERM is not set: set it to the kind of this terminal, as "
				  "TERM=xterm");
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return error__set(err, -ENOTTY,
				  "TERM is '%s', a terminal that is not known here: try TERM=xterm",
				  name);
	found = cursor_address && *cursor_address;
	del_curterm(cur_term);
	if (!found)
		return error__set(err, -ENOTTY,
				  "TERM is '%s', a terminal whose cursor cannot be moved: use "
				  "another one, or memtrace -p PID -d SECONDS",
				  name);
	out.to = nowait__open(STDOUT_FILENO);
	return 0;
}

static int keep_byte(int c)
{
	if (back.n < sizeof(back.sequences))
		back.sequences[back.n++] = (char)c;
	return c;
}

/* Restores the terminal. The signal is raised again, and then has its default effect. */
static void on_deadly(int sig)
{
	if (getpid() == back.pid) {
		ssize_t ignored = write(out.to, back.sequences, back.n);

		(void)ignored;
		tcsetattr(out.tty, TCSANOW, &back.modes);
	}
	raise(sig);
}

static void prepare_for_the_worst(void)
{
	/* the handler's own stack: the thread's usual stack may be full */
	static char stack[16 << 10];
	const char *const sequences[] = {exit_attribute_mode, orig_pair, keypad_local,
					 cursor_normal, exit_ca_mode};
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

/* Sends as much as fits. Returns true if nothing is left. */
static bool push(void)
{
	ssize_t n = 1;

	while (out.n && n > 0) {
		n = nowait__write(out.to, out.left, out.n);
		if (n > 0) {
			out.n -= (size_t)n;
			memmove(out.left, out.left + n, out.n);
		}
	}
	if (n < 0)
		out.n = 0; /* nobody is at the terminal any more */
	return !out.n;
}

static void begin_frame(void)
{
	dup2(out.memory, STDOUT_FILENO);
}

static void end_frame(void)
{
	off_t size = lseek(out.memory, 0, SEEK_CUR);
	char *grown = size > 0 ? realloc(out.left, out.n + (size_t)size) : NULL;
	ssize_t n = -1;

	dup2(out.tty, STDOUT_FILENO);
	if (grown) {
		out.left = grown;
		n = pread(out.memory, out.left + out.n, (size_t)size, 0);
	}
	if (n > 0)
		out.n += (size_t)n;
	else
		clearok(stdscr, TRUE); /* the frame is lost, so the next one draws everything */
	if (ftruncate(out.memory, 0) || lseek(out.memory, 0, SEEK_SET))
		clearok(stdscr, TRUE);
	push();
}

static int open_output(struct error *err)
{
	out.tty = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	out.memory = memfd_create("memtrace-screen", MFD_CLOEXEC);
	if (out.tty < 0 || out.memory < 0)
		return error__set(err, -errno, "cannot make room for the screen: %s",
				  strerror(errno));
	if (out.to < 0 || out.to == STDOUT_FILENO)
		out.to = nowait__open(out.tty);
	return 0;
}

int terminal__open(struct error *err)
{
	int rc = open_output(err);

	if (rc)
		return rc;
	/* only characters follow the locale; numbers stay as in C */
	setlocale(LC_CTYPE, "");
	if (tcgetattr(STDOUT_FILENO, &back.modes))
		return error__set(err, -errno, "cannot ask the terminal: %s", strerror(errno));
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return error__set(err, -ENOTTY, "the terminal cannot be used as a screen");
	prepare_for_the_worst();
	atexit(terminal__close);
	cbreak();
	noecho();
	nonl();
	out.keys = newpad(1, 1);
	if (!out.keys)
		return error__set(err, -ENOMEM, "out of memory");
	keypad(out.keys, TRUE);
	nodelay(out.keys, TRUE);
	set_escdelay(50);
	curs_set(0);
	if (!getenv("NO_COLOR") && has_colors() && start_color() == OK &&
	    use_default_colors() == OK)
		init_pair(1, COLOR_YELLOW, -1);
	return 0;
}

void terminal__close(void)
{
	if (!screen)
		return;
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++)
		signal(deadly[i], SIG_DFL);
	begin_frame();
	endwin();
	end_frame();
	for (int i = 0; i < LEAVE_MS && !push(); i++)
		usleep(1000);
	tcsetattr(out.tty, TCSANOW, &back.modes); /* ncurses could not restore the modes */
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

/* Shows as many characters as fit; some take two columns. A combining character, or one that the
 * locale does not have, becomes '?'. */
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

	out.skipped = !push();
	if (out.skipped)
		return;
	getmaxyx(stdscr, height, width);
	for (int y = 0; y < height && (size_t)y < what->n; y++)
		show_line(y, &what->lines[y], width);
	begin_frame();
	refresh();
	end_frame();
}

bool terminal__next_key(uint32_t *ret)
{
	static const struct {
		wint_t curses;
		uint32_t key;
	} keys[] = {{KEY_UP, TOP_KEY_UP},	  {KEY_DOWN, TOP_KEY_DOWN},
		    {KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
		    {KEY_HOME, TOP_KEY_HOME},	  {KEY_END, TOP_KEY_END},
		    {KEY_LEFT, TOP_KEY_LEFT},	  {KEY_RIGHT, TOP_KEY_RIGHT},
		    {KEY_ENTER, TOP_KEY_ENTER},	  {KEY_BACKSPACE, TOP_KEY_BACKSPACE}};
	wint_t got;
	int kind;

	*ret = 0;
	if (push() && out.skipped) {
		out.skipped = false;
		return true;
	}
	kind = wget_wch(out.keys, &got);
	if (kind == ERR)
		return false;
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
