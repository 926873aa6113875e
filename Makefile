# SPDX-License-Identifier: BSD-2-Clause
# memtrace. One non-recursive Makefile; `make help` lists what it does.
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
# The directory of the agent's systemd unit, and the configuration file that the unit names. If
# UNITDIR is empty, no unit is installed.
UNITDIR ?= $(PREFIX)/lib/systemd/system
CONFIG  := /etc/memtrace/agent.conf
B       := build

ifeq ($(origin CC),default)
CC      := gcc
endif
CLANG   ?= clang
CLANG_TIDY ?= clang-tidy
LLVM_STRIP ?= $(or $(shell command -v llvm-strip),\
	$(firstword $(wildcard /usr/bin/llvm-strip-*)),llvm-strip)
BPFTOOL ?= $(or $(shell command -v bpftool),$(wildcard /usr/sbin/bpftool),bpftool)
PKG_CONFIG ?= pkg-config

# V=1 shows commands. DEBUG=1 builds with -O0 -g3. SAN=address,undefined builds with these
# sanitizers. COV=1 counts the lines that run.
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s %s\n'
endif

ARCH := $(shell uname -m | sed 's/x86_64/x86/;s/aarch64/arm64/')
ifneq ($(ARCH),x86)
$(error memtrace is written for x86-64; this machine is $(shell uname -m))
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
ifneq ($(WERROR),)
WARN += -Werror
endif
OPT := $(if $(filter 1,$(DEBUG)),-O0 -g3,-O2 -g)
# Targets that build everything run as many jobs as there are CPUs, unless -j gives the number.
PARALLEL = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
CPPFLAGS += -D_GNU_SOURCE -DMEMTRACE_VERSION='"$(VERSION)"' -Iuser -I. -I$(B)
# With this flag, a build has the same bytes in every directory.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=.
CFLAGS  += -std=gnu11 $(OPT) $(WARN) $(PREFIX_MAP)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
COVFLAGS := $(if $(filter 1,$(COV)),--coverage)
# The ncurses library for wide characters. pkg-config adds -ltinfo where tinfo is a separate
# library.
NCURSES_LIBS := $(or $(shell $(PKG_CONFIG) --libs ncursesw 2>/dev/null),-lncursesw)
CAPSTONE_LIBS ?= -lcapstone
LIBS := -lbpf -ldw -lelf -llzma -lz $(CAPSTONE_LIBS) -liberty $(NCURSES_LIBS) -lm
# STATIC=1: the program neither needs nor uses libraries of the system on which it runs. Names of
# users come from /etc/passwd alone, and nothing is fetched from debuginfod.
ifeq ($(STATIC),1)
CPPFLAGS += -DMEMTRACE_STATIC
LDFLAGS += -static
LIBS := $(shell $(PKG_CONFIG) --static --libs libbpf libdw capstone ncursesw) -liberty -llzma \
	-lz -lm
endif
CHECK_LIBS := -lcmocka $(LIBS)

.PHONY: all install deps build-deps demo check check-tidy check-live check-kernels kernels-table \
	check-layers check-format format check-static check-unused check-scripts check-manual \
	check-install uninstall test test-long bench leaks leaks-tables diffs diffs-tables \
	fleet-hour fleet-storm truth truth-tables help clean
all: $(B)/memtrace $(if $(STATIC),,$(B)/memtrace-web)

