/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows what registers hold along a path through code, to prove what a piece of code does.
 *
 * A value is either a known number, or an unknown value plus a known distance. After "mov 8(%rdi),
 * %rax; lea 4(%rax), %rdx", rax holds some unknown value, and rdx is known to be 4 more. If an
 * instruction computes anything else, the registers that it writes hold new unknown values. Nothing
 * is known about memory: two loads from the same place give two different unknown values. */
#ifndef MEMTRACE_ELF_FLOW_H
#define MEMTRACE_ELF_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/decode.h"
#include "elf/image.h"

/* Registers with this number (decode__register()) or a larger one keep their values across calls:
 * rbx, r12 to r15, rbp and rsp. */
#define FLOW_FIRST_PRESERVED 10
#define FLOW_NUMBER	     0 /* flow_value.id of a known number, which is in flow_value.off */

struct flow_value {
	uint32_t id;
	uint64_t off; /* distance from the unknown value, modulo 2^64 */
};

static inline bool flow_value__equal(struct flow_value a, struct flow_value b)
{
	return a.id == b.id && a.off == b.off;
}

/* Memory that an instruction reads or writes. */
struct flow_place {
	struct flow_value at; /* the address without the index */
	uint64_t vaddr;	      /* vaddr of the instruction */
	bool indexed;	      /* an unknown register times a factor is added to the address */
	/* 0: no memory is accessed, or its address cannot be described (such as %fs:8) */
	uint8_t bytes;
};

struct flow_registers {
	struct flow_value of[DECODE_RSP + 1]; /* indexed by decode__register(); index 0 is not
					       * used */
};

enum flow_next { FLOW_ON, FLOW_BRANCH, FLOW_JUMP, FLOW_END };

/* What an instruction does. */
struct flow_effect {
	struct flow_place load, store;
	struct flow_value loaded, stored; /* unknown if the instruction moves only a part
					   * of a register */
	/* the stack memory that a push or a pop accesses; it is not in `load` and `store` */
	struct flow_place pushed, popped;
	struct flow_value pushed_value, popped_value;
	/* FLOW_END: the instruction is a call, or leaves the path in another way */
	enum flow_next next;
	bool calls;	 /* the path ends with a call. target 0: it is not known which function is
			  * called */
	uint64_t target; /* target of a branch, a jump or a direct call */
	size_t len;	 /* length of the instruction, bytes */
};

struct flow {
	const struct elf_image *image;
	struct decoder decoder;
	/* Indexed by flow_value.id: the place from which the value was loaded. If its `bytes` is 0,
	 * the value was not loaded. */
	struct flow_place *origins;
	size_t n_origins;
};

/* Prepares to follow the code of image. 0 or -ENOMEM. Call flow__close() in either case. */
int flow__open(struct flow *flow, const struct elf_image *image);
void flow__close(struct flow *flow);

/* Begins a path: nothing is known of any register. forget: drops the values of earlier paths, which
 * must not be used any more. 0 or -ENOMEM. */
int flow__begin(struct flow *flow, bool forget, struct flow_registers *ret_registers);

/* Follows the instruction at vaddr: updates the registers and tells its effect. 0; -ENOEXEC when it
 * does not decode, or when the registers that it writes are not known; -ENOMEM. */
int flow__step(struct flow *flow, uint64_t vaddr, struct flow_registers *registers,
	       struct flow_effect *ret);

/* Follows a call to its return. Registers that functions preserve (System V ABI) keep their values.
 * The other registers hold new unknown values. before: the registers before the call. 0 or
 * -ENOMEM. */
int flow__return(struct flow *flow, const struct flow_registers *before,
		 struct flow_registers *registers);

/* Returns the place from which the value was loaded. Only the very value counts, not a value at a
 * known distance from it. If the value was not loaded, `bytes` is 0. */
struct flow_place flow__origin(const struct flow *flow, struct flow_value value);

/* Returns the number (decode__register()) of a register that holds this value; 0: none holds it. */
unsigned int flow__holder(const struct flow_registers *registers, struct flow_value value);

#endif
