// SPDX-License-Identifier: BSD-2-Clause
/* Sends requests with libcurl, in the server's own loop: a receiver that hangs holds up nothing. Of
 * an answer, only the status and the first bytes are kept. */
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "web/push.h"

#define CONNECT_S  5L
#define DEADLINE_S 10L /* for one whole attempt */
#define MOST_FDS   16
#define ANSWER	   512 /* at most this many bytes of an answer are kept */

/* An attempt to send a request. */
struct attempt {
	CURL *curl; /* reused by later attempts, because it keeps the connection */
	struct curl_slist *headers;
	struct push_request *request; /* NULL: the attempt is free */
	struct push_receiver *receiver;
	size_t sent; /* bytes of the body that libcurl has taken */
	unsigned char answer[ANSWER];
	size_t answered;
};

struct push_http {
	CURLM *all;
	struct attempt attempts[PUSH_RECEIVERS * PUSH_AT_ONCE];
};

struct push_http *push_http__new(void)
{
	struct push_http *h = calloc(1, sizeof(*h));

	if (!h || curl_global_init(CURL_GLOBAL_DEFAULT)) {
		free(h);
		return NULL;
	}
	h->all = curl_multi_init();
	for (size_t i = 0; i < PUSH_RECEIVERS * PUSH_AT_ONCE && h->all; i++) {
		h->attempts[i].curl = curl_easy_init();
		if (!h->attempts[i].curl) {
			push_http__free(h);
			return NULL;
		}
	}
	if (!h->all) {
		push_http__free(h);
		return NULL;
	}
	return h;
}

void push_http__free(struct push_http *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < PUSH_RECEIVERS * PUSH_AT_ONCE; i++) {
		if (h->attempts[i].request)
			curl_multi_remove_handle(h->all, h->attempts[i].curl);
		curl_easy_cleanup(h->attempts[i].curl);
		curl_slist_free_all(h->attempts[i].headers);
	}
	curl_multi_cleanup(h->all);
	curl_global_cleanup();
	free(h);
}

/* Gives libcurl the next bytes of the body. libcurl gets no function that seeks back to the body's
 * beginning. With such a function, libcurl would by itself send the request again if a reused
 * connection turns out to be closed. This second attempt would be neither marked as a repetition
 * nor counted. */
static size_t give_body(char *to, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t left = a->request->size - a->sent, len = size * n < left ? size * n : left;

	memcpy(to, a->request->body + a->sent, len);
	a->sent += len;
	return len;
}

static size_t take_answer(char *data, size_t size, size_t n, void *ctx)
{
	struct attempt *a = ctx;
	size_t len = size * n, room = ANSWER - a->answered;

	memcpy(a->answer + a->answered, data, len < room ? len : room);
	a->answered += len < room ? len : room;
	return len;
}

/* Adds a header to the request. 0 or -ENOMEM. */
static int add_header(struct attempt *a, const char *name, const char *value)
{
	struct curl_slist *more;
	char *line;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return -ENOMEM;
	more = curl_slist_append(a->headers, line);
	free(line);
	if (!more)
		return -ENOMEM;
	a->headers = more;
	return 0;
}

static int add_headers(struct attempt *a)
{
	static const char *const types[PUSH_KINDS] = {
		[PUSH_PYROSCOPE] = "application/octet-stream",
		[PUSH_OTLP] = "application/x-protobuf",
		[PUSH_PYROSCOPE_RPC] = "application/proto",
	};
	const struct push_receiver *receiver = a->receiver;
	char number[16];
	int rc;

	rc = add_header(a, "Content-Type", types[receiver->kind])
		     ?: add_header(a, "Idempotency-Key", a->request->id);
	if (!rc && receiver->kind == PUSH_PYROSCOPE_RPC)
		rc = add_header(a, "Connect-Protocol-Version", "1");
	if (!rc && receiver->kind == PUSH_OTLP)
		rc = add_header(a, "Content-Encoding", "gzip");
	if (!rc && a->request->repeated) {
		snprintf(number, sizeof(number), "%u", a->request->attempts);
		rc = add_header(a, "X-Memtrace-Attempt", number);
	}
	if (!rc && receiver->tenant)
		rc = add_header(a, "X-Scope-OrgID", receiver->tenant);
	if (!rc && receiver->token) {
		char *value;

		if (asprintf(&value, "Bearer %s", receiver->token) < 0)
			return -ENOMEM;
		rc = add_header(a, "Authorization", value);
		free(value);
	}
	/* no wait for a "100 Continue" */
	return rc ?: add_header(a, "Expect", "");
}

/* Sets libcurl's options. Nothing comes from the environment: no proxy, no .netrc. Redirects are
 * not followed: they would lead the profile, and the token, to another host. */
static CURLcode set_options(struct attempt *a, const char *url)
{
	CURL *c = a->curl;
	CURLcode rc = curl_easy_setopt(c, CURLOPT_URL, url);

#if LIBCURL_VERSION_NUM >= 0x075500
	rc = rc ?: curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	rc = rc ?: curl_easy_setopt(c, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
	rc = rc ?: curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_PROXY, "");
	rc = rc ?: curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_TIMEOUT, DEADLINE_S);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_USERAGENT, "memtrace/" MEMTRACE_VERSION);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->headers);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_POST, 1L);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)a->request->size);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_READFUNCTION, give_body);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_READDATA, a);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_answer);
	rc = rc ?: curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
	return rc ?: curl_easy_setopt(c, CURLOPT_PRIVATE, a);
}

