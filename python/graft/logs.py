# SPDX-License-Identifier: Apache-2.0
"""The library's messages as records of Python's `logging`, by the logger `graft`."""

import logging

from . import _graft

LOGGER = logging.getLogger("graft")
# the library's level -> logging's
LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG, 4: logging.DEBUG, 5: logging.DEBUG,
          6: logging.DEBUG}
STEPS, REASONS = 2, 3  # the library's levels that INFO and DEBUG show


def follow_level() -> None:
    """Tells the library how much the logger wants to hear."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        _graft.set_log_level(REASONS)
    else:
        _graft.set_log_level(STEPS if LOGGER.isEnabledFor(logging.INFO) else 1)


def pass_on() -> None:
    """Hands over what the library has said since the last time."""
    for level, message in _graft.take_messages():
        LOGGER.log(LEVELS.get(level, logging.DEBUG), "%s", message)
