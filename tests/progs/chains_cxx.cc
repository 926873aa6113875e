/* SPDX-License-Identifier: BSD-2-Clause */
/* Call chains of C++: virtual calls, thunks, exceptions, callbacks of the standard library. The
 * leaf is operator new, which calls malloc. Names are demangled, without parameters. */
#include "chains.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace chain
{

NOINLINE void allocate(size_t size)
{
	KEEP(::operator new(size));
}

/* --- virtual calls: each class calls the next --- */

class Visitor
{
      public:
	virtual ~Visitor() = default;
	virtual void visit(size_t size) = 0;
};

class Last : public Visitor
{
      public:
	NOINLINE void visit(size_t size) override
	{
		allocate(size);
		KEEP(this);
	}
};

class Middle : public Visitor
{
      public:
	explicit Middle(Visitor &next) : next_(next)
	{
	}
	NOINLINE void visit(size_t size) override
	{
		next_.visit(size);
		KEEP(this);
	}

      protected:
	Visitor &next_;
};

/* Its visit() calls visit() of its base class. */
class First : public Middle
{
      public:
	using Middle::Middle;
	NOINLINE void visit(size_t size) override
	{
		Middle::visit(size);
		KEEP(this);
	}
};

class Named
{
      public:
	virtual ~Named() = default;
	virtual const char *name()
	{
		return "named";
	}
};

/* Visitor is its second base class. So callers reach visit() through a thunk, which jumps to
 * visit(). */
class Both : public Named, public Visitor
{
      public:
	NOINLINE void visit(size_t size) override
	{
		allocate(size);
		KEEP(this);
	}
};

NOINLINE void call_virtual(Visitor &visitor, size_t size)
{
	visitor.visit(size);
	KEEP(&visitor);
}

/* --- exceptions --- */

class Error
{
      public:
	NOINLINE explicit Error(size_t size)
	{
		if (size)
			allocate(size);
		KEEP(this);
	}
};

/* Allocates in its destructor. */
class Guard
{
      public:
	explicit Guard(size_t size) : size_(size)
	{
	}
	NOINLINE ~Guard()
	{
		if (size_)
			allocate(size_);
		KEEP(this);
	}

      private:
	size_t size_;
};

NOINLINE void throw_error(size_t size)
{
	throw Error(size);
}

/* Each level has a Guard; only the lowest one allocates. */
NOINLINE void throw_below(int depth, size_t guard_size, size_t error_size)
{
	Guard guard(depth == 1 ? guard_size : 0);

	if (depth > 1)
		throw_below(depth - 1, guard_size, error_size);
	else
		throw_error(error_size);
	KEEP(&guard);
}

NOINLINE void catch_error(size_t guard_size, size_t error_size, size_t catch_size)
{
	try {
		throw_below(5, guard_size, error_size);
	} catch (const Error &) {
		if (catch_size)
			allocate(catch_size);
	}
	KEEP(&guard_size);
}

/* Catches an exception, allocates, throws it again. */
NOINLINE void catch_and_throw(size_t inner_size)
{
	try {
		throw_below(3, 0, 0);
	} catch (...) {
		allocate(inner_size);
		throw;
	}
}

NOINLINE void catch_again(size_t inner_size, size_t outer_size)
{
	try {
		catch_and_throw(inner_size);
	} catch (const Error &) {
		allocate(outer_size);
	}
	KEEP(&inner_size);
}

/* Its destructor throws and catches a second exception while the first unwinds the stack. */
class Catcher
{
      public:
	NOINLINE ~Catcher()
	{
		catch_error(0, 0, 20025);
		KEEP(this);
	}
};

NOINLINE void unwind_catcher()
{
	Catcher catcher;

	throw_error(0);
	KEEP(&catcher);
}

NOINLINE void catch_while_unwinding()
{
	try {
		unwind_catcher();
	} catch (const Error &) {
		KEEP(nullptr);
	}
	KEEP(nullptr);
}

NOINLINE int throwing_compare(const void *a, const void *b)
{
	KEEP(a);
	KEEP(b);
	throw_error(20027);
	return 0;
}

/* Throws an exception that passes through C code. */
NOINLINE void catch_over_qsort()
{
	int numbers[] = {3, 1, 2};

	try {
		qsort(numbers, 3, sizeof(numbers[0]), throwing_compare);
	} catch (const Error &) {
		allocate(20029);
	}
	KEEP(numbers);
}

/* --- callbacks --- */

NOINLINE bool before(int a, int b)
{
	static int calls;

	if (!calls++)
		allocate(30001);
	KEEP(&calls);
	return a < b;
}

NOINLINE void sort_numbers()
{
	std::vector<int> numbers;

	for (int i = 0; i < 40; i++)
		numbers.push_back(i * 7 % 40);
	std::sort(numbers.begin(), numbers.end(), before);
	KEEP(numbers.data());
}

struct Functor {
	NOINLINE void operator()(size_t size) const
	{
		allocate(size);
		KEEP(this);
	}
};

NOINLINE void call_function(const std::function<void(size_t)> &function, size_t size)
{
	function(size);
	KEEP(&function);
}

template <typename T> struct Holder {
	NOINLINE static void hold(size_t size)
	{
		allocate(size);
		KEEP(&size);
	}
};

} /* namespace chain */

#define LEAF "operator new", "chain::allocate"

int main()
{
	chain::Last last;
	chain::Middle middle(last);
	chain::First first(middle);
	chain::Both both;

	chains_begin();
	chain::call_virtual(first, 10001);
	declare(10001, LEAF, "chain::Last::visit", "chain::Middle::visit", "chain::Middle::visit",
		"chain::First::visit", "chain::call_virtual", "main", NULL);
	chain::call_virtual(both, 10003);
	declare(10003, LEAF, "chain::Both::visit", "chain::call_virtual", "main", NULL);
	chain::Holder<std::vector<int>>::hold(10005);
	declare(10005, LEAF, "chain::Holder<std::vector<int, std::allocator<int> > >::hold", "main",
		NULL);

	chain::catch_error(20001, 20003, 20005);
	declare(20001, LEAF, "chain::Guard::~Guard", "chain::throw_below", "chain::throw_below",
		"chain::throw_below", "chain::throw_below", "chain::throw_below",
		"chain::catch_error", "main", NULL);
	declare(20003, LEAF, "chain::Error::Error", "chain::throw_error", "chain::throw_below",
		"chain::throw_below", "chain::throw_below", "chain::throw_below",
		"chain::throw_below", "chain::catch_error", "main", NULL);
	declare(20005, LEAF, "chain::catch_error", "main", NULL);
	chain::catch_again(20021, 20023);
	declare(20021, LEAF, "chain::catch_and_throw", "chain::catch_again", "main", NULL);
	declare(20023, LEAF, "chain::catch_again", "main", NULL);
	chain::catch_while_unwinding();
	declare(20025, LEAF, "chain::catch_error", "chain::Catcher::~Catcher",
		"chain::unwind_catcher", "chain::catch_while_unwinding", "main", NULL);
	chain::catch_over_qsort();
	declare(20027, LEAF, "chain::Error::Error", "chain::throw_error", "chain::throwing_compare",
		"*", "chain::catch_over_qsort", "main", NULL);
	declare(20029, LEAF, "chain::catch_over_qsort", "main", NULL);

	chain::sort_numbers();
	declare(30001, LEAF, "chain::before", "*", "chain::sort_numbers", "main", NULL);
	chain::call_function(chain::Functor(), 30003);
	declare(30003, LEAF, "chain::Functor::operator()", "*", "chain::call_function", "main",
		NULL);
	return chains_end();
}
