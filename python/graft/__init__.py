# SPDX-License-Identifier: Apache-2.0
"""Graft compiles trained networks into engines for x86-64 CPUs and NVIDIA GPUs.

    engine = graft.compile("model.onnx", dims={"batch": (1, 8, 64)})
    y = engine(x)
    engine.save("model.graft")          # and graft.load("model.graft") in another process
"""

import atexit
import threading

from . import extension  # isort: skip
from . import _graft, amp, operators
from .bench import bench
from .compiling import check, compile, load
from .converters import converter, load_converters, remove_converter
from .counting import metrics, metrics_text
from .embedding import Embedded, embed
from .engine import Axis, Engine, Session, StepTime, Value
from .errors import (BY_STATUS, CancelledError, DeviceError, Error, InternalError, InvalidArgumentError,
                     InvalidModelError, MissingFileError, OutOfMemoryError, UnsupportedError)
from .operators import Operator, operator, register
from .quantizing import CurvePoint, QuantizationReport, Quantized, QuantizedLayer, TriedPrecision, quantize

_graft.set_error_classes(BY_STATUS)
_graft.set_main_thread(threading.main_thread().ident or 0)
atexit.register(_graft.end_of_interpreter)
__version__ = _graft.version()
__all__ = ["Axis", "CancelledError", "CurvePoint", "DeviceError", "Embedded", "Engine", "Error", "InternalError",
           "InvalidArgumentError", "InvalidModelError", "MissingFileError", "Operator", "OutOfMemoryError",
           "QuantizationReport", "Quantized", "QuantizedLayer", "Session",
           "StepTime", "TriedPrecision", "UnsupportedError", "Value", "amp", "bench", "check", "compile", "converter",
           "embed", "load", "load_converters", "metrics", "metrics_text", "operator", "operators", "quantize",
           "register", "remove_converter"]
