// SPDX-License-Identifier: BSD-2-Clause
#include "encode/where.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vector.h"
#include "encode/fold.h"
#include "encode/text.h"
#include "profile/own_frame.h"

#define ALLOCATORS_OWN "[allocator's own] "
#define MORE	       " < ..."
#define MIN_ROOM       24
/* if more than this many frames of the runtime follow each other, only the first is named */
#define MAX_RUN 3
#define MIN_VIA 8 /* fewest useful columns of a name */

struct story_frame {
	char *name; /* folded and printable; owned */
	unsigned times;
	enum frame_owner owner; /* FRAME_OWN: the frame counts as own */
};

/* The shown frames of one stack, leaf first. */
struct story {
	struct story_frame *frames;
	size_t n;
	/* The functions of a library, the interpreter or the runtime through which the first frame
	 * got memory. called: the function that the first frame called. innermost: a function
	 * nearer to the allocation; set only if it tells more than `called` (story__tell_called()).
	 * NULL: not shown. Both are owned. */
	char *called, *innermost;
	bool has_own; /* the first frame is the program's own */
	/* if has_own: frames of this owner and of all higher ones count as own */
	enum frame_owner least_own;
	bool truncated;
};

static void story__clear(struct story *story)
{
	for (size_t i = 0; i < story->n; i++)
		free(story->frames[i].name);
	free(story->frames);
	free(story->called);
	free(story->innermost);
}

/* Takes ownership of name. */
static int story__add(struct story *story, char *name, enum frame_owner owner)
{
	struct story_frame *last = story->n ? &story->frames[story->n - 1] : NULL;

	if (name && last && !strcmp(last->name, name)) {
		last->times++;
		free(name);
		return 0;
	}
	if (!name || VECTOR_ADD_ROOM(story->frames, story->n)) {
		free(name);
		return -ENOMEM;
	}
	story->frames[story->n++] = (struct story_frame){name, 1, owner};
	return 0;
}

static char *readable(const char *name)
{
	_cleanup_free_ char *printable = text_printable(name);

	return printable ? fold_name(printable) : NULL;
}

/* Returns a function's name for people. If the function has no name, returns its module's name. */
static char *readable_called(const char *name)
{
	size_t module = function__module_length(name);
	_cleanup_free_ char *file = module ? strndup(name, module) : NULL;

	if (module)
		return file ? text_printable(file) : NULL;
	return readable(name);
}

/* Are the two functions of one class, as std::map<..>::operator[] and std::map<..>::emplace are? */
static bool same_class(const char *a, const char *b)
{
	size_t len = strcspn(a, "<("), len_b = strcspn(b, "<(");

	return len == len_b && !strncmp(a, b, len);
}

/* Names of functions between the own frame and the allocation. NULL: there is no function of this
 * kind. */
struct calls {
	const char *outermost, *innermost; /* functions of the runtime */
	const char *native;		   /* the interpreter's function nearest to the
					    * allocation */
	const char *library;		   /* the library's function that the own frame called */
};

static void calls__add(struct calls *calls, const char *name, enum frame_owner owner)
{
	if (owner == FRAME_OF_LIBRARY)
		calls->library = name;
	/* PyDict_New says more than the interpreter's internal functions that lead to it */
	if (owner == FRAME_OF_INTERPRETER &&
	    (!calls->native ||
	     (function__module_length(calls->native) && !function__module_length(name))))
		calls->native = name;
	if (owner == FRAME_OF_RUNTIME) {
		calls->outermost = name;
		calls->innermost = calls->innermost ? calls->innermost : name;
	}
}

static bool is_worth_telling(const char *innermost, const char *called)
{
	return !strncmp(innermost, "std::", 5) && !strncmp(called, "std::", 5) &&
	       !strstr(innermost, "::_") && !same_class(innermost, called);
}

/* Sets called and innermost of the story. `innermost` distinguishes stacks with the same `called`:
 * one stack may allocate a map's nodes, another stack the strings in these nodes. If `called` and
 * `innermost` would both be functions of the runtime, the story has `innermost` only if both are
 * std:: functions of different classes and innermost has a public name (without "::_"). */
static int story__tell_called(struct story *story, const struct calls *calls)
{
	bool library = calls->library && calls->native && !function__module_length(calls->native),
	     runtime = !calls->library && !calls->native && calls->innermost != calls->outermost;
	const char *called = calls->library  ? calls->library
			     : calls->native ? calls->native
					     : calls->outermost,
		   *innermost = library	  ? calls->native
				: runtime ? calls->innermost
					  : NULL;

	if (called && !(story->called = readable_called(called)))
		return -ENOMEM;
	if (innermost && !(story->innermost = readable_called(innermost)))
		return -ENOMEM;
	if (runtime && !is_worth_telling(story->innermost, story->called)) {
		free(story->innermost);
		story->innermost = NULL;
	}
	return 0;
}

