// SPDX-License-Identifier: BSD-2-Clause
/* lost_ways NAME [--auto]: loses or holds blocks in one way, prints "ready" and waits for input.
 * With --auto it ends at once instead. Without a name: lists the names. glibc does not round up any
 * of the sizes that are used here. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SIZE 40

struct node {
	struct node *next, *other;
	char rest[SIZE - 2 * sizeof(void *)];
};

static struct node *volatile held;
static volatile uintptr_t hidden;
static __thread struct node *volatile own;
static pthread_key_t key;

static struct node *new_node(struct node *next)
{
	struct node *node = calloc(1, sizeof(*node));

	node->next = next;
	return node;
}

static struct node *new_list(int n)
{
	struct node *list = NULL;

	while (n--)
		list = new_node(list);
	return list;
}

static struct node *new_circle(int n)
{
	struct node *list = new_list(n), *last = list;

	while (last->next)
		last = last->next;
	last->next = list;
	return list;
}

static struct node *new_tree(int depth)
{
	struct node *node = new_node(depth ? new_tree(depth - 1) : NULL);

	node->other = depth ? new_tree(depth - 1) : NULL;
	return node;
}

static void lose(struct node *node)
{
	hidden = ~(uintptr_t)node;
}

static void block_lost(void)
{
	lose(new_node(NULL));
}
static void block_held(void)
{
	held = new_node(NULL);
}
static void list_lost(void)
{
	lose(new_list(5));
}
static void list_held(void)
{
	held = new_list(5);
}
static void long_list_lost(void)
{
	lose(new_list(5000));
}
static void circle_lost(void)
{
	lose(new_circle(4));
}
static void circle_held(void)
{
	held = new_circle(4);
}
static void self_lost(void)
{
	lose(new_circle(1));
}
static void tree_lost(void)
{
	lose(new_tree(4));
}
static void tree_held(void)
{
	held = new_tree(4);
}
static void inside_held(void)
{
	held = (struct node *)((char *)new_node(NULL) + 16);
}
static void tagged_held(void)
{
	held = (struct node *)((uintptr_t)new_node(NULL) | 1);
}
static void behind_lost(void)
{
	held = new_node(NULL) + 1;
}
static void xored_lost(void)
{
	hidden = (uintptr_t)new_list(2) ^ 0x5a5a5a5a5a5a5a5a;
}
static void thread_local_held(void)
{
	own = new_list(3);
}

static void specific_held(void)
{
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, new_list(3));
}

static void overwritten_lost(void)
{
	held = new_list(3);
	held = new_list(2);
}

static void middle_lost(void)
{
	held = new_list(6);
	held->next->next = NULL;
}

static void owner_freed_lost(void)
{
	struct node *owner = new_node(new_list(3));

	free(owner);
}

static void shared_lost(void)
{
	struct node *shared = new_list(2);

	lose(new_node(shared));
	lose(new_node(shared));
}

static void shared_held(void)
{
	struct node *shared = new_list(2);

	lose(new_node(shared));
	held = new_node(shared);
}

static void half_array_lost(void)
{
	struct node **array = calloc(11, sizeof(*array));

	for (int i = 0; i < 11; i++)
		array[i] = new_node(NULL);
	for (int i = 0; i < 11; i += 2)
		array[i] = NULL;
	held = (struct node *)array;
}

static void moved_held(void)
{
	struct node *list = new_list(2);

	held = realloc(list, 4008);
}

static void *wait_with(void *list)
{
	struct node *volatile here = list;

	pause();
	return here;
}

static void thread_held(void)
{
	pthread_t id;

	pthread_create(&id, NULL, wait_with, new_list(3));
	usleep(100000);
}

/* Only the kernel has the address. LeakSanitizer does not see it. */
static void epoll_kept(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = new_list(3)};

	epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, eventfd(0, 0), &event);
	memset(&event, 0, sizeof(event));
	__asm__ volatile("" : : "r"(&event) : "memory");
}

static const struct {
	const char *name;
	void (*fn)(void);
} ways[] = {
#define WAY(name)                                                                                  \
	{                                                                                          \
#name, name                                                                        \
	}
	WAY(block_lost),       WAY(block_held),	     WAY(list_lost),	     WAY(list_held),
	WAY(long_list_lost),   WAY(circle_lost),     WAY(circle_held),	     WAY(self_lost),
	WAY(tree_lost),	       WAY(tree_held),	     WAY(inside_held),	     WAY(tagged_held),
	WAY(behind_lost),      WAY(xored_lost),	     WAY(thread_local_held), WAY(specific_held),
	WAY(overwritten_lost), WAY(middle_lost),     WAY(owner_freed_lost),  WAY(shared_lost),
	WAY(shared_held),      WAY(half_array_lost), WAY(moved_held),	     WAY(thread_held),
	WAY(epoll_kept),
};
#define N_WAYS (sizeof(ways) / sizeof(*ways))

/* Overwrites addresses that are left on the stack below the caller's frame. */
static __attribute__((noinline)) void scrub(void)
{
	volatile char bytes[65536];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = 0;
}

int main(int argc, char **argv)
{
	char input;

	for (size_t i = 0; i < N_WAYS; i++) {
		if (argc < 2)
			puts(ways[i].name);
		else if (!strcmp(argv[1], ways[i].name))
			ways[i].fn();
	}
	scrub();
	if (argc != 2)
		return 0;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	return read(STDIN_FILENO, &input, 1) < 0;
}