# --- kernel side -------------------------------------------------------------------------------
# These are BPF objects of their own, which are loaded without the maps of the other programs.
BPF_ALONE := registers files
BPF_SRC  := $(filter-out $(BPF_ALONE:%=bpf/%.bpf.c),$(wildcard bpf/*.bpf.c))
BPF_OBJ  := $(BPF_SRC:%.c=$(B)/%.o)
BPF_HDR  := $(wildcard bpf/*.h vmlinux/$(ARCH)/*.h)
# Debian and its relatives have asm/types.h here; other distributions have it in /usr/include.
MULTIARCH := $(wildcard /usr/include/$(shell uname -m)-linux-gnu)
BPF_CFLAGS := -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter \
	-fdebug-compilation-dir=. $(if $(WERROR),-Werror) -D__TARGET_ARCH_$(ARCH) \
	-Ivmlinux/$(ARCH) -Ibpf $(if $(MULTIARCH),-idirafter $(MULTIARCH))

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HDR) $(B)/flags | tools
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(B)/memtrace.bpf.o: $(BPF_OBJ)
	$(say) LINK $@
	$(Q)$(BPFTOOL) gen object $@ $^

$(B)/memtrace.skel.h: $(B)/memtrace.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name memtrace_bpf >$@

$(BPF_ALONE:%=$(B)/%.bpf.o): $(B)/%.bpf.o: $(B)/bpf/%.bpf.o
	$(say) LINK $@
	$(Q)$(BPFTOOL) gen object $@ $^

$(BPF_ALONE:%=$(B)/%.skel.h): $(B)/%.skel.h: $(B)/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

.PHONY: tools
tools:
	@for tool in $(CC) $(CLANG) $(BPFTOOL); do command -v $$tool >/dev/null || \
		{ echo "memtrace: $$tool is missing; 'sudo make build-deps' installs it" >&2; \
		exit 1; }; done

# --- user side ---------------------------------------------------------------------------------
# Rooms from the ground up. Each may use the rooms before it, but proc and elf do not use each
# other. decode reads what encode writes, and is tested with encode.
ROOMS    := base sandbox proc elf python profile encode decode symbolize heap capture ledger pace \
	session agent cli
room_src  = $(wildcard user/$(1)/*.c)
USER_SRC := $(foreach r,$(ROOMS),$(call room_src,$(r))) user/main.c
USER_OBJ := $(USER_SRC:%.c=$(B)/%.o)
room_obj  = $(patsubst %.c,$(B)/%.o,$(call room_src,$(1)))

# If the flags have changed, everything is built again.
FLAGS := $(BPF_CFLAGS) $(CC) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $(LDFLAGS)
$(shell mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $(B)/flags || \
	printf '%s\n' '$(subst ','\'',$(FLAGS))' >$(B)/flags)

# ANALYZE=1: gcc also follows the paths through each function. Four checks are off, because gcc 12
# is often wrong in them. It does not know the cleanup attribute, and does not know which values
# another function has filled in. (ASan finds leaks in the unit tests instead.)
ANALYZER := $(if $(ANALYZE),-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-null-argument \
	-Wno-analyzer-null-dereference -Wno-analyzer-use-of-uninitialized-value)

$(B)/user/%.o: user/%.c $(B)/flags | tools
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(ANALYZER) $(SANFLAGS) $(COVFLAGS) -MMD -MP -c $< -o $@

# Only capture includes the skeletons.
$(call room_obj,capture): $(B)/memtrace.skel.h $(BPF_ALONE:%=$(B)/%.skel.h)

# Style and script of the flame graph, as strings.
$(B)/encode/svg_parts.h: user/encode/svg.css user/encode/svg.js
	$(say) TEXT $@
	$(Q)mkdir -p $(@D)
	$(Q)set -e; for part in style:css script:js; do \
		echo "static const char svg_$${part%:*}[] ="; \
		sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' "user/encode/svg.$${part#*:}"; \
		echo ';'; done >$@.tmp && mv $@.tmp $@
$(foreach dir,$(B) $(B)/check $(B)/coverage $(B)/fuzz,$(dir)/user/encode/svg.o): \
	$(B)/encode/svg_parts.h

$(B)/memtrace: $(USER_OBJ)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)

# The agent's server is a separate program: it has no privileges, and memtrace contains no HTTP
# server.
WEB_SRC := $(foreach r,base proc elf profile encode decode web,$(call room_src,$(r))) \
	user/agent/feed.c user/agent/guard.c user/agent/loopback.c user/agent/packet.c
WEB_OBJ := $(WEB_SRC:%.c=$(B)/%.o)
$(B)/memtrace-web: $(WEB_OBJ)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS) -lmicrohttpd -lcurl

# Manual pages and completions, from the tables of options.
$(B)/manual: scripts/manual.c $(filter-out $(B)/user/main.o,$(USER_OBJ))
	$(say) LD $@
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)
$(B)/share/man1/memtrace.1: $(B)/manual
	$(say) MAN $(@D)
	$(Q)mkdir -p $(B)/share
	$(Q)$(B)/manual $(B)/share

SHARE = $(DESTDIR)$(PREFIX)/share
install: all $(B)/share/man1/memtrace.1
	install -D -m 755 $(B)/memtrace '$(DESTDIR)$(PREFIX)/bin/memtrace'
	install -D -m 644 -t '$(SHARE)/man/man1' $(B)/share/man1/*.1
	install -D -m 644 -t '$(SHARE)/bash-completion/completions' $(B)/share/bash/memtrace
	install -D -m 644 -t '$(SHARE)/zsh/vendor-completions' $(B)/share/zsh/_memtrace
	install -D -m 644 -t '$(SHARE)/fish/vendor_completions.d' $(B)/share/fish/memtrace.fish
	$(if $(STATIC),,$(install_agent))

# Installs the agent. An existing configuration is not replaced.
define install_agent
install -D -m 755 $(B)/memtrace-web '$(DESTDIR)$(PREFIX)/libexec/memtrace/memtrace-web'
	[ -e '$(DESTDIR)$(CONFIG)' ] || install -D -m 644 systemd/agent.conf '$(DESTDIR)$(CONFIG)'
	$(if $(UNITDIR),sed 's|^ExecStart=/usr/bin/|ExecStart=$(PREFIX)/bin/|' \
		systemd/memtrace-agent.service >$(B)/memtrace-agent.service
	install -D -m 644 $(B)/memtrace-agent.service '$(DESTDIR)$(UNITDIR)/memtrace-agent.service')
endef

# Does not remove a configuration that somebody has changed.
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/memtrace' '$(SHARE)/man/man1/memtrace.1' \
		'$(SHARE)/man/man1/'memtrace-*.1 '$(SHARE)/bash-completion/completions/memtrace' \
		'$(SHARE)/zsh/vendor-completions/_memtrace' \
		'$(SHARE)/fish/vendor_completions.d/memtrace.fish' \
		'$(DESTDIR)$(PREFIX)/libexec/memtrace/memtrace-web' \
		$(if $(UNITDIR),'$(DESTDIR)$(UNITDIR)/memtrace-agent.service')
	! cmp -s systemd/agent.conf '$(DESTDIR)$(CONFIG)' || rm '$(DESTDIR)$(CONFIG)'
	for dir in '$(DESTDIR)$(PREFIX)/libexec/memtrace' '$(DESTDIR)$(dir $(CONFIG))'; do \
		[ ! -d "$$dir" ] || rmdir --ignore-fail-on-non-empty "$$dir"; done

# Checks that `make install` installs all files that the unit needs, and that `make uninstall`
# leaves only a changed configuration.
INSTALLED := $(abspath $(B))/installed
check-install: all $(B)/share/man1/memtrace.1
	$(Q)rm -rf '$(INSTALLED)'
	$(Q)$(MAKE) -s install DESTDIR='$(INSTALLED)' PREFIX=/usr/local >/dev/null
	$(Q)set -- $$(sed -n 's/^ExecStart=//p' \
		'$(INSTALLED)/usr/local/lib/systemd/system/memtrace-agent.service') && \
		'$(INSTALLED)'"$$1" agent --help >/dev/null && [ -e '$(INSTALLED)'"$$4" ] && \
		[ -x '$(INSTALLED)/usr/local/libexec/memtrace/memtrace-web' ] || \
		{ echo "make install: what the unit starts is not there: $$*" >&2; exit 1; }
	$(Q)echo '# mine' >>'$(INSTALLED)$(CONFIG)'
	$(Q)for do in install uninstall; do \
		$(MAKE) -s $$do DESTDIR='$(INSTALLED)' PREFIX=/usr/local >/dev/null || exit 1; done
	$(Q)[ "$$(find '$(INSTALLED)' ! -type d)" = '$(INSTALLED)$(CONFIG)' ] && \
		grep -qx '# mine' '$(INSTALLED)$(CONFIG)' || \
		{ find '$(INSTALLED)' ! -type d >&2; \
		echo "make uninstall: only the changed agent.conf is to be left" >&2; exit 1; }
	$(Q)rm '$(INSTALLED)$(CONFIG)'
	$(Q)for do in install uninstall; do \
		$(MAKE) -s $$do DESTDIR='$(INSTALLED)' PREFIX=/usr/local >/dev/null || exit 1; done
	$(Q)left=$$(find '$(INSTALLED)' ! -type d -o -name '*memtrace*') && [ -z "$$left" ] || \
		{ echo "make uninstall: left: $$left" >&2; exit 1; }

check-manual: $(B)/share/man1/memtrace.1
	$(Q)mandoc -T lint -W warning $(B)/share/man1/*.1
	$(Q)shellcheck -s bash $(B)/share/bash/memtrace

# --- packages ----------------------------------------------------------------------------------
.PHONY: deb dist
# Packages are built in a copy of the tracked files. The copy includes changes that are not
# committed.
EXPORT = rm -rf '$1' && mkdir -p '$1' && git ls-files -z | tar -c --null -T - | tar -x -C '$1'
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# build/deb/memtrace_VERSION_amd64.deb, built on the distribution for which it is made
deb:
	$(Q)$(call EXPORT,$(B)/deb/memtrace-$(VERSION))
	$(Q)cd $(B)/deb/memtrace-$(VERSION) && \
		DEB_BUILD_OPTIONS=parallel=$$(nproc) dpkg-buildpackage -us -uc -b
	$(Q)if command -v lintian >/dev/null; then \
		cd $(B)/deb && lintian --fail-on error,warning memtrace_$(VERSION)_*.changes; \
	else echo "memtrace: lintian is missing; 'sudo make deps' installs it" >&2; fi

# build/dist/memtrace-VERSION-linux-x86_64.tar.gz: one static binary, for any distribution
DIST := memtrace-$(VERSION)-linux-x86_64
dist:
	$(Q)$(MAKE) all STATIC=1 B=$(B)/static
	$(Q)rm -rf $(B)/dist
	$(Q)$(MAKE) install STATIC=1 B=$(B)/static DESTDIR=$(B)/dist/$(DIST) PREFIX=
	$(Q)strip $(B)/dist/$(DIST)/bin/memtrace
	$(Q)cp -r README.md LICENSE LICENSES docs $(B)/dist/$(DIST)/
	$(Q)cd $(B)/dist && tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 \
		--numeric-owner --mode=u+rw,go+r,go-w -c $(DIST) | gzip -n9 >$(DIST).tar.gz && \
		sha256sum $(DIST).tar.gz >$(DIST).tar.gz.sha256 && cat $(DIST).tar.gz.sha256

# Tries both packages in systems where nothing else is installed, two systems at a time.
.PHONY: check-packages
check-packages: deb dist
	$(Q)printf '%s\n' 'deb bookworm' 'deb trixie' 'dist bullseye' 'dist musl' 'dist bookworm' \
		'dist trixie' | xargs -P 2 -L 1 scripts/check-packages

# docs/agent.png: the agent's page as a browser shows it, with a program that leaks
.PHONY: agent-picture
agent-picture: all progs
	$(Q)scripts/draw-agent

# --- tests -------------------------------------------------------------------------------------
PROG_C   := $(filter-out %/library.c %/refused.c %/leaking_plugin.c %/chains_step.c %/faulty.c,\
	$(wildcard tests/progs/*.c))
PROG_CC  := $(filter-out %/standin.cc,$(wildcard tests/progs/*.cc))
CHAINS   := $(foreach p,chains chains_frames chains_mixed,$p $p_static $p_static_pie) \
	$(addprefix chains_,bfd_shared gold lld lld_one lld_separate lld_huge lld_norelro \
	lld_static_pie mold mold_shared)
ALLOC_PROGS := $(foreach v,static musl musl_static,truth_basic_$v truth_sampled_$v churn_$v) \
	truth_alloc_rjem truth_alloc_google truth_alloc_google_stripped truth_alloc_python_named \
	standin_google.so standin_glibc.so churn_new churn_pool churn_rjem held_static \
	holders_lsan lost_ways_lsan
PROGS    := $(PROG_C:tests/progs/%.c=$(B)/progs/%) $(PROG_CC:tests/progs/%.cc=$(B)/progs/%) \
	$(B)/progs/truth_regions_static $(B)/progs/family_static $(B)/progs/newborn_large \
	$(B)/progs/library.so $(B)/progs/leaking_plugin.so $(B)/progs/faulty.so \
	$(B)/progs/refused_free.so $(B)/progs/refused_valloc.so $(B)/progs/chains_step.so \
	$(CHAINS:%=$(B)/progs/%) $(ALLOC_PROGS:%=$(B)/progs/%) \
	$(addprefix $(B)/progs/,go_chain go_chain_pie go_chain_stripped go_regions rust_chain \
	rust_chain_v0)
PROG_CFLAGS := -O1 -g -Wall -Wextra $(if $(WERROR),-Werror) -fno-omit-frame-pointer \
	-fno-optimize-sibling-calls -D_GNU_SOURCE -pthread
.PHONY: progs
progs: $(PROGS)

# WITH_TABLES: as distributions build, with unwind tables and without frame pointers. WITH_FRAMES:
# the opposite.
CHAINS_CFLAGS := -O2 -g -Wall -Wextra $(if $(WERROR),-Werror) -D_GNU_SOURCE -pthread
WITH_TABLES := $(CHAINS_CFLAGS) -fomit-frame-pointer -fasynchronous-unwind-tables
WITH_FRAMES := $(CHAINS_CFLAGS) -fno-omit-frame-pointer -fno-asynchronous-unwind-tables \
	-fno-unwind-tables
$(B)/progs/chains_cxx $(B)/progs/names $(B)/progs/deep $(B)/progs/newborn $(B)/progs/newborn_large \
	$(B)/progs/library.so: \
	PROG_CFLAGS := $(WITH_TABLES)

$(B)/progs/newborn_large: tests/progs/newborn.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -DFRAME=2000 $< -o $@

$(B)/progs/library.so $(B)/progs/leaking_plugin.so $(B)/progs/faulty.so: \
		$(B)/progs/%.so: tests/progs/%.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -shared -fPIC $< -o $@

$(B)/progs/refused_free.so: PROG_CFLAGS += -DREFUSE_FREE
$(B)/progs/refused_free.so $(B)/progs/refused_valloc.so: tests/progs/refused.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -shared -fPIC $< -o $@

# This library has no .eh_frame at all.
$(B)/progs/chains_step.so: tests/progs/chains_step.c $(wildcard tests/progs/chains*.h)
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WITH_FRAMES) -DSTEP_NAME=step_library -shared -fPIC -nostartfiles \
		-Wl,--no-ld-generated-unwind-info $< -o $@

# $(1): suffix of the programs' names; $(2): flags of the compiler; $(3): flags of the linker.
define chains_rules
$(B)/progs/chains$(1) $(B)/progs/chains_frames$(1): tests/progs/chains.c tests/progs/chains.h
	$$(say) CC $$@
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) -std=gnu11 $$(if $$(findstring frames,$$(@F)),$$(WITH_FRAMES),$$(WITH_TABLES)) \
		$(2) $(3) $$< -o $$@

$(B)/progs/chains_mixed$(1): tests/progs/chains_mixed.c tests/progs/chains_step.c \
		$(wildcard tests/progs/chains*.h)
	$$(say) CC $$@
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) -std=gnu11 $$(WITH_FRAMES) -DSTEP_NAME=step_frame $(2) -c $$(word 2,$$^) \
		-o $$@.frame.o
	$$(Q)$$(CC) -std=gnu11 $$(WITH_TABLES) -DSTEP_NAME=step_table -DMISLEAD $(2) $(3) \
		$$(wordlist 1,2,$$^) $$@.frame.o -o $$@
endef
$(eval $(call chains_rules,,,))
$(eval $(call chains_rules,_static,-DSTATIC -fno-pie,-static))
$(eval $(call chains_rules,_static_pie,-DSTATIC -fPIE,-static-pie))
comma := ,
# Linkers lay out segments in several ways. Segments share pages or have pages of their own.
# Read-only data lies beside the code or in a separate segment.
$(eval $(call chains_rules,_bfd_shared,,-Wl$(comma)-z$(comma)noseparate-code))
$(eval $(call chains_rules,_gold,,-fuse-ld=gold))
$(eval $(call chains_rules,_lld,,-fuse-ld=lld))
$(eval $(call chains_rules,_lld_one,,-fuse-ld=lld -Wl$(comma)--no-rosegment))
$(eval $(call chains_rules,_lld_separate,,-fuse-ld=lld -Wl$(comma)-z$(comma)separate-code))
$(eval $(call chains_rules,_lld_huge,,-fuse-ld=lld -Wl$(comma)-z$(comma)max-page-size=0x200000))
$(eval $(call chains_rules,_lld_norelro,,-fuse-ld=lld -Wl$(comma)-z$(comma)norelro))
$(eval $(call chains_rules,_lld_static_pie,-DSTATIC -fPIE,-static-pie -fuse-ld=lld))
$(eval $(call chains_rules,_mold,,-fuse-ld=mold))
$(eval $(call chains_rules,_mold_shared,,-fuse-ld=mold -Wl$(comma)-z$(comma)noseparate-code))

# The programs of tests/progs, built again with other allocators linked in.
$(B)/progs/%_static: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -static $< -o $@

MUSL_GCC := REALGCC=gcc musl-gcc
$(B)/progs/%_musl: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) MUSL $@
	$(Q)$(MUSL_GCC) -std=gnu11 $(PROG_CFLAGS) $< -o $@

$(B)/progs/%_musl_static: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) MUSL $@
	$(Q)$(MUSL_GCC) -std=gnu11 $(PROG_CFLAGS) -static $< -o $@

# Allocators that Debian does not have, built as libraries and also linked into a program.
STANDIN_CFLAGS := -O2 -g -Wall -Wextra $(if $(WERROR),-Werror) -fPIC -fno-builtin -pthread
$(B)/progs/standin_glibc.so: STANDIN_CFLAGS += -DLIKE_GLIBC -fno-semantic-interposition
$(B)/progs/standin_google.so $(B)/progs/standin_glibc.so: tests/progs/standin.cc
	$(say) CXX $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(STANDIN_CFLAGS) -shared $< -o $@

$(B)/progs/standin.o: tests/progs/standin.cc
	$(say) CXX $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(STANDIN_CFLAGS) -c $< -o $@

$(B)/progs/truth_alloc_google: tests/progs/truth_alloc_cxx.cc $(B)/progs/standin.o
	$(say) CXX $@
	$(Q)$(CXX) $(PROG_CFLAGS) $^ -o $@

$(B)/progs/truth_alloc_python_named: tests/progs/truth_alloc_python.c $(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -DNAMED -foptimize-sibling-calls $< -o $@

$(B)/progs/truth_alloc_google_stripped: $(B)/progs/truth_alloc_google
	$(say) STRIP $@
	$(Q)strip -o $@ $<

# A copy of jemalloc whose functions have other names, as in Rust's programs.
RJEM := malloc calloc realloc free posix_memalign aligned_alloc memalign valloc \
	malloc_usable_size mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl
$(B)/progs/rjem.a: $(wildcard /usr/lib/$(shell uname -m)-linux-gnu/libjemalloc_pic.a)
	$(say) OBJCOPY $@
	$(Q)mkdir -p $(@D)
	$(Q)objcopy $(foreach f,$(RJEM),--redefine-sym $f=_rjem_$f) $< $@

$(B)/progs/truth_alloc_rjem: tests/progs/truth_alloc_jemalloc.c $(B)/progs/rjem.a \
		$(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -DPREFIX=_rjem_ $< $(B)/progs/rjem.a -lm -ldl -o $@

# The loop of churn.c with other functions that allocate and free.
$(B)/progs/churn_new: CHURN_FLAGS := -DALLOC=_Znwm -DFREE=_ZdlPv
$(B)/progs/churn_pool: CHURN_FLAGS := -DPOOL
$(B)/progs/churn_rjem: CHURN_FLAGS := -DALLOC=_rjem_malloc -DFREE=_rjem_free
$(B)/progs/churn_rjem: $(B)/progs/rjem.a
$(B)/progs/churn_new $(B)/progs/churn_pool $(B)/progs/churn_rjem: tests/progs/churn.c \
		$(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) $(CHURN_FLAGS) $(filter %.c %.a,$^) -o $@ \
		-lstdc++ -lm -ldl

# LeakSanitizer reports lost blocks when the program ends.
$(B)/progs/%_lsan: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -fsanitize=leak $< -o $@

$(B)/progs/truth_alloc_jemalloc: PROG_LIBS := -ljemalloc
$(B)/progs/reporter: PROG_LIBS := -lm

$(B)/progs/%: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) $< -o $@ $(PROG_LIBS)

$(B)/progs/%: tests/progs/%.cc $(wildcard tests/progs/*.h)
	$(say) CXX $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(PROG_CFLAGS) $< -o $@

# Debian's compilers are used, even if others are installed. Nothing is fetched, and no file is left
# outside of $(B).
GO    := /usr/bin/go
RUSTC := /usr/bin/rustc
$(B)/progs/go_chain_pie: GO_FLAGS := -buildmode=pie
$(B)/progs/go_chain_stripped: GO_FLAGS := -ldflags=-s
$(B)/progs/go_chain $(B)/progs/go_chain_pie $(B)/progs/go_chain_stripped: tests/progs/go_chain.go
$(B)/progs/go_regions: tests/progs/go_regions.go
$(B)/progs/go_chain $(B)/progs/go_chain_pie $(B)/progs/go_chain_stripped $(B)/progs/go_regions:
	$(say) GO $@
	$(Q)mkdir -p $(@D)
	$(Q)CC=gcc CGO_ENABLED=1 GO111MODULE=off GOFLAGS= GOPROXY=off GOENV=off GOTOOLCHAIN=local \
		GOPATH='$(abspath $(B))/go' GOCACHE='$(abspath $(B))/go/cache' \
		$(GO) build $(GO_FLAGS) -o $@ $<

$(B)/progs/rust_chain_v0: RUST_FLAGS := -C symbol-mangling-version=v0 --cfg v0
$(B)/progs/rust_chain $(B)/progs/rust_chain_v0: tests/progs/rust_chain.rs
	$(say) RUSTC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(RUSTC) --edition 2021 --crate-name rust_chain -O -g $(RUST_FLAGS) -o $@ $<

# Unit tests: tests/unit/ROOM/test_*.c is linked only with its room and the rooms below that room.
# So a room that needs a room above it fails to link. Sanitizers are always on.
CHECK_B   := $(B)/$(if $(COVFLAGS),coverage,check)
# -O0 halves the time to compile. Tests of rooms that compute much run in half the time at -O1. At
# -O1 nothing is inlined either, because scripts/check-unused needs every function.
CHECK_OPT := -O0
CHECK_CFLAGS = -std=gnu11 $(CHECK_OPT) -g $(WARN) -fsanitize=address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer -ffunction-sections $(COVFLAGS)
CHECK_LD  := $(if $(shell command -v mold),-fuse-ld=mold)
UNIT_SRC  := $(wildcard tests/unit/*/test_*.c tests/bpf/test_*.c)
UNIT_BIN  := $(UNIT_SRC:tests/%.c=$(CHECK_B)/%)

# Objects of $(1) and of the rooms below it; proc and elf do not see each other.
upto      = $(if $(filter $(1),$(firstword $(2))),$(1),$(firstword $(2)) \
	$(call upto,$(1),$(wordlist 2,99,$(2))))
rooms_for = $(filter-out $(if $(filter proc,$(1)),elf) $(if $(filter elf,$(1)),proc),\
	$(call upto,$(1),$(ROOMS)))
check_obj = $(foreach r,$(call rooms_for,$(1)),$(patsubst %.c,$(CHECK_B)/%.o,$(call room_src,$(r))))

$(foreach r,base elf profile encode,$(patsubst %.c,$(CHECK_B)/%.o,$(call room_src,$(r)))): \
	CHECK_OPT := -O1 -fno-inline

$(CHECK_B)/user/%.o: user/%.c | tools
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CHECK_CFLAGS) -MMD -MP -c $< -o $@

