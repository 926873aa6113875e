// SPDX-License-Identifier: BSD-2-Clause
/* Answers each path. The paths of pprof's clients (jeprof, go tool pprof, Parca, Alloy) are below a
 * process's path, because these clients allow no argument in a path. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "decode/decode.h"
#include "encode/encode.h"
#include "encode/text.h"
#include "profile/diff.h"
#include "profile/view.h"
#include "web/reply.h"

#define LATE_ROUNDS 3 /* /healthz fails if this many rounds are missing */

DEFINE_CLEANUP(struct diff *, cleanup_diff, diff__free)

struct route {
	struct site *site;
	const struct request *request;
	struct reply *reply;
	const struct process *process; /* process N, for paths below /pid/N/ */
};

/* Reads a text that is a decimal number of at most `most`, and nothing else. */
static bool read_number(const char *text, uint64_t most, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = 10 * value + (uint64_t)(*text - '0');
		if (value > most)
			return false;
	}
	*ret = value;
	return true;
}

static const char *argument(const struct route *r, const char *name)
{
	return r->request->argument(r->request->ctx, name);
}

/* Reads the number that an argument has. 1; 0: the query lacks the argument; -1: it is not a
 * number, and the reply says so. */
static int number_argument(const struct route *r, const char *name, uint64_t *ret)
{
	const char *text = argument(r, name);

	if (!text)
		return 0;
	if (read_number(text, UINT32_MAX, ret))
		return 1;
	reply__say(r->reply, 400, "'%s' must be a number\n", name);
	return -1;
}

/* Ends the body that the caller has written to the reply's stream. */
static void end_reply(const struct route *r)
{
	int rc = reply__close(r->reply);

	if (rc)
		reply__fail(r->reply, rc);
}

static void write_with(const struct route *r, const char *type, const char *file,
		       int (*encode)(const struct profile *profile, struct sink *sink))
{
	FILE *stream = reply__open(r->reply, type);
	struct sink sink;
	int rc = -ENOMEM;

	r->reply->file = file;
	if (stream) {
		sink = sink__to_stream(stream);
		rc = encode(r->process->latest, &sink) ?: reply__close(r->reply);
	}
	if (rc)
		reply__fail(r->reply, rc);
}

static int write_flame_graph(const struct profile *profile, struct sink *sink)
{
	return encode_svg(profile, NULL, sink);
}

static int write_table(const struct profile *profile, struct sink *sink)
{
	const struct table_options options = {.width = 160, .leaks = profile->growth.stacks_known};

	return encode_table(profile, &options, sink);
}

static void answer_page(const struct route *r)
{
	FILE *stream = reply__open(r->reply, TYPE_HTML);
	int rc = stream ? page_process(r->site, r->process, stream) : -ENOMEM;

	rc = rc ?: reply__close(r->reply);
	if (rc)
		reply__fail(r->reply, rc);
}

static void answer_flame_graph(const struct route *r)
{
	write_with(r, TYPE_SVG, NULL, write_flame_graph);
}

static void answer_table(const struct route *r)
{
	write_with(r, TYPE_TEXT, NULL, write_table);
}

static void answer_json(const struct route *r)
{
	write_with(r, TYPE_JSON, NULL, encode_json);
}

static void answer_collapsed(const struct route *r)
{
	write_with(r, TYPE_TEXT, NULL, encode_collapsed);
}

/* Answers with jeprof's own format. It has no names: jeprof asks for them at pprof/symbol. */
static void answer_heap_v2(const struct route *r)
{
	write_with(r, TYPE_TEXT, NULL, encode_heap_v2);
}

/* Returns the name that Go's handlers give to the profile. */
static const char *pprof_name(const struct route *r)
{
	return strstr(r->request->path, "allocs") ? "allocs" : "heap";
}

/* Answers a request that has waited. */
static void answer_delta(const struct route *r)
{
	struct delta *delta = r->request->delta;

	if (delta->status != 200) {
		reply__say(r->reply, delta->status ?: 503, "%s", delta->why ?: "it waits\n");
		return;
	}
	*r->reply = (struct reply){.status = 200,
				   .type = TYPE_BYTES,
				   .file = pprof_name(r),
				   .body = delta->body,
				   .size = delta->body_size};
	delta->body = NULL;
}

