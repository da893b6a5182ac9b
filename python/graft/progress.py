# SPDX-License-Identifier: Apache-2.0
"""A bar that shows how far compiling is, in terminals and notebooks."""

import sys
import time
from typing import TextIO

WIDTH = 24
INTERVAL = 0.1  # seconds between two pictures of the bar


class Bar:
    """Draws stages and steps over one line of a stream; in a notebook, where the stream is a cell's output, too."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.start = time.monotonic()
        self.drawn = 0.0
        self.length = 0

    def __call__(self, stage: str, step: str, done: int, total: int) -> None:
        """What `progress` of compile() calls."""
        now = time.monotonic()
        if now - self.drawn < INTERVAL and done not in (0, total):
            return
        self.drawn = now
        share = done / total if total else 0.0
        bar = "#" * round(share * WIDTH)
        count = f"{done}/{total} " if total else ""
        self.write(f"{stage:>7} [{bar:<{WIDTH}}] {count}{now - self.start:.1f} s {step}"[:110])

    def write(self, text: str) -> None:
        """Replaces the line."""
        self.stream.write("\r" + text.ljust(self.length))
        self.stream.flush()
        self.length = len(text)

    def close(self, done: bool) -> None:
        """Ends the line, with the outcome."""
        if self.length:
            self.write(f"{'compiled in' if done else 'stopped after'} {time.monotonic() - self.start:.1f} s")
            self.stream.write("\n")
            self.stream.flush()
