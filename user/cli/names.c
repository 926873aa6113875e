// SPDX-License-Identifier: BSD-2-Clause
#include "cli/names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/in_root.h"
#include "cli/cli.h"
#include "profile/large.h"
#include "symbolize/symbolize.h"

DEFINE_CLEANUP(struct binaries *, cleanup_binaries, binaries__free)
DEFINE_CLEANUP(struct symbolizer *, cleanup_symbolizer, symbolizer__free)

/* Has the profile mappings with inodes, but no names? Without inodes, the mapped files cannot be
 * recognized. */
static bool is_raw(const struct profile *profile)
{
	bool any = false;

	for (size_t i = 0; i < profile->n_locations; i++)
		if (profile->locations[i].reason == UNRESOLVED_NAMED &&
		    !large_blocks__are_unseen(&profile->locations[i]))
			return false;
	for (size_t i = 0; i < profile->n_mappings; i++)
		any = any || profile->mappings[i].file.inode;
	return any;
}

/* Opens the file of a mapping if the file at its path still has the same inode. The device is not
 * compared: on overlayfs the list of mappings shows another device than stat(2). */
static int add_binary(struct binaries *binaries, int root_fd, const struct profile_mapping *mapping)
{
	struct binary *binary;
	struct stat st;
	int fd;

	if (mapping->perms[2] != 'x' || *mapping->path != '/' || mapping->deleted ||
	    !mapping->file.inode || binaries__find(binaries, &mapping->file))
		return 0;
	fd = in_root__open_file(root_fd, mapping->path, true, &st);
	if (fd < 0)
		return 0;
	if (st.st_ino != mapping->file.inode) {
		close(fd);
		return 0;
	}
	return binaries__add(binaries, &mapping->file, fd, root_fd, mapping->path, &binary) ==
			       -ENOMEM
		       ? -ENOMEM
		       : 0;
}

int name_raw(const char *path, struct profile *profile)
{
	_cleanup_(cleanup_binaries) struct binaries *binaries = NULL;
	_cleanup_(cleanup_symbolizer) struct symbolizer *symbolizer = NULL;
	_cleanup_close_ int root_fd = -1;
	const struct symbolize_options options = {};
	int rc;

	if (!is_raw(profile))
		return 0;
	root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	rc = root_fd < 0 ? -errno : binaries__new(&binaries);
	for (size_t i = 0; i < profile->n_mappings && !rc; i++)
		rc = add_binary(binaries, root_fd, &profile->mappings[i]);
	if (!rc)
		rc = symbolizer__new(&options, binaries, &symbolizer);
	if (!rc)
		rc = symbolizer__symbolize(symbolizer, profile, NULL, NULL);
	if (rc)
		complain("%s: cannot search for names: %s", path, strerror(-rc));
	return rc ? EXIT_FAILED : 0;
}
