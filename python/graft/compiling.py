# SPDX-License-Identifier: Apache-2.0
"""From models and plans to engines."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from . import _graft, arguments, keras_file, logs, operators
from .engine import Engine
from .errors import InvalidArgumentError
from .progress import Bar

Progress = bool | Callable[[str, str, int, int], Any] | None
Choices = list[tuple[str, str]]
Precision = Literal["fp32", "tf32", "fp16", "bf16", "auto"]
Tune = Literal["off", "fast", "full"]
Path = str | os.PathLike[str]
#: dynamic dimensions: a size, (minimum, optimum, maximum), or (minimum, optima, maximum)
Dims = Mapping[str, int | Sequence[int | Sequence[int]]]


class CommonOptions(TypedDict, total=False):
    """Options that are rarely needed. Type checkers know their names; a wrong one is an InvalidArgumentError."""

    deadline: float  #: limit of the compile time in seconds; 0: none
    mode: Literal["generated", "interpret"]  #: interpret: run in the interpreter
    #: fma: products of fp32 by multiply-adds, not on matrix units that split their operands into parts
    fp32_units: Literal["any", "fma"]


class Options(CommonOptions, total=False):
    """These, and the options of single model formats."""

    params: Path  #: of a symbol of MXNet: the file of its parameters
    signature: str  #: of a SavedModel: the signature to compile
    tag: str | Sequence[str]  #: of a SavedModel: tags of its graph
    outputs: str | Sequence[str]  #: of a GraphDef: its outputs, nodes or tensors
    overridable: str | Sequence[str]  #: of an ONNX model: inputs with an initializer that stay inputs
    converters: Path | Sequence[Path]  #: shared libraries with rows for operators of a .pt2
    metadata: Mapping[str, Any]  #: pairs for the plan, which `engine.metadata` returns


def compile(model: Any, *, dims: Dims | None = None,
            shapes: Mapping[str, Sequence[Any]] | None = None, device: str = "cpu",
            precision: Precision = "fp32", max_error: float | None = None, search_limit: float | None = None,
            tune: Tune = "fast", threads: int = 0,
            target: str | Iterable[str] | None = None, disable: str | Iterable[str] = (), record: Path | None = None,
            ops: Any = (), progress: Progress = None, directory: Path | None = None,
            **options: Unpack[Options]) -> Engine:
    """Compiles a model for this machine.

    model      a path (ONNX, a SavedModel, a frozen GraphDef, a file of Keras, a symbol of MXNet), the bytes of an ONNX
               file or a GraphDef, an onnx.ModelProto or a GraphDef
    dims       dynamic dimensions by name: {"batch": 8} fixes one, {"batch": (1, 8, 64)} is a range (minimum, optimum,
               maximum) that one engine serves; (1, (8, 1, 32), 64) has several optima, each compiled: a run takes the
               smallest that is not below its size
    shapes     shapes of inputs: {"x": (1, 3, 224, 224)}, or three of them (minimum, optimum, maximum)
    device     "cpu", "cuda" or "cuda:1"
    precision  "fp32", "tf32" (GPUs), "fp16", "bf16": inputs and outputs keep the model's types. "auto" with
               max_error=0.01: the fastest of these and int8 (with dynamic activations) within this error on random
               inputs, by measured times; `engine.quantization` says what was tried. graft.quantize does it with samples
    max_error, search_limit
               of "auto": the largest allowed difference from fp32, as a share of an output's range, and the seconds
               after which nothing more is tried (300)
    tune       "off", "fast", "full": how long candidates are measured on the device
    threads    number of threads; 0: all available
    target     another machine to compile for: "x86-64-v3", "sm_90a" ..., or several of them for one plan. Save the
               engine; it runs here only if its first target is this machine
    disable    passes and candidates to skip
    record     a file with recorded choices
    ops        operators of your own: results of graft.operator, texts or files of definitions, ONNX files of functions
    progress   True draws a bar; or a function of (stage, step, done, total), which returns False to stop
    directory  folder of the external data of a model in memory; without it external data is refused
    options    all other options of the command line (Options): deadline=60 (seconds), params="net-0000.params" ...

    Ctrl-C stops it. Raises a subclass of graft.Error, naming the node, the cause and the remedy.
    """
    choices = choices_of(dims, shapes, device, precision, tune, threads, target, disable, record, options)
    choices += [("ops", each) for each in operators.sources(ops)]
    choices += [(key, repr(arguments.number(key.replace("-", "_"), value)))
                for key, value in (("max-error", max_error), ("search-limit", search_limit)) if value is not None]
    folder = keras_file.exported(model) if keras_file.is_keras(model) else None
    with Reporting(progress) as report:
        path, data = source_of(folder.name if folder else model, directory)
        if folder:
            engine = Engine(_graft.compile_file(str(path), choices, report))
            weakref.finalize(engine, folder.cleanup)  # its weights lie there
            return engine
        if data is None:
            return Engine(_graft.compile_file(str(path), choices, report))
        return Engine(_graft.compile_bytes(data, path, choices, report))


def check(model: Any, *, dims: Dims | None = None,
          shapes: Mapping[str, Sequence[Any]] | None = None, device: str = "cpu",
          precision: Precision = "fp32", tune: Tune = "off", threads: int = 0,
          target: str | Iterable[str] | None = None, disable: str | Iterable[str] = (), record: Path | None = None,
          ops: Any = (), progress: Progress = None, directory: Path | None = None, generate: bool = False,
          **options: Unpack[Options]) -> list[dict[str, Any]]:
    """Whether and how a model runs: the output of `graft check` as records for `pandas.DataFrame`.

    A record for each step, in order: step (its number), name (of its first node), operators (joined by +), way
    ("generated", "library", "control", "interpreter", "host", "none") and reason (of a fallback to the interpreter,
    else empty). If nodes cannot run, there is a record for each of those instead: step None, way "cannot run" and the
    reason. The arguments are those of compile(), with two differences: `tune` is "off" by default, and `generate=True`
    also generates the code, which shows refusals of the code generator.
    """
    choices = choices_of(dims, shapes, device, precision, tune, threads, target, disable, record, options)
    choices.append(("generate", "yes" if generate else "no"))
    choices += [("ops", each) for each in operators.sources(ops)]
    folder = keras_file.exported(model) if keras_file.is_keras(model) else None
    with Reporting(progress) as report:
        path, data = source_of(folder.name if folder else model, directory)
        answer = json.loads(_graft.check(path, data, choices, report))
    records = [{"step": None, "name": each["node"], "operators": each["operator"], "way": "cannot run",
                "reason": each["reason"]} for each in answer["obstacles"]]
    for number, step in enumerate(answer["steps"]):
        lost = step["candidates"] if step["way"] == "interpreter" else []
        reason = "; ".join(f"not {each['name']}: {each['reason']}" for each in lost)
        records.append({"step": number, "name": step["name"], "operators": " + ".join(step["operators"]),
                        "way": step["way"], "reason": reason})
    return records


def load(plan: Any, device: str | None = None, *, threads: int = 0, copy_weights: bool = False) -> Engine:
    """Loads a plan: a path, or the bytes of one. Nothing is compiled where the kernel cache has its kernels.

    device        "cpu", "cuda" or "cuda:1"; None: what the plan was made for where that is here, else the CPU
    threads       of the processor; 0: as many as the plan was made for, and no more than this process may use
    copy_weights  take the weights into memory, so that the file may change afterwards; otherwise they stay in the file,
                  shared with other processes, and the file must only be replaced by renaming another over it

    Raises InvalidModelError for a file that is no plan or damaged, MissingFileError (a FileNotFoundError) where there
    is none, InvalidArgumentError where it may not be read, and DeviceError where reading or the device fails.
    """
    if isinstance(plan, (bytes, bytearray, memoryview)):
        return Engine.from_bytes(plan, device, threads=threads)
    if not isinstance(plan, (str, os.PathLike)):
        raise InvalidArgumentError(f"a {type(plan).__name__} is no plan: give a path, or the bytes of one")
    choices = [("device", "auto" if device is None else str(device)),
               ("threads", str(arguments.whole("threads", threads))),
               ("weights", "copied" if copy_weights else "mapped")]
    with Reporting(None):
        return Engine(_graft.load_file(arguments.existing("plan", plan), choices), threads)


class Reporting:
    """What is told while a call goes on: progress, and messages to `logging`."""

    def __init__(self, progress: Progress) -> None:
        if progress is not True and progress is not False and progress is not None and not callable(progress):
            raise InvalidArgumentError(f"progress is {progress!r}: give True, or a function of "
                                       "(stage, step, done, total)")
        self.bar = Bar() if progress is True else None
        self.report = self.bar or progress or None

    def __enter__(self) -> Callable[[str, str, int, int], Any] | None:
        logs.follow_level()
        return self.report  # type: ignore[return-value]

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar:
            self.bar.close(kind is None)
        logs.pass_on()


def source_of(model: Any, directory: Path | None) -> tuple[str | None, bytes | None]:
    """(path, None) of a file, or (folder of external data, bytes)."""
    if isinstance(model, (str, os.PathLike)):
        return arguments.existing("model", model), None
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return None if directory is None else arguments.path("directory", directory), bytes(model)
    raise InvalidArgumentError(f"a {type(model).__name__} is no model that compile() reads: {remedy_for(model)}")


# package and class of a model in a framework's memory -> what takes it
REMEDIES = {
    "torch.ExportedProgram": "hand it to graft.torch.compile(program, inputs), or write it by "
                             "torch.export.save(program, 'model.pt2') and compile the file",
    "torch.ScriptModule": "call graft.torch.script.compile(module, inputs)",
    "torch.Module": "call torch.compile(model, backend='graft'), or graft.torch.compile(model, inputs) for a program "
                    "that can be saved; or export it by torch.onnx.export(model, inputs, 'model.onnx')",
    "keras.Model": "write it by model.export(folder) or model.save('model.keras'), and compile that",
    "tensorflow.Module": "write it by tensorflow.saved_model.save(module, folder), and compile the folder",
    "mxnet.Block": "write it by block.export('model'), and compile model-symbol.json",
}


def remedy_for(model: Any) -> str:
    """What to do with an object that is none of the forms that are read."""
    kinds = [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(model).__mro__]
    return next((REMEDIES[kind] for kind in kinds if kind in REMEDIES),
                "give a path, bytes or an onnx.ModelProto")


def choices_of(dims: Dims | None, shapes: Mapping[str, Sequence[Any]] | None, device: str,
               precision: str, tune: str, threads: int, target: str | Iterable[str] | None,
               disable: str | Iterable[str], record: Path | None,
               options: Mapping[str, Any]) -> Choices:
    """The arguments as options of the C interface."""
    choices = [("device", str(device)), ("precision", str(precision)), ("tune", str(tune)),
               ("threads", str(arguments.whole("threads", threads)))]
    choices += [("dim", f"{name}={range_text(name, size)}") for name, size in arguments.named("dims", dims).items()]
    for name, shape in arguments.named("shapes", shapes).items():
        choices += shape_choices(name, shape)
    if listed := arguments.names("disable", disable):
        choices.append(("disable", ",".join(listed)))
    if target is not None:
        choices += [("target", name) for name in arguments.names("target", target)]
    if record is not None:
        choices.append(("record", arguments.path("record", record)))
    arguments.of_graft(options)
    for key, value in options.items():
        if key == "metadata":
            value = [f"{name}={text}" for name, text in arguments.named("metadata", value).items()]
        several = value if isinstance(value, (list, tuple)) else [value]
        choices += [(key.replace("_", "-"), str(each)) for each in several]
    return [(arguments.text("a choice", key), arguments.text(key, value)) for key, value in choices]


def range_text(name: str, size: Any) -> str:
    """`8`, `1:8:64`, or `1:8,1,32:64` for several optima."""
    if hasattr(size, "__index__"):
        return str(arguments.whole(f"dims['{name}']", size))
    sizes = tuple(size) if isinstance(size, Sequence) else ()
    several = len(sizes) == 3 and isinstance(sizes[1], Sequence) and not isinstance(sizes[1], str) and len(sizes[1]) > 0
    each = [sizes[0], *sizes[1], sizes[2]] if several else list(sizes)
    if len(sizes) != 3 or not all(hasattr(number, "__index__") for number in each):
        raise InvalidArgumentError(f"dims['{name}'] is {size!r}: give a number, (smallest, usual, largest), or "
                                   "(smallest, (usual, usual ...), largest)")
    texts = [str(arguments.whole(f"dims['{name}']", number)) for number in each]
    return f"{texts[0]}:{','.join(texts[1:-1])}:{texts[-1]}"



def shape_choices(name: str, shape: Any) -> Choices:
    """The options for one input's shape."""
    def text(sizes: Any) -> str:
        return f"{name}:{'x'.join(str(arguments.whole(name, size)) for size in sizes)}"

    sizes = tuple(shape) if isinstance(shape, Sequence) else (None,)
    if all(hasattr(size, "__index__") for size in sizes):
        return [("shape", text(sizes))]
    if len(sizes) != 3 or not all(isinstance(each, Sequence) for each in sizes):
        raise InvalidArgumentError(f"shapes['{name}'] is {shape!r}: give one, or three (smallest, usual, largest)")
    return [(key, text(each)) for key, each in zip(("min-shape", "opt-shape", "max-shape"), sizes)]
