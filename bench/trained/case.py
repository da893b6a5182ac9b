# SPDX-License-Identifier: Apache-2.0
"""What a trained network is judged by: its samples, its tests and how many of them are right."""

import dataclasses
import importlib.util
import pathlib
from collections.abc import Callable


@dataclasses.dataclass
class Case:
    """A network with data. All forms of it calibrate with the same samples and are judged by the same tests."""

    path: str  # of the ONNX file
    calibration: list  # batches: dictionaries of arrays by the names of inputs
    tests: list  # the same
    score: Callable  # of the list of results, a list of arrays for each test: what is right, in percent
    judged: str  # what the percentage counts


def folder_of(package):
    """The folder of an installed package, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"the package {package} is not installed: see tools/deps/environment-accuracy.txt")
    return pathlib.Path(found.submodule_search_locations[0])


def grouped(feeds, size):
    """The same number of consecutive elements in each list; the last may have fewer."""
    return [feeds[first:first + size] for first in range(0, len(feeds), size)]