/* Prepares the attempt to send its request. 0 or -ENOMEM. */
static int set_up(struct attempt *a)
{
	char *url;
	int rc;

	curl_easy_reset(a->curl); /* keeps the connection */
	a->answered = a->sent = 0;
	if (add_headers(a) || asprintf(&url, "%s%s", a->receiver->url, a->request->target) < 0)
		return -ENOMEM;
	rc = set_options(a, url) == CURLE_OK ? 0 : -ENOMEM;
	free(url);
	return rc;
}

static void end_attempt(struct attempt *a, enum push_result result, double asked_s)
{
	push_queue__end(&a->receiver->queue, a->request, result, asked_s, clock__monotonic_s());
	curl_slist_free_all(a->headers);
	a->headers = NULL;
	a->request = NULL;
}

/* Returns how the attempt ended. If any part of the body may have been sent before an error, it is
 * not known whether the receiver took the request. */
static enum push_result result_of(const struct attempt *a, CURLcode code, long status)
{
	if (code != CURLE_OK)
		return a->sent ? PUSH_RESULT_UNKNOWN : PUSH_RESULT_CONNECTION;
	if (status >= 200 && status < 300)
		return PUSH_RESULT_SENT;
	/* OTLP's specification allows another try after these statuses */
	return status == 429 || (status >= 502 && status <= 504) ? PUSH_RESULT_BUSY
								 : PUSH_RESULT_REFUSED;
}

/* Did a receiver of OTLP take the request, but not all its profiles? ExportProfilesServiceResponse
 * has the field partial_success, which has the field rejected_profiles, a number. Both are the
 * first field of their message. */
static bool is_partly_rejected(const struct attempt *a)
{
	const unsigned char *answer = a->answer;

	return a->receiver->kind == PUSH_OTLP && a->answered >= 4 && answer[0] == 0x0a &&
	       answer[1] >= 2 && (answer[1] & 0x80 ? answer[3] == 0x08 : answer[2] == 0x08);
}

static void take_result(struct attempt *a, CURLcode code)
{
	enum push_result result;
	curl_off_t asked_s = 0;
	long status = 0;

	curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(a->curl, CURLINFO_RETRY_AFTER, &asked_s);
	result = result_of(a, code, status);
	if (result == PUSH_RESULT_SENT && is_partly_rejected(a))
		result = PUSH_RESULT_REFUSED;
	if (result == PUSH_RESULT_SENT)
		;
	else if (code != CURLE_OK)
		snprintf(a->receiver->said, sizeof(a->receiver->said), "%s",
			 curl_easy_strerror(code));
	else
		snprintf(a->receiver->said, sizeof(a->receiver->said), "status %ld%s", status,
			 status < 300 ? ", but some profiles rejected" : "");
	end_attempt(a, result, result == PUSH_RESULT_BUSY && asked_s > 0 ? (double)asked_s : 0);
}

static struct attempt *free_attempt(struct push_http *h)
{
	for (size_t i = 0; i < PUSH_RECEIVERS * PUSH_AT_ONCE; i++)
		if (!h->attempts[i].request)
			return &h->attempts[i];
	return NULL;
}

static void begin_attempts(struct push *p)
{
	double now = clock__monotonic_s();

	for (size_t i = 0; i < p->n_receivers; i++) {
		struct push_receiver *receiver = &p->receivers[i];
		struct attempt *a;

		/* each request finds a free attempt, because no queue has more requests under way
		 * than its share of the attempts */
		while ((a = free_attempt(p->http)) &&
		       (a->request = push_queue__take(&receiver->queue, now))) {
			a->receiver = receiver;
			if (set_up(a) || curl_multi_add_handle(p->http->all, a->curl))
				end_attempt(a, PUSH_RESULT_CONNECTION, 0);
		}
	}
}

static void take_results(struct push_http *h)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(h->all, &left))) {
		CURLcode code = message->data.result;
		CURL *curl = message->easy_handle;
		char *a = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(curl, CURLINFO_PRIVATE, &a);
		curl_multi_remove_handle(h->all, curl); /* `message` is not valid any more */
		take_result((struct attempt *)(void *)a, code);
	}
}

int push__start(struct push *p)
{
	if (!p->http)
		p->http = push_http__new();
	return p->http ? 0 : -ENOMEM;
}

int push__poll(struct push *p, struct pollfd *fds, size_t n, int wait_ms)
{
	struct curl_waitfd waits[MOST_FDS];
	double now = clock__monotonic_s();
	int running;

	if (n > MOST_FDS)
		return -EINVAL;
	begin_attempts(p);
	curl_multi_perform(p->http->all, &running);
	for (size_t i = 0; i < p->n_receivers; i++) {
		double wait = push_queue__wait_s(&p->receivers[i].queue, now);

		if (wait >= 0 && 1000 * wait < wait_ms)
			wait_ms = (int)ceil(1000 * wait);
	}
	for (size_t i = 0; i < n; i++)
		waits[i] = (struct curl_waitfd){.fd = fds[i].fd, .events = CURL_WAIT_POLLIN};
	if (curl_multi_poll(p->http->all, waits, (unsigned)n, wait_ms, NULL))
		return -EIO;
	curl_multi_perform(p->http->all, &running);
	take_results(p->http);
	return 0;
}
