// SPDX-License-Identifier: BSD-2-Clause
/* memtrace-web: the server of `memtrace agent`, which starts it without any privileges. It gets the
 * profiles from the tracer (agent/feed.h) and answers requests on the sockets that it is given.
 *
 * usage: memtrace-web N: descriptor 3 is the feed, 4 has the TLS key and token (agent/guard.h), and
 * from 5 on there are N listening sockets. If N is 0, the exit status tells whether the certificate
 * and the key are usable. */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/feed.h"
#include "agent/guard.h"
#include "agent/loopback.h"
#include "agent/listen.h"
#include "base/clock.h"
#include "web/intake.h"
#include "web/reply.h"

#define CONNECTIONS	 200 /* connections of each listening socket, at a time */
#define CONNECTION_BYTES (32 << 10)
/* limit for the arguments in a request's query; memtrace's own pages use few */
#define ARGUMENTS    64
#define CONNECTION_S 15 /* seconds after which a silent connection is closed */
#define REQUEST_S    30 /* seconds for one request and its answer; then the connection ends */
/* replaces REQUEST_S while over half of the socket's connections are in use */
#define CROWDED_S    5
#define FEED_WAITS_S 2 /* the feed waits at most this long for receivers of pushes */
#define MEMORY_BYTES (1ULL << 30)
#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
/* bytes of a body that is too large: after these, the connection ends */
#define IGNORED_BYTES (1 << 20)

/* A request while it comes in. */
struct incoming {
	char *body;
	size_t size, ignored;
	bool too_large;
	bool too_many;	       /* the query has too many arguments */
	bool begun;	       /* the request's head has arrived */
	struct client *client; /* the client's connection; NULL: not known */
	struct delta *delta;   /* the profiles that it waits for, or has waited for; owned */
	bool waited;
	size_t unsent; /* bytes of its answer's body; they count in site.unsent */
};

/* What the server needs to answer requests of one listening socket. */
struct entrance {
	struct site *site;
	const struct guard *guard; /* TLS and token of a TCP socket; NULL: this is a unix socket,
				    * which browsers cannot reach */
	size_t n_clients;
};

/* A connection. The library closes silent connections. This record is for clients that send or take
 * a byte now and then, and would otherwise occupy their places for ever. */
struct client {
	struct client *next, **link; /* link: the pointer that points to this record */
	int fd;
	struct entrance *entrance; /* the socket by which the connection came */
	/* monotonic: when the client connected, or got its last answer */
	double since_s;
	/* If this client's request waits for profiles: the connection, which is then not closed as
	 * slow. NULL: no request waits. */
	struct MHD_Connection *waits;
	struct incoming *request;
};

static struct client *clients;

/* The library may answer hundreds of requests in a row. The tracer ends a server that reads none of
 * its messages for a minute, because such a server seems to hang. So messages are also read between
 * two answers, if the last reading is longer ago than this: */
#define FEED_EVERY_S 1

static double fed_s; /* monotonic: when the feed was last read */
static bool is_over; /* the tracer has ended, or what came from it cannot be used */

/* The feed brings up to AT_ONCE profiles at a time, faster than a receiver of pushes takes them.
 * While a queue of pushes is filling up, the feed waits, and profiles wait in the tracer's outbox.
 * If the outbox is full, profiles are lost for all receivers and clients, not only for the slow
 * receiver. So the feed waits for a short time only, and not again until the queue is half empty.
 * Once the tracer has lost profiles, the feed never waits again. */
static bool lets_feed_wait(const struct site *site)
{
	static double behind_since_s = -1;
	static uint64_t n_dropped; /* when the feed waited for the first time */
	static bool has_waited;
	double now = clock__monotonic_s();

	if (!site->push || !push__is_behind(site->push)) {
		behind_since_s = -1;
		return false;
	}
	if (!has_waited)
		n_dropped = site->round.n_dropped;
	has_waited = true;
	if (site->round.n_dropped > n_dropped)
		return false;
	if (behind_since_s < 0)
		behind_since_s = now;
	return now < behind_since_s + FEED_WAITS_S && now < fed_s + FEED_EVERY_S;
}

static void take_feed(struct site *site)
{
	fed_s = clock__monotonic_s();
	is_over = is_over || !site__take_feed(site, FEED_FD);
}

