# SPDX-License-Identifier: BSD-2-Clause
"""At -i 16K the numbers are estimates: they must be unbiased, and their intervals honest.

A draw is one function of truth_sampled in one run. The target's seed chooses its blocks, and the
kernel's random numbers choose its samples. All draws are independent. A series of draws fails

 - when the truth is outside the printed interval in more than 10 % of the printed draws. A 95 %
   interval contains the truth in 271 of 285 draws, with a standard deviation of 3.7. The
   probability that it does so in fewer than 257 draws is 3e-4 (binomial);
 - when the mean of (estimate - truth) / truth is further from zero than three of its standard
   errors. For an unbiased estimate this has a probability of 3e-3. A function without a sample
   counts as an estimate of 0: to leave the function out would bias the test.

These probabilities are too high for a test that runs every day. So a series that fails is followed
by a second, independent one, and the test fails only if both fail. By chance this has a probability
of 1e-5. An error of the implementation would show in both series."""
import math

from harness import by_function, expect, kinds, losses, test_each_kind, trace_script

INTERVAL = "16K"


class Series:
    def __init__(self):
        self.errors, self.printed, self.inside = [], 0, 0

    def run(self, kind, seed, scale, program="truth_sampled", preload=None):
        truth, profile, _ = trace_script(kind, program, "--seed", str(seed), "--scale", str(scale),
                                         options=("-i", INTERVAL), preload=preload)
        lost = losses(profile)
        expect(not lost, "losses:", lost)
        functions = truth["functions"]
        held = by_function(profile, functions)
        expect(None not in held, "stacks of nobody:", held.get(None))
        for name, wanted in functions.items():
            estimate, _, stacks = held.get(name, (0, 0, []))
            self.errors.append(estimate / wanted["live_bytes"] - 1)
            # hold_11 is called from two places, and the truth does not say how much each of them
            # holds
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

    def good(self, coverage):
        return (self.inside >= coverage * self.printed and
                abs(self.mean) <= 3 * self.standard_error)

    def __str__(self):
        return (f"{self.inside} of {self.printed} intervals hold the truth, mean error "
                f"{100 * self.mean:+.2f} % with a standard error of "
                f"{100 * self.standard_error:.2f} %")


@test_each_kind(beside=True, long=True)
def sampled(kind):
    """The best kind gets 300 draws, for a standard error under 1 %. Each other kind gets 100 draws
    of a smaller program, and 85 % of the intervals must contain the truth. If each interval
    contains the truth in 95 of 100 cases, this check fails with a probability of 7e-05."""
    best = kind == kinds()[0]
    runs, scale, coverage = (15, 25, 0.9) if best else (5, 10, 0.85)
    told = []
    for attempt in range(2):
        series = Series()
        for i in range(runs):
            series.run(kind, 1 + attempt * runs + i, scale)
        told.append(str(series))
        # the standard error depends on the sizes and the number of draws, hardly on chance
        expect(not best or series.standard_error < 0.01, "too few draws:", told[-1])
        if series.good(coverage):
            return "; then ".join(told)
    expect(False, "twice wrong:", "; ".join(told))
