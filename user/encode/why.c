// SPDX-License-Identifier: BSD-2-Clause
/* Who holds blocks, and which blocks are lost: reports for people and for programs. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "encode/encode.h"
#include "encode/grid.h"
#include "encode/json.h"
#include "encode/text.h"
#include "profile/why.h"

#define COUNT(n) with_commas((n), (char[32]){""})
#define BYTES(n) format_bytes((double)(n), (char[20]){""})

/* --- for people --- */

static void put_head(const struct why_report *r, struct sink *sink)
{
	_cleanup_free_ char *comm = text_printable(r->comm);

	sink__printf(sink, "%s (pid %d): %s blocks in use, %s (%s)\n", comm ? comm : "?", r->pid,
		     COUNT(r->blocks), BYTES(r->bytes), r->allocators);
	sink__printf(sink, "%u scan%s in %.1f s, the longest %.2f s", r->scans, plural(r->scans),
		     r->seconds, r->scan_s);
	if (!isnan(r->pause_s))
		sink__printf(sink, "; the process was stopped for %.0f ms", r->pause_s * 1e3);
	sink__puts(sink, "\n");
	if (!r->registers)
		sink__puts(sink, "The registers of threads could not be read: a block to which "
				 "only a register leads is called lost.\n");
}

static void put_losses(const struct why_report *r, struct sink *sink)
{
	bool any = false;

	for (int i = 0; i < WHY_N_LOSSES; i++) {
		if (!r->losses[i])
			continue;
		sink__printf(sink, "%s %s %s", any ? "," : "lost:", why_loss__name(i),
			     COUNT(r->losses[i]));
		any = true;
	}
	if (any)
		sink__puts(sink, "\n");
}

static int put_leaks(const struct why_report *r, unsigned int top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"BYTES", false}, {"BLOCKS", false}, {"LEAKS", false}, {"LED BY", true});
	size_t n = r->n_leaks < top ? r->n_leaks : top;
	uint64_t leaks = 0;

	if (r->doubt[0]) {
		sink__printf(sink, "\nNothing is called lost: %s.\n", r->doubt);
		return 0;
	}
	if (!r->lost_blocks) {
		sink__printf(sink, "\nNothing is lost: a pointer leads to each block%s.\n",
			     r->scans > 1 ? ", in one of the scans at least" : "");
		return 0;
	}
	for (size_t i = 0; i < r->n_leaks; i++)
		leaks += r->leaks[i].leaks;
	sink__printf(sink,
		     "\nLOST: %s in %s block%s, %s leak%s. No pointer to them was found in any of "
		     "%u scans.\n",
		     BYTES(r->lost_bytes), COUNT(r->lost_blocks), plural(r->lost_blocks),
		     COUNT(leaks), plural(leaks), r->scans);
	if (r->losses[WHY_LOSS_UNSETTLED])
		sink__printf(
			sink,
			"The last scan that changed the list of lost blocks took %s block%s off "
			"it, so about as many of these may be held.\n",
			COUNT(r->losses[WHY_LOSS_UNSETTLED]),
			plural(r->losses[WHY_LOSS_UNSETTLED]));
	for (size_t i = 0; i < n; i++) {
		const struct why_leak *leak = &r->leaks[i];

		grid__add_row(&grid, "%s\t%s\t%s\tblock%s of %s bytes%s, such as 0x%" PRIx64,
			      BYTES(leak->bytes), COUNT(leak->blocks), COUNT(leak->leaks),
			      plural(leak->leaks), COUNT(leak->size),
			      leak->circles == leak->leaks ? " in a circle"
			      : leak->circles		   ? ", some in circles"
							   : "",
			      leak->example);
	}
	grid__put(&grid, sink);
	if (r->n_leaks > n)
		sink__printf(sink, "and %zu more sizes\n", r->n_leaks - n);
	return sink->error;
}

