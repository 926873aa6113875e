// SPDX-License-Identifier: BSD-2-Clause
#include "profile/modules.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/vector.h"
#include "profile/slots.h"

#define MAX_RULES 10000
#define NOBODY	  UINT32_MAX

enum rule_kind { RULE_FUNCTION, RULE_MODULE, RULE_FILE, RULE_KINDS };

static const char *const kind_names[RULE_KINDS] = {"function", "module", "file"};

struct component {
	char *path;
	uint32_t parent; /* NOBODY: at the top */
	unsigned depth;
};

struct rule {
	enum rule_kind kind;
	regex_t regex;
	uint32_t component;
};

struct modules {
	/* components in the order in which they are first named, each after its parent */
	struct component *components;
	size_t n_components;
	struct rule *rules;
	size_t n_rules;
};

void modules__free(struct modules *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_components; i++)
		free(m->components[i].path);
	for (size_t i = 0; i < m->n_rules; i++)
		regfree(&m->rules[i].regex);
	free(m->components);
	free(m->rules);
	free(m);
}

/* --- reading the rules --- */

/* Finds the component with that path of len bytes. If the component is new, adds it, and also the
 * new components above it. 0 or -ENOMEM. */
static int find_component(struct modules *m, const char *path, size_t len, uint32_t *ret)
{
	const char *slash = memrchr(path, '/', len);
	struct component fresh = {.parent = NOBODY};

	for (size_t i = 0; i < m->n_components; i++)
		if (strlen(m->components[i].path) == len &&
		    !memcmp(m->components[i].path, path, len)) {
			*ret = (uint32_t)i;
			return 0;
		}
	if (slash) {
		int rc = find_component(m, path, (size_t)(slash - path), &fresh.parent);

		if (rc)
			return rc;
		fresh.depth = m->components[fresh.parent].depth + 1;
	}
	if (VECTOR_ADD_ROOM(m->components, m->n_components))
		return -ENOMEM;
	fresh.path = strndup(path, len);
	if (!fresh.path)
		return -ENOMEM;
	*ret = (uint32_t)m->n_components;
	m->components[m->n_components++] = fresh;
	return 0;
}

/* Is it a path of at most 16 parts, none of them empty, and of less than 256 bytes? */
static bool is_path(const char *path, size_t len)
{
	size_t parts = 1;

	for (size_t i = 0; i < len; i++) {
		if (path[i] == '/' && (!i || i + 1 == len || path[i + 1] == '/'))
			return false;
		parts += path[i] == '/';
	}
	return parts <= 16 && len < 256;
}

static size_t skip(const char *text, size_t at, size_t len, bool blanks)
{
	while (at < len && (text[at] == ' ' || text[at] == '\t') == blanks)
		at++;
	return at;
}

