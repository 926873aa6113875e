/* SPDX-License-Identifier: BSD-2-Clause */
/* A fake of the room capture for tests of targets: the linker replaces its functions with those
 * below. */
#ifndef FAKE_CAPTURE_H
#define FAKE_CAPTURE_H

#include "session/internal.h"

/* The results that the fake kernel and the fake search for allocators return, and counts of their
 * calls. */
static struct {
	int found, attached; /* results of the next search, and of the next attempt to attach */
	const char *unknown; /* the file whose malloc belongs to no known family */
	bool brings_probes;  /* attaching adds probes */
	bool misses_probes;
	uint64_t below; /* not 0: files are on overlayfs, and this inode is below them */
	size_t n_finds, n_attaches, n_forgotten, n_dropped, n_probes, n_events;
	struct abi_event events[4];
	uint64_t samples, dropped, events_lost, held_bytes;
	/* the processes that the kernel side traces, and those that have rows of counters */
	struct {
		pid_t pid;
		uint32_t process;
		uint64_t exec_ns;
	} traced[4];
	uint32_t rows[4];
	size_t n_traced, n_rows;
	bool own;	       /* searches are for one process's probes */
	int process_of_fails;  /* negative errno with which the call fails; 0: it works */
	struct abi_event late; /* an event that comes during a search; process 0: none */
} fake;

int __wrap_allocators__find(struct alloc_files *files, pid_t pid, const struct maps *maps,
			    enum alloc_scope scope, const struct alloc_extra *extra, size_t n_extra,
			    struct allocators **ret, struct error *err);
int __wrap_allocators__find(struct alloc_files *files, pid_t pid, const struct maps *maps,
			    enum alloc_scope scope, const struct alloc_extra *extra, size_t n_extra,
			    struct allocators **ret, struct error *err)
{
	(void)files, (void)maps, (void)extra, (void)n_extra, (void)err;
	(void)pid;
	assert_int_equal(scope, fake.own ? ALLOC_AFTER_EXEC : ALLOC_ALL);
	fake.n_finds++;
	if (fake.found)
		return fake.found;
	*ret = calloc(1, sizeof(**ret));
	assert_non_null(*ret);
	if (fake.unknown)
		strcpy((*ret)->unknown, fake.unknown);
	return 0;
}

int __wrap_capture__attach(struct capture *capture, struct allocators *allocators, pid_t pid,
			   struct error *err);
int __wrap_capture__attach(struct capture *capture, struct allocators *allocators, pid_t pid,
			   struct error *err)
{
	int rc = fake.attached;

	(void)capture, (void)allocators, (void)pid, (void)err;
	fake.n_attaches++;
	fake.attached = 0; /* only one attempt fails, the next one succeeds */
	fake.n_probes += fake.brings_probes;
	return rc;
}

const struct capture_probe *__wrap_capture__probes(const struct capture *capture, size_t *ret_n);
const struct capture_probe *__wrap_capture__probes(const struct capture *capture, size_t *ret_n)
{
	static const struct capture_probe probes[8];

	(void)capture;
	*ret_n = fake.n_probes;
	return probes;
}

bool __wrap_capture__misses_probes(const struct capture *capture, pid_t pid,
				   const struct maps *maps);
bool __wrap_capture__misses_probes(const struct capture *capture, pid_t pid,
				   const struct maps *maps)
{
	(void)capture, (void)pid, (void)maps;
	return fake.misses_probes;
}

void __wrap_guard__wait(void *ctx);
void __wrap_guard__wait(void *ctx)
{
	(void)ctx;
}

struct file_id __wrap_capture__real_file(struct capture *capture, int fd,
					 const struct file_id *file);
struct file_id __wrap_capture__real_file(struct capture *capture, int fd,
					 const struct file_id *file)
{
	(void)capture, (void)fd;
	return fake.below ? (struct file_id){8, 1, fake.below} : *file;
}

bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns);
bool __wrap_capture__probes_file(const struct capture *capture, const struct file_id *file,
				 uint64_t *ret_since_ns)
{
	(void)capture, (void)file, (void)ret_since_ns;
	return false;
}

int __wrap_capture__set_mappings(struct capture *capture, const struct binaries *binaries,
				 uint32_t process, const struct maps *maps);