static void come_or_go(void *ctx, struct MHD_Connection *connection, void **state,
		       enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *client = *state;

	if (what == MHD_CONNECTION_NOTIFY_STARTED && info) {
		client = malloc(sizeof(*client));
		if (!client)
			return;
		*client = (struct client){.next = clients,
					  .link = &clients,
					  .fd = info->connect_fd,
					  .entrance = ctx,
					  .since_s = clock__monotonic_s()};
		if (clients)
			clients->link = &client->next;
		clients = client;
		client->entrance->n_clients++;
		*state = client;
	} else if (what == MHD_CONNECTION_NOTIFY_CLOSED && client) {
		*client->link = client->next;
		if (client->next)
			client->next->link = client->link;
		client->entrance->n_clients--;
		free(client);
		*state = NULL;
	}
}

static void shut_slow_ones(void)
{
	double now = clock__monotonic_s();

	for (struct client *c = clients; c; c = c->next) {
		bool crowded = c->entrance->n_clients > CONNECTIONS / 2;

		if (!c->waits && now - c->since_s > (crowded ? CROWDED_S : REQUEST_S))
			shutdown(c->fd, SHUT_RDWR);
	}
}

/* Has the client left? The library does not check a connection that is suspended. */
static bool has_left(int fd)
{
	struct pollfd client = {.fd = fd, .events = POLLRDHUP};

	return poll(&client, 1, 0) > 0;
}

