// SPDX-License-Identifier: BSD-2-Clause
/* What memtrace-web receives from the tracer and serves. The input is a series of datagrams. Each
 * datagram has a byte for its kind, a byte for the process and two bytes for a size. This many
 * bytes of a profile follow, in any format that memtrace reads. */
#include "fuzz.h"

#include <sys/socket.h>

#include "tests/unit/web/exposition.h"
#include "web/intake.h"

#define MESSAGES 16

static const char *no_argument(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

/* memtrace's pages have no element <x. If a page has one, a name was written without escapes. */
static void get(struct site *site, const char *path, const char *accept)
{
	struct request request = {.path = path,
				  .argument = no_argument,
				  .host = "localhost",
				  .accept = accept,
				  .body = ""};
	struct reply reply = {};
	char *text;

	site__answer(site, &request, &reply);
	require(reply.status == 200 || reply.status == 404 || reply.status == 503);
	require((reply.body || !reply.size) && reply.type && !reply.stream);
	text = fuzz_string((const uint8_t *)(reply.body ?: ""), reply.size);
	if (!strcmp(reply.type, TYPE_HTML) || !strcmp(reply.type, TYPE_SVG))
		require(!strstr(text, "<x"));
	if (!strcmp(path, "/metrics")) {
		const char *fault = exposition_fault(text);

		if (fault)
			fprintf(stderr, "metrics: %s\n", fault);
		require(!fault);
	}
	free(text);
	free(reply.body);
}

static void get_process(struct site *site, pid_t pid)
{
	static const char *const below[] = {
		"",	     "flame.svg",  "table", "profile.json",    "collapsed",
		"snapshots", "pprof/heap", "diff",  "debug/pprof/heap"};
	char path[64];

	for (size_t i = 0; i < sizeof(below) / sizeof(*below); i++) {
		struct reply reply = {};
		struct request request = {
			.path = path, .argument = no_argument, .host = "localhost", .body = ""};

		snprintf(path, sizeof(path), "/pid/%d/%s", pid, below[i]);
		if (strcmp(below[i], "diff") && strcmp(below[i], "pprof/heap")) {
			get(site, path, NULL);
			continue;
		}
		/* some profiles cannot be compared, and some cannot be written for jeprof */
		site__answer(site, &request, &reply);
		require(reply.status && (reply.body || !reply.size));
		free(reply.body);
	}
}

static void send_next(struct fuzz_input *in, int fd)
{
	unsigned kind = (unsigned)fuzz_take(in, 1), pid = (unsigned)fuzz_take(in, 1);
	size_t left, size = (size_t)fuzz_take(in, 2);
	struct feed_message message = {.kind = kind & 7,
				       .pid = (pid_t)(pid & 3),
				       .taken_ns = pid,
				       .complete = !(pid & 4),
				       .every_s = 1,
				       .why = "<x>\"\n"};
	int memory = -1;

	left = (size_t)(in->end - in->pos);
	size = size < left ? size : left;
	if (kind & 0x80) { /* no message at all */
		require(send(fd, in->pos, size, 0) == (ssize_t)size);
	} else {
		if (!(kind & 0x40))
			memory = fuzz_file(in->pos, size);
		require(!feed__send(fd, &message, memory));
	}
	if (memory >= 0)
		close(memory);
	in->pos += size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	static struct site site;
	size_t bytes = 0;
	int ends[2];

	memset(&site, 0, sizeof(site));
	require(!feed__pair(ends));
	for (int i = 0; i < MESSAGES && in.pos < in.end; i++) {
		bool there;

		send_next(&in, ends[0]);
		there = site__take_feed(&site, ends[1]);
		if (!there)
			break;
	}
	for (size_t i = 0; i < site.store.n; i++) {
		const struct process *p = site.store.processes[i];

		require(p->n_kept && p->n_kept <= STORE_KEPT && p->latest);
		require(!i || site.store.processes[i - 1]->pid < p->pid);
		for (size_t k = 0; k < p->n_kept; k++)
			bytes += p->kept[k].size;
		for (size_t k = 0; k < p->n_pinned; k++)
			bytes += p->pinned[k].size;
	}
	require(bytes == site.store.bytes && bytes <= STORE_BYTES);
	get(&site, "/", NULL);
	get(&site, "/targets", NULL);
	get(&site, "/deaths", NULL);
	get(&site, "/sd", NULL);
	get(&site, "/metrics", NULL);
	get(&site, "/metrics", "application/openmetrics-text");
	get(&site, "/stack/cbf29ce484222325", NULL);
	for (pid_t pid = 0; pid < 4; pid++)
		if (store__find(&site.store, pid))
			get_process(&site, pid);
	get(&site, "/push", NULL);
	store__clear(&site.store);
	push__free(site.push);
	close(ends[0]);
	close(ends[1]);
	return 0;
}
