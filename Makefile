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
LIBS := -lbpf -ldw -lelf -lz -lcapstone -liberty -lm
CHECK_LIBS := -lcmocka $(LIBS)
