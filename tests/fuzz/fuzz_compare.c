// SPDX-License-Identifier: BSD-2-Clause
/* Compares two profile files. If both can be read, comparing them must work: the first with the
 * second; a series of the first, the second and the first again; and the same three as replicas.
 * All encoders must be able to write the profiles and the comparisons. The input: two bytes with
 * the length of the first file, then both files. Limits are low, so that the fuzzer reaches them,
 * and an input of a few KB takes little memory and time. */
#include "fuzz.h"

#include <errno.h>
#include <math.h>

#include "decode/decode.h"
#include "decode/internal.h"
#include "encode/encode.h"

static const struct decode_limits limits = {
	.items = 200,
	.locations = 200,
	.frames = 2000,
	.bytes = 1 << 20,
	.written_frames = 20000,
	.written_bytes = 1 << 20,
};

/* A sink's write function that drops all bytes. ctx: how many bytes may still be written. The limit
 * is more than any encoder writes for profiles of this size. */
static int discard(void *ctx, const void *data, size_t len)
{
	size_t *left = ctx;

	(void)data;
	require(len <= *left);
	*left -= len;
	return 0;
}

#define WRITES(call)                                                                               \
	do {                                                                                       \
		size_t left_ = 64 << 20;                                                           \
		struct sink sink_ = {.write = discard, .ctx = &left_}, *sink = &sink_;             \
		require(!(call));                                                                  \
	} while (0)

static const struct table_options options = {.top = 5, .width = 60};

static void write_one(const struct profile *p, const struct modules *rules)
{
	const struct table_options leaks = {.top = 5, .width = 60, .leaks = true},
				   tree = {.width = 60, .tree = true, .min_share_pct = 0.1};

	WRITES(encode_collapsed(p, sink));
	WRITES(encode_heap_v2(p, sink));
	WRITES(encode_json(p, sink));
	WRITES(encode_pprof(p, sink));
	WRITES(encode_svg(p, NULL, sink));
	WRITES(encode_table(p, &leaks, sink));
	WRITES(encode_table(p, &tree, sink));
	WRITES(encode_leader(p, &options, sink));
	if (!leaks__refusal(p)) {
		WRITES(encode_leaks(p, &options, sink));
		WRITES(encode_leaks_json(p, sink));
	}
	WRITES(encode_modules(p, rules, true, sink));
}

/* Each stack has a site, and totals are the sums over all stacks. */
static void check_diff(const struct diff *diff)
{
	double from = 0, to = 0;

	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct diff_stack *stack = &diff->stacks[i];

		require(stack->site && isfinite(stack->change.bytes));
		require(stack->change.p_grows >= 0 && stack->change.p_grows <= 1);
		require(stack->change.p_shrinks >= 0 && stack->change.p_shrinks <= 1);
		require(!(stack->grows && stack->shrinks));
		from += stack->change.from;
		to += stack->change.to;
	}
	require(fabs(from - diff->total.change.from) <= 1e-6 * (1 + fabs(from)));
	require(fabs(to - diff->total.change.to) <= 1e-6 * (1 + fabs(to)));
}

static void compare(const struct profile *const *profiles, size_t n, enum diff_measure measure)
{
	struct diff *diff = NULL;
	struct error err = {};
	int rc = diff__new(profiles, n, measure, &diff, &err);

	require(rc ? rc == -EINVAL && !diff && *err.text : diff && !err.code);
	if (rc)
		return;
	check_diff(diff);
	WRITES(encode_diff(diff, &options, sink));
	WRITES(encode_diff_json(diff, sink));
	WRITES(encode_diff_collapsed(diff, sink));
	if (!diff_leaks__refusal(diff)) {
		WRITES(encode_diff_leaks(diff, &options, sink));
		WRITES(encode_diff_leaks_json(diff, sink));
	}
	diff__free(diff);
}

static void compare_replicas(const struct profile *const *profiles, enum diff_measure measure)
{
	struct replicas *replicas = NULL;
	struct error err = {};
	int rc = replicas__new(profiles, 3, measure, &replicas, &err);

	require(rc ? rc == -EINVAL && !replicas && *err.text : replicas && !err.code);
	if (rc)
		return;
	for (size_t i = 0; i < replicas->n_list; i++)
		require(replicas->list[i].value > replicas->list[i].median &&
			replicas->list[i].p >= 0 && replicas->list[i].p <= 1);
	WRITES(encode_replicas(replicas, &options, sink));
	WRITES(encode_replicas_json(replicas, sink));
	replicas__free(replicas);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] = "a function ^m\na/b module o\nc file \\.c$\n";
	struct fuzz_input in = {data, data + size};
	size_t first = (size_t)fuzz_take(&in, 2), left = (size_t)(in.end - in.pos);
	struct profile *p[3] = {};
	struct modules *rules;
	struct error err = {};
	int rc;

	first = first < left ? first : left;
	require(!modules__parse("rules", text, sizeof(text) - 1, &rules, &err));
	for (int i = 0; i < 3; i++) { /* the first file is the third, too */
		const uint8_t *start = i == 1 ? in.pos + first : in.pos;
		size_t len = i == 1 ? left - first : first;
		void *copy = fuzz_copy(start, len);

		rc = decode_within(&limits, "input", copy, len, &p[i], NULL);
		free(copy);
		require(rc ? !p[i] : !!p[i]);
		if (rc)
			goto out;
		require(profile__bytes(p[i]) < 2 * limits.bytes);
		if (i < 2)
			write_one(p[i], rules);
	}
	for (enum diff_measure measure = DIFF_AUTO; measure <= DIFF_GROWTH; measure++) {
		const struct profile *const list[] = {p[0], p[1], p[2]};

		compare(list, 2, measure);
		compare(list, 3, measure);
		compare_replicas(list, measure);
	}
	WRITES(encode_svg(p[1], &(struct svg_options){.base = p[0]}, sink));
out:
	for (int i = 0; i < 3; i++)
		profile__free(p[i]);
	modules__free(rules);
	return 0;
}
