# SPDX-License-Identifier: Apache-2.0
"""Futures of asynchronous runs."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any


class RunFuture(concurrent.futures.Future[Any]):
    """The future of a run: `result()`, `exception()`, `add_done_callback()`, `asyncio.wrap_future(...)`.

    It counts as pending until it is done, so that `cancel()`, also by a cancelled task of asyncio, ends a run that goes
    on: within milliseconds, in which the run may still write its outputs. Callbacks are called on the session's thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stop: Callable[[], None] | None = None

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """What ends the run."""
        self._stop = stop

    def cancel(self) -> bool:
        """Ends the run. False where it is done already."""
        if not super().cancel():
            return False
        if self._stop is not None:
            self._stop()
        return True

    def end(self, finish: Callable[[], Any]) -> None:
        """Takes what `finish` gives or raises, unless it was cancelled."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = finish()
        except BaseException as raised:  # the caller's, as it is that of `run`
            self.set_exception(raised)
        else:
            self.set_result(result)

    def fail(self, error: BaseException | None) -> None:
        """Takes the run's error, unless it was cancelled."""
        if self.set_running_or_notify_cancel():
            self.set_exception(error)
