// SPDX-License-Identifier: BSD-2-Clause
#include "web/push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/text.h"
#include "web/gains.h"

const char *push_kind__name(enum push_kind kind)
{
	static const char *const names[] = {"pyroscope", "otlp", "pyroscope-rpc"};

	return names[kind];
}

/* --- configuration --- */

static int take_line(struct push *p, char *line)
{
	struct push_receiver *last = p->n_receivers ? &p->receivers[p->n_receivers - 1] : NULL;
	char *value = strchr(line, ' '), *equals;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(line, "tenant") && last) {
		last->tenant = value;
	} else if (!strcmp(line, "token") && last) {
		last->token = value;
	} else if (!strcmp(line, "label") && p->n_labels < PUSH_LABELS &&
		   (equals = strchr(value, '='))) {
		*equals = '\0';
		p->labels[p->n_labels++] = (struct push_label){value, equals + 1};
	} else if (p->n_receivers < PUSH_RECEIVERS) {
		for (int kind = 0; kind < PUSH_KINDS; kind++) {
			if (strcmp(line, push_kind__name((enum push_kind)kind)))
				continue;
			last = &p->receivers[p->n_receivers++];
			last->kind = (enum push_kind)kind;
			last->url = value;
			return 0;
		}
		return -EINVAL;
	} else {
		return -EINVAL;
	}
	return 0;
}

struct push *push__new(char *text, size_t len, uint64_t now_ns)
{
	struct push *p = calloc(1, sizeof(*p));
	int rc = p && len && text[len - 1] == '\n' && !memchr(text, '\0', len) ? 0 : -EINVAL;
	char *line = text, *end;

	if (!rc)
		text[len - 1] = '\0';
	for (; line && !rc; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		rc = take_line(p, line);
	}
	if (rc) {
		free(p);
		free(text);
		return NULL;
	}
	p->text = text;
	p->began_ns = now_ns;
	if (gethostname(p->host, sizeof(p->host) - 1))
		p->host[0] = '\0';
	for (size_t i = 0; i < p->n_receivers; i++)
		if (getrandom(&p->receivers[i].queue.random, sizeof(uint64_t), 0) < 0)
			p->receivers[i].queue.random = now_ns + i;
	return p;
}

void push__free(struct push *p)
{
	if (!p)
		return;
	push_http__free(p->http); /* freed first, because it uses requests that the queues own */
	for (size_t i = 0; i < p->n_receivers; i++)
		push_queue__clear(&p->receivers[i].queue);
	free(p->text);
	free(p);
}

/* --- names --- */

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
	       c == '-' || c == '.';
}

/* Writes the text. Every byte becomes %XX, except plain characters and those in `also`. */
static void put_percent(FILE *to, const char *text, const char *also)
{
	for (; *text; text++)
		if (is_plain(*text) || strchr(also, *text))
			fputc(*text, to);
		else
			fprintf(to, "%%%02X", (unsigned char)*text);
}

/* Writes a label for app{name=value,...}. In the value, blanks become %XX, because they would be
 * trimmed. Characters that would end the value become %XX, too. Thus different values stay
 * different. */
static void put_label(FILE *to, const char *name, const char *value)
{
	fprintf(to, "%s=", name);
	put_percent(to, value, "/:@+");
}

static const char *label_of(const struct push *p, const char *name)
{
	for (size_t i = 0; i < p->n_labels; i++)
		if (!strcmp(p->labels[i].name, name))
			return p->labels[i].value;
	return NULL;
}

/* Writes an application's name. Pyroscope takes few characters in it. The label comm has the whole
 * name. */
static void put_app(FILE *to, const char *name)
{
	if (!*name)
		fputc('_', to);
	for (; *name; name++)
		fputc(is_plain(*name) ? *name : '_', to);
}

#define OWN_LABELS 5

/* Fills in the labels of the process for Pyroscope, except the service's name. These are the labels
 * that were configured, and those of the agent's own labels whose names were not configured. pid:
 * room for the value of the label pid. Returns their number. */
static size_t labels_for_pyroscope(const struct push *p, const struct process *process,
				   char pid[16],
				   struct pyroscope_label ret[PUSH_LABELS + OWN_LABELS])
{
	const struct pyroscope_label own[OWN_LABELS] = {{"node", p->host},
							{"comm", process->latest->comm},
							{"container_id", process->container.id},
							{"pod_uid", process->container.pod},
							{"pid", pid}};
	size_t n = 0;

	snprintf(pid, 16, "%d", process->pid);
	for (size_t i = 0; i < p->n_labels; i++)
		if (strcmp(p->labels[i].name, "service_name"))
			ret[n++] = (struct pyroscope_label){p->labels[i].name, p->labels[i].value};
	for (size_t i = 0; i < OWN_LABELS; i++)
		if (*own[i].value && !label_of(p, own[i].name))
			ret[n++] = own[i];
	return n;
}

