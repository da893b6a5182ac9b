# SPDX-License-Identifier: Apache-2.0
"""From models and samples to quantised models."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from . import _graft, arguments, element_types, keras_file, logs, operators
from .compiling import Dims, Options, Path, Progress, Reporting, Tune, choices_of, source_of
from .engine import Engine
from .errors import InvalidArgumentError

Method = Literal["mse", "entropy", "percentile", "minmax"]
Weights = Literal["int8", "fp8", "int4"]
Activations = Literal["static", "dynamic", "float"]
Rounding = Literal["auto", "nearest"]


class QuantizedLayer(NamedTuple):
    """The result for a Conv, MatMul or Gemm."""

    node: str
    operator: str
    precision: str  #: "int8", "fp8", "int4", or the type of what is not quantised: "fp32", "bf16", "fp16"
    #: signal to noise of its rounded input (if activations are static) and weights; None: nothing differs, or fp32
    noise_db: float | None
    reason: str  #: why it stays fp32; empty for others
    #: the largest difference of the outputs from fp32, as a share of an output's range, if this layer alone is
    #: quantised; None: not measured
    error: float | None = None
    milliseconds_fp32: float | None = None  #: of the layer in fp32; None: not measured
    milliseconds_quantized: float | None = None  #: of the layer in the network with all layers quantised

    @property
    def milliseconds_won(self) -> float | None:
        """How much faster the layer is when quantised; negative: slower."""
        if self.milliseconds_fp32 is None or self.milliseconds_quantized is None:
            return None
        return self.milliseconds_fp32 - self.milliseconds_quantized


class CurvePoint(NamedTuple):
    """A network that was measured on the way to the result."""

    layers: int  #: how many are quantised; 0: the model in fp32
    floats: str  #: the type of the others: "fp32", "bf16" or "fp16"
    error: float | None  #: as `QuantizationReport.error`; None: not measured
    metric: float | None
    milliseconds: float  #: of a run
    within_bound: bool
    chosen: bool  #: whether it is the result


class TriedPrecision(NamedTuple):
    """A precision that precision="auto" tried."""

    precision: str  #: "fp32", "tf32", "bf16", "fp16" or "int8"
    error: float | None  #: as `QuantizationReport.error`; None: not measured
    metric: float | None
    milliseconds: float | None  #: of a run; None: not measured
    within_bound: bool
    chosen: bool
    note: str  #: what it is made of, or why it was not measured


class QuantizationReport:
    """The layers and the error of a quantised model. `print` shows a table."""

    def __init__(self, text: str, facts: dict[str, Any]) -> None:
        self.text = text  #: a line for each layer, and the error
        self.layers = [QuantizedLayer(**layer) for layer in facts["layers"]]
        unknown = float("inf") if facts["measured"] else float("nan")
        #: the largest difference from fp32 on the samples, as a share of an output's range; NaN without samples
        self.error: float = unknown if facts["error"] is None else facts["error"]
        #: signal to noise of all outputs together; NaN without samples
        self.noise_db: float = unknown if facts["noise_db"] is None else facts["noise_db"]
        #: the same of the output with the least; NaN without samples
        self.noise_db_worst_output: float = unknown if facts["noise_db_worst_output"] is None else (
            facts["noise_db_worst_output"])
        #: that with all layers quantised, where it was below `min_snr`, so that layers stay fp32; else None
        self.noise_db_all_layers: float | None = facts["noise_db_all_layers"]
        self.samples: int = facts["samples"]
        self.weights: str = facts["weights"]  #: "int8", "fp8" or "int4"
        self.activations: str = facts["activations"]  #: "static", "dynamic" or "float"
        #: what the metric gave for the quantised network, and for the model in fp32
        self.metric: float | None = facts["metric"] and facts["metric"]["quantized"]
        self.metric_fp32: float | None = facts["metric"] and facts["metric"]["fp32"]
        self.floats: str = facts["floats"]  #: the type of what is not quantised, in the plan
        #: the networks that were measured, fp32 first; empty without a bound and `per_layer`
        self.curve = [CurvePoint(**point) for point in facts["curve"]]
        #: "int8", "fp8" or "int4", or, with precision="auto", what was chosen
        self.precision: str = facts["precision"]
        #: the precisions that precision="auto" tried, fp32 first
        self.tried = [TriedPrecision(**row) for row in facts["tried"]]
        #: activations whose outlying channels were moved into weights (SmoothQuant)
        self.smoothed: int = facts["smoothed"]
        self.rounded_by_samples: int = facts["rounded_by_samples"]  #: matrices of int4
        self._facts = facts

    def as_dict(self) -> dict[str, Any]:
        """The same as `graft convert --json` has it, under `quantization`."""
        return dict(self._facts)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        quantized = sum(layer.precision == self.weights for layer in self.layers)
        if not self.layers:
            return f"<graft.QuantizationReport {self.precision}, error {self.error:.3g}>"
        return (f"<graft.QuantizationReport {quantized} of {len(self.layers)} layers {self.weights}, "
                f"error {self.error:.3g}>")


class Quantized:
    """A quantised model: `report`, and the model as `engine`, `plan` and `model`, each made on first use."""

    def __init__(self, handle: _graft.Quantized, folder: Any = None) -> None:
        self._handle = handle
        self._folder = folder  # where the weights of a model of Keras lie
        self._engine: Engine | None = None
        self.report = QuantizationReport(handle.text(), json.loads(handle.report()))

    @property
    def curve(self) -> list[CurvePoint]:
        """Error against time: the networks that were measured."""
        return self.report.curve

    @property
    def engine(self) -> Engine:
        """It compiled, for the choices that quantize() had. Ctrl-C stops it."""
        if self._engine is None:
            with Reporting(None):
                self._engine = Engine(self._handle.compile(None))
            if self._folder:
                weakref.finalize(self._engine, lambda folder: None, self._folder)
        return self._engine

    @property
    def plan(self) -> bytes:
        """The plan of `engine`, which `graft.load` reads."""
        return self.engine.to_bytes()

    @property
    def model(self) -> bytes:
        """An ONNX file of standard operators, which ONNX Runtime and others read as well. Raises
        UnsupportedError where the weights are too large for one file: save() puts them beside it."""
        return self._handle.save_bytes()

    def save(self, path: Path) -> None:
        """Writes FILE.onnx (the model) or FILE.graft (the plan); the file is replaced whole or not at all."""
        target = output_path(path)
        if target.endswith(".graft"):
            return self.engine.save(target)
        return self._handle.save(target)

    def __repr__(self) -> str:
        return f"<graft.Quantized {self.report!r}>"


def quantize(model: Any, data: Any = None, *, precision: Literal["auto"] | None = None, weights: Weights = "int8",
             activations: Activations | None = None, block: int | None = None, method: Method | None = None,
             max_error: float | None = None, metric: Callable[[Engine], Any] | None = None,
             max_drop: float | None = None, search_limit: float | None = None, smooth: bool = True,
             rounding: Rounding = "auto", min_snr: float | None = None, per_layer: bool = False, batches: int = 0,
             calibration_file: Path | None = None, output: Path | None = None,
             dims: Dims | None = None,
             shapes: Mapping[str, Sequence[Any]] | None = None, device: str = "cpu", tune: Tune = "fast",
             threads: int = 0, target: str | Iterable[str] | None = None, disable: str | Iterable[str] = (),
             record: Path | None = None, ops: Any = (), progress: Progress = None, directory: Path | None = None,
             **options: Unpack[Options]) -> Quantized:
    """Quantises a model's products, by samples of its inputs or without, and measures the error.

    model      as for compile()
    data       samples: any iterable of batches (a list, a DataLoader of torch, a tf.data.Dataset), a function without
               arguments that returns one, or one array. A batch is an array, a tuple of arrays in the order of the
               inputs (further elements, such as labels, are ignored), or a dictionary by input name. A tensor has any
               number of samples, or is one sample without the first axis. The data is iterated once to calibrate and
               once for each network that is measured; batches of a generator are kept in memory. Static activations
               need it, or a calibration file; for others it only measures the error
    precision  "auto": the fastest of fp32, the lower floats that the device has, and int8, within `max_error` (or
               `max_drop`), by measured times; `report.tried` has them all. Without data, the error is that of random
               inputs. If floats are chosen, `model` is the model itself
    weights    "int8", with a scale for each result; "fp8" (e4m3), with a power of two as the scale of each result and
               of each activation, for NVIDIA GPUs from sm_89 on; or "int4", with a scale for each block of a column
    activations
               "static": of 8 bits, by the ranges of samples; "dynamic": of 8 bits, each row by its own range in each
               run; "float": only weights are quantised. None: "static" for int8 and fp8, "float" for int4
    block      of int4: how many weights of a column share a scale: 16, 32 (default), 64, 128 or 256
    method     method for ranges: "mse", "entropy", "percentile" or "minmax"; None: as in the calibration file, else
               "mse", of fp8 "minmax"
    max_error  largest allowed difference from fp32, as a share of an output's range: 0.02. The result is the fastest
               quantised network within the bound, of those in `curve`. Layers that stay floats are fp32
               in `model`; in `engine` and `plan` they may be bf16 or fp16, if the machine multiplies these faster
    metric     a score, higher is better: metric(run) -> number, where `run` is an Engine, called as run(x). It is
               called once for the model in fp32 and for each network that is tried
    max_drop   largest allowed loss of the metric against fp32: 0.5; the bound of the result, as max_error is
    search_limit
               seconds after which the search for the fastest one takes the best that it has (300)
    smooth     moves outlying channels of activations into the weights that read them (SmoothQuant), if `data` shows
               that less noise remains
    rounding   of int4, with data: "auto" rounds weights so that the products of the samples stay near (GPTQ);
               "nearest" takes the nearest codes
    min_snr    signal-to-noise ratio, in decibels, that each output keeps on `data`: without a bound the noisiest layers
               stay fp32 until it does (`report.layers` names them); 0: all layers are quantised. None: 20 of int8 and
               fp8, 0 of int4
    per_layer  measures what each layer adds to the error and wins also without a bound
    batches    limit of the number of batches; 0: all
    calibration_file
               a file of ranges. If it exists, it is read, and `data` (then optional) only measures the error;
               otherwise it is written at the end. A file of another network or method is refused. A calibration
               cache of TensorRT is read as well; ranges that it lacks come from `data`
    output     a file to write: FILE.onnx or FILE.graft
    All other arguments are those of compile().

    Ctrl-C stops it. Exceptions of `data` and of the metric are passed on unchanged. Raises UnsupportedError if
    nothing can be quantised, and if no network with a quantised layer keeps the bound, naming the best one;
    InvalidArgumentError for samples that do not fit the model or hold NaN, and for a metric that is not finite.
    """
    written = None if output is None else output_path(output)
    samples = None if data is None else Samples(data, arguments.whole("batches", batches))
    if precision not in (None, "auto"):
        raise InvalidArgumentError(f"precision is {precision!r}: give 'auto' or None; weights='int8', 'fp8' or 'int4' "
                                   "says what is quantised")
    choices = choices_of(dims, shapes, device, precision or "fp32", tune, threads, target, disable, record, options)
    choices += [("ops", each) for each in operators.sources(ops)]
    choices.append(("weights", arguments.text("weights", str(weights))))
    if activations is not None:
        choices.append(("activations", arguments.text("activations", str(activations))))
    if block is not None:
        choices.append(("block", str(arguments.whole("block", block))))
    if method is not None:
        choices.append(("method", arguments.text("method", str(method))))
    if calibration_file is not None:
        choices.append(("calibration-file", arguments.path("calibration_file", calibration_file)))
    choices += [(key, repr(arguments.number(key.replace("-", "_"), value)))
                for key, value in (("max-error", max_error), ("max-drop", max_drop), ("search-limit", search_limit),
                                   ("min-snr", min_snr))
                if value is not None]
    if not smooth:
        choices.append(("smooth", "off"))
    if rounding != "auto":
        choices.append(("rounding", arguments.text("rounding", str(rounding))))
    if per_layer:
        choices.append(("per-layer", "1"))
    folder = keras_file.exported(model) if keras_file.is_keras(model) else None
    with Reporting(progress) as report:
        path, content = source_of(folder.name if folder else model, directory)
        made = _graft.quantize(path, content, choices, report, samples.batch if samples else None, score_of(metric),
                               samples.count if samples else 0)
        quantized = Quantized(made, folder)
    if written:
        quantized.save(written)
    return quantized


def output_path(path: Path) -> str:
    """What a quantised model can be written as."""
    target = arguments.path("output", path)
    if not target.endswith((".onnx", ".graft")):
        raise InvalidArgumentError(f"output is {target!r}: give FILE.onnx for the model or FILE.graft for the plan")
    return target


def score_of(metric: Callable[[Engine], Any] | None) -> Callable[[_graft.Engine], float] | None:
    """The metric as the extension asks for it."""
    if metric is None:
        return None
    if not callable(metric):
        raise InvalidArgumentError(f"metric is {metric!r}: give a function of a network that gives a number")

    def score(handle: _graft.Engine) -> float:
        found = metric(Engine(handle))
        try:
            if isinstance(found, (str, bytes)):
                raise TypeError
            return float(found)
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"metric gave {found!r}: it has to give a number") from None

    return score


class Samples:
    """Batches of whatever the caller has, as often as they are gone through."""

    def __init__(self, data: Any, most: int = 0) -> None:
        if isinstance(data, Mapping) or is_array(data):
            data = [data]
        self._is_function = callable(data) and not hasattr(data, "__iter__")
        self._data = data
        if not callable(data) and not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
            raise InvalidArgumentError(f"data is a {type(data).__name__}: give something that gives batches when "
                                       "iterated, a function that gives such, or an array")
        length = length_of(data)
        self.count = min(most, length) if most and length else most or length
        self._kept: list[list[Any]] | None = None  # of what can be iterated only once
        self._iterator: Iterator[Any] = iter(())
        self._once = False

    def batch(self, index: int, names: list[str]) -> list[Any] | None:
        """Batch number `index`, an array for each name, or None after the last one."""
        if self._kept is not None and index < len(self._kept):
            return self._kept[index]
        if index == 0:
            source = self._data() if self._is_function else self._data
            self._iterator = iter(source)
            self._once = self._iterator is source and not self._is_function
            self._kept = [] if self._once else None
        try:
            item = next(self._iterator)
        except StopIteration:
            return None
        arrays = arrays_of(item, names, index, copy=self._once)
        if self._kept is not None:
            self._kept.append(arrays)
        return arrays


def length_of(data: Any) -> int:
    """How many batches there are, where that is known; else 0."""
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return 0


def holds_inputs(part: Any) -> bool:
    """Whether a part of a batch is itself a dictionary or a tuple of arrays."""
    several = isinstance(part, (tuple, list)) and bool(part) and all(hasattr(each, "shape") for each in part)
    return several or isinstance(part, Mapping)


def is_array(data: Any) -> bool:
    """Whether it is one array, of any library."""
    return isinstance(data, np.ndarray) or hasattr(data, "__dlpack__")


def arrays_of(item: Any, names: list[str], index: int, copy: bool = False) -> list[Any]:
    """A batch as the extension takes it: an array for each input."""
    where = f"batch {index} of data"
    if isinstance(item, (tuple, list)) and item and holds_inputs(item[0]):
        item = item[0]  # (inputs, labels)
    if isinstance(item, Mapping):
        for name in names:
            if name not in item:
                raise InvalidArgumentError(f"{where} has no '{name}', which the model takes; it has "
                                           f"{', '.join(map(str, item))}")
        given = [item[name] for name in names]
    elif isinstance(item, (tuple, list)):
        given = list(item[:len(names)])
    else:
        given = [item]
    if len(given) < len(names):
        raise InvalidArgumentError(f"{where} has {len(given)} of {len(names)} inputs: the model takes "
                                   f"{', '.join(names)}")
    return [on_host(f"'{name}' of {where}", array, copy) for name, array in zip(names, given)]


def on_host(name: str, array: Any, copy: bool) -> Any:
    """An array, row-major in memory of the processor."""
    if type(array).__module__.partition(".")[0] == "torch":
        kept = array.detach().cpu().contiguous()
        return kept.clone() if copy else kept
    if hasattr(array, "__cuda_array_interface__") and hasattr(array, "get"):
        array = array.get()  # CuPy
    try:
        converted = np.array(array, order="C", copy=True) if copy else np.asarray(array, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} is no array: {error}") from None
    if converted.dtype == object:
        raise InvalidArgumentError(f"{name} is no array, but of type {type(array).__name__}")
    return element_types.to_raw(converted)