# With --coverage, gcc makes the program write its counts of lines before each execvp(). In a
# sandbox gcc's code cannot write, and its error message would be taken for one of curl.
$(CHECK_B)/user/cli/fetch.o: CHECK_OPT := -O0 $(if $(COVFLAGS),-fno-builtin-execvp)

$(patsubst %.c,$(CHECK_B)/%.o,$(call room_src,capture)): $(B)/memtrace.skel.h \
	$(BPF_ALONE:%=$(B)/%.skel.h)

define unit_rules
$(CHECK_B)/unit/$(1)/%: tests/unit/$(1)/%.c $$(wildcard tests/unit/$(1)/*.h) $$(call check_obj,$(1))
	$$(say) LD $$@
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CHECK_CFLAGS) $$(CHECK_LD) $$(UNIT_FLAGS) $$< \
		$$(call check_obj,$(1)) -o $$@ $$(CHECK_LIBS)

# tests/unit/failing.h: allocations that fail
$(CHECK_B)/unit/$(1)/test_no_memory: tests/unit/failing.h
$(CHECK_B)/unit/$(1)/test_no_memory: UNIT_FLAGS := $(foreach f,$(FAILING),-Wl,--wrap=$(f))
endef
FAILING := malloc calloc realloc reallocarray strdup strndup open_memstream asprintf vasprintf
$(foreach r,$(ROOMS),$(eval $(call unit_rules,$(r))))

WEB_CHECK_OBJ := $(patsubst %.c,$(CHECK_B)/%.o,$(filter-out user/web/main.c,$(WEB_SRC)))
$(CHECK_B)/unit/web/%: tests/unit/web/%.c $(wildcard tests/unit/encode/*.h) $(WEB_CHECK_OBJ)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CHECK_CFLAGS) $(CHECK_LD) $(UNIT_FLAGS) $< $(WEB_CHECK_OBJ) -o $@ \
		$(CHECK_LIBS) -lcurl

$(CHECK_B)/unit/web/test_no_memory: tests/unit/failing.h
$(CHECK_B)/unit/web/test_no_memory: UNIT_FLAGS := $(foreach f,$(FAILING),-Wl,--wrap=$(f))

# The test replaces the disk by one that may hang.
$(CHECK_B)/unit/agent/test_spool: UNIT_FLAGS := -Wl,--wrap=spool_dir__open,--wrap=fsync,--wrap=flock
# The test replaces functions of the room capture.
$(CHECK_B)/unit/session/test_targets $(CHECK_B)/unit/session/test_sweep: UNIT_FLAGS := $(foreach f,\
	allocators__find capture__attach capture__probes capture__probes_file \
	capture__real_file capture__misses_probes guard__wait \
	capture__set_mappings capture__put_tables capture__forget_mappings capture__drop_process \
	capture__process_of capture__processes capture__counters capture__events,-Wl,--wrap=$(f))
$(CHECK_B)/unit/session/test_region_calls: UNIT_FLAGS := \
	-Wl,--wrap=capture__detach_region_syscalls
$(CHECK_B)/unit/session/test_profiles: UNIT_FLAGS := $(foreach f,capture__drain capture__counters \
	capture__missed_runs capture__processes_refused capture__borrowers_lost \
	capture__tables_refused capture__unwinding_refused capture__beat build__profile,\
	-Wl,--wrap=$(f))
$(CHECK_B)/unit/session/test_patched: UNIT_FLAGS := $(foreach f,capture__probes \
	capture__probes_file capture__refusals capture__allow process__each \
	region_source__patched_in region_calls__stop,-Wl,--wrap=$(f))
$(CHECK_B)/unit/session/test_files: UNIT_FLAGS := \
	-Wl,--wrap=capture__release,--wrap=capture__is_releasing \
	-Wl,--wrap=capture__probes_file,--wrap=capture__refuse
$(CHECK_B)/unit/session/test_borrowers: UNIT_FLAGS := $(foreach f,capture__borrowers \
	capture__borrowers_changes capture__kind,-Wl,--wrap=$(f))
# The test replaces the kernel's tables.
$(CHECK_B)/unit/capture/test_retire: UNIT_FLAGS := $(foreach f,capture__read_table \
	bpf_map_lookup_elem bpf_map_delete_elem bpf_map__fd bpf_map__max_entries capture__pausing,\
	-Wl,--wrap=$(f))
$(CHECK_B)/unit/capture/test_tables: UNIT_FLAGS := $(foreach f,bpf_map_lookup_elem \
	bpf_map_delete_elem bpf_map__fd,-Wl,--wrap=$(f))
$(CHECK_B)/unit/capture/test_verdicts: UNIT_FLAGS := $(foreach f,bpf_map__update_elem \
	bpf_map__get_next_key bpf_map__delete_elem bpf_map__max_entries,-Wl,--wrap=$(f))
$(CHECK_B)/unit/capture/test_unwind: UNIT_FLAGS := $(foreach f,bpf_map__fd bpf_map__update_elem \
	bpf_map_create bpf_map_update_elem bpf_map_update_batch keeper__beat unwind_table__build,\
	-Wl,--wrap=$(f))
# The tests let one step fail.
$(CHECK_B)/unit/capture/test_region_probes: UNIT_FLAGS := -Wl,--wrap=shield__run
$(CHECK_B)/unit/capture/test_patch: UNIT_FLAGS := -Wl,--wrap=memory__read_all
$(CHECK_B)/unit/capture/test_no_memory: UNIT_FLAGS += -Wl,--wrap=unwind_table__build
# The test replaces the limits of the system.
$(CHECK_B)/unit/session/test_open: UNIT_FLAGS := -Wl,--wrap=getrlimit,--wrap=setrlimit
$(CHECK_B)/unit/session/test_selection: UNIT_FLAGS := $(foreach f,capture__judge_program \
	capture__add_process capture__release_process capture__drop_process \
	targets__welcome,-Wl,--wrap=$(f))

# The tests replace the child of each scan.
$(CHECK_B)/unit/heap/test_search $(CHECK_B)/unit/heap/test_census_child \
	$(CHECK_B)/unit/heap/test_large: UNIT_FLAGS := $(foreach f,\
	scan__start scan__stream scan__end,-Wl,--wrap=$(f))

# Headers of the kernel side (bpf/*.bpf.h), compiled for the host.
$(CHECK_B)/bpf/%: tests/bpf/%.c $(wildcard tests/bpf/*.h) $(BPF_HDR)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Ibpf $(CHECK_CFLAGS) $(CHECK_LD) $< -o $@ -lcmocka -lm

$(CHECK_B)/golden/%: tests/golden/%.c $(wildcard tests/unit/encode/*.h) $(call check_obj,encode)
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CHECK_CFLAGS) $(CHECK_LD) $< $(call check_obj,encode) -o $@ \
		$(CHECK_LIBS)

# Fuzz targets: each is one file tests/fuzz/fuzz_NAME.c with a corpus in tests/fuzz/corpus/NAME.
# `make check` runs each target on its corpus; `make fuzz` looks for more inputs.
FUZZ_B     := $(B)/fuzz
FUZZ_S     ?= 20
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_RUN   := $(or $(FUZZ),$(FUZZ_NAMES))
FUZZ_DEPS  := $(wildcard tests/fuzz/*.h) $(BPF_HDR)
FUZZ_CFLAGS := -std=gnu11 -O1 -g $(WARN) -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
fuzz_src   := $(foreach r,$(call rooms_for,heap),$(call room_src,$(r))) user/agent/feed.c \
	user/agent/packet.c $(filter-out user/web/main.c,$(call room_src,web)) \
	user/cli/agent_config.c user/cli/cli.c
fuzz_obj   := $(fuzz_src:%.c=$(FUZZ_B)/%.o)

%/fuzz/rooms.a:
	$(say) AR $@
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^
$(CHECK_B)/fuzz/rooms.a: $(fuzz_src:%.c=$(CHECK_B)/%.o)
$(FUZZ_B)/rooms.a: $(fuzz_obj)

$(CHECK_B)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(CHECK_B)/fuzz/rooms.a $(FUZZ_DEPS)
	$(say) LD $@
	$(Q)$(CC) $(CPPFLAGS) -Ibpf $(CHECK_CFLAGS) $(CHECK_LD) $(filter %.c %.a,$^) -o $@ \
		$(LIBS) -lcurl

$(FUZZ_B)/user/%.o: user/%.c | tools
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(FUZZ_B)/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_B)/rooms.a $(FUZZ_DEPS)
	$(say) LD $@
	$(Q)$(CLANG) $(CPPFLAGS) -Ibpf $(FUZZ_CFLAGS) -fsanitize=fuzzer $(filter %.c %.a,$^) -o $@ \
		$(LIBS) -lcurl

.PHONY: fuzz
fuzz: $(FUZZ_RUN:%=$(FUZZ_B)/fuzz_%)
	$(Q)tests/fuzz/run.sh $(FUZZ_B) $(FUZZ_S) $(FUZZ_RUN)

BENCH_BIN := $(patsubst tests/%.c,$(B)/%,$(wildcard tests/bench/*.c))
check: $(UNIT_BIN) $(BENCH_BIN) $(CHECK_B)/golden/emit $(FUZZ_NAMES:%=$(CHECK_B)/fuzz/fuzz_%) \
		check-layers check-format check-static check-unused check-scripts check-manual \
		check-install
	$(Q)scripts/run-tests $(UNIT_BIN) 'tests/golden/check.sh $(CHECK_B)/golden/emit' \
		'python3 tests/truth/check_judge.py' \
		$(foreach n,$(FUZZ_NAMES),'$(CHECK_B)/fuzz/fuzz_$(n) tests/fuzz/corpus/$(n)')
	$(if $(COVFLAGS),$(Q)scripts/coverage $(CHECK_B))

check-layers:
	$(Q)scripts/check-layers

check-format:
	$(Q)scripts/check-format

format:
	$(Q)scripts/check-format --fix

# Finds faults of which compilers do not warn. .cppcheck lists the checks that are off, and why.
check-static:
	$(Q)cppcheck --enable=warning,performance,portability --std=c11 -D__x86_64__ -Iuser -Ibpf \
		-q '-DLIBBPF_OPTS(type,name,...)=struct type name = {0}' \
		--suppressions-list=.cppcheck --error-exitcode=1 user

check-unused: $(patsubst %.c,$(CHECK_B)/%.o,$(USER_SRC) $(WEB_SRC))
	$(Q)scripts/check-unused $(CHECK_B)

# Finds faults that neither gcc nor cppcheck report: clang's own warnings, and the checks that
# .clang-tidy lists.
check-tidy: $(B)/memtrace
	$(Q)printf '%s\n' $(sort $(USER_SRC) $(WEB_SRC)) | \
		xargs -P $$(nproc) -n 8 $(CLANG_TIDY) --quiet \
		$(patsubst %,--extra-arg=%,$(filter-out -Werror,$(WARN))) 2>$(B)/tidy.err

check-scripts:
	$(Q)shellcheck -x $(shell grep -lE '^#!.*\b(sh|bash)$$' scripts/* tests/*/* .ci/run \
		2>/dev/null)
	$(Q)scripts/check-docs
	$(Q)scripts/check-service
	$(Q)scripts/kernels-table --check

