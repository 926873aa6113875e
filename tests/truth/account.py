# SPDX-License-Identifier: BSD-2-Clause
"""The counts that traced programs report of themselves during the run ("accounts")."""
import threading

from harness import PATIENCE_S, Failure

# The longest time allowed between the start of tracing and the mark. Blocks that are allocated in
# between do not count as new in the account.
MOST_GAP_S = 1


class Watch:
    """Asks all subjects for their accounts in turn, again and again, until it is stopped. Makes a
    series for each."""

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