static void put_asked(const struct why_report *r, struct sink *sink)
{
	uint64_t blocks = r->held_blocks + r->asked_lost_blocks + r->in_doubt_blocks;

	sink__printf(sink, "\nASKED FOR: %s block%s", COUNT(blocks), plural(blocks));
	if (r->asked_size)
		sink__printf(sink, " of %s bytes", COUNT(r->asked_size));
	sink__printf(sink, ", %s: %s held, %s lost",
		     BYTES(r->held_bytes + r->asked_lost_bytes + r->in_doubt_bytes),
		     COUNT(r->held_blocks), COUNT(r->asked_lost_blocks));
	if (r->in_doubt_blocks)
		sink__printf(
			sink,
			", %s in doubt (not reached in the last full scan, but not surely lost)",
			COUNT(r->in_doubt_blocks));
	sink__puts(sink, "\n");
	if (r->missing)
		sink__printf(sink, "At %s address%s there is no block in use.\n", COUNT(r->missing),
			     r->missing == 1 ? "" : "es");
	if (r->followed < r->held_blocks)
		sink__printf(sink, "Shares are those of %s blocks, evenly chosen.\n",
			     COUNT(r->followed));
}

static int put_rows(const struct why_report *r, unsigned int top, struct sink *sink)
{
	_cleanup_(grid__clear) struct grid grid =
		GRID({"SHARE", false}, {"BLOCKS", false}, {"HELD BY", true});
	size_t n = r->n_rows < top ? r->n_rows : top;

	if (!n)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct why_row *row = &r->rows[i];
		_cleanup_free_ char *way = why_row__text(row);

		if (!way)
			return -ENOMEM;
		grid__add_row(&grid, "%.1f%%\t%s\t%s",
			      100.0 * (double)row->blocks / (double)r->followed, COUNT(row->blocks),
			      way);
	}
	grid__put(&grid, sink);
	if (r->n_rows > n)
		sink__printf(sink, "and %zu more ways\n", r->n_rows - n);
	return sink->error;
}

int encode_why(const struct why_report *r, unsigned int top, struct sink *sink)
{
	int err = 0;

	put_head(r, sink);
	put_losses(r, sink);
	if (r->asked) {
		put_asked(r, sink);
		err = put_rows(r, top, sink);
	}
	if (!err)
		err = put_leaks(r, top, sink);
	return err ? err : sink->error;
}

/* --- for programs --- */

static void put_off_json(struct json *json, uint64_t off)
{
	if (off != WHY_UNKNOWN)
		json__put_uint(json, "offset", off);
}

static void put_leaks_json(struct json *json, const struct why_report *r)
{
	struct json list = json__open(json, "leaks", "[");

	for (size_t i = 0; i < r->n_leaks; i++) {
		const struct why_leak *leak = &r->leaks[i];
		struct json item = json__open(&list, NULL, "{");

		json__put_uint(&item, "size", leak->size);
		json__put_uint(&item, "heads", leak->leaks);
		json__put_uint(&item, "circles", leak->circles);
		json__put_uint(&item, "blocks", leak->blocks);
		json__put_uint(&item, "bytes", leak->bytes);
		json__put_uint(&item, "example", leak->example);
		sink__puts(json->sink, "}");
	}
	sink__puts(json->sink, "]");
}

static void put_row_json(struct json *list, const struct why_row *row)
{
	struct json item = json__open(list, NULL, "{"), steps;

	json__put_uint(&item, "blocks", row->blocks);
	json__put_uint(&item, "bytes", row->bytes);
	json__put_uint(&item, "example", row->example);
	json__put_text(&item, "root_kind", row->root_kind);
	json__put_text(&item, "root", row->root);
	put_off_json(&item, row->root_off);
	json__put_bool(&item, "cut", row->cut);
	steps = json__open(&item, "steps", "[");
	for (size_t i = 0; i < row->n_steps; i++) {
		struct json step = json__open(&steps, NULL, "{");

		json__put_uint(&step, "size", row->steps[i].size);
		json__put_bool(&step, "chain", row->steps[i].chain);
		put_off_json(&step, row->steps[i].off);
		if (row->steps[i].type)
			json__put_text(&step, "class", row->steps[i].type);
		if (row->steps[i].maker) {
			json__put_text(&step, "maker", row->steps[i].maker);
			json__put_uint(&step, "made_blocks", row->steps[i].made);
		}
		sink__puts(list->sink, "}");
	}
	sink__puts(list->sink, "]}");
}

