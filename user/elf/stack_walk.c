// SPDX-License-Identifier: BSD-2-Clause
#include "elf/stack_walk.h"

#include "elf/unwind.h"

struct registers {
	uint64_t pc, sp, bp;
};

/* Finds where the frame ends (its CFA). False: the rule does not tell, or the stack is
 * unreadable. */
static bool find_end(const struct stack_source *source, uint32_t rule, const struct registers *r,
		     uint64_t *ret)
{
	if (UNWIND_RULE_IS_REALIGNED(rule))
		return source->word(source->ctx, r->bp - UNWIND_RULE_CFA_OFF(rule), ret);
	switch (UNWIND_RULE_KIND(rule)) {
	case UNWIND_SP:
		*ret = r->sp + UNWIND_RULE_CFA_OFF(rule);
		return true;
	case UNWIND_BP:
		*ret = r->bp + UNWIND_RULE_CFA_OFF(rule);
		return true;
	case UNWIND_PLT:
		*ret = r->sp + 8 + ((r->pc & 15) >= 11 ? 8 : 0);
		return true;
	default:
		return false;
	}
}

size_t stack_walk(const struct stack_source *source, uint64_t pc, uint64_t sp, uint64_t bp,
		  struct stack_frame *ret, size_t max)
{
	struct registers r = {pc, sp, bp};
	uint64_t end, within = pc; /* the address that is looked up. In a caller, it is inside the
				    * call instruction, because the caller's code may end with the
				    * call */
	uint32_t rule;
	size_t n = 0;

	while (n < max && source->rule(source->ctx, within, &rule) &&
	       find_end(source, rule, &r, &end) && end > r.sp &&
	       source->word(source->ctx, end - 8, &r.pc)) {
		uint64_t saved = UNWIND_RULE_IS_REALIGNED(rule)
					 ? r.bp
					 : end - 8 * (uint64_t)UNWIND_RULE_RBP_SLOT(rule);

		ret[n++] = (struct stack_frame){within, end};
		if (UNWIND_RULE_RBP_SAVED(rule) && !source->word(source->ctx, saved, &r.bp))
			break;
		r.sp = end;
		within = r.pc - 1;
	}
	return n;
}
