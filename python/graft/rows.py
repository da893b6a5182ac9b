# SPDX-License-Identifier: Apache-2.0
"""Tables through engines: columns of any number of rows, in runs of as many as a plan takes. What graft.ray and
graft.spark share."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .element_types import numpy_type
from .engine import Engine, Value
from .errors import InvalidArgumentError

# Engines of this process, by what was asked for: each is loaded once, whoever asks.
_engines: dict[tuple[str, str, int], Engine] = {}
_lock = threading.Lock()


def digest_of(plan: Any) -> str:
    """What tells one plan from another."""
    return hashlib.sha256(plan).hexdigest()


def engine_of(digest: str, read: Callable[[], Any], device: str, threads: int) -> Engine:
    """The engine of a plan on a device: this process's, or loaded from the bytes that `read` gives."""
    key = digest, device, threads
    with _lock:
        if key not in _engines:
            _engines[key] = Engine.from_bytes(read(), device, threads=threads)
        return _engines[key]


def most_rows(engine: Engine) -> int:
    """How many rows a run takes at most; 0: any number. Raises InvalidArgumentError where the inputs have no rows."""
    limits = set()
    for value in engine.inputs:
        if not value.axes:
            raise InvalidArgumentError(f"input '{value.name}' has no axis of rows: a table needs a batch in front")
        axis = value.axes[0]
        limits.add(axis.size if axis.size >= 0 else axis.max)
    limits.discard(0)
    return min(limits, default=0)


def as_input(value: Value, column: Any) -> Any:
    """A column as an input: rows that are arrays are stacked, and numbers get the input's type where that keeps their
    kind (float64 becomes float32, a float no integer)."""
    array = np.asarray(column)
    if value.dtype == "str":
        return array
    if array.dtype == object:
        try:
            array = np.stack([np.asarray(row) for row in array])
        except ValueError as error:
            raise InvalidArgumentError(f"'{value.name}': its rows have different shapes: {error}") from None
    wanted = numpy_type(value.dtype)
    if array.dtype != wanted and np.can_cast(array.dtype, wanted, "same_kind"):
        array = array.astype(wanted)
    return np.ascontiguousarray(array)


def no_rows(value: Value) -> Any:
    """An output of no rows: dynamic axes of it are 0 too."""
    kind = np.dtype(object) if value.dtype == "str" else numpy_type(value.dtype)
    return np.zeros([0, *(max(axis.size, 0) for axis in value.axes[1:])], kind)


def run_rows(engine: Engine, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Runs all rows of the columns that are called like the inputs; gives {output: array} with as many rows. Raises
    InvalidArgumentError where a column is missing, and as a run does."""
    missing = [value.name for value in engine.inputs if value.name not in columns]
    if missing:
        raise InvalidArgumentError(f"there is no column '{missing[0]}', which the engine takes; there are "
                                   f"{', '.join(map(repr, columns))}")
    feeds = {value.name: as_input(value, columns[value.name]) for value in engine.inputs}
    counts = {len(array) for array in feeds.values()}
    if len(counts) != 1:
        raise InvalidArgumentError(f"the columns have different numbers of rows: {sorted(counts)}")
    rows, = counts
    if rows == 0:
        return {value.name: no_rows(value) for value in engine.outputs}
    step = most_rows(engine) or rows
    parts = [engine.run({name: array[begin:begin + step] for name, array in feeds.items()})
             for begin in range(0, rows, step)]
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