/* Returns the owner of the frame that the walk returned last. `location` is the frame's
 * location. */
static enum frame_owner owner_of(const struct frame_walk *walk, uint32_t location, const char *name)
{
	if (walk->slots)
		return walk->slots->owners[walk->slot];
	return profile__frame_owner(walk->profile,
				    profile__location(walk->profile, walk->site, location), name,
				    walk->frame ? walk->frame->file : NULL);
}

/* Is the frame from a script, or from the program's own file? */
static bool is_in_program(const struct frame_walk *walk, uint32_t location)
{
	const struct profile *profile = walk->profile;
	int32_t mapping = profile__location(profile, walk->site, location)->mapping;
	const char *path = mapping >= 0 ? profile->mappings[mapping].path : "";

	return *path != '/' || (profile->exe && !strcmp(path, profile->exe));
}

/* Moves the walk to the first frame whose owner is `least` or above. If there is none, the walk
 * stays where it is. A native library that called an interpreter does not count as the program's
 * own: it is only the event loop (libuv, Qt) that runs the script. */
static int find_first(struct frame_walk *walk, enum frame_owner least, struct story *story)
{
	struct frame_walk at = *walk, next = *walk;
	struct calls calls = {};
	bool interpreted = false;
	const char *name;

	while ((name = frame_walk__next(&next))) {
		enum frame_owner owner = owner_of(&next, at.location, name);

		if (owner >= least && (!interpreted || is_in_program(&next, at.location))) {
			*walk = at;
			story->has_own = true;
			story->least_own = least;
			return story__tell_called(story, &calls);
		}
		interpreted =
			interpreted || owner == FRAME_OF_INTERPRETER || owner == FRAME_OF_LIBRARY;
		if (name != next.buf)
			calls__add(&calls, name, owner);
		at = next;
	}
	return 0;
}

/* Moves the walk to the frame that the line begins with. */
static int find_own(struct frame_walk *walk, struct story *story)
{
	int rc = find_first(walk, FRAME_OWN, story);

	/* no own frame: the program consists of libraries, or its own functions have no names */
	return rc || story->has_own ? rc : find_first(walk, FRAME_OF_INTERPRETER, story);
}

static bool is_of_runtime(const struct story_frame *frame)
{
	return frame->owner != FRAME_OWN;
}

/* Is this a frame of the program's own code without a name? In a stripped file, most static
 * functions have no names. */
static bool is_nameless(const struct story_frame *frame)
{
	return frame->owner >= FRAME_OF_INTERPRETER && function__module_length(frame->name);
}

/* If more than `most` frames of a kind follow each other, keeps the first and replaces the others
 * by their number: "(8 of the runtime)", or "(8 of libraries)" if one of these is a library's. */
static int story__fold_runs(struct story *story, bool (*is_of_kind)(const struct story_frame *),
			    size_t most, const char *kind)
{
	size_t kept = 0, next;

	for (size_t i = 0; i < story->n; i = next) {
		struct story_frame *frames = story->frames;
		bool libraries = false;

		for (next = i + 1;
		     next < story->n && is_of_kind(&frames[i]) && is_of_kind(&frames[next]);)
			next++;
		if (next - i <= most) {
			while (i < next)
				frames[kept++] = frames[i++];
			continue;
		}
		frames[kept++] = frames[i];
		for (size_t k = i + 1; k < next; k++) {
			libraries = libraries || frames[k].owner == FRAME_OF_LIBRARY;
			free(frames[k].name);
		}
		frames[kept] = (struct story_frame){NULL, 1, FRAME_OF_RUNTIME};
		if (asprintf(&frames[kept++].name, "(%zu %s)", next - i - 1,
			     libraries ? "of libraries" : kind) < 0) {
			/* story->n shrinks, so the story's owner will not free the frames beyond
			 * the new n */
			frames[--kept].name = NULL;
			for (size_t k = next; k < story->n; k++)
				free(frames[k].name);
			story->n = kept;
			return -ENOMEM;
		}
	}
	story->n = kept;
	return 0;
}

/* Fills a story of at most `most` frames. The walk then continues after them. */
static int tell_story(struct frame_walk *walk, size_t most, bool show_runtime, struct story *story)
{
	const char *name, *root = "[no stack]";
	int rc = show_runtime ? 0 : find_own(walk, story);

	story->truncated = walk->site->truncated;
	while (!rc && story->n < most) {
		uint32_t location = walk->location;
		enum frame_owner owner;

		name = frame_walk__next(walk);
		if (!name)
			break;
		root = name;
		owner = owner_of(walk, location, name);
		if (owner != FRAME_OF_ALLOCATOR)
			rc = story__add(story, readable(name),
					story->has_own && owner >= story->least_own ? FRAME_OWN
										    : owner);
	}
	if (!rc && !story->n)
		rc = story__add(story, readable(root), FRAME_OWN);
	/* this folds, for example, Rust's frames between a program's main and the C library's */
	return !rc && story->has_own
		       ? story__fold_runs(story, is_of_runtime, MAX_RUN, "of the runtime")
		       : rc;
}

