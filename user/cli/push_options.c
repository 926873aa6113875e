// SPDX-License-Identifier: BSD-2-Clause
#include "cli/push_options.h"

#include <stdlib.h>
#include <string.h>

#include "agent/feed.h"
#include "agent/loopback.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/secret.h"

#define MOST_URL    512
#define MOST_NAME   128 /* limit for a label's name, and for its value */
#define MOST_TENANT 150
#define MOST_TOKEN  4096

#define DIGITS "0123456789"
#define ALNUM  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS

static int add(struct push_config *c, const char *command, const char *name, const char *value)
{
	if (c->n == PUSH_OPTIONS)
		return usage_error(command, "more than %d options of --push-... and --label",
				   PUSH_OPTIONS);
	c->options[c->n++] = (struct push_option){name, value};
	return 0;
}

/* Can profiles be pushed to this URL? */
static bool is_receiver(const char *url)
{
	const char *host = url + (strncmp(url, "https://", 8) ? 7 : 8);
	size_t len;

	if (strncmp(url, "http://", 7) && strncmp(url, "https://", 8))
		return false;
	/* All characters of URLs are allowed, except three. "?" and "#" are refused, because a path
	 * is added to the URL. "@" is refused, because ps and metrics would show the password that
	 * stands before it. */
	if (strlen(url) > MOST_URL || strspn(url, ALNUM "-._~:/[]!$&'()*+,;=%") != strlen(url))
		return false;
	len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
	return len && len <= strlen(host) && (!host[len] || host[len] == ':' || host[len] == '/');
}

static int take_receiver(struct push_config *c, const char *command, const char *name,
			 const char *value)
{
	if (!is_receiver(value))
		return usage_error(
			command,
			"'%s' is not the URL of a receiver. An example is http://127.0.0.1:4040: "
			"http or https, without user, password, ? or #",
			value);
	return add(c, command, name, value);
}

TAKE_OPTION(push_pyroscope)
{
	(void)row;
	return take_receiver(config, command, "pyroscope", value);
}

TAKE_OPTION(push_otlp)
{
	(void)row;
	return take_receiver(config, command, "otlp", value);
}

TAKE_OPTION(push_pyroscope_rpc)
{
	(void)row;
	return take_receiver(config, command, "pyroscope-rpc", value);
}

/* Does the text stay on one line? */
static bool is_one_line(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

TAKE_OPTION(label)
{
	const struct push_config *c = config;
	const char *equals = strchr(value, '=');
	size_t len = equals ? (size_t)(equals - value) : 0;

	(void)row;
	if (!len || len > MOST_NAME || strspn(value, ALNUM "_") != len || strchr(DIGITS, *value) ||
	    !strncmp(value, "__", 2))
		return usage_error(
			command,
			"'%s' is not a label. An example is env=production: a name has letters, "
			"digits and _, and does not begin with a digit or __",
			value);
	if (!equals[1] || strlen(equals + 1) > MOST_NAME || !is_one_line(equals + 1))
		return usage_error(command,
				   "the value of '%s' must have 1 to %d characters, on one line",
				   value, MOST_NAME);
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->options[i].name, "label") &&
		    !strncmp(c->options[i].value, value, len + 1))
			return usage_error(command, "the label %.*s is given twice", (int)len,
					   value);
	return add(config, command, "label", value);
}

TAKE_OPTION(push_tenant)
{
	(void)row;
	if (!*value || strlen(value) > MOST_TENANT ||
	    strspn(value, ALNUM "!-_.*'()") != strlen(value))
		return usage_error(command,
				   "'%s' is not a tenant: up to %d letters, digits and !-_.*'()",
				   value, MOST_TENANT);
	return add(config, command, "tenant", value);
}

TAKE_OPTION(push_token_file)
{
	(void)row;
	return add(config, command, "token", value);
}