static int add_rule(struct modules *m, enum rule_kind kind, const char *pattern, uint32_t component,
		    char *ret_why, size_t why_size)
{
	struct rule *rule;
	int rc;

	if (VECTOR_ADD_ROOM(m->rules, m->n_rules))
		return -ENOMEM;
	rule = &m->rules[m->n_rules];
	*rule = (struct rule){.kind = kind, .component = component};
	rc = regcomp(&rule->regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (rc == REG_ESPACE)
		return -ENOMEM;
	if (rc) {
		regerror(rc, &rule->regex, ret_why, why_size);
		return -EINVAL;
	}
	m->n_rules++;
	return 0;
}

/* Parses one line, without its newline. */
static int parse_line(struct modules *m, const char *name, size_t line, const char *text,
		      size_t len, struct error *err)
{
	size_t path = skip(text, 0, len, true), path_end = skip(text, path, len, false);
	size_t kind = skip(text, path_end, len, true), kind_end = skip(text, kind, len, false);
	size_t pattern = skip(text, kind_end, len, true), end = len;
	_cleanup_free_ char *regex = NULL;
	uint32_t component;
	char why[128] = "";
	int rc, k = 0;

	if (path == len || text[path] == '#')
		return 0;
	while (end > pattern &&
	       (text[end - 1] == ' ' || text[end - 1] == '\t' || text[end - 1] == '\r'))
		end--;
	if (memchr(text, 0, len))
		return error__set(err, -EINVAL,
				  "%s, line %zu: a NUL byte: this is not a file of rules", name,
				  line);
	if (pattern == end)
		return error__set(err, -EINVAL,
				  "%s, line %zu: a rule is COMPONENT function|module|file REGEX",
				  name, line);
	if (!is_path(text + path, path_end - path))
		return error__set(
			err, -EINVAL,
			"%s, line %zu: '%.*s' is not a component: names divided by single '/', "
			"at most 16",
			name, line, (int)(path_end - path < 64 ? path_end - path : 64),
			text + path);
	while (k < RULE_KINDS && (strlen(kind_names[k]) != kind_end - kind ||
				  memcmp(kind_names[k], text + kind, kind_end - kind) != 0))
		k++;
	if (k == RULE_KINDS)
		return error__set(
			err, -EINVAL,
			"%s, line %zu: rules match a function, module or file, not a '%.*s'", name,
			line, (int)(kind_end - kind < 64 ? kind_end - kind : 64), text + kind);
	if (m->n_rules == MAX_RULES)
		return error__set(err, -EINVAL, "%s, line %zu: more than %d rules", name, line,
				  MAX_RULES);
	regex = strndup(text + pattern, end - pattern);
	rc = regex ? find_component(m, text + path, path_end - path, &component) : -ENOMEM;
	if (!rc)
		rc = add_rule(m, (enum rule_kind)k, regex, component, why, sizeof(why));
	if (rc == -EINVAL)
		return error__set(err, rc, "%s, line %zu: '%.64s' is not a regular expression: %s",
				  name, line, regex, why);
	return rc ? error__set(err, rc, "%s: out of memory", name) : 0;
}

int modules__parse(const char *name, const char *text, size_t len, struct modules **ret,
		   struct error *err)
{
	struct modules *m = calloc(1, sizeof(*m));
	size_t line = 1;
	int rc = m ? 0 : error__set(err, -ENOMEM, "%s: out of memory", name);

	for (size_t at = 0; at < len && !rc; line++) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t next = end ? (size_t)(end - text) : len;

		rc = parse_line(m, name, line, text + at, next - at, err);
		at = next + 1;
	}
	if (!rc && !m->n_rules)
		rc = error__set(err, -EINVAL, "%s: there is no rule in it", name);
	if (rc) {
		modules__free(m);
		return rc;
	}
	*ret = m;
	return 0;
}

/* --- whose is it? --- */

static const char *subject(const struct profile *profile, const struct profile_location *location,
			   const struct profile_frame *frame, enum rule_kind kind)
{
	switch (kind) {
	case RULE_FUNCTION:
		return frame->name;
	case RULE_FILE:
		return frame->file;
	default:
		return location->mapping >= 0 ? base_name(profile->mappings[location->mapping].path)
					      : NULL;
	}
}

/* Returns the component of the first rule that matches the frame, or NOBODY. */
static uint32_t owner_of(const struct modules *m, const struct profile *profile,
			 const struct profile_location *location, const struct profile_frame *frame)
{
	for (size_t r = 0; r < m->n_rules; r++) {
		const char *text = subject(profile, location, frame, m->rules[r].kind);

		if (text && !regexec(&m->rules[r].regex, text, 0, NULL, 0))
			return m->rules[r].component;
	}
	return NOBODY;
}

/* Returns the component of every frame, or NOBODY, by slot; NULL: out of memory. */
static uint32_t *find_owners(const struct modules *m, const struct profile *profile,
			     const struct frame_slots *slots)
{
	uint32_t *owners = calloc(slots->first[profile->n_locations] + 1, sizeof(*owners));

	for (size_t i = 0; owners && i < profile->n_locations; i++) {
		const struct profile_location *location = &profile->locations[i];

		owners[slots->first[i]] = NOBODY; /* a location may have no frame */
		for (size_t f = 0; f < location->n_frames; f++)
			owners[slots->first[i] + f] =
				owner_of(m, profile, location, &location->frames[f]);
	}
	return owners;
}