static void begin_delta(const struct route *r, uint64_t seconds)
{
	r->reply->delta = delta__new(&r->site->deltas, r->process->pid, (double)seconds,
				     clock__now_ns(CLOCK_REALTIME), clock__monotonic_s());
	if (r->reply->delta)
		r->site->ask = true; /* a round, for the first of the two profiles */
	else
		reply__say(r->reply, 429, "%d requests of this kind wait, and no more may\n",
			   DELTA_WAITS);
}

/* Can a new profile of the process be made? If not, answers with the reason. */
static bool is_traced(const struct route *r)
{
	if (r->process->ended)
		reply__say(r->reply, 404, "the process has ended\n");
	else if (r->process->inactive)
		reply__say(r->reply, 409, "it is not traced: POST /pid/%d/activate\n",
			   r->process->pid);
	return !r->process->ended && !r->process->inactive;
}

/* Answers as Go's net/http/pprof does: with the argument debug, text for people; with the argument
 * seconds, what changes within these seconds. */
static void answer_pprof(const struct route *r)
{
	const struct snapshot *snapshot = process__snapshot(r->process, 0);
	uint64_t debug = 0, seconds = 0;
	int rc = number_argument(r, "debug", &debug);

	if (rc >= 0)
		rc = number_argument(r, "seconds", &seconds);
	if (rc < 0)
		return;
	if (rc && (debug || !seconds || seconds > DELTA_MOST_S)) {
		reply__say(r->reply, 400, "'seconds' must be 1 to %d, and cannot go with 'debug'\n",
			   DELTA_MOST_S);
		return;
	}
	if (rc) {
		if (is_traced(r))
			begin_delta(r, seconds);
		return;
	}
	if (debug) {
		answer_table(r);
		return;
	}
	/* the profile's file as it came from the tracer */
	r->reply->body = malloc(snapshot->size);
	if (!r->reply->body) {
		reply__fail(r->reply, -ENOMEM);
		return;
	}
	memcpy(r->reply->body, snapshot->file, snapshot->size);
	r->reply->size = snapshot->size;
	r->reply->status = 200;
	r->reply->type = TYPE_BYTES;
	r->reply->file = pprof_name(r);
}

/* Answers with the path of the program, because jeprof takes the first word for the program. */
static void answer_command_line(const struct route *r)
{
	const char *exe = r->process->latest->exe;

	reply__say(r->reply, 200, "%s", exe && *exe ? exe : "?");
}

/* A location, and its address in the files that name no functions. */
struct place {
	uint64_t addr;
	const struct profile_location *location;
};

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct place *)a)->addr, y = ((const struct place *)b)->addr;

	return x < y ? -1 : x > y;
}

/* Lists the profile's locations, ascending by address. NULL: no memory. */
static struct place *places_of(const struct profile *profile)
{
	struct place *places = calloc(profile->n_locations + 1, sizeof(*places));

	for (size_t i = 0; i < profile->n_locations && places; i++)
		places[i] = (struct place){heap_v2_addr(&profile->locations[i]),
					   &profile->locations[i]};
	if (places)
		qsort(places, profile->n_locations, sizeof(*places), by_address);
	return places;
}

/* Writes "outer--inlined" in one line: two dashes end a name. */
static void put_symbol(const struct profile_location *location, FILE *to)
{
	for (uint32_t i = location->n_frames; i-- > 0;) {
		_cleanup_free_ char *name = text_printable(location->frames[i].name);
		const char *rest = name, *dashes;

		if (!name)
			continue;
		for (; (dashes = strstr(rest, "--")); rest = dashes + 1) {
			fwrite(rest, 1, (size_t)(dashes + 1 - rest), to);
			fputc(' ', to);
		}
		fputs(rest, to);
		if (i)
			fputs("--", to);
	}
}

/* A GET asks whether there are any symbols. A POST asks for the names of the addresses in its body,
 * "0xA+0xB+...". Each is a return address, or a return address minus 1. */
static void answer_symbols(const struct route *r)
{
	const struct profile *profile = r->process->latest;
	_cleanup_free_ struct place *places = NULL;
	const char *at = r->request->body;
	FILE *stream;

	if (!r->request->post) {
		reply__say(r->reply, 200, "num_symbols: 1\n");
		return;
	}
	places = places_of(profile);
	if (!places) {
		reply__fail(r->reply, -ENOMEM);
		return;
	}
	stream = reply__open(r->reply, TYPE_TEXT);
	while (stream && !ferror(stream) && *at) {
		char *end;
		uint64_t addr = strtoull(at, &end, 16);

		if (end == at || (*end && *end != '+' && *end != '\n' && *end != '\r')) {
			reply__say(r->reply, 400, "addresses must be given as in 0x1234+0x5678\n");
			return;
		}
		for (uint64_t more = 0; more < 2; more++) {
			const struct place key = {.addr = addr + more},
					   *place = bsearch(&key, places, profile->n_locations,
							    sizeof(*places), by_address);

			if (!place)
				continue;
			fprintf(stream, "0x%" PRIx64 "\t", addr);
			put_symbol(place->location, stream);
			fputc('\n', stream);
			break;
		}
		at = end + strspn(end, "+\r\n");
	}
	end_reply(r);
}

