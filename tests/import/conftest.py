# SPDX-License-Identifier: Apache-2.0
"""The tests speak to libgraft.so as `./dev conformance` does."""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS)]

import library  # noqa: E402


@pytest.fixture(scope="session", name="graft")
def loaded():
    """libgraft.so."""
    return library.load()
