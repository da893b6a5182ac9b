# SPDX-License-Identifier: Apache-2.0
"""Random inputs, and how long runs take."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import arguments, element_types, values
from .engine import Array, Axis, Engine, Session
from .errors import InvalidArgumentError


def random_feeds(engine: Engine, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """{input: array} with random elements: floats in [-1, 1], integers and bools 0 or 1. `sizes`: {symbol: size};
    default: the optimum that the engine was compiled for, else 1. Raises InvalidArgumentError for a size that no input
    has, and for inputs of which there are no random ones."""
    generator = np.random.default_rng(seed)
    chosen = chosen_sizes(engine, sizes)
    feeds: dict[str, Any] = {}
    for value in engine.inputs:
        if values.is_held(value.dtype):
            raise InvalidArgumentError(f"input '{value.name}' is {value.dtype}, of which there are no random values: "
                                       "give feeds of your own")
        shape = [size_of(axis, chosen) for axis in value.axes]
        kind = element_types.numpy_type(value.dtype)
        if kind.kind in "iub":
            feeds[value.name] = generator.integers(0, 2, shape).astype(kind)
        else:
            feeds[value.name] = generator.uniform(-1, 1, shape).astype(kind)
    return feeds


def symbols_of(engine: Engine) -> list[str]:
    """The sizes of inputs that a run chooses: names, and texts of which there is no name alone (`2*length`)."""
    return list(dict.fromkeys(axis.text for value in engine.inputs for axis in value.axes if axis.size < 0))


def chosen_sizes(engine: Engine, sizes: Mapping[str, int] | None) -> dict[str, int]:
    """What the caller chose, checked: each name is that of a size of an input, or was fixed to this when compiling."""
    chosen: dict[str, int] = {}
    names = symbols_of(engine)
    for name, size in arguments.named("sizes", sizes).items():
        number = arguments.whole(f"sizes['{name}']", size)
        if name in names:
            chosen[name] = number
            continue
        fixed = fixed_size(engine, name)
        if fixed == str(number):
            continue
        if fixed is not None:
            raise InvalidArgumentError(f"sizes: '{name}' is {fixed} in this engine, as it was compiled; leave it out, "
                                       f"or compile for {number}")
        if not names:
            raise InvalidArgumentError(f"sizes: all sizes of the inputs are fixed; there is no '{name}'")
        meant = difflib.get_close_matches(name, names, 1)
        raise InvalidArgumentError(f"sizes: no input has a size named '{name}'; there are {', '.join(names)}"
                                   + (f"; did you mean '{meant[0]}'?" if meant else ""))
    return chosen


def fixed_size(engine: Engine, name: str) -> str | None:
    """The size that a dimension was fixed to when the engine was compiled, or None."""
    for option in engine.describe()["options"]:
        if option["key"] == "dim" and option["value"].startswith(f"{name}="):
            return str(option["value"][len(name) + 1:])
    return None


def size_of(axis: Axis, sizes: dict[str, int]) -> int:
    """The size of an axis for a run."""
    if axis.size >= 0:
        return axis.size
    if axis.text in sizes:
        return int(sizes[axis.text])
    if axis.text.isidentifier():
        return sizes.setdefault(axis.text, axis.opt or axis.min or 1)
    raise InvalidArgumentError(f"the size {axis.text} is none by itself: give feeds of your own")


def bench(engine: Engine, feeds: Mapping[str, Array] | None = None, *, sizes: Mapping[str, int] | None = None,
          seconds: float = 2.0, warmup: float = 0.2, threads: int = 0) -> dict[str, float]:
    """Runs repeatedly for some seconds, on random inputs of the optimum sizes unless others are given. Returns a
    record: runs, and min_ms, median_ms, mean_ms and p99_ms, the milliseconds of a run, including the call from Python.

    `feeds`: {input: array}; `sizes`: those of random inputs instead, {symbol: size}. Raises InvalidArgumentError for
    both at once, and for names that the engine does not have."""
    if feeds is not None and sizes:
        raise InvalidArgumentError("sizes are those of random inputs: give feeds or sizes, not both")
    seconds, warmup = arguments.seconds("seconds", seconds), arguments.seconds("warmup", warmup)
    feeds = random_feeds(engine, sizes) if feeds is None else feeds
    with Session(engine, threads=threads) as session:
        end = time.perf_counter() + warmup
        while time.perf_counter() < end:
            session.run(feeds)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            session.run(feeds)
            times.append((time.perf_counter() - start) * 1e3)
    return {"runs": len(times), "min_ms": min(times), "median_ms": float(np.median(times)),
            "mean_ms": float(np.mean(times)), "p99_ms": float(np.percentile(times, 99))}