# Real probes in real processes: needs root. Each kind of probe that this kernel has is tested.
check-live: all progs $(CHECK_B)/golden/emit_svg
	$(Q)scripts/fetch-speedscope $(B)/speedscope || true # if this fails, the test reports it
	$(Q)scripts/fetch-libcs $(B)/libcs || true
	$(Q)python3 tests/live/run.py $(LIVE)

# Runs the most important live tests in virtual machines with Debian 12's kernels 6.1 and 6.12.
# Needs no root, but a network to fetch the kernels once. Fails if something is missing.
check-kernels: $(B)/memtrace progs
	$(Q)tests/kernels/run.sh

# Runs a few of the live tests for as long as you want (root): N moments, or MINUTES of the storm.
# In check-live these tests take seconds.
moments: $(B)/memtrace progs
	$(Q)MEMTRACE_MOMENTS=$(or $(N),1000) MEMTRACE_TEST_S=0 python3 tests/live/run.py moments

storm: $(B)/memtrace progs
	$(Q)MEMTRACE_STORM_S=$$((60 * $(or $(MINUTES),30))) \
		python3 tests/live/run.py storm_everywhere

# Long tests of the agent (root). fleet-hour: a Prometheus with the alerts of examples/ scrapes an
# agent. fleet-storm: 100,000 programs start and end while an agent traces them.
fleet-hour fleet-storm: $(B)/memtrace $(B)/memtrace-web progs
	$(Q)python3 tests/fleet/$(@:fleet-%=%).py \
		$(foreach o,MINUTES QUIET_MINUTES LEAK PROGRAMS BATCHES RATE,$(if $($o),'$o=$($o)'))