static void put_asked_json(struct json *json, const struct why_report *r)
{
	struct json asked = json__open(json, "asked", "{"), list;

	json__put_uint(&asked, "size", r->asked_size);
	json__put_uint(&asked, "missing", r->missing);
	json__put_uint(&asked, "held_blocks", r->held_blocks);
	json__put_uint(&asked, "held_bytes", r->held_bytes);
	json__put_uint(&asked, "lost_blocks", r->asked_lost_blocks);
	json__put_uint(&asked, "lost_bytes", r->asked_lost_bytes);
	json__put_uint(&asked, "doubtful_blocks", r->in_doubt_blocks);
	json__put_uint(&asked, "doubtful_bytes", r->in_doubt_bytes);
	json__put_uint(&asked, "followed_blocks", r->followed);
	list = json__open(&asked, "paths", "[");
	for (size_t i = 0; i < r->n_rows; i++)
		put_row_json(&list, &r->rows[i]);
	sink__puts(json->sink, "]}");
}

void json__put_why(struct json *stack, const struct site_why *why)
{
	struct json object, list;

	if (!why)
		return;
	object = json__open(stack, "why", "{");
	json__put_uint(&object, "asked_blocks", why->asked);
	json__put_uint(&object, "held_blocks", why->held);
	json__put_uint(&object, "lost_blocks", why->lost);
	json__put_uint(&object, "doubtful_blocks", why->in_doubt);
	json__put_uint(&object, "missing", why->gone);
	json__put_uint(&object, "followed_blocks", why->followed);
	list = json__open(&object, "holders", "[");
	for (size_t i = 0; i < why->n_holders; i++) {
		struct json item = json__open(&list, NULL, "{");

		json__put_uint(&item, "blocks", why->holders[i].blocks);
		json__put_text(&item, "path", why->holders[i].path);
		sink__puts(stack->sink, "}");
	}
	sink__puts(stack->sink, "]}");
}

void json__put_why_search(struct json *json, const struct profile_why *why)
{
	struct json object;

	if (!why)
		return;
	object = json__open(json, "why_search", "{");
	if (why->failed)
		json__put_text(&object, "failed", why->failed);
	json__put_text(&object, "doubt", why->doubt);
	json__put_uint(&object, "scans", why->scans);
	json__put_real(&object, "seconds", why->seconds);
	json__put_bool(&object, "registers", !why->no_registers);
	sink__puts(json->sink, "}");
}

int encode_why_json(const struct why_report *r, struct sink *sink)
{
	struct json json = {.sink = sink, .first = true}, losses;

	sink__puts(sink, "{");
	json__put_uint(&json, "version", ENCODE_JSON_VERSION);
	json__put_uint(&json, "pid", (uint64_t)r->pid);
	json__put_text(&json, "comm", r->comm);
	json__put_text(&json, "allocators", r->allocators);
	json__put_uint(&json, "blocks", r->blocks);
	json__put_uint(&json, "bytes", r->bytes);
	json__put_uint(&json, "scans", r->scans);
	json__put_real(&json, "seconds", r->seconds);
	json__put_real(&json, "scan_seconds", r->scan_s);
	json__put_real(&json, "pause_seconds", r->pause_s);
	json__put_bool(&json, "registers", r->registers);
	json__put_uint(&json, "running_threads", r->running_threads);
	json__put_uint(&json, "table_bytes", r->table_bytes);
	losses = json__open(&json, "lost", "{");
	for (int i = 0; i < WHY_N_LOSSES; i++)
		json__put_uint(&losses, why_loss__name(i), r->losses[i]);
	sink__puts(sink, "}");
	json__put_text(&json, "doubt", r->doubt);
	json__put_uint(&json, "lost_blocks", r->lost_blocks);
	json__put_uint(&json, "lost_bytes", r->lost_bytes);
	put_leaks_json(&json, r);
	if (r->asked)
		put_asked_json(&json, r);
	sink__puts(sink, "}\n");
	return sink->error;
}
