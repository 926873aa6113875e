/* SPDX-License-Identifier: BSD-2-Clause */
/* For statistics: hold_0 to hold_19 each hold 1 to 20 MiB of live blocks, each function with its
 * own block sizes, and free about as much again. --seed N (1) sets the order of their turns and the
 * drawn sizes. --scale PCT (100) scales the bytes. Blocks are not touched, so that little memory
 * becomes resident. */
#define TRUTH_BLOCKS_LOG2 20
#include "truth.h"

#define KIB 1024ul
#define MIB (1024ul * KIB)

#define HOLDERS 20
#define PENDING 4096 /* blocks waiting to be freed */

#define HOLD(n)                                                                                    \
	NOINLINE static void *hold_##n(size_t size)                                                \
	{                                                                                          \
		return T_MALLOC(size);                                                             \
	}

HOLD(0)
HOLD(1)
HOLD(2)
HOLD(3)
HOLD(4)
HOLD(5)
HOLD(6)
HOLD(7)
HOLD(8)
HOLD(9)
HOLD(10)
HOLD(11)
HOLD(12)
HOLD(13)
HOLD(14)
HOLD(15)
HOLD(16)
HOLD(17)
HOLD(18)
HOLD(19)

static const struct holder {
	void *(*hold)(size_t size);
	size_t live; /* approximate bytes to hold at the end */
	struct {
		size_t size;
		unsigned int weight; /* how many of 1000 blocks have this size */
	} mix[3];
} holders[HOLDERS] = {
	{hold_0, 1 * MIB, {{16, 1000}}},
	{hold_1, 2 * MIB, {{24, 500}, {40, 500}}},
	{hold_2, 4 * MIB, {{64, 1000}}},
	{hold_3, 8 * MIB, {{200, 1000}}},
	{hold_4, 20 * MIB, {{1000, 1000}}},
	{hold_5, 3 * MIB, {{32, 900}, {4096, 100}}},
	{hold_6, 16 * MIB, {{4096, 1000}}},
	{hold_7, 6 * MIB, {{16384, 1000}}},
	{hold_8, 12 * MIB, {{65536, 1000}}},
	{hold_9, 16 * MIB, {{262144, 1000}}},
	{hold_10, 20 * MIB, {{1 * MIB, 1000}}},
	{hold_11, 17 * MIB, {{8, 999}, {8 * MIB, 1}}}, /* main() makes sure that both sizes occur */
	{hold_12, 5 * MIB, {{100, 990}, {100000, 10}}},
	{hold_13, 10 * MIB, {{512, 700}, {8192, 200}, {65536, 100}}},
	{hold_14, 2 * MIB, {{48, 1000}}},
	{hold_15, 7 * MIB, {{333, 500}, {3333, 400}, {33333, 100}}},
	{hold_16, 9 * MIB, {{128, 995}, {524288, 5}}},
	{hold_17, 1 * MIB, {{2048, 1000}}},
	{hold_18, 14 * MIB, {{32768, 1000}}},
	{hold_19, 3 * MIB, {{80, 600}, {160, 300}, {320, 100}}},
};

static void *pending[PENDING];
static size_t to_keep[HOLDERS], to_free[HOLDERS]; /* bytes that are still to be allocated */

NOINLINE static void drop(size_t slot)
{
	T_FREE(pending[slot]);
	pending[slot] = NULL;
}

static size_t draw_size(const struct holder *holder, uint64_t r)
{
	unsigned int x = (unsigned int)(r % 1000), i = 0;

	while (x >= holder->mix[i].weight)
		x -= holder->mix[i++].weight;
	return holder->mix[i].size;
}

/* In one turn a function allocates a block that stays, or one that is freed some time later. */
static void turn(size_t i, uint64_t r, size_t size)
{
	bool stays = to_keep[i] && (!to_free[i] || (r & 1));
	size_t *left = stays ? &to_keep[i] : &to_free[i];
	size_t slot = (r >> 1) % PENDING;
	void *p = holders[i].hold(size);

	*left -= size < *left ? size : *left;
	if (stays)
		return;
	drop(slot);
	pending[slot] = p;
}

int main(int argc, char **argv)
{
	size_t open[HOLDERS], n_open = HOLDERS;
	uint64_t state, scale;

	truth_init(argc, argv);
	state = truth_seed(truth_number(argc, argv, "--seed", 1));
	scale = truth_number(argc, argv, "--scale", 100);
	for (size_t i = 0; i < HOLDERS; i++) {
		open[i] = i;
		to_keep[i] = to_free[i] = holders[i].live / 100 * scale;
	}
	truth_ready();

	/* hold_11 has few large blocks. They are not drawn at random, because by chance there could
	 * be none. */
	for (int i = 0; i < 4; i++)
		turn(11, (uint64_t)i, 8 * MIB);
	while (n_open) {
		uint64_t r = truth_random(&state);
		size_t which = (r >> 40) % n_open;
		size_t i = open[which];
		size_t size = draw_size(&holders[i], truth_random(&state));

		if (i == 11 && size > KIB)
			size = 8;
		turn(i, r, size);
		if (!to_keep[i] && !to_free[i])
			open[which] = open[--n_open];
	}
	for (size_t i = 0; i < PENDING; i++)
		drop(i);

	truth_print();
	return truth_finish();
}
