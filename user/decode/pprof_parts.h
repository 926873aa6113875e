/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/decode: the reader of pprof files. Each part is in a file of the same name. The
 * messages of a file refer to each other by number and may come in any order. So the tables are
 * read first (pprof_file). Then come the comments, which describe the whole profile
 * (pprof_comments), and mappings and locations (pprof_places). The samples refer to locations, so
 * they come later (pprof_samples). Last come memtrace's own fields (pprof_own) and the names of the
 * locations that are in the profile (pprof_names).
 *
 * Functions that return int return 0, or negative errno as decode_pprof() does. Memory is allocated
 * for entries that the file really contains, never for a size that it states. */
#ifndef MEMTRACE_DECODE_PPROF_PARTS_H
#define MEMTRACE_DECODE_PPROF_PARTS_H

#include "decode/wire.h"
#include "profile/pprof.h"

/* --- pprof_file: the messages of the file, and the look-up of strings and ids --- */

#define PPROF_MAX_TYPES 64

/* The messages of one kind, ascending by id. The items point into the input. */
struct pprof_table {
	struct pprof_table_item {
		uint64_t id;
		struct bytes message;
	} * items;
	size_t n, room;
};

/* The messages of a file. Texts are stored as indices of strings. */
struct pprof_file {
	const struct input *input;
	struct draft *draft; /* the profile while it is read */
	struct bytes *strings;
	size_t n_strings, strings_room;
	struct pprof_table mappings, locations, functions;
	struct {
		uint64_t type, unit; /* indices of strings */
	} types[PPROF_MAX_TYPES];    /* types of the values of a sample */
	size_t n_types;
	int value_at[VALUES]; /* by enum pprof_value: index into types, or -1 */
	uint64_t *comments;   /* indices of strings */
	size_t n_comments, comments_room;
	uint64_t drop_frames, period_type, period_unit; /* indices of strings */
	uint64_t period;
	int64_t time_ns, duration_ns;
	bool own; /* memtrace has written the file; pprof_comments__read() sets it */
};

/* Reads the file without two parts: memtrace's own fields, and the contents of samples, mappings,
 * locations and functions. The caller has set input and draft; the rest is zero. Also returns
 * -EINVAL if this is not a profile of a heap. */
int pprof_file__read(struct pprof_file *file);

void pprof_file__clear(struct pprof_file *file);

/* Set the error, with `at` as its place. pprof_file__bad() returns -EINVAL. pprof_file__too_much()
 * gives the reason from draft->why and returns -EFBIG. */
int pprof_file__bad(const struct pprof_file *file, const uint8_t *at, const char *what);
int pprof_file__too_much(const struct pprof_file *file, const uint8_t *at);

/* Returns the string with that number, cut at a NUL and to MAX_NAME_BYTES. If there is no such
 * string, the result is empty and its pos is NULL. */
struct bytes pprof_file__text(const struct pprof_file *file, uint64_t number);
bool pprof_file__text_is(const struct pprof_file *file, uint64_t number, const char *word);

/* Returns a copy of the text, which the caller frees; NULL: no memory. */
char *pprof_file__copy_text(const struct pprof_file *file, uint64_t number);

/* A field of a message, and where to store its number. */
struct pprof_member {
	uint32_t field;
	enum {
		MEMBER_ANY,    /* number; a field of bytes counts as 0 */
		MEMBER_NUMBER, /* number; a field of bytes is an error */
		MEMBER_TEXT,   /* index of a string, which must exist */
	} type;
	/* *ret is unchanged if the message lacks the field; if it has several, the last counts */
	uint64_t *ret;
};

/* Reads these fields of a message, and no others. */
int pprof_file__members(const struct pprof_file *file, struct bytes message,
			const struct pprof_member *members, size_t n);

/* Returns the index of the message with this id, or -1. */
ptrdiff_t pprof_table__find(const struct pprof_table *table, uint64_t id);

/* --- pprof_comments: facts about the whole profile --- */

/* Fills in the profile from the fields time, duration and period, and from the comments if these
 * are memtrace's own. */
int pprof_comments__read(struct pprof_file *file);

/* --- pprof_places: mappings and locations --- */

struct pprof_mapping {
	uint64_t start, limit, off;
	uint64_t filename, build_id; /* indices of strings */
	bool used;		     /* the mapping is in the profile, because it is valid and
				      * overlaps no earlier one */
};

struct pprof_location {
	uint64_t mapping; /* index + 1; 0: none */
	uint64_t address; /* address in the file */
	uint64_t addr;	  /* address in the profile: unique */
	struct bytes message;
};

/* All zero at the beginning. */
struct pprof_places {
	struct pprof_mapping *mappings;	  /* same indices as file->mappings */
	struct pprof_location *locations; /* same indices as file->locations */
	struct pprof_location **order;	  /* all locations, ascending by addr */
};

/* Adds the mappings to the profile, and sets the addr of each location. If the profile's program is
 * not known yet, the file of the first mapping counts as the program. */
int pprof_places__read(struct pprof_places *places, const struct pprof_file *file);

void pprof_places__clear(struct pprof_places *places);

/* --- pprof_samples --- */

/* Adds all samples to the profile's sites. */
int pprof_samples__read(const struct pprof_file *file, const struct pprof_places *places);

/* --- pprof_own: memtrace's own fields (enum pprof_own_field) --- */

/* These functions are for files that memtrace has written. They also return -EINVAL if a number is
 * impossible. */

/* Reads memtrace's own fields of the profile. */
int pprof_own__read(const struct pprof_file *file);

/* Reads SAMPLE_OWN_REMAINDERS: the rounding errors of the values of a sample. */
int pprof_own__read_remainders(const struct pprof_file *file, struct field *field,
			       double ret[OWN_REMAINDERS]);

/* The figures of a stack, from the field SAMPLE_OWN_STACK of a sample. */
struct pprof_own_stack {
	bool any, has_freed, has_peak, has_ended, has_why, has_blocks;
	double freed[2], peak[2]; /* objects, bytes */
	struct site_life life;	  /* life.ended is set only if has_ended */
	struct field why, blocks;
};

/* Reads SAMPLE_OWN_STACK: adds the figures to *ret and sets ret->any. */
int pprof_own__read_stack(const struct pprof_file *file, const struct field *field,
			  struct pprof_own_stack *ret);

/* Copies the figures to the site. If several samples of a stack have such figures, the last sample
 * counts. */
int pprof_own__set_stack(const struct pprof_file *file, const struct pprof_own_stack *own,
			 struct profile_site *site);

/* Reads n packed doubles, each from 0 to `most`. */
int pprof_own__take_reals(const struct pprof_file *file, const struct field *field, double most,
			  double *ret, size_t n);

/* --- pprof_why --- */

/* pprof_why__set_site() reads OWN_STACK_WHY into the site, pprof_why__read() reads PROFILE_OWN_WHY
 * into the profile. */
int pprof_why__set_site(const struct pprof_file *file, const struct field *field,
			struct profile_site *site);
int pprof_why__read(const struct pprof_file *file, const struct field *field);

/* --- pprof_names: functions, and the frames of locations --- */

/* Gives the profile's locations their frames. All sites must be there, and sorted. */
int pprof_names__read(const struct pprof_file *file, const struct pprof_places *places);

#endif
