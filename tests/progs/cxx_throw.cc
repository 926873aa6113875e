/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ exceptions that pass through the allocator or come from it, in --rounds N (2000):
 * std::bad_alloc from operator new, other exceptions over many frames with destructors that free,
 * virtual calls, containers, nothrow and aligned new. A return probe on a function that throws
 * kills the program. This program must end as always, with {"checksum": ...}, which depends on
 * --rounds alone. */
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "truth.h"

namespace
{

uint64_t checksum = 0xcbf29ce484222325ull;
volatile size_t huge = SIZE_MAX / 2;

void mix(uint64_t value)
{
	checksum = (checksum ^ value) * 0x100000001b3ull;
}

class Shape
{
      public:
	virtual ~Shape() = default;
	virtual uint64_t area() const = 0;
};

class Square : public Shape
{
      public:
	explicit Square(uint64_t side) : side_(side), label_(side % 40 + 1, 's')
	{
	}
	NOINLINE uint64_t area() const override
	{
		return side_ * side_ + label_.size();
	}

      private:
	uint64_t side_;
	std::string label_;
};

class Polygon : public Shape
{
      public:
	explicit Polygon(uint64_t n)
	{
		for (uint64_t i = 0; i < n; i++)
			points_.push_back(i);
	}
	NOINLINE uint64_t area() const override
	{
		return points_.size() + points_.back();
	}

      private:
	std::vector<uint64_t> points_;
};

/* The constructor throws after its member has allocated. The compiler's code frees the object and
 * the member. */
class Impossible
{
      public:
	explicit Impossible(uint64_t n) : memory_(new char[n + 1])
	{
		throw std::runtime_error(std::string("impossible ") + std::to_string(n));
	}

      private:
	std::unique_ptr<char[]> memory_;
};

struct alignas(256) Aligned {
	char bytes[256];
};

NOINLINE void new_that_throws()
{
	try {
		char *p = new char[huge];

		mix(reinterpret_cast<uintptr_t>(p));
	} catch (const std::bad_alloc &e) {
		mix(std::string(e.what()).size());
	}
}

NOINLINE void nothrow_new_that_fails()
{
	char *p = new (std::nothrow) char[huge];

	mix(p == nullptr);
	delete[] p;
}

NOINLINE uint64_t throw_below(unsigned int depth)
{
	std::vector<char> held(depth * 10 + 1, 'v');

	if (!depth)
		throw std::vector<int>(100, 7);
	return throw_below(depth - 1) + held.size();
}

NOINLINE void throw_over_frames(unsigned int depth)
{
	try {
		mix(throw_below(depth));
	} catch (const std::vector<int> &v) {
		mix(v.size() + depth);
	}
}

NOINLINE void rethrow_bad_alloc()
{
	try {
		try {
			std::string text(1000, 'x');

			delete[] new char[huge];
		} catch (...) {
			std::unique_ptr<int> other(new int(42));

			mix(static_cast<uint64_t>(*other));
			throw;
		}
	} catch (const std::bad_alloc &) {
		mix(2);
	}
}

NOINLINE void constructor_that_throws(uint64_t n)
{
	try {
		std::unique_ptr<Impossible> p(new Impossible(n));

		mix(1);
	} catch (const std::runtime_error &e) {
		mix(std::string(e.what()).size());
	}
}

NOINLINE void length_error()
{
	std::vector<char> v;

	try {
		v.reserve(huge + huge / 2);
	} catch (const std::length_error &) {
		mix(3);
	}
}

NOINLINE void virtual_calls(uint64_t n)
{
	std::vector<std::unique_ptr<Shape>> shapes;

	for (uint64_t i = 1; i <= 20; i++) {
		if ((i + n) % 2)
			shapes.emplace_back(new Square(i + n));
		else
			shapes.emplace_back(new Polygon(i));
	}
	for (const auto &shape : shapes)
		mix(shape->area());
}

NOINLINE void aligned_new()
{
	std::unique_ptr<Aligned> p(new Aligned);

	mix(reinterpret_cast<uintptr_t>(p.get()) % 256);
}

} /* namespace */

int main(int argc, char **argv)
{
	unsigned int rounds;

	truth_init(argc, argv);
	rounds = static_cast<unsigned int>(truth_number(argc, argv, "--rounds", 2000));
	truth_ready();
	for (unsigned int i = 0; i < rounds; i++) {
		new_that_throws();
		nothrow_new_that_fails();
		throw_over_frames(i % 30);
		rethrow_bad_alloc();
		constructor_that_throws(i);
		length_error();
		virtual_calls(i);
		aligned_new();
	}
	printf("{\"checksum\": \"%016" PRIx64 "\", \"rounds\": %u}\n", checksum, rounds);
	return truth_finish();
}