/* Lists all snapshots, the oldest first: those that are pinned are older than the others. */
static void answer_snapshots(const struct route *r)
{
	FILE *stream = reply__open(r->reply, TYPE_JSON);
	const struct process *p = r->process;

	if (stream) {
		fputs("[", stream);
		for (size_t i = 0; i < p->n_pinned + p->n_kept; i++) {
			const struct snapshot *s =
				i < p->n_pinned ? &p->pinned[i] : &p->kept[i - p->n_pinned];

			fprintf(stream, "%s{\"id\": %u, \"time\": %.3f, \"bytes\": %zu}",
				i ? ", " : "", s->id, (double)s->taken_ns / 1e9, s->size);
		}
		fputs("]\n", stream);
	}
	end_reply(r);
}

/* Answers with the difference of two snapshots. The arguments from and to are their numbers.
 * Without them, the snapshots are the oldest that is kept, and the newest. */
static void answer_diff(const struct route *r)
{
	_cleanup_(cleanup_profile) struct profile *from = NULL, *to = NULL;
	_cleanup_(cleanup_diff) struct diff *diff = NULL;
	const struct table_options options = {.width = 160};
	const struct snapshot *snapshots[2];
	const char *format = argument(r, "format");
	uint64_t ids[2] = {r->process->kept[0].id, 0};
	struct error err = {};
	struct sink sink;
	FILE *stream;
	int rc;

	if (number_argument(r, "from", &ids[0]) < 0 || number_argument(r, "to", &ids[1]) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		snapshots[i] = process__snapshot(r->process, (unsigned)ids[i]);
		if (!snapshots[i]) {
			reply__say(r->reply, 404,
				   "snapshot %" PRIu64 " is not kept: /pid/%d/snapshots\n", ids[i],
				   r->process->pid);
			return;
		}
	}
	rc = decode_bytes("from", snapshots[0]->file, snapshots[0]->size, &from, &err)
		     ?: decode_bytes("to", snapshots[1]->file, snapshots[1]->size, &to, &err);
	if (!rc) {
		const struct profile *both[] = {from, to};

		rc = diff__new(both, 2, DIFF_AUTO, &diff, &err);
		if (rc) {
			reply__say(r->reply, 400, "%s\n", *err.text ? err.text : strerror(-rc));
			return;
		}
		stream = reply__open(r->reply,
				     format && !strcmp(format, "json") ? TYPE_JSON : TYPE_TEXT);
		if (stream) {
			sink = sink__to_stream(stream);
			rc = !strcmp(r->reply->type, TYPE_JSON)
				     ? encode_diff_json(diff, &sink)
				     : encode_diff(diff, &options, &sink);
			rc = rc ?: reply__close(r->reply);
		} else {
			rc = -ENOMEM;
		}
	}
	if (*err.text)
		reply__say(r->reply, 500, "%s\n", err.text);
	else if (rc)
		reply__fail(r->reply, rc);
}

static void answer_new_snapshot(const struct route *r)
{
	if (!is_traced(r))
		return;
	r->site->ask = true;
	reply__say(r->reply, 202, "asked for; the newest so far is %u\n",
		   process__snapshot(r->process, 0)->id);
}

/* Answers a browser with the process's page, other clients with a sentence. */
static void say_wish(const struct route *r, pid_t pid, unsigned status, const char *what)
{
	bool page = r->request->accept && strstr(r->request->accept, "text/html");

	reply__say(r->reply, page ? 303 : status, "pid %d %s\n", pid, what);
	if (!page)
		return;
	snprintf(r->reply->where, sizeof(r->reply->where), "/pid/%d/", pid);
	r->reply->location = r->reply->where;
}

