/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of classes with virtual functions. Prints how many of each class it holds ("CLASS
 * COUNT"), then "ready", and sleeps. It also has blocks that look similar: objects without virtual
 * functions, freed objects, and blocks with a pointer to a table of functions, as in C. */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace shop
{
struct Item {
	virtual ~Item() = default;
	virtual int price() const
	{
		return 1;
	}
	long serial = 0;
};

struct Book : Item {
	int price() const override
	{
		return 2;
	}
	std::string title = "a title that does not fit into the string itself";
};

template <class T> struct Shelf : Item {
	T things[4] = {};
};

struct Left {
	virtual ~Left() = default;
	long left = 1;
};

struct Both : Left, Item {
	int price() const override
	{
		return 3;
	}
};

struct Shared : virtual Item {
	long more = 0;
};
} // namespace shop

namespace
{
struct Hidden : shop::Item {
	int price() const override
	{
		return 4;
	}
};
} // namespace

struct Plain {
	long a = 1, b = 2;
};

struct operations {
	long zero, none;
	void (*run)(void);
};

static void nothing(void)
{
}

static const operations table = {0, 0, nothing};
static std::vector<void *> held;

template <class T> static void hold(const char *name, int n)
{
	for (int i = 0; i < n; i++)
		held.push_back(new T);
	for (int i = 0; i < n / 2; i++)
		delete new T;
	if (name)
		printf("%s %d\n", name, n);
}

int main()
{
	hold<shop::Item>("shop::Item", 1000);
	hold<shop::Book>("shop::Book", 300);
	hold<shop::Shelf<double>>("shop::Shelf<double>", 70);
	hold<shop::Both>("shop::Both", 50);
	hold<shop::Shared>("shop::Shared", 40);
	hold<Hidden>("(anonymous namespace)::Hidden", 30);
	hold<Plain>(nullptr, 500);
	for (int i = 0; i < 200; i++) {
		auto **block = static_cast<void (*const **)(void)>(malloc(64));

		*block = &table.run;
		held.push_back(block);
	}
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
