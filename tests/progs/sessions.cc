/* SPDX-License-Identifier: BSD-2-Clause */
/* Leaks memory that only the standard library allocates: sessions, which are strings, and rows,
 * which are vectors. Runs until it is killed. */
#include <string>
#include <vector>

#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static std::vector<std::string *> *sessions = new std::vector<std::string *>;
static std::vector<std::vector<int> *> *rows = new std::vector<std::vector<int> *>;

NOINLINE static void open_session(size_t size)
{
	sessions->push_back(new std::string(size, 's'));
}

NOINLINE static void load_rows(int n)
{
	auto *loaded = new std::vector<int>;

	for (int i = 0; i < n; i++)
		loaded->push_back(i);
	rows->push_back(loaded);
}

template <class Size> struct Server {
	NOINLINE void handle_request(Size n)
	{
		open_session(4000 + n % 7);
		load_rows(300);
	}
};

int main(void)
{
	Server<size_t> server;

	for (size_t n = 0;; n++) {
		server.handle_request(n);
		usleep(1000);
	}
}