static void want(const struct route *r, pid_t pid, bool active)
{
	struct site *site = r->site;
	struct process *process = store__find(&site->store, pid);

	if (active == !store__inactive(&site->store, pid) && !(process && process->asked)) {
		say_wish(r, pid, 200, active ? "is traced" : "is not traced");
		return;
	}
	if (site->n_wishes == SITE_WISHES) {
		reply__say(r->reply, 429, "%d such requests wait, and no more may\n", SITE_WISHES);
		return;
	}
	site->wishes[site->n_wishes++] =
		(struct wish){pid, active ? FEED_ACTIVATE : FEED_DEACTIVATE};
	if (process)
		process->asked = true;
	say_wish(r, pid, 202, active ? "is to be traced again" : "is not to be traced");
}

static void answer_deactivate(const struct route *r)
{
	if (r->process->ended)
		reply__say(r->reply, 404, "the process has ended\n");
	else
		want(r, r->process->pid, false);
}

static void answer_activate(const struct route *r)
{
	if (r->process->ended)
		reply__say(r->reply, 404, "the process has ended\n");
	else
		want(r, r->process->pid, true);
}

static const struct path {
	const char *path;
	bool get, post;
	void (*answer)(const struct route *route);
} paths[] = {
	{"", true, false, answer_page},
	{"flame.svg", true, false, answer_flame_graph},
	{"table", true, false, answer_table},
	{"profile.json", true, false, answer_json},
	{"collapsed", true, false, answer_collapsed},
	{"snapshots", true, false, answer_snapshots},
	{"snapshot", false, true, answer_new_snapshot},
	{"activate", false, true, answer_activate},
	{"deactivate", false, true, answer_deactivate},
	{"diff", true, false, answer_diff},
	{"debug/pprof/heap", true, false, answer_pprof},
	{"debug/pprof/allocs", true, false, answer_pprof},
	{"pprof/heap", true, false, answer_heap_v2},
	{"pprof/symbol", true, true, answer_symbols},
	{"pprof/cmdline", true, false, answer_command_line},
};

static void answer_below_process(struct route *r, const char *path)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (strcmp(path, paths[i].path))
			continue;
		if (r->request->post ? paths[i].post : paths[i].get)
			paths[i].answer(r);
		else
			reply__say(r->reply, 405, "%s is not for %s\n", path,
				   r->request->post ? "POST" : "GET");
		return;
	}
	reply__say(r->reply, 404, "no such page\n");
}

static bool find_process(struct route *r, const char *pid)
{
	uint64_t number;

	if (!read_number(pid, INT32_MAX, &number)) {
		reply__say(r->reply, 400, "a process must be named by its number\n");
		return false;
	}
	r->process = store__find(&r->site->store, (pid_t)number);
	if (!r->process)
		reply__say(r->reply, 404, "no process %" PRIu64 " is traced\n", number);
	return r->process;
}

/* Answers "/pid/N/...". */
static void answer_process(struct route *r)
{
	char pid[16];
	const char *name = r->request->path + strlen("/pid/"), *end = strchrnul(name, '/');
	size_t len = (size_t)(end - name);
	uint64_t number;

	if (len >= sizeof(pid)) {
		reply__say(r->reply, 400, "a process must be named by its number\n");
		return;
	}
	memcpy(pid, name, len);
	pid[len] = '\0';
	/* tracing of an inactive process can be resumed, even if this server has no profile of the
	 * process */
	if (r->request->post && !strcmp(end, "/activate") && read_number(pid, INT32_MAX, &number) &&
	    !store__find(&r->site->store, (pid_t)number) &&
	    store__inactive(&r->site->store, (pid_t)number)) {
		want(r, (pid_t)number, true);
		return;
	}
	if (!find_process(r, pid))
		return;
	if (*end) {
		answer_below_process(r, end + 1);
		return;
	}
	snprintf(r->reply->where, sizeof(r->reply->where), "/pid/%s/", pid);
	reply__say(r->reply, 301, "%s\n", r->reply->where);
	r->reply->location = r->reply->where;
}

/* Answers scrapers, which name the process by an argument. */
static void answer_by_argument(struct route *r)
{
	const char *pid = argument(r, "pid");

	if (!pid)
		reply__say(r->reply, 400, "which process? Give ?pid=N\n");
	else if (find_process(r, pid))
		answer_pprof(r);
}

static void answer_health(struct route *r)
{
	const struct site *site = r->site;
	double now = clock__monotonic_s(),
	       since = now - (site->news_at_s > 0 ? site->news_at_s : site->begin_s);
	double late = LATE_ROUNDS * (site->round.every_s > 0 ? site->round.every_s : 60);

	if (since > late)
		reply__say(r->reply, 503, "no profiles for %.0f s\n", since);
	else
		reply__say(r->reply, 200, "ok\n");
}