/* Returns text like "parse x3", of about `max` columns. NULL: no memory. */
static char *frame_text(const struct story_frame *frame, size_t max)
{
	_cleanup_free_ char *name = text_shorten(frame->name, frame->times > 1 ? max - 8 : max);
	char *text;

	if (!name || frame->times == 1)
		return_ptr(name);
	return asprintf(&text, "%s x%u", name, frame->times) < 0 ? NULL : text;
}

/* Returns text like " (via std::string < std::map<..>::operator[])", of at most `room` columns. ""
 * if nothing was called or no useful text fits. NULL: no memory. */
static char *called_text(const struct story *story, size_t room)
{
	static const char frame[] = " (via )";
	_cleanup_free_ char *called = NULL;
	char *text;
	int n;

	if (!story->called || room < strlen(frame) + MIN_VIA)
		return strdup("");
	room -= strlen(frame);
	if (story->innermost &&
	    text_columns(story->innermost) + 3 + text_columns(story->called) <= room) {
		n = asprintf(&text, " (via %s < %s)", story->innermost, story->called);
	} else {
		called = text_columns(story->called) > room ? text_unqualified(story->called, room)
							    : strdup(story->called);
		if (!called)
			return NULL;
		if (text_columns(called) > room)
			return strdup("");
		n = asprintf(&text, " (via %s)", called);
	}
	return n < 0 ? NULL : text;
}

/* If a story needs more than `room` columns, folds consecutive frames without names. This leaves
 * room for the names after them. */
static int story__make_room(struct story *story, size_t room)
{
	size_t columns = 0;

	for (size_t i = 0; i < story->n; i++)
		columns += (i ? 3 : 0) + text_columns(story->frames[i].name);
	return columns > room ? story__fold_runs(story, is_nameless, 2, "without names") : 0;
}

int put_where(const struct profile *profile, const struct profile_site *site, size_t room,
	      bool show_runtime, struct sink *sink)
{
	_cleanup_(story__clear) struct story story = {};
	_cleanup_free_ char *first = NULL, *called = NULL;
	struct frame_walk walk = {.profile = profile, .site = site};
	int err = tell_story(&walk, SIZE_MAX, show_runtime, &story);
	size_t used, more;

	if (!err)
		err = story__make_room(&story, room);
	if (err)
		return err;
	if (site->allocators_own) {
		sink__puts(sink, ALLOCATORS_OWN);
		room -= room > MIN_ROOM + strlen(ALLOCATORS_OWN) ? strlen(ALLOCATORS_OWN) : 0;
	}
	first = frame_text(&story.frames[0], room);
	if (!first)
		return -ENOMEM;
	used = text_columns(first);
	more = story.n > 1 || story.truncated ? strlen(MORE) : 0;
	called = called_text(&story, room > used + more ? room - used - more : 0);
	if (!called)
		return -ENOMEM;
	used += text_columns(called);
	sink__printf(sink, "%s%s", first, called);
	for (size_t i = 1; i <= story.n; i++) {
		bool last = i >= story.n - 1 && !story.truncated;
		/* a name may take half of the room, so that other names fit */
		_cleanup_free_ char *text =
			i < story.n ? frame_text(&story.frames[i], room / 2) : NULL;
		size_t need;

		if (i == story.n) {
			if (story.truncated)
				sink__puts(sink, used + strlen(MORE) <= room ? MORE : "");
			break;
		}
		if (!text)
			return -ENOMEM;
		need = 3 + text_columns(text);
		if (used + need + (last ? 0 : strlen(MORE)) > room) {
			sink__puts(sink, used + strlen(MORE) <= room ? MORE : "");
			break;
		}
		sink__printf(sink, " < %s", text);
		used += need;
	}
	return sink->error;
}

char *where_holder(const struct profile *profile, const struct profile_site *site, size_t room,
		   bool show_runtime)
{
	_cleanup_(story__clear) struct story story = {};
	struct frame_walk walk = {.profile = profile, .site = site};

	if (tell_story(&walk, 1, show_runtime, &story))
		return NULL;
	return text_shorten(story.frames[0].name, room);
}

char *where_beginning(struct frame_walk *walk, bool show_runtime)
{
	_cleanup_(story__clear) struct story story = {};
	_cleanup_free_ char *called = NULL;
	char *text;

	if (tell_story(walk, 1, show_runtime, &story))
		return NULL;
	called = called_text(&story, SIZE_MAX);
	if (!called)
		return NULL;
	return asprintf(&text, "%s%s", story.frames[0].name, called) < 0 ? NULL : text;
}
