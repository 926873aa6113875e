// SPDX-License-Identifier: BSD-2-Clause
#include "cli/selection.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* Finds a user by name. A static program cannot load the modules (NSS) that find users outside
 * /etc/passwd. */
static const struct passwd *find_user(const char *name)
{
#ifdef MEMTRACE_STATIC
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *user = NULL;

	while (file && (user = fgetpwent(file)) && strcmp(user->pw_name, name))
		;
	if (file)
		fclose(file);
	return user;
#else
	return getpwnam(name);
#endif
}

static int take_user(struct selection_config *c, const char *command, const char *value)
{
	const struct passwd *user;
	uint64_t uid;

	if (c->selection.n_users == ABI_MAX_WANTED)
		return usage_error(command, "at most %d users", ABI_MAX_WANTED);
	if (parse_count(value, 0, UINT32_MAX - 1, &uid)) {
		user = find_user(value);
		if (!user)
			return usage_error(command, "there is no user '%s'", value);
		uid = user->pw_uid;
	}
	c->users[c->selection.n_users++] = (uint32_t)uid;
	c->selection.users = c->users;
	return 0;
}

int selection_config__take(struct selection_config *c, const char *command, const char *option,
			   const char *value)
{
	c->given = true;
	if (!strcmp(option, "follow")) {
		c->selection.follow = true;
		return 0;
	}
	c->selection.dynamic = true;
	if (!strcmp(option, "all"))
		return 0;
	if (!*value)
		return usage_error(command, "--%s needs a value", option);
	if (!strcmp(option, "comm")) {
		if (c->selection.n_comms == ABI_MAX_WANTED)
			return usage_error(command, "at most %d names", ABI_MAX_WANTED);
		c->comms[c->selection.n_comms++] = value;
		c->selection.comms = c->comms;
	} else if (!strcmp(option, "user")) {
		return take_user(c, command, value);
	} else if (!strcmp(option, "exe")) {
		if (c->selection.exe)
			return usage_error(command, "only one --exe");
		c->selection.exe = value;
	} else {
		if (c->cgroup_path || c->container)
			return usage_error(command, "only one --cgroup or --container");
		if (!strcmp(option, "cgroup"))
			c->cgroup_path = value;
		else
			c->container = value;
	}
	return 0;
}

static void add_option(char *buf, size_t size, const char *option, const char *value)
{
	size_t len = strlen(buf);

	snprintf(buf + len, size - len, "%s--%s %s", len ? " " : "", option, value);
}

char *selection_config__describe(const struct selection_config *c, char *buf, size_t size)
{
	char uid[16];

	*buf = '\0';
	for (size_t i = 0; i < c->selection.n_comms; i++)
		add_option(buf, size, "comm", c->comms[i]);
	if (c->selection.exe)
		add_option(buf, size, "exe", c->selection.exe);
	for (size_t i = 0; i < c->selection.n_users; i++) {
		snprintf(uid, sizeof(uid), "%u", c->users[i]);
		add_option(buf, size, "user", uid);
	}
	if (c->cgroup_path)
		add_option(buf, size, "cgroup", c->cgroup_path);
	if (c->container)
		add_option(buf, size, "container", c->container);
	return buf;
}

int selection_config__open(struct selection_config *c, struct error *err)
{
	int rc = 0;

	if (c->cgroup_path)
		rc = cgroup__open(c->cgroup_path, &c->cgroup, err);
	else if (c->container)
		rc = cgroup__find_container(c->container, &c->cgroup, err);
	else
		return 0;
	c->selection.cgroup = &c->cgroup;
	return rc;
}