/* Resumes the requests that have an answer, or whose client has left. */
static void wake_those_that_wait(struct site *site)
{
	for (struct client *c = clients; c; c = c->next) {
		struct incoming *in = c->request;

		if (!c->waits || (!in->delta->status && !has_left(c->fd)))
			continue;
		if (!in->delta->status) {
			delta__free(&site->deltas, in->delta);
			in->delta = NULL;
			shutdown(c->fd, SHUT_RDWR);
		}
		c->since_s = clock__monotonic_s();
		MHD_resume_connection(c->waits);
		c->waits = NULL;
	}
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const char *query(void *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Does the client call this server by a name that always means this host? The check stops attacks
 * by pages of other sites that are open in a browser on this host. Such a site can let a name of
 * its own resolve to this host, and its page then uses this name. No honest client calls a loopback
 * address by such a name. */
static bool is_for_this_host(const char *host)
{
	size_t len;

	if (!host)
		return false;
	len = strcspn(host, *host == '[' ? "]" : ":");
	len += host[len] == ']';
	if (host[len] && (host[len] != ':' || host[len + 1 + strspn(host + len + 1, "0123456789")]))
		return false; /* the text after the name is not a port */
	return loopback__is_name(host, len);
}

/* May a browser have sent the request because of another site's page? origin: with each POST, a
 * browser names the site whose page sent it. host: the name by which the client calls this
 * server. */
static bool is_from_elsewhere(const char *origin, const char *host, bool tls)
{
	const char *scheme = tls ? "https://" : "http://";

	return origin && (!host || strncmp(origin, scheme, strlen(scheme)) ||
			  strcasecmp(origin + strlen(scheme), host));
}

static bool is_unix(int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	return !getsockname(fd, (struct sockaddr *)&address, &len) && address.ss_family == AF_UNIX;
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct reply *reply)
{
	struct MHD_Response *response;
	enum MHD_Result rc;
	char text[96];

	response = MHD_create_response_from_buffer(reply->size, reply->body ?: (char *)"",
						   reply->body ? MHD_RESPMEM_MUST_FREE
							       : MHD_RESPMEM_PERSISTENT);
	if (!response) {
		free(reply->body);
		return MHD_NO;
	}
	MHD_add_response_header(response, "Content-Type", reply->type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	/* only flame graphs have a script, and it is within their file */
	MHD_add_response_header(response, "Content-Security-Policy",
				!strcmp(reply->type, TYPE_SVG)
					? "default-src 'none'; style-src 'unsafe-inline'; "
					  "script-src 'unsafe-inline'; frame-ancestors 'none'"
					: "default-src 'none'; style-src 'unsafe-inline'; "
					  "img-src 'self'; frame-ancestors 'none'");
	if (reply->pprof_error)
		MHD_add_response_header(response, "X-Go-Pprof", "1");
	if (reply->location)
		MHD_add_response_header(response, "Location", reply->location);
	if (reply->file) {
		snprintf(text, sizeof(text), "attachment; filename=\"%s\"", reply->file);
		MHD_add_response_header(response, "Content-Disposition", text);
	}
	if (reply->status == 401)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (reply->status == 405)
		MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
	rc = MHD_queue_response(connection, reply->status, response);
	MHD_destroy_response(response);
	return rc;
}

/* Called with a request's target, before the library makes a list of the query's arguments from it.
 * This list takes 72 bytes for each argument. If the connection's memory cannot hold it, the
 * library closes the connection without an answer. So a query with too many arguments is cut here,
 * and answered later with an error. (The text is in the connection's buffer, which may be
 * written.) */
static void *begin_request(void *ctx, const char *target, struct MHD_Connection *connection)
{
	struct incoming *in = calloc(1, sizeof(*in));
	char *end = strchr(target, '?');
	size_t n = 0;

	(void)ctx;
	(void)connection;
	while (end && n++ < ARGUMENTS)
		end = strchr(end + 1, '&');
	if (end)
		*end = '\0';
	if (in)
		in->too_many = end;
	return in;
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	const struct entrance *entrance = ctx;
	const union MHD_ConnectionInfo *info;
	struct incoming *in = *state;
	struct reply reply = {};
	struct request request = {
		.post = !strcmp(method, "POST"),
		.path = path,
		.argument = query,
		.ctx = connection,
		.host = header(connection, "Host"),
		.tls = entrance->guard && entrance->guard->cert,
		.accept = header(connection, "Accept"),
	};

	(void)version;
	if (!in)
		return MHD_NO;
	if (!in->begun) { /* at the first call, only the head has arrived */
		in->begun = true;
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
		in->client = info ? info->socket_context : NULL;
		return MHD_YES;
	}
	if (in->waited && !in->delta) /* the client has left, so nobody gets the answer */
		return MHD_NO;
	if (clock__monotonic_s() > fed_s + FEED_EVERY_S)
		take_feed(entrance->site);
	if (*size) {
		char *more = in->size + *size <= REQUEST_BODY
				     ? realloc(in->body, in->size + *size + 1)
				     : NULL;

		in->too_large |= !more;
		if (more) {
			memcpy(more + in->size, data, *size);
			in->body = more;
			in->size += *size;
			more[in->size] = '\0';
		}
		in->ignored += more ? 0 : *size;
		*size = 0;
		return in->ignored > IGNORED_BYTES ? MHD_NO : MHD_YES;
	}
	request.body = in->body ?: "";
	request.body_size = in->size;
	request.delta = in->delta;
	if (!request.post && strcmp(method, "GET") && strcmp(method, "HEAD"))
		reply__say(&reply, 405, "only GET and POST are known here\n");
	else if (in->too_many)
		reply__say(&reply, 414, "a query may have %d arguments at most\n", ARGUMENTS);
	else if (in->too_large)
		reply__say(&reply, 413, "a request may have %d bytes at most\n", REQUEST_BODY);
	else if (entrance->guard && strcmp(path, "/healthz") &&
		 !guard__admits(entrance->guard, header(connection, "Authorization")))
		reply__say(&reply, 401, "a bearer token is needed\n");
	else if (entrance->guard && !entrance->guard->token && strcmp(path, "/healthz") &&
		 !is_for_this_host(request.host))
		reply__say(&reply, 403,
			   "this server must be addressed as localhost, or by its IP address\n");
	else if (request.post &&
		 is_from_elsewhere(header(connection, "Origin"), request.host, request.tls))
		reply__say(&reply, 403, "no page of another site may ask for that\n");
	if (reply.status)
		site__count(entrance->site, &reply);
	else
		site__answer(entrance->site, &request, &reply);
	if (!reply.delta) {
		in->unsent = reply.size;
		entrance->site->unsent += reply.size;
		return send_reply(connection, &reply);
	}
	in->delta = reply.delta;
	in->waited = true;
	if (!in->client)
		return MHD_NO;
	in->client->waits = connection;
	in->client->request = in;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static void forget(void *ctx, struct MHD_Connection *connection, void **state,
		   enum MHD_RequestTerminationCode code)
{
	const struct entrance *entrance = ctx;
	struct incoming *in = *state;

	(void)connection;
	(void)code;
	if (!in)
		return;
	if (in->client) {
		in->client->since_s = clock__monotonic_s();
		in->client->waits = NULL;
	}
	if (in->delta)
		delta__free(&entrance->site->deltas, in->delta);
	entrance->site->unsent -= in->unsent;
	free(in->body);
	free(in);
	*state = NULL;
}

/* Sends the waiting wishes to the tracer, as long as the feed has room. */
static void say_wishes(struct site *site)
{
	const struct feed_message ask = {.kind = FEED_ASK};
	size_t n = 0;

	for (; n < site->n_wishes; n++) {
		const struct wish *wish = &site->wishes[n];
		const struct feed_message message = {.kind = wish->kind, .pid = wish->pid};

		if (feed__send(FEED_FD, &message, -1) == -EAGAIN)
			break;
	}
	site->n_wishes -= n;
	memmove(site->wishes, site->wishes + n, site->n_wishes * sizeof(*site->wishes));
	if (site->ask)
		site->ask = feed__send(FEED_FD, &ask, -1) == -EAGAIN;
}

static int serve(struct site *site, struct MHD_Daemon **daemons, size_t n)
{
	struct pollfd fds[1 + AGENT_LISTEN] = {{.fd = FEED_FD, .events = POLLIN}};

	for (size_t i = 0; i < n; i++)
		fds[1 + i] = (struct pollfd){
			.fd = MHD_get_daemon_info(daemons[i], MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
			.events = POLLIN};
	for (;;) {
		MHD_UNSIGNED_LONG_LONG wait;
		int wait_ms = 1000;
		bool waits = lets_feed_wait(site);

		fds[0].fd = waits ? -1 : FEED_FD;
		for (size_t i = 0; i < n; i++)
			if (MHD_get_timeout(daemons[i], &wait) == MHD_YES &&
			    wait < (unsigned)wait_ms)
				wait_ms = (int)wait;
		if (site->push ? push__poll(site->push, fds, 1 + n, wait_ms) < 0
			       : poll(fds, 1 + n, wait_ms) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		if (!waits)
			take_feed(site);
		if (is_over)
			return EXIT_SUCCESS;
		if (site->push && push__start(site->push))
			return EXIT_FAILURE;
		site->ask |= deltas__tick(&site->deltas, &site->store, clock__monotonic_s());
		wake_those_that_wait(site);
		for (size_t i = 0; i < n; i++)
			MHD_run(daemons[i]);
		shut_slow_ones();
		say_wishes(site);
	}
}

/* Starts the library on the listening socket fd (-1: on none). NULL: the library cannot start. */
static struct MHD_Daemon *start(struct entrance *entrance, int fd)
{
	const char *cert = entrance->guard ? entrance->guard->cert : NULL;
	const struct MHD_OptionItem listening[] = {{MHD_OPTION_LISTEN_SOCKET, fd, NULL},
						   {MHD_OPTION_END, 0, NULL}};
	const struct MHD_OptionItem nothing[] = {{MHD_OPTION_END, 0, NULL}};
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, cert ? entrance->guard->key : NULL},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS},
		{MHD_OPTION_END, 0, NULL}};

	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (cert ? MHD_USE_TLS : 0) |
			(fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0),
		0, NULL, NULL, answer, entrance, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_COMPLETED, forget, entrance,
		MHD_OPTION_URI_LOG_CALLBACK, begin_request, NULL, MHD_OPTION_NOTIFY_CONNECTION,
		come_or_go, entrance, MHD_OPTION_ARRAY, fd < 0 ? nothing : listening,
		MHD_OPTION_ARRAY, cert ? tls : nothing, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
	static struct site site;
	static struct guard guard;
	static struct entrance entrances[AGENT_LISTEN];
	struct MHD_Daemon *daemons[AGENT_LISTEN];
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	struct rlimit memory = {MEMORY_BYTES, MEMORY_BYTES};

	if (argc != 2 || n > AGENT_LISTEN || fcntl(GUARD_FD, F_GETFD) < 0) {
		fputs("memtrace-web: `memtrace agent` starts it\n", stderr);
		return 2;
	}
	/* Keeps the key in this process's memory from other processes of the same user (nobody). */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NAME, "memtrace-web");
	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_AS, &memory);
	if (guard__from_memory(GUARD_FD, &guard))
		return EXIT_FAILURE;
	close(GUARD_FD);
	site.begin_s = clock__monotonic_s();
	if (!n)
		return start(&(struct entrance){.site = &site, .guard = &guard}, -1) ? EXIT_SUCCESS
										     : EXIT_FAILURE;
	for (size_t i = 0; i < n; i++) {
		int fd = FIRST_FD + (int)i;

		entrances[i] =
			(struct entrance){.site = &site, .guard = is_unix(fd) ? NULL : &guard};
		daemons[i] = start(&entrances[i], fd);
		if (!daemons[i])
			return EXIT_FAILURE;
	}
	return serve(&site, daemons, n);
}