/* Returns "app{k=v,...}" for the process; NULL: no memory. */
static char *series_name(const struct push *p, const struct process *process)
{
	const char *comm = process->latest->comm, *service = label_of(p, "service_name");
	struct pyroscope_label labels[PUSH_LABELS + OWN_LABELS];
	char pid[16], *name = NULL;
	size_t n = labels_for_pyroscope(p, process, pid, labels), len;
	FILE *to = open_memstream(&name, &len);

	if (!to)
		return NULL;
	put_app(to, service ?: comm);
	fputc('{', to);
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputc(',', to);
		put_label(to, labels[i].name, labels[i].value);
	}
	fputc('}', to);
	if (fclose(to)) {
		free(name);
		return NULL;
	}
	return name;
}

/* --- requests --- */

static int encode_for_otlp(const struct push *p, const struct process *process,
			   const struct encode_interval *interval, const uint8_t id[16],
			   struct sink *sink)
{
	const struct profile *profile = process->latest;
	const char *slash = profile->exe ? strrchr(profile->exe, '/') : NULL;
	const char *service = label_of(p, "service_name");
	struct otlp_attribute attributes[6 + PUSH_LABELS];
	struct otlp_options options = {.interval = *interval, .resource = attributes};
	size_t n = 0;

	attributes[n++] = (struct otlp_attribute){"service.name", service ?: profile->comm, 0};
	attributes[n++] = (struct otlp_attribute){"process.pid", NULL, process->pid};
	attributes[n++] = (struct otlp_attribute){"process.executable.name",
						  slash ? slash + 1 : profile->comm, 0};
	if (*process->container.id)
		attributes[n++] = (struct otlp_attribute){"container.id", process->container.id, 0};
	if (*process->container.pod)
		attributes[n++] = (struct otlp_attribute){"k8s.pod.uid", process->container.pod, 0};
	if (*p->host)
		attributes[n++] = (struct otlp_attribute){"host.name", p->host, 0};
	for (size_t i = 0; i < p->n_labels; i++)
		if (strcmp(p->labels[i].name, "service_name"))
			attributes[n++] =
				(struct otlp_attribute){p->labels[i].name, p->labels[i].value, 0};
	options.n_resource = n;
	memcpy(options.id, id, sizeof(options.id));
	return encode_otlp(profile, &options, sink);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct pyroscope_label *)a)->name,
		      ((const struct pyroscope_label *)b)->name);
}

/* Encodes the body for Pyroscope's push API. id: 32 hexadecimal digits. */
static int encode_for_rpc(const struct push *p, const struct process *process,
			  const struct encode_interval *interval, const char *id, struct sink *sink)
{
	const char *comm = process->latest->comm, *service = label_of(p, "service_name");
	struct pyroscope_label labels[PUSH_LABELS + OWN_LABELS + 3];
	struct pyroscope_push push = {.labels = labels};
	_cleanup_free_ char *file = NULL;
	char pid[16], uuid[40];
	struct sink to_file;
	FILE *stream = open_memstream(&file, &push.size);
	int rc;

	if (!stream)
		return -ENOMEM;
	to_file = sink__to_stream(stream);
	rc = encode_pprof_interval(process->latest, interval, &to_file);
	if (fclose(stream) && !rc)
		rc = -ENOMEM;
	if (rc)
		return rc;
	snprintf(uuid, sizeof(uuid), "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8, id + 12, id + 16,
		 id + 20);
	push.n_labels = labels_for_pyroscope(p, process, pid, labels);
	labels[push.n_labels++] = (struct pyroscope_label){"__name__", "memory"};
	/* these figures of allocations are the interval's, not totals since the start */
	labels[push.n_labels++] = (struct pyroscope_label){"__delta__", "false"};
	labels[push.n_labels++] = (struct pyroscope_label){"service_name", service
										   ?: *comm ? comm
											    : "?"};
	qsort(labels, push.n_labels, sizeof(*labels), by_name);
	push.profile = file;
	push.id = uuid;
	return encode_pyroscope(&push, sink);
}

/* Returns what follows the receiver's URL; NULL: no memory. */
static char *target_of(const struct push *p, const struct push_receiver *receiver,
		       const struct process *process, const struct encode_interval *interval)
{
	_cleanup_free_ char *name = NULL;
	char *target = NULL;
	size_t len;
	FILE *to;

	if (receiver->kind == PUSH_OTLP)
		return strdup("/v1development/profiles");
	if (receiver->kind == PUSH_PYROSCOPE_RPC)
		return strdup("/push.v1.PusherService/Push");
	name = series_name(p, process);
	to = name ? open_memstream(&target, &len) : NULL;
	if (!to)
		return NULL;
	fputs("/ingest?name=", to);
	put_percent(to, name, "");
	fprintf(to, "&from=%" PRIu64 "&until=%" PRIu64 "&format=pprof&spyName=memtrace",
		interval->from_ns, interval->until_ns);
	if (fclose(to)) {
		free(target);
		return NULL;
	}
	return target;
}