int __wrap_capture__set_mappings(struct capture *capture, const struct binaries *binaries,
				 uint32_t process, const struct maps *maps)
{
	(void)capture, (void)binaries, (void)process, (void)maps;
	return 0;
}

void __wrap_capture__put_tables(struct capture *capture);
void __wrap_capture__put_tables(struct capture *capture)
{
	(void)capture;
}

void __wrap_capture__forget_mappings(struct capture *capture, uint32_t process);
void __wrap_capture__forget_mappings(struct capture *capture, uint32_t process)
{
	(void)capture, (void)process;
	fake.n_forgotten++;
}

void __wrap_capture__drop_process(struct capture *capture, uint32_t process);
void __wrap_capture__drop_process(struct capture *capture, uint32_t process)
{
	(void)capture;
	fake.n_dropped++;
	for (size_t i = 0; i < fake.n_rows; i++)
		if (fake.rows[i] == process)
			fake.rows[i] = fake.rows[--fake.n_rows];
}

int __wrap_capture__process_of(struct capture *capture, pid_t pid, uint32_t *ret_process,
			       uint64_t *ret_exec_ns);
int __wrap_capture__process_of(struct capture *capture, pid_t pid, uint32_t *ret_process,
			       uint64_t *ret_exec_ns)
{
	(void)capture;
	if (fake.process_of_fails)
		return fake.process_of_fails;
	for (size_t i = 0; i < fake.n_traced; i++)
		if (fake.traced[i].pid == pid) {
			*ret_process = fake.traced[i].process;
			*ret_exec_ns = fake.traced[i].exec_ns;
			return 0;
		}
	return -ENOENT;
}

int __wrap_capture__processes(struct capture *capture, uint32_t **ret, size_t *ret_n);
int __wrap_capture__processes(struct capture *capture, uint32_t **ret, size_t *ret_n)
{
	(void)capture;
	*ret = calloc(fake.n_rows + 1, sizeof(**ret));
	assert_non_null(*ret);
	memcpy(*ret, fake.rows, fake.n_rows * sizeof(**ret));
	*ret_n = fake.n_rows;
	if (fake.late.process)
		fake.events[fake.n_events++] = fake.late;
	return 0;
}

int __wrap_capture__counters(struct capture *capture, uint32_t process,
			     struct abi_process_cpu *ret);
int __wrap_capture__counters(struct capture *capture, uint32_t process, struct abi_process_cpu *ret)
{
	(void)capture, (void)process;
	memset(ret, 0, sizeof(*ret));
	ret->samples = fake.samples;
	ret->alloc_bytes = fake.held_bytes;
	ret->lost[LOST_LIVE_FULL] = fake.dropped;
	return 0;
}

int __wrap_capture__events(struct capture *capture,
			   void (*fn)(void *ctx, const struct abi_event *event), void *ctx,
			   uint64_t *ret_lost);
int __wrap_capture__events(struct capture *capture,
			   void (*fn)(void *ctx, const struct abi_event *event), void *ctx,
			   uint64_t *ret_lost)
{
	(void)capture;
	*ret_lost = fake.events_lost;
	for (size_t i = 0; i < fake.n_events; i++)
		fn(ctx, &fake.events[i]);
	fake.n_events = 0;
	return 0;
}

static inline void say(enum abi_event_kind kind, uint32_t process, uint32_t parent,
		       uint64_t time_ns)
{
	fake.events[fake.n_events++] = (struct abi_event){.kind = kind,
							  .process = process,
							  .parent = parent,
							  .tgid = (uint32_t)getpid(),
							  .time_ns = time_ns};
}

static inline struct session *begin(void)
{
	struct session *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	memset(&fake, 0, sizeof(fake));
	s->everywhere = true;
	s->what = WHAT_HEAP;
	s->epoll_fd = s->timer_fd = -1;
	assert_int_equal(binaries__new(&s->binaries), 0);
	return s;
}

/* Reports a selected process as new. Its files are searched at once. */
static inline struct target *meet(struct session *s, uint32_t process)
{
	say(EVENT_NEW, process, 0, 100);
	targets__take_news(s);
	return targets__find_process(s, process);
}

static inline void end(struct session *s)
{
	while (s->n_targets)
		targets__remove(s, s->targets[0]);
	for (size_t i = 0; i < s->n_attached; i++)
		allocators__free(s->attached[i]);
	free(s->attached);
	free(s->targets);
	binaries__free(s->binaries);
	free(s);
}

#endif
