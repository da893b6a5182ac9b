# SPDX-License-Identifier: Apache-2.0
"""The library's messages as records of Python's `logging`, by the logger `graft`."""

import logging

from . import _graft

LOGGER = logging.getLogger("graft")
# the library's level -> logging's; its steps, a line for each pass, are for those who look into a compilation
LEVELS = {0: logging.ERROR, 1: logging.WARNING}
WARNINGS, REASONS = 1, 3  # the library's levels that are wanted without DEBUG, and with it


def follow_level() -> None:
    """Tells the library how much the logger wants to hear."""
    _graft.set_log_level(REASONS if LOGGER.isEnabledFor(logging.DEBUG) else WARNINGS)


def pass_on() -> None:
    """Hands over what the library has said since the last time."""
    for level, message in _graft.take_messages():
        LOGGER.log(LEVELS.get(level, logging.DEBUG), "%s", message)
