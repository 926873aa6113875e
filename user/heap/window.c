// SPDX-License-Identifier: BSD-2-Clause
#include "heap/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heap/image.h"

int window__init(struct window *window)
{
	*window = (struct window){.words = malloc(WINDOW_BYTES)};
	return window->words ? 0 : -ENOMEM;
}

void window__clear(struct window *window)
{
	free(window->words);
	*window = (struct window){};
}

/* Reads page by page. A page that cannot be read becomes zeros. */
static int load_pages(struct window *window, struct image *image, uint64_t start, uint64_t end)
{
	for (uint64_t at = start, stop; at < end; at = stop) {
		unsigned char *to = (unsigned char *)window->words + (at - start);
		int err;

		stop = at / HEAP_PAGE * HEAP_PAGE + HEAP_PAGE;
		stop = stop < end ? stop : end;
		err = image__read(image, at, to, (size_t)(stop - at));
		if (err == -ETIMEDOUT || err == -EFBIG)
			return err;
		if (err) {
			memset(to, 0, (size_t)(stop - at));
			window->unread_bytes += stop - at;
		}
	}
	return 0;
}

static int load(struct window *window, struct image *image, uint64_t start, uint64_t end)
{
	int err = image__read(image, start, window->words, (size_t)(end - start));

	if (err == -ETIMEDOUT || err == -EFBIG)
		return err;
	if (err)
		err = load_pages(window, image, start, end);
	window->start = start;
	window->end = end;
	return err;
}

int window__next(struct window *window, struct image *image, uint64_t at, uint64_t end)
{
	/* A long run is looked up only once. A look-up for each window would take time in
	 * proportion to the square of the run's length. */
	if (at < window->run_start || at >= window->run_end) {
		if (!image__run(image, at, end, &window->run_start, &window->run_end)) {
			window->run_start = window->run_end = 0;
			window->start = window->end = end;
			return image__spent(image);
		}
		at = window->run_start;
	}
	if (end > window->run_end)
		end = window->run_end;
	return load(window, image, at, end - at > WINDOW_BYTES ? at + WINDOW_BYTES : end);
}
