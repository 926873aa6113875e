// SPDX-License-Identifier: BSD-2-Clause
/* Answers a request. The lines of the input are the method ("p": POST), the path, the query as
 * NAME=VALUE&..., the host, and the accepted types. The rest is the body. */
#include "fuzz.h"

#include "decode/decode.h"
#include "encode/encode.h"
#include "web/reply.h"

static const char *argument(void *ctx, const char *name)
{
	static char value[4096];
	size_t len = strlen(name);

	for (const char *at = ctx; at; at = strchr(at, '&')) {
		at += *at == '&';
		if (!strncmp(at, name, len) && at[len] == '=') {
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + len + 1, "&"),
				 at + len + 1);
			return value;
		}
	}
	return NULL;
}

/* The tracer sends the profile after this number of seconds. */
static void add(struct site *site, pid_t pid, const char *text, int seconds)
{
	struct profile *profile;
	struct error err = {};
	char *file = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&file, &size);
	struct sink sink = sink__to_stream(stream);

	require(!decode_bytes("input", text, strlen(text), &profile, &err));
	profile->pid = pid;
	profile->start_unix_ns = 1000000000;
	profile->duration_s = seconds;
	require(!encode_pprof(profile, &sink) && !fclose(stream));
	profile__free(profile);
	require(!store__add(&site->store, pid, 1000000000, file, size, &err));
}

static const struct site *known(void)
{
	static struct site site;

	if (site.store.n)
		return &site;
	add(&site, 7, "main;keep<T> 900\nmain;cache 100\n", 10);
	add(&site, 7, "main;keep<T> 1900\nmain;cache 100\n", 20);
	require(store__find(&site.store, 7)->n_kept == 2);
	add(&site, 8,
	    "heap_v2/1\n  t*: 2: 200 [0: 0]\n@ 0x401000 0x402000\n  t*: 2: 200 [0: 0]\n\n"
	    "MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 1 /bin/x\n",
	    10);
	store__end_round(&site.store, true);
	return &site;
}

/* Returns the next line, or "" if there is none. */
static char *line(char **rest)
{
	char *text = strsep(rest, "\n");

	return text ?: (char *)"";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct site site = *known();
	char *copy = fuzz_string(data, size), *rest = copy, *method, *path, *query, *host, *accept;
	struct reply reply = {};
	struct request request;

	method = line(&rest);
	path = line(&rest);
	query = line(&rest);
	host = line(&rest);
	accept = line(&rest);
	request = (struct request){.post = *method == 'p',
				   .path = path,
				   .argument = argument,
				   .ctx = query,
				   .host = *host ? host : NULL,
				   .accept = *accept ? accept : NULL,
				   .body = rest ?: "",
				   .body_size = rest ? strlen(rest) : 0};
	if (*path == '/') {
		site__answer(&site, &request, &reply);
		if (reply.delta) {
			delta__free(&site.deltas, reply.delta);
			require(!site.deltas.n && !reply.status && site.ask);
			goto out;
		}
		require((reply.body || !reply.size) && reply.type && !reply.stream);
		require(reply.status == 200 || reply.status == 202 || reply.status == 301 ||
			reply.status == 303 || (reply.status >= 400 && reply.status < 500) ||
			reply.status == 503);
		/* a client may choose a number in a header's value, but nothing else of it */
		require(!reply.location ||
			!reply.location[strspn(reply.location, "/pid0123456789")]);
		require(!reply.file || strspn(reply.file, "heap.bgz") == strlen(reply.file));
		require(site.n_wishes <= 1 && (!site.n_wishes || request.post));
		require(site.store.n == 2 && site.n_requests[reply.status / 100] == 1);
		free(reply.body);
	}
out:
	free(copy);
	return 0;
}
