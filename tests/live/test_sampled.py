# SPDX-License-Identifier: BSD-2-Clause
"""At -i 64K the numbers are estimates: they must be unbiased, and their intervals honest.

A draw is one function of truth_sampled in one run: its blocks are chosen by the target's seed, its
samples by the kernel's random numbers, independently of every other draw. A series of draws fails

 - when the truth lies outside the printed interval in more than 10 % of the printed draws. The
   interval is one of 95 %: of 300 draws 285 contain the truth, with a standard deviation of 3.8,
   and fewer than 270 do with a probability of 2e-4 (binomial);
 - when the mean of (estimate - truth) / truth is further from zero than three of its standard
   errors: 3e-3 for an unbiased one. A function without a sample counts as an estimate of 0:
   leaving it out would be a bias of the test's own.

That is too often for a test that runs every day, so a series that fails is followed by a second,
independent one, and only two failures are a failure: 1e-5. An error of the implementation is in
both."""
import math

from harness import by_function, expect, losses, test, test_each_kind, trace_script

INTERVAL = "64K"


class Series:
    def __init__(self):
        self.errors, self.printed, self.inside = [], 0, 0

    def run(self, kind, seed, scale):
        truth, profile, _ = trace_script(kind, "truth_sampled", "--seed", str(seed), "--scale",
                                         str(scale), options=("-i", INTERVAL))
        lost = losses(profile)
        expect(not lost, "losses:", lost)
        functions = truth["functions"]
        held = by_function(profile, functions)
        expect(None not in held, "stacks of nobody:", held.get(None))
        for name, wanted in functions.items():
            estimate, _, stacks = held.get(name, (0, 0, []))
            self.errors.append(estimate / wanted["live_bytes"] - 1)
            # hold_11 is called from two places, and what each holds is not in the books
            if len(stacks) == 1 and name != "hold_11":
                self.printed += 1
                self.inside += (stacks[0]["live_bytes_low"] <= wanted["live_bytes"]
                                <= stacks[0]["live_bytes_high"])

    @property
    def mean(self):
        return sum(self.errors) / len(self.errors)

    @property
    def standard_error(self):
        n = len(self.errors)
        return math.sqrt(sum((e - self.mean) ** 2 for e in self.errors) / (n - 1) / n)

    @property
    def good(self):
        return (self.inside >= 0.9 * self.printed and
                abs(self.mean) <= 3 * self.standard_error)

    def __str__(self):
        return (f"{self.inside} of {self.printed} intervals hold the truth, mean error "
                f"{100 * self.mean:+.2f} % with a standard error of "
                f"{100 * self.standard_error:.2f} %")


def check(kind, runs, scale, max_standard_error=None):
    told = []
    for attempt in range(2):
        series = Series()
        for i in range(runs):
            series.run(kind, 1 + attempt * runs + i, scale)
        told.append(str(series))
        # depends on the sizes and the number of draws more than on luck
        if max_standard_error:
            expect(series.standard_error < max_standard_error, "too few draws:", told[-1])
        if series.good:
            return "; then ".join(told)
    expect(False, "twice wrong:", "; ".join(told))


@test
def sampled_best_kind():
    """300 draws, for a standard error under 1 %."""
    return check(None, 15, 100, 0.01)


@test_each_kind
def sampled(kind):
    """100 draws of each kind, of a smaller program: 100 draws hold the truth in fewer than 90 cases
    with a probability of 1 %, and in both series with 1e-4."""
    return check(kind, 5, 40)
