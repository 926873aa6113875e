// SPDX-License-Identifier: BSD-2-Clause
/* Before CPython 3.11 no variable tells the version. But each type declares which fields of its
 * objects Python code may read, with the names and offsets of these fields. So the types in the
 * process show whether a layout is right. */
#include "python/python.h"

#include <errno.h>
#include <string.h>

#include "proc/memory.h"
#include "python/word.h"

/* Offsets of tp_basicsize and tp_members in PyTypeObject. tp_members is an array; each element has
 * a name and, at MEMBER_OFF, an offset. */
#define TYPE_SIZE    32
#define TYPE_MEMBERS 240
#define TYPE_HEAD    248
#define MEMBER_OFF   16
#define MEMBER_BYTES 40
#define MEMBER_NAME  20
#define MAX_MEMBERS  24

/* Do objects of the type at addr have `size` bytes, and these fields? 0: yes; -ENOENT: no; -EAGAIN:
 * the loader has not filled in the type's pointers yet; other negative errno. */
static int check_type(pid_t pid, uint64_t addr, uint64_t size,
		      const struct python_member wanted[PYTHON_MEMBERS])
{
	unsigned char type[TYPE_HEAD], members[MAX_MEMBERS * MEMBER_BYTES];
	char names[MAX_MEMBERS][MEMBER_NAME] = {};
	struct memory_read reads[MAX_MEMBERS];
	size_t n = 0, found = 0;
	int rc = memory__read(pid, addr, type, sizeof(type));

	if (rc)
		return rc;
	if (python__word(type, TYPE_SIZE) != size)
		return -ENOENT;
	if (!python__word(type, TYPE_MEMBERS))
		return -EAGAIN;
	rc = memory__read(pid, python__word(type, TYPE_MEMBERS), members, sizeof(members));
	if (rc)
		return rc == -EFAULT ? -EAGAIN : rc; /* the loader has not relocated the pointer
						      * yet */
	while (n < MAX_MEMBERS && python__word(members, n * MEMBER_BYTES)) {
		reads[n] = (struct memory_read){python__word(members, n * MEMBER_BYTES), names[n],
						MEMBER_NAME - 1, false};
		n++;
	}
	if (!n)
		return -EAGAIN;
	rc = memory__read_all(pid, reads, n);
	if (rc)
		return rc;
	for (size_t w = 0; w < PYTHON_MEMBERS && wanted[w].name; w++) {
		for (size_t i = 0; i < n; i++) {
			if (!reads[i].ok)
				return -EAGAIN;
			if (!strcmp(names[i], wanted[w].name))
				found += python__word(members, i * MEMBER_BYTES + MEMBER_OFF) ==
					 wanted[w].off;
		}
		if (found != w + 1)
			return -ENOENT;
	}
	return 0;
}

int python_layout__check(const struct python_layout *layout, pid_t pid, uint64_t frame_type,
			 uint64_t code_type)
{
	int rc = check_type(pid, frame_type, layout->frame_size, layout->frame_members);

	return rc ?: check_type(pid, code_type, layout->code_size, layout->code_members);
}
