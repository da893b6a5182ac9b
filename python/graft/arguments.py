# SPDX-License-Identifier: Apache-2.0
"""Arguments of callers, checked: what is of another kind is refused with what it should be."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidArgumentError, MissingFileError

MOST = (1 << 63) - 1

NO_WORKSPACE = "leave it out: engines need no memory beside what they plan"
AS_THEY_ARE = "leave it out: engines compute with 64 bits where the model does"
# option of Torch-TensorRT or TF-TRT -> what says the same here
ELSEWHERE = {
    "enabled_precisions": "precision, as in precision='fp16' (precision_mode in graft.tensorflow)",
    "precision_mode": "precision, as in precision='fp16'",
    "calibrator": "calibration, as in calibration=graft.torch.ptq.DataLoaderCalibrator(loader)",
    "min_block_size": "minimum_size (minimum_segment_size in graft.tensorflow)",
    "minimum_segment_size": "minimum_size",
    "torch_executed_ops": "exclude_ops, as in exclude_ops=['aten::relu']",
    "torch_executed_modules": "exclude, by path, as in exclude=['layer4']",
    "require_full_compilation": "require_full of graft.torch.compile and graft.torch.script.compile",
    "pass_through_build_failures": "strict",
    "optimization_level": "tune: 'off', 'fast' or 'full'",
    "num_avg_timing_iters": "tune: 'off', 'fast' or 'full'",
    "input_signature": "inputs, nested as the model takes them",
    "max_batch_size": "a range and optimum of the axis: dims={'batch': (1, 8, 64)}",
    "maximum_cached_engines": "maximum_cached_engines of graft.tensorflow.Converter and create_inference_graph alone",
    "is_dynamic_op": "is_dynamic_op of graft.tensorflow.create_inference_graph alone",
    "workspace_size": NO_WORKSPACE,
    "max_workspace_size_bytes": NO_WORKSPACE,
    "truncate_long_and_double": AS_THEY_ARE,
    "truncate_double": AS_THEY_ARE,
    "allow_shape_tensors": "leave it out: engines compute shapes themselves",
}


def of_graft(names: Iterable[str]) -> None:
    """Refuses options of Torch-TensorRT and TF-TRT, with what Graft calls them."""
    for name in names:
        if said := ELSEWHERE.get(name):
            here = said if said.startswith("leave it out") else f"here it is {said}"
            raise InvalidArgumentError(f"option {name} belongs to Torch-TensorRT or TF-TRT; {here}")


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number, of numpy's types too."""
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"{name} is {value!r}: give a whole number") from None
    if not least <= number <= most:
        raise InvalidArgumentError(f"{name} is {number}: give a whole number from {least} to {most}")
    return number


def number(name: str, value: Any) -> float:
    """A finite number."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InvalidArgumentError(f"{name} is {value!r}: give a finite number")
    return found


def seconds(name: str, value: Any) -> float:
    """A time."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"{name} is {value!r}: give a number of seconds") from None


def named(name: str, value: Any) -> Mapping[str, Any]:
    """A dictionary by names; None stands for an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgumentError(f"{name} is {value!r}: give a dictionary by names")
    return value


def names(name: str, value: Any) -> list[str]:
    """One name or several."""
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(each, str) for each in listed):
        raise InvalidArgumentError(f"{name} is {value!r}: give names")
    return listed


def path(name: str, value: Any) -> str:
    """A path of the file system."""
    try:
        return text(name, os.fsdecode(value))
    except TypeError:
        raise InvalidArgumentError(f"{name} is {value!r}: give a path") from None


def existing(name: str, value: Any) -> str:
    """A path of a file or folder that is there."""
    found = path(name, value)
    if not os.path.lexists(found):
        raise MissingFileError(f"{found}: cannot open the file: No such file or directory; check the path")
    return found


def text(name: str, value: str) -> str:
    """A text that the C interface can take: UTF-8 without zero bytes."""
    try:
        if b"\0" not in value.encode():
            return value
    except UnicodeEncodeError:
        pass
    raise InvalidArgumentError(f"{name} is {value!r}: give a text in UTF-8, without zero bytes")