# Which test runs on which kernel: the table of docs/kernels-tests.md.
kernels-table:
	$(Q)scripts/kernels-table

test: deps
	$(Q)$(MAKE) $(PARALLEL) all progs
	$(Q)$(MAKE) $(PARALLEL) check
	$(Q)$(MAKE) check-live LIVE=-s

test-long: deps
	$(Q)$(MAKE) $(PARALLEL) all progs
	$(Q)$(MAKE) check-live LIVE=-S
	$(Q)$(MAKE) check-kernels
	$(Q)$(MAKE) check-packages

bench: $(B)/memtrace progs $(BENCH_BIN)
	$(Q)python3 tests/bench/bench.py $(if $(ONLY),--only $(ONLY)) \
		$(if $(MARKDOWN),--markdown $(MARKDOWN))

$(B)/bench/%: tests/bench/%.c $(foreach r,$(call rooms_for,capture),$(call room_obj,$(r)))
	$(say) LD $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $^ -o $@ $(LIBS)

# Does memtrace find leaks? Takes hours. A run that build/leaks/results.jsonl already has is not
# repeated.
leaks: $(B)/memtrace $(B)/progs/leaking $(B)/progs/leaking_plugin.so
	$(Q)python3 tests/leaks/leaks.py \
		$(foreach o,ONLY METHODS RUNS SECONDS JOBS RESULTS,$(if $($o),$o=$($o)))

