# SPDX-License-Identifier: Apache-2.0
"""What the doors of frameworks have in common for int8: their engines learn while the framework runs its own graph on
samples, and then change over. How is the library's; here are only the names of the choices, and the batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _graft, arguments
from .engine import Engine
from .errors import InvalidArgumentError
from .quantizing import QuantizationReport, is_array

INT8 = "int8"
QUANTIZED = (INT8, "fp8", "int4")
# of these precisions, in every door
CHOICES = ("activations", "block", "method", "max_error", "calibration_file", "calibration_iters")


class Int8:
    """The choices of int8 among those of a call, with the samples.

    calibration       samples: the caller runs its model on them
    options           what is left
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.calibration = self.options.pop("calibration", None)
        asked = asks_for_int8(self.options.get("precision", ""))
        for name in ("calibration", *CHOICES):
            if not asked and (name in options and options[name] is not None):
                raise InvalidArgumentError(f"{name} is a choice of precision='int8', 'fp8' or 'int4': choose that, too")
        for name in CHOICES:
            if self.options.get(name, 0) is None:
                del self.options[name]
        if "calibration_file" in self.options:
            self.options["calibration_file"] = arguments.path("calibration_file", self.options["calibration_file"])
        if "calibration_iters" in self.options:
            arguments.whole("calibration_iters", self.options["calibration_iters"], 1)
            if self.calibration is not None:
                raise InvalidArgumentError("calibration and calibration_iters: give samples, or the number of runs "
                                           "that calibrate")
        elif self.calibration is not None:
            self.options["calibration_iters"] = 0  # until finished() is called
        self.asked = asked

    @property
    def learns_by_itself(self) -> bool:
        """Whether engines change over after so many runs of the caller's own."""
        return bool(self.options.get("calibration_iters"))


def asks_for_int8(precision: Any) -> bool:
    """Whether int8, fp8 or int4 is a precision, or one of several: a name, or a type of torch."""
    several = precision if isinstance(precision, (set, frozenset)) else [precision]
    return any(str(each).removeprefix("torch.") in QUANTIZED for each in several)


def batches_of(data: Any) -> Iterator[Any]:
    """The batches of what a caller has: anything that can be iterated, a function that gives such, or one array."""
    if isinstance(data, Mapping) or is_array(data):
        data = [data]
    source = data() if callable(data) and not hasattr(data, "__iter__") else data
    if not isinstance(source, Iterable) and not hasattr(source, "__getitem__"):
        raise InvalidArgumentError(f"calibration is a {type(data).__name__}: give something that gives batches when "
                                   "iterated, a function that gives such, or an array")
    return iter(source)


def is_learning(engine: Engine) -> bool:
    """Whether an engine runs in fp32 and learns to be of int8."""
    return _graft.calibration_runs(engine._handle) >= 0


def finished(engine: Engine) -> Engine:
    """What an engine that learns becomes; any other one as it is."""
    return Engine(_graft.finish_calibration(engine._handle, None)) if is_learning(engine) else engine


def report_of(engine: Engine) -> QuantizationReport | None:
    """The layers and the error of an engine that was quantised in this process."""
    return engine.quantization