const struct option_row push_rows[] = {
	{"push-pyroscope", .arg = "URL", .take = take_push_pyroscope,
	 .help = "send profiles to a Pyroscope",
	 .man = "Each new profile is sent by POST to URL/ingest. The URL is that of the server, "
		"such as http://127.0.0.1:4040. This option, --push-pyroscope-rpc and --push-otlp "
		"may be given up to four times together."},
	{"push-otlp", .arg = "URL", .take = take_push_otlp,
	 .help = "send profiles to a collector of OpenTelemetry",
	 .man = "Each new profile is sent by POST to URL/v1development/profiles, as protobuf. The "
		"URL is that of the collector, such as http://127.0.0.1:4318."},
	{"label", .arg = "NAME=VALUE", .take = take_label, .help = "a label of all pushed profiles",
	 .man = "May be given up to 16 times. The label service_name=VALUE replaces the "
		"process's name."},
	{},
};

const struct option_row push_rare_rows[] = {
	{"push-pyroscope-rpc", .arg = "URL", .take = take_push_pyroscope_rpc,
	 .help = "send profiles to a Pyroscope by its push API",
	 .man = "Each new profile is sent by POST to URL/push.v1.PusherService/Push, as protobuf. "
		"The URL is that of the server, such as http://127.0.0.1:4040."},
	{"push-tenant", .arg = "NAME", .take = take_push_tenant,
	 .help = "tenant (X-Scope-OrgID) at the last receiver named before this option",
	 .man = "1 to 150 letters, digits and !-_.*'()."},
	{"push-token-file", .arg = "FILE", .take = take_push_token_file,
	 .help = "file with the bearer token for the last receiver named before this option",
	 .man = "One line. It is read at the start and at each reload, with privileges. A token "
		"is sent over https only, or within the host."},
	{},
};

/* Writes an option that belongs to the receiver given before it. 0, or the exit status after a
 * complaint. */
static int put_option(FILE *to, const char *command, const char *url,
		      const struct push_option *option)
{
	_cleanup_free_ char *token = NULL;
	int rc;

	if (!url)
		return usage_error(
			command,
			"--push-%s%s is for the receiver before it: give --push-pyroscope or "
			"--push-otlp first",
			option->name, strcmp(option->name, "token") ? "" : "-file");
	if (strcmp(option->name, "token")) {
		fprintf(to, "%s %s\n", option->name, option->value);
		return 0;
	}
	if (loopback__exposes(url))
		return usage_error(
			command, "the token would go to %s unencrypted: give an https:// URL", url);
	rc = secret__read_token(command, option->value, false, 1, MOST_TOKEN, &token);
	if (!rc)
		fprintf(to, "token %s\n", token);
	return rc;
}

int push_config__text(const struct push_config *c, const char *command, char **ret_text)
{
	size_t n_receivers = 0, n_labels = 0, len;
	const char *url = NULL;
	char *text = NULL;
	FILE *to = c->n ? open_memstream(&text, &len) : NULL;
	int rc = 0;

	*ret_text = NULL;
	if (!c->n)
		return 0;
	if (!to)
		return no_memory();
	for (size_t i = 0; i < c->n && !rc; i++) {
		const struct push_option *option = &c->options[i];

		if (!strcmp(option->name, "label")) {
			fprintf(to, "label %s\n", option->value);
			n_labels++;
		} else if (!strcmp(option->name, "pyroscope") ||
			   !strcmp(option->name, "pyroscope-rpc") ||
			   !strcmp(option->name, "otlp")) {
			size_t url_len = strlen(option->value);

			url = option->value;
			fprintf(to, "%s %.*s\n", option->name,
				(int)(url_len - (url[url_len - 1] == '/')), url);
			n_receivers++;
		} else {
			rc = put_option(to, command, url, option);
		}
	}
	if (fclose(to) && !rc)
		rc = no_memory();
	if (!rc && n_receivers > PUSH_RECEIVERS)
		rc = usage_error(command, "more than %d receivers", PUSH_RECEIVERS);
	if (!rc && n_labels > PUSH_LABELS)
		rc = usage_error(command, "more than %d labels", PUSH_LABELS);
	if (!rc && !n_receivers)
		rc = usage_error(
			command,
			"--label describes profiles that are pushed: give --push-pyroscope or "
			"--push-otlp, too");
	if (rc) {
		free(text);
		return rc;
	}
	*ret_text = text;
	return 0;
}