/* gzips the body. 0 or -ENOMEM. */
static int pack(struct push_request *request)
{
	z_stream zip = {.next_in = (Bytef *)request->body, .avail_in = (uInt)request->size};
	char *packed = NULL;
	size_t room;
	int rc = -ENOMEM;

	/* 16: gzip's frame */
	if (request->size > UINT32_MAX / 2 ||
	    deflateInit2(&zip, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
		    Z_OK)
		return rc;
	room = deflateBound(&zip, request->size);
	packed = malloc(room);
	zip.next_out = (Bytef *)packed;
	zip.avail_out = (uInt)room;
	if (packed && deflate(&zip, Z_FINISH) == Z_STREAM_END) {
		free(request->body);
		request->body = packed;
		request->size = zip.total_out;
		packed = NULL;
		rc = 0;
	}
	deflateEnd(&zip);
	free(packed);
	return rc;
}

static struct push_request *make_request(const struct push *p, const struct push_receiver *receiver,
					 const struct process *process,
					 const struct encode_interval *interval)
{
	struct push_request *request = calloc(1, sizeof(*request));
	FILE *stream = request ? open_memstream(&request->body, &request->size) : NULL;
	uint8_t id[16];
	struct sink sink;
	int rc;

	if (!stream) {
		free(request);
		return NULL;
	}
	rc = getrandom(id, sizeof(id), 0) == sizeof(id) ? 0 : -EIO;
	for (size_t i = 0; i < sizeof(id) && !rc; i++)
		snprintf(request->id + 2 * i, 3, "%02x", id[i]);
	sink = sink__to_stream(stream);
	if (!rc && receiver->kind == PUSH_OTLP)
		rc = encode_for_otlp(p, process, interval, id, &sink);
	else if (!rc && receiver->kind == PUSH_PYROSCOPE_RPC)
		rc = encode_for_rpc(p, process, interval, request->id, &sink);
	else if (!rc)
		rc = encode_pprof_interval(process->latest, interval, &sink);
	if (fclose(stream))
		rc = -ENOMEM;
	if (!rc && receiver->kind == PUSH_OTLP) /* pprof is packed already */
		rc = pack(request);
	request->target = rc ? NULL : target_of(p, receiver, process, interval);
	if (!request->target) {
		push_request__free(request);
		return NULL;
	}
	return request;
}

bool push__is_behind(const struct push *push)
{
	for (size_t i = 0; i < push->n_receivers; i++) {
		const struct push_queue *q = &push->receivers[i].queue;

		if (!(q->backoff.wait_s > 0) &&
		    (q->n > PUSH_REQUESTS / 2 || q->bytes > PUSH_BYTES / 2))
			return true;
	}
	return false;
}

void push__add(struct push *p, struct process *process, const struct profile *before)
{
	const struct profile *profile = process->latest;
	struct encode_interval interval = {.from_ns = before ? process->before_ns
							     : profile->start_unix_ns,
					   .until_ns = process->taken_ns,
					   .most_sites = PUSH_STACKS};
	double(*allocated)[2] = NULL;

	if (interval.from_ns > interval.until_ns) /* only if the clock was set back */
		interval.from_ns = interval.until_ns;
	if (!before)
		gains_sent__clear(&process->sent);
	/* Without an earlier profile, all allocated bytes are new only if tracing began after this
	 * server's start. Otherwise an earlier server may have sent a part of them, so 0 is
	 * sent. */
	if (before)
		gains__unsent(before, profile, &process->sent, &allocated);
	else if (profile->start_unix_ns >= p->began_ns)
		allocated = gains__allocated(profile);
	if (!profile->n_sites) {
		free(allocated);
		return;
	}
	interval.allocated = (const double(*)[2])allocated;
	if (profile->n_sites > PUSH_STACKS)
		p->n_stacks_left_out += profile->n_sites - PUSH_STACKS;
	for (size_t i = 0; i < p->n_receivers; i++) {
		struct push_receiver *receiver = &p->receivers[i];
		struct push_request *request = make_request(p, receiver, process, &interval);

		if (request)
			push_queue__add(&receiver->queue, request);
		else
			push_queue__count_drop(&receiver->queue, PUSH_DROP_NO_MEMORY);
	}
	free(allocated);
}

int push__describe(const struct push *p, FILE *to)
{
	for (size_t i = 0; p && i < p->n_receivers; i++) {
		const struct push_receiver *receiver = &p->receivers[i];
		const struct push_queue *q = &receiver->queue;

		fprintf(to, "%s %s: %" PRIu64 " sent, %zu waiting (%zu bytes)%s%s\n",
			push_kind__name(receiver->kind), receiver->url,
			q->results[PUSH_RESULT_SENT], q->n, q->bytes,
			*receiver->said ? "; last failure: " : "", receiver->said);
	}
	if (!p)
		fputs("nothing is pushed: --push-pyroscope, --push-otlp\n", to);
	return 0;
}
