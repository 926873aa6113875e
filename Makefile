# SPDX-License-Identifier: BSD-2-Clause
# memtrace. One non-recursive Makefile; `make help` lists what it does.
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.SUFFIXES:

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
B       := build

ifeq ($(origin CC),default)
CC      := gcc
endif
CLANG   ?= clang
LLVM_STRIP ?= $(or $(shell command -v llvm-strip),$(firstword $(wildcard /usr/bin/llvm-strip-*)),llvm-strip)
BPFTOOL ?= $(or $(shell command -v bpftool),$(wildcard /usr/sbin/bpftool),bpftool)
PKG_CONFIG ?= pkg-config

# V=1 shows commands; DEBUG=1 builds -O0 -g3; SAN=address,undefined instruments; COV=1 counts lines.
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
CPPFLAGS += -D_GNU_SOURCE -DMEMTRACE_VERSION='"$(VERSION)"' -Iuser -I. -I$(B)
CFLAGS  += -std=gnu11 $(OPT) $(WARN)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
COVFLAGS := $(if $(filter 1,$(COV)),--coverage)
LIBS := -lbpf -ldw -lelf -llzma -lz -lcapstone -liberty -lm
CHECK_LIBS := -lcmocka $(LIBS)

.PHONY: all install deps demo check check-live check-layers check-scripts test bench help clean
all: $(B)/memtrace

# --- kernel side -------------------------------------------------------------------------------
BPF_SRC  := $(wildcard bpf/*.bpf.c)
BPF_OBJ  := $(BPF_SRC:%.c=$(B)/%.o)
BPF_HDR  := $(wildcard bpf/*.h vmlinux/$(ARCH)/*.h)
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
BPF_CFLAGS := -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter \
	$(if $(WERROR),-Werror) -D__TARGET_ARCH_$(ARCH) -Ivmlinux/$(ARCH) -Ibpf \
	$(if $(MULTIARCH),-idirafter /usr/include/$(MULTIARCH))

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HDR) | tools
	$(say) BPF $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(B)/memtrace.bpf.o: $(BPF_OBJ)
	$(say) LINK $@
	$(Q)$(BPFTOOL) gen object $@ $^

$(B)/memtrace.skel.h: $(B)/memtrace.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name memtrace_bpf >$@

.PHONY: tools
tools:
	@for tool in $(CC) $(CLANG) $(BPFTOOL); do command -v $$tool >/dev/null || \
		{ echo "memtrace: $$tool is missing; 'sudo make deps' installs it" >&2; exit 1; }; done

# --- user side ---------------------------------------------------------------------------------
# Rooms from the ground up: each may use those before it (proc and elf are siblings).
ROOMS    := base proc elf profile encode symbolize capture session cli
room_src  = $(wildcard user/$(1)/*.c)
USER_SRC := $(foreach r,$(ROOMS),$(call room_src,$(r))) user/main.c
USER_OBJ := $(USER_SRC:%.c=$(B)/%.o)
room_obj  = $(patsubst %.c,$(B)/%.o,$(call room_src,$(1)))

$(B)/user/%.o: user/%.c | tools
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) -MMD -MP -c $< -o $@

# The skeleton is included by capture only.
$(call room_obj,capture): $(B)/memtrace.skel.h

$(B)/memtrace: $(USER_OBJ)
	$(say) LD $@
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) $(COVFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)

install: $(B)/memtrace
	install -D -m 755 $(B)/memtrace $(DESTDIR)$(PREFIX)/bin/memtrace

# --- tests -------------------------------------------------------------------------------------
PROG_C   := $(filter-out %/truth.h,$(wildcard tests/progs/*.c))
PROG_CC  := $(wildcard tests/progs/*.cc)
PROGS    := $(PROG_C:tests/progs/%.c=$(B)/progs/%) $(PROG_CC:tests/progs/%.cc=$(B)/progs/%)
PROG_CFLAGS := -O1 -g -Wall -Wextra $(if $(WERROR),-Werror) -fno-omit-frame-pointer \
	-fno-optimize-sibling-calls -D_GNU_SOURCE -pthread
.PHONY: progs
progs: $(PROGS)

$(B)/progs/%: tests/progs/%.c $(wildcard tests/progs/*.h)
	$(say) CC $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(PROG_CFLAGS) $< -o $@

$(B)/progs/%: tests/progs/%.cc $(wildcard tests/progs/*.h)
	$(say) CXX $@
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) $(PROG_CFLAGS) $< -o $@

clean:
	rm -rf $(B)

-include $(USER_OBJ:.o=.d)