/* Returns the component of the innermost frame that has one, or NOBODY. The allocator's own frames
 * at the leaf are skipped. */
static uint32_t owner_of_site(const uint32_t *owners, const struct frame_slots *slots,
			      const struct profile_site *site)
{
	bool behind = false;

	for (size_t i = 0; i < site->n_locations; i++)
		for (size_t f = slots->first[site->locations[i]];
		     f < slots->first[site->locations[i] + 1]; f++) {
			behind = behind || slots->owners[f] != FRAME_OF_ALLOCATOR;
			if (behind && owners[f] != NOBODY)
				return owners[f];
		}
	return NOBODY;
}

/* The component of each site, or NOBODY. */
static int find_site_owners(const struct modules *m, const struct profile *profile, uint32_t *ret)
{
	_cleanup_(frame_slots__clear) struct frame_slots slots = {};
	_cleanup_free_ uint32_t *owners =
		frame_slots__init(&slots, profile) ? NULL : find_owners(m, profile, &slots);

	if (!owners)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_sites; i++)
		ret[i] = owner_of_site(owners, &slots, &profile->sites[i]);
	return 0;
}

int modules__owners(const struct modules *m, const struct profile *profile, const char **paths)
{
	_cleanup_free_ uint32_t *owners = calloc(profile->n_sites + 1, sizeof(*owners));
	int rc = owners ? find_site_owners(m, profile, owners) : -ENOMEM;

	for (size_t i = 0; i < profile->n_sites && !rc; i++)
		paths[i] = owners[i] == NOBODY ? NULL : m->components[owners[i]].path;
	return rc;
}

static void add_site(struct module_sum *sum, const struct profile_site *site)
{
	sum->stacks++;
	estimate__merge(&sum->live, &site->live);
	sum->alloc_objects += site->alloc_objects;
	sum->alloc_bytes += site->alloc_bytes;
	sum->freed_objects += site->freed_objects;
	sum->freed_bytes += site->freed_bytes;
	growth_sum__add(&sum->growth, &site->growth);
	site_life__merge(&sum->life, &site->life);
}

/* Writes to at[] the index that each component has in tree order. In this order a component comes
 * before the components below it, and siblings keep their present order. */
static void place(const struct modules *m, uint32_t parent, size_t *at, size_t *n)
{
	for (size_t i = 0; i < m->n_components; i++) {
		if (m->components[i].parent != parent)
			continue;
		at[i] = (*n)++;
		place(m, (uint32_t)i, at, n); /* at most 16 deep */
	}
}

int modules__sum(const struct modules *m, const struct profile *profile, struct module_sums *ret)
{
	_cleanup_free_ uint32_t *owners = calloc(profile->n_sites + 1, sizeof(*owners));
	_cleanup_free_ size_t *at = calloc(m->n_components + 1, sizeof(*at));
	struct module_sum *sums = calloc(m->n_components + 1, sizeof(*sums));
	size_t n = 0;

	if (!owners || !at || !sums || find_site_owners(m, profile, owners)) {
		free(sums);
		return -ENOMEM;
	}
	place(m, NOBODY, at, &n);
	for (size_t i = 0; i < m->n_components; i++) {
		const struct component *c = &m->components[i];

		sums[at[i]].path = c->path;
		sums[at[i]].part = base_name(c->path);
		sums[at[i]].depth = c->depth;
	}
	for (size_t i = 0; i < profile->n_sites; i++) {
		uint32_t owner = owners[i];

		if (owner == NOBODY)
			add_site(&sums[n], &profile->sites[i]);
		for (; owner != NOBODY; owner = m->components[owner].parent)
			add_site(&sums[at[owner]], &profile->sites[i]);
	}
	ret->sums = sums;
	ret->n = n + 1;
	return 0;
}

void module_sums__clear(struct module_sums *sums)
{
	free(sums->sums);
	*sums = (struct module_sums){};
}
