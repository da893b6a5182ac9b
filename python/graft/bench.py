# SPDX-License-Identifier: Apache-2.0
"""Random inputs, and how long runs take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import element_types
from .engine import Array, Axis, Engine, Session
from .errors import InvalidArgumentError


def random_feeds(engine: Engine, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """{input: array} with random elements: floats in [-1, 1], integers and bools 0 or 1. `sizes`: {symbol: size};
    default: the usual ones that the engine was compiled for, else 1."""
    generator = np.random.default_rng(seed)
    sizes = dict(sizes or {})
    feeds: dict[str, Any] = {}
    for value in engine.inputs:
        shape = [size_of(axis, sizes) for axis in value.axes]
        kind = element_types.numpy_type(value.dtype)
        if kind.kind in "iub":
            feeds[value.name] = generator.integers(0, 2, shape).astype(kind)
        else:
            feeds[value.name] = generator.uniform(-1, 1, shape).astype(kind)
    return feeds


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
    """Runs again and again for some seconds, on random inputs of the usual sizes unless others are given. Gives a
    record: runs, and min_ms, median_ms, mean_ms and p99_ms, the milliseconds of a run with the call from Python."""
    feeds = feeds or random_feeds(engine, sizes)
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