# Does memtrace diff find leaks? Works like `leaks`. The results are in build/leaks/diffs.jsonl.
diffs: $(B)/memtrace $(B)/progs/leaking
	$(Q)python3 tests/leaks/diffs.py \
		$(foreach o,ONLY PAIRS SECONDS EVERY JOBS RESULTS,$(if $($o),$o=$($o)))

diffs-tables:
	$(Q)python3 tests/leaks/diffs.py $(if $(RESULTS),RESULTS=$(RESULTS)) tables

leaks-tables:
	$(Q)python3 tests/leaks/leaks.py $(if $(RESULTS),RESULTS=$(RESULTS)) tables

# Compares memtrace's output, made with default options, to the truth. Takes hours; results are in
# build/truth/results.jsonl.
LIVES := $(B)/truth/lives $(B)/truth/lives_musl_static
$(LIVES): tests/truth/lives.c tests/progs/truth.h
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(if $(findstring musl,$@),$(MUSL_GCC) -static,$(CC)) -std=gnu11 $(PROG_CFLAGS) \
		-Itests/progs $< -o $@
$(B)/truth/shim.so: tests/truth/shim.c
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) -shared -fPIC $< -o $@
progs: $(LIVES) $(B)/truth/shim.so

truth: $(B)/memtrace $(LIVES) $(B)/truth/shim.so
	$(Q)python3 tests/truth/truth.py \
		$(foreach o,SET ONLY RUNS SECONDS JOBS RESULTS,$(if $($o),'$o=$($o)')) \
		$(if $(MEMTRACE),--memtrace '$(MEMTRACE)')

