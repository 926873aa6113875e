# SPDX-License-Identifier: BSD-2-Clause
"""Accounts: the counts of their own memory that traced programs report during a run."""
import threading

from harness import PATIENCE_S, Failure

# The longest time allowed between the start of tracing and the mark. Blocks that are allocated in
# this time do not count as new in the account.
MOST_GAP_S = 1


class Watch:
    """Asks all subjects in turn for their accounts, again and again, until it is stopped. Each
    subject gets a series of accounts."""

    def __init__(self, subjects, every_s):
        self.subjects, self.every_s, self.series, self.error = (
            subjects, every_s, [[] for _ in subjects], None)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(PATIENCE_S)

    def go(self):
        try:
            while not self.over.is_set():
                for subject, series in zip(self.subjects, self.series):
                    series.append(subject.sample())
                self.over.wait(self.every_s)
        except (Failure, OSError, ValueError) as error:
            self.error = error