/* Lists the processes that have the stack with that number. */
static void answer_stack(struct route *r)
{
	const char *text = r->request->path + strlen("/stack/");
	uint64_t id;
	FILE *stream;
	char *end;
	bool any = false;

	id = strtoull(text, &end, 16);
	if (end == text || *end || strlen(text) > 16) {
		reply__say(r->reply, 400, "a stack's number has up to 16 hexadecimal digits\n");
		return;
	}
	stream = reply__open(r->reply, TYPE_TEXT);
	for (size_t i = 0; stream && i < r->site->store.n; i++) {
		const struct process *p = r->site->store.processes[i];
		const struct stack *stack = process__stack(p, id);
		_cleanup_free_ char *names = NULL, *comm = NULL;

		if (!stack)
			continue;
		names = collapsed_names(p->latest, &p->latest->sites[stack->site]);
		comm = text_printable(p->latest->comm);
		if (!names || !comm)
			r->reply->error = -ENOMEM;
		else
			fprintf(stream, "%s (%d): %s\n", comm, p->pid, names);
		any = true;
	}
	end_reply(r);
	if (r->reply->status == 200 && !any)
		reply__say(r->reply, 404, "no process has that stack now\n");
}

static void answer_top(struct route *r)
{
	const char *path = r->request->path;
	FILE *stream;
	int rc = -ENOMEM;

	if (!strcmp(path, "/")) {
		stream = reply__open(r->reply, TYPE_HTML);
		if (stream)
			rc = page_index(r->site, stream);
	} else if (!strcmp(path, "/targets")) {
		stream = reply__open(r->reply, TYPE_JSON);
		if (stream)
			rc = list_targets(r->site, stream);
	} else if (!strcmp(path, "/deaths")) {
		const char *format = argument(r, "format");
		bool json = format && !strcmp(format, "json");

		stream = reply__open(r->reply, json ? TYPE_JSON : TYPE_HTML);
		if (stream)
			rc = json ? list_deaths(r->site, stream) : page_deaths(r->site, stream);
	} else if (!strcmp(path, "/sd")) {
		stream = reply__open(r->reply, TYPE_JSON);
		if (stream)
			rc = list_discovery(r->site, r->request, stream);
	} else if (!strcmp(path, "/metrics")) {
		bool open = r->request->accept &&
			    strstr(r->request->accept, "application/openmetrics-text");

		if (argument(r, "pid") && !find_process(r, argument(r, "pid")))
			return;
		stream = reply__open(r->reply, open ? TYPE_OPEN_METRICS : TYPE_METRICS);
		if (stream)
			rc = put_metrics(r->site, r->process, open, stream);
	} else if (!strcmp(path, "/push")) {
		stream = reply__open(r->reply, TYPE_TEXT);
		if (stream)
			rc = push__describe(r->site->push, stream);
	} else {
		reply__say(r->reply, 404, "no such page; begin at /\n");
		return;
	}
	rc = rc ?: reply__close(r->reply);
	if (rc)
		reply__fail(r->reply, rc);
}

void site__count(struct site *site, const struct reply *reply)
{
	site->n_requests[reply->status / 100 % 6]++;
}

void site__answer(struct site *site, const struct request *request, struct reply *reply)
{
	struct route route = {site, request, reply, NULL};
	size_t left = site->unsent < SITE_UNSENT ? SITE_UNSENT - site->unsent : 0;
	const char *path = request->path;

	if (request->delta)
		answer_delta(&route);
	else if (!strncmp(path, "/pid/", 5))
		answer_process(&route);
	else if (request->post)
		reply__say(reply, 405, "%s is not for POST\n", path);
	else if (!strncmp(path, "/stack/", 7))
		answer_stack(&route);
	else if (!strcmp(path, "/debug/pprof/heap") || !strcmp(path, "/debug/pprof/allocs"))
		answer_by_argument(&route);
	else if (!strcmp(path, "/healthz"))
		answer_health(&route);
	else
		answer_top(&route);
	if (!reply->delta && reply->size > left / 2)
		reply__say(reply, 503, "other clients have not taken their answers yet\n");
	/* as Go's handlers do */
	reply->pprof_error = reply->status >= 400 && strstr(path, "/debug/pprof/");
	if (!reply->delta)
		site__count(site, reply);
}