truth-tables:
	$(Q)python3 tests/truth/truth.py $(foreach o,COMMIT RESULTS,$(if $($o),'$o=$($o)')) tables

deps:
	$(Q)scripts/install-deps

build-deps:
	$(Q)scripts/install-deps --build

demo: build-deps
	$(Q)$(MAKE) $(PARALLEL) all $(B)/progs/leaky
	$(Q)scripts/demo

help:
	@printf '%s\n' \
	'make              build/memtrace, one binary with the BPF programs inside' \
	'make install      into PREFIX (/usr/local), below DESTDIR' \
	'make deb          build/deb/memtrace_$(VERSION)_amd64.deb, for the distribution it is' \
	'                  built on' \
	'make dist         build/dist/$(DIST).tar.gz: a static binary, for any' \
	'make check-packages  both in fresh Debians and beside musl (root)' \
	'make build-deps   install the Debian packages that building needs (root)' \
	'make deps         and those that testing needs: servers, tools to compare with (root)' \
	'make demo         build-deps, build, and profile a leaking program (root)' \
	'make check        unit tests and the corpora of the fuzzers with ASan and UBSan (no' \
	'                  root)' \
	'make fuzz         each parser by libFuzzer for FUZZ_S seconds (20); FUZZ=name: that one' \
	'make format       C, C++ and headers as .clang-format says' \
	'make check-tidy   what clang-tidy says of user/' \
	'make check-live   tests with real probes in real processes (root); LIVE="-v PATTERN" of' \
	'                  them' \
	'make check-kernels  the core on Debian 12 kernels 6.1 and 6.12, in qemu' \
	'make moments      something happens to memtrace or its target at each of N (1000) random' \
	'                  moments (root)' \
	'make storm        -a for MINUTES (30) among fifty programs a second (root)' \
	'make kernels-table  docs/kernels-tests.md: which of these tests runs on which kernel' \
	'make test         deps, build, check, and the short ones of check-live (root)' \
	'make test-long    the others, which repeat much or take long, check-kernels and' \
	'                  check-packages (root)' \
	'make agent-picture  draw docs/agent.png anew (root, needs chromium)' \
	'make bench        what tracing costs, beside other tools (root); ONLY=tables,... parts' \
	'                  of it, MARKDOWN=FILE the tables there, too' \
	'make leaks        does it find them, how surely, at what cost: hours (root);' \
	'                  ONLY=churn,... RUNS=20 SECONDS=60 METHODS=windowed,continuous,faults' \
	'                  JOBS=1' \
	'make leaks-tables docs/leaks.md from what make leaks has measured' \
	'make truth        are the numbers of the defaults right: hours (root); SET=develop,judge' \
	'                  ONLY=redis_*,... RUNS=4 SECONDS=40 JOBS=1 MEMTRACE=PATH of another' \
	'                  binary' \
	'make truth-tables the tables of docs/windows.md from what make truth has measured' \
	'make diffs        how often memtrace diff is right, of pairs of runs and of snapshots:' \
	'                  an hour or two (root); ONLY=store,cache,connections,leak PAIRS=100' \
	'                  SECONDS=8 EVERY=30 JOBS=1' \
	'make diffs-tables docs/diff.md from what make diffs has measured' \
	'make clean' \
	'' \
	'V=1 shows commands, DEBUG=1 builds -O0, SAN=address,undefined instruments, COV=1 counts' \
	'lines: make COV=1 check, WERROR=1 makes warnings errors, ANALYZE=1 runs the analyzer of' \
	'gcc, CC=clang compiles with clang.'

clean:
	rm -rf $(B)

-include $(sort $(USER_OBJ:.o=.d) $(WEB_OBJ:.o=.d) \
	$(patsubst %.c,$(CHECK_B)/%.d,$(USER_SRC) $(WEB_SRC)) $(fuzz_obj:.o=.d))
