# SPDX-License-Identifier: Apache-2.0
"""Engines and sessions."""

from __future__ import annotations

import collections
import html
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _graft, arguments, element_types, logs, values
from .errors import InvalidArgumentError
from .future import RunFuture

if TYPE_CHECKING:
    from .quantizing import QuantizationReport

# An array: numpy's, or anything with __dlpack__ and __dlpack_device__ (torch, CuPy, JAX).
Array = Any


class Axis(NamedTuple):
    """An axis of an input or output, in elements."""

    size: int  #: -1 when it depends on the run
    text: str  #: `384`, `batch`, `2*length`
    min: int  #: of a symbol, as the engine was compiled
    opt: int
    max: int  #: 0: unbounded


class StepTime(NamedTuple):
    """When a step of a profiled run began and ended, in microseconds from the run's start."""

    name: str
    begin_us: float
    end_us: float


class Value(NamedTuple):
    """An input or output of an engine. `dtype`: the element type, as numpy and ml_dtypes spell it. `shape`: a number
    for each fixed axis, and the text of a dynamic one (`batch`, `2*length`); `axes`: the same with the ranges that the
    engine was compiled for. For other values than tensors, `dtype` is the text of the type: `seq(f32[2, n])`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    axes: tuple[Axis, ...]


def value_of(name: str, number: int | str, axes: Iterable[tuple[int, str, int, int, int]]) -> Value:
    """From what the extension tells."""
    listed = tuple(Axis(*axis) for axis in axes)
    shape = tuple(axis.size if axis.size >= 0 else axis.text for axis in listed)
    return Value(name, number if isinstance(number, str) else element_types.NAMES[number], shape, listed)


class Engine:
    """A compiled network: immutable, and usable from any number of threads at the same time.

    >>> engine = graft.compile("model.onnx")
    >>> y = engine(x)                          # arrays in the model's order, one result or a tuple
    >>> results = engine.run({"x": x})         # by name: {output: array}

    Arrays are numpy's, or anything with DLPack (torch, CuPy, JAX), zero-copy. Results have the type of the first
    input (numpy's for libraries not named here), on the same device.

    Tensors of strings are arrays of str, sequences lists, maps dictionaries, and an empty optional is None.
    """

    def __init__(self, handle: _graft.Engine, threads: int = 0) -> None:
        self._handle = handle
        self._threads = threads  # as it was loaded with: 0 for as many as its plan says
        self.device = handle.device()
        self.inputs: tuple[Value, ...] = tuple(value_of(*value) for value in handle.inputs())
        self.outputs: tuple[Value, ...] = tuple(value_of(*value) for value in handle.outputs())
        self._any_target: list[Array | None] = [None] * len(self.outputs)
        self._on_gpu = self.device != "cpu"
        self._captured: list[Session] = []
        self._free: list[Session] = []  # sessions of calls that have ended; its own methods are safe between threads

    def __call__(self, *arrays: Array) -> Any:
        """Runs once. Takes the inputs in order; returns the output, or a tuple of several.

        Raises InvalidArgumentError for a wrong number of arrays, and for types, shapes and devices that are not the
        engine's; KeyboardInterrupt when Ctrl-C comes during the run, which then ends within milliseconds."""
        if len(arrays) != len(self.inputs):
            raise InvalidArgumentError(f"the engine has {len(self.inputs)} inputs "
                                       f"({', '.join(value.name for value in self.inputs)}), {len(arrays)} were given")
        session = self._take()
        try:
            results = session.run_in_order(arrays, self._any_target)
        finally:
            self._give_back(session)
        return results[0] if len(results) == 1 else tuple(results)

    def run_for_framework(self, capsules: Sequence[Any], allocate: Callable[[int, int, Any], tuple[Any, Any]],
                          stream: int | None = None) -> list[Any]:
        """Runs once for a framework that knows its tensors: inputs in order as capsules of DLPack, which are used up;
        `allocate(output, dtype, shape)` gives an output and its capsule. On a GPU in the order of that stream, which
        has to live as long as the engine. Gives the list of outputs."""
        session = self._take()
        try:
            if stream is not None:
                session._use_stream(stream, None)
            results = session._session.run(list(capsules), self._any_target, allocate, None)
        finally:
            self._give_back(session)
        logs.pass_on()
        return list(results)

    def run(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None = None
            ) -> dict[str, Any]:
        """Runs once, by name: {input: array} -> {output: array}.

        `outputs`: names of the results (default: all), or {name: array} to write results into your own arrays, which
        must have the right type and shape and may have any strides. Raises as a call does."""
        session = self._take()
        try:
            return session.run(feeds, outputs)
        finally:
            self._give_back(session)

    def run_async(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None = None
                  ) -> RunFuture:
        """Starts a run and returns its future (`concurrent.futures`), whose result is what `run` returns. Runs go on
        at the same time, each on the thread of a session of its own; see Session.run_async."""
        session = self._take()
        try:
            return session._start(feeds, outputs, lambda: self._give_back(session))
        except BaseException:
            self._give_back(session)
            raise

    def output_shapes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int | None, ...]]:
        """The shapes of the outputs for inputs of these shapes, before a run: {input: shape} -> {output: shape}, in
        elements. None stands for a data-dependent axis. Raises InvalidArgumentError for shapes that a run refuses."""
        check_names(shapes, [value.name for value in self.inputs])
        found = self._handle.output_shapes([[arguments.whole(value.name, size) for size in shapes[value.name]]
                                            for value in self.inputs])
        return {value.name: tuple(None if size < 0 else size for size in shape)
                for value, shape in zip(self.outputs, found)}

    @property
    def quantization(self) -> QuantizationReport | None:
        """What precision="auto" tried and chose, and what became of the layers of int8 and int4, of an engine that was
        compiled in this process; None of others."""
        from .quantizing import QuantizationReport
        text, facts = _graft.quantization(self._handle)
        return QuantizationReport(text, json.loads(facts)) if text else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a plan, which `graft.load` and the command `graft` read; the file is replaced atomically.
        Raises DeviceError if it cannot be written."""
        self._handle.save(arguments.path("path", path))

    def to_bytes(self) -> bytes:
        """The plan that `save` writes, in memory; `Engine.from_bytes` and `graft.load` read it, in other processes and
        on other machines too."""
        return self._handle.save_bytes()

    @staticmethod
    def from_bytes(plan: bytes | bytearray | memoryview, device: str | None = None, *, threads: int = 0) -> Engine:
        """The engine of a plan in memory, on that device (None: the one that it was made for, as `graft.load` has it);
        raises as `graft.load` does."""
        logs.follow_level()
        try:
            if not isinstance(plan, (bytes, bytearray, memoryview)):
                raise InvalidArgumentError(f"a {type(plan).__name__} is no plan: give its bytes")
            threads = arguments.whole("threads", threads)
            choices = [("device", "auto" if device is None else str(device)), ("threads", str(threads))]
            return Engine(_graft.load_bytes(bytes(plan), choices), threads)
        finally:
            logs.pass_on()

    @property
    def metadata(self) -> dict[str, str]:
        """Where the engine comes from, and what its maker says of it: `graft.source`, `graft.source_sha256`,
        `graft.version`, `model.KEY` of the model's file, `owner` of
        `graft.compile(..., metadata={"owner": "vision"})`, and `graft.made` if SOURCE_DATE_EPOCH was set."""
        return dict(json.loads(self._handle.metadata()))

    def describe(self) -> dict[str, Any]:
        """What was planned: target, options, ways of the steps, candidates with their times (milliseconds) and
        reasons."""
        return dict(json.loads(self._handle.describe()))

    def profile(self, feeds: Mapping[str, Array] | None = None, runs: int = 10) -> list[dict[str, Any]]:
        """Times of the steps, as records for `pandas.DataFrame`: step, name, operators, way, microseconds (median of
        `runs` runs).

        `feeds`: {input: array}; default: random inputs of the optimum sizes."""
        from .bench import random_feeds
        feeds = random_feeds(self) if feeds is None else feeds
        durations: dict[tuple[int, str], list[float]] = collections.defaultdict(list)
        with Session(self) as session:
            session.profiling = True
            for _ in range(runs + 1):
                session.run(feeds)
                for number, step in enumerate(session.step_times()):
                    durations[number, step.name].append(step.end_us - step.begin_us)
        steps = {step["name"]: step for step in self.describe()["steps"]}
        nothing = {"way": "", "operators": []}
        return [{"step": number, "name": name, "operators": " + ".join(steps.get(name, nothing)["operators"]),
                 "way": steps.get(name, nothing)["way"], "microseconds": float(np.median(times[1:]))}
                for (number, name), times in durations.items()]

    def _take(self) -> Session:
        """A session of the engine's own for one call; calls at the same time get different ones."""
        try:
            return self._free.pop()
        except IndexError:
            return Session(self)

    def _give_back(self, session: Session) -> None:
        """For the next call; a session that is part of a CUDA graph stays with that, as long as the engine lives."""
        (self._captured if self._on_gpu and session._session.was_captured() else self._free).append(session)

    def __reduce__(self) -> Any:
        """Pickled, an engine is its plan: where it is unpickled, the same device has to be there."""
        return unpickled, (self.to_bytes(), self.device, self._threads)

    def __copy__(self) -> Engine:
        """Itself: nothing of an engine changes."""
        return self

    def __deepcopy__(self, _: Any) -> Engine:
        return self

    def _repr_html_(self) -> str:
        """What notebooks show: inputs and outputs with their ranges, and how the steps run."""
        def row(kind: str, value: Value) -> str:
            ranges = ", ".join(f"{axis.text}: {axis.min} to {axis.max or 'any'}, optimum {axis.opt}"
                               for axis in value.axes if axis.size < 0 and axis.opt)
            cells = (kind, value.name, value.dtype, f"[{', '.join(map(str, value.shape))}]", ranges)
            return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"

        about = self.describe()
        ways = ", ".join(f"{count} {way}" for way, count in about["ways"].items() if count)
        options = {option["key"]: option["value"] for option in about["options"]}
        head = (f"graft.Engine {about['name']} on {self.device}, {about['threads']} threads, "
                f"{options.get('precision', 'fp32')}: {len(about['steps'])} steps ({ways}), "
                f"weights {about['constant_bytes'] / 1e6:.1f} MB")
        names = "".join(f"<th>{name}</th>" for name in ("", "name", "type", "shape", "sizes"))
        rows = [row("input", value) for value in self.inputs] + [row("output", value) for value in self.outputs]
        return f"<div>{html.escape(head)}</div><table><tr>{names}</tr>{''.join(rows)}</table>"

    def __repr__(self) -> str:
        def text(values: tuple[Value, ...]) -> str:
            return ", ".join(f"{value.name}: {value.dtype}[{', '.join(map(str, value.shape))}]" for value in values)
        return f"<graft.Engine ({text(self.inputs)}) -> ({text(self.outputs)}) on {self.device}>"


def unpickled(plan: bytes, device: str, threads: int) -> Engine:
    """What pickle calls for an engine."""
    return Engine.from_bytes(plan, device, threads=threads)


def check_names(given: Iterable[str], names: list[str]) -> None:
    """Raises where inputs are missing, or others are given."""
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        raise InvalidArgumentError(
            f"inputs {', '.join(missing)} are missing" if missing else
            f"there is no input {', '.join(map(repr, unknown))}; the engine takes {', '.join(names)}")


class Session:
    """The state of one run at a time: intermediate tensors and scratch memory, kept between runs. Make one for each
    thread; a call of an engine makes its own.

    `threads`: number of threads of a run (0: as compiled).
    `stream`: on a GPU, the stream of the runs: a number (cudaStream_t) or an object of torch or CuPy;
    default: torch's or CuPy's current stream for inputs of theirs.
    """

    def __init__(self, engine: Engine, threads: int = 0, stream: Any = None) -> None:
        self.engine = engine
        self._session = _graft.Session(engine._handle, arguments.whole("threads", threads, most=4096))
        self._stream: int | None = None
        self._stream_owner: Any = None  # has to live as long as the session uses the stream
        self._fixed_stream = stream is not None
        self._input_names = [value.name for value in engine.inputs]
        self._output_names = [value.name for value in engine.outputs]
        self._any_raw_output = any(value.dtype not in element_types.NATIVE for value in engine.outputs)
        self._any_held = any(values.is_held(value.dtype) for value in engine.inputs + engine.outputs)
        if stream is not None:
            self._use_stream(stream_number(stream), stream)

    def run(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None = None
            ) -> dict[str, Any]:
        """Runs once, by name; see Engine.run. Raises InvalidArgumentError when the session is closed, or running in
        another thread."""
        inputs, targets, wanted = self._by_name(feeds, outputs)
        return self._named(self.run_in_order(inputs, targets), wanted)

    def run_async(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None = None
                  ) -> RunFuture:
        """Starts a run on the session's own thread and returns its future, whose result is what `run` returns; the
        runs of a session go one after another, those of different sessions at the same time.

        The arrays must not change until the future is done. Wrong names and arrays raise here, all else in the
        future. `future.cancel()` ends this run, begun or not; `cancel()` of the session ends all so far; so does the
        end of the interpreter. `run`, `wait` and settings of the session wait for its asynchronous runs.

        >>> y = await asyncio.wrap_future(session.run_async({"x": x}))
        """
        return self._start(feeds, outputs, lambda: None)

    def _start(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None,
               after: Callable[[], None]) -> RunFuture:
        """The same; `after` is called when the future is done and its callbacks have returned."""
        inputs, targets, wanted = self._by_name(feeds, outputs)
        given, raw, allocate, ordered = self._arguments(inputs, targets)
        future = RunFuture()

        def done(results: list[Any] | None, error: BaseException | None) -> None:
            if results is None:
                future.fail(error)
            else:
                found = results
                future.end(lambda: self._named(self._finished(found, inputs, targets, allocate), wanted))
            after()
        number = self._session.run_async(given, raw, allocate, ordered, done)
        future.on_cancel(lambda: self._session.cancel_run(number))
        return future

    def _by_name(self, feeds: Mapping[str, Array], outputs: Iterable[str] | Mapping[str, Array] | None
                 ) -> tuple[list[Array], list[Array | None], Sequence[str]]:
        """The inputs and targets in the engine's order, and the names of the outputs that are wanted."""
        check_names(arguments.named("feeds", feeds), self._input_names)
        given = outputs if isinstance(outputs, Mapping) else {}
        wanted = self._output_names if outputs is None else arguments.names("outputs", outputs)
        for name in wanted:
            if name not in self._output_names:
                raise InvalidArgumentError(f"there is no output '{name}'; the engine gives "
                                           f"{', '.join(self._output_names)}")
        return [feeds[name] for name in self._input_names], [given.get(name) for name in self._output_names], wanted

    def _named(self, results: list[Any], wanted: Sequence[str]) -> dict[str, Any]:
        return {name: result for name, result in zip(self._output_names, results) if name in wanted}

    def run_in_order(self, inputs: Sequence[Array], targets: list[Array | None]) -> list[Any]:
        """Runs once: inputs in the engine's order; per output an array to write to, or None. Gives the list of them."""
        given, raw, allocate, ordered = self._arguments(inputs, targets)
        results = self._session.run(given, raw, allocate, ordered)
        results = self._finished(results, inputs, targets, allocate)
        if allocate is not None and library_of(inputs[0]) == "jaxlib":
            self._session.wait()  # its own streams know nothing of this one
        return results

    def _arguments(self, inputs: Sequence[Array], targets: list[Array | None]) -> tuple[Any, Any, Any, Any]:
        """What the extension takes for a run: inputs, targets, who gives memory for outputs, the type of arrays whose
        library's stream is the session's."""
        if self._any_held:
            return *self._held(inputs, targets), None, None
        library = library_of(inputs[0]) if inputs else "numpy"
        if library == "numpy":
            given = [array if type(array) is np.ndarray and array.dtype.char in NATIVE_CHARS else as_input(array)
                     for array in inputs]
            return given, [None if array is None else raw_target(array) for array in targets], None, None
        allocate = allocator(library, inputs[0], self.engine)
        ordered = None
        if not self._fixed_stream and (current := current_stream(library, inputs[0])) is not None:
            self._use_stream(*current)
            ordered = type(inputs[0])
        return list(inputs), list(targets), allocate, ordered

    def _finished(self, results: list[Any], inputs: Sequence[Array], targets: list[Array | None], allocate: Any
                  ) -> list[Any]:
        """The results of a run as the caller gets them."""
        logs.pass_on()
        if self._any_held:
            return [values.take(result) if values.is_held(value.dtype) else
                    target if target is not None else element_types.from_raw(result, value.dtype)
                    for result, target, value in zip(results, targets, self.engine.outputs)]
        library = library_of(inputs[0]) if inputs else "numpy"
        if library == "numpy":
            results = [result if target is None else target for target, result in zip(targets, results)]
        if self._any_raw_output and allocate is None:
            results = [element_types.from_raw(result, value.dtype) if target is None else result
                       for result, target, value in zip(results, targets, self.engine.outputs)]
        if library == "jaxlib" and allocate is None:
            results = [jax_array(result, inputs[0]) if target is None else result
                       for result, target in zip(results, targets)]
        return results

    def _held(self, inputs: Sequence[Any], targets: list[Array | None]) -> tuple[list[Any], list[Any]]:
        """Inputs and targets of an engine with strings, or with values that are no tensors; results are numpy's."""
        for target, value in zip(targets, self.engine.outputs):
            if target is not None and values.is_held(value.dtype):
                raise InvalidArgumentError(f"'{value.name}' is {value.dtype}, which is not written into an array: take "
                                           "what the run gives")
        given = [values.hold(value.name, array) if "(" in value.dtype else
                 values.hold_tensor(value.name, array) if value.dtype == "str" else as_input(array)
                 for array, value in zip(inputs, self.engine.inputs)]
        return given, [None if array is None else raw_target(array) for array in targets]

    def _use_stream(self, number: int, owner: Any) -> None:
        if number != self._stream:
            self._session.set_stream(number)
            self._stream, self._stream_owner = number, owner

    def wait(self) -> None:
        """On a GPU: returns when all runs have finished; raises what their kernels found wrong."""
        self._session.wait()

    def cancel(self) -> None:
        """Cancels the run of another thread, which raises CancelledError there within milliseconds; the contents of its
        outputs are undefined. Does nothing between runs."""
        self._session.cancel()

    def set_deadline(self, seconds: float) -> None:
        """The most seconds that each following run may take before it raises CancelledError; 0: as long as it needs."""
        self._session.set_deadline(arguments.seconds("the deadline", seconds))

    def set_memory_limit(self, limit: int) -> None:
        """Limit of the session's memory in bytes, besides the engine's constants; 0: none. A run that needs more raises
        OutOfMemoryError."""
        self._session.set_memory_limit(arguments.whole("the limit", limit))

    @property
    def arena_bytes(self) -> int:
        """Bytes of the memory that intermediate results of the last run took."""
        return self._session.arena_bytes()

    def _set_profiling(self, on: bool) -> None:
        self._session.set_profiling(bool(on))

    profiling = property(None, _set_profiling, doc="Whether the following runs record the time of each step.")

    def step_times(self) -> list[StepTime]:
        """Times of the steps of the last profiled run, in microseconds from its start."""
        return [StepTime(*row) for row in self._session.profile()]

    def close(self) -> None:
        """Gives its memory back now; later calls raise InvalidArgumentError."""
        self._session.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be pickled or copied: pickle its engine, and make a session of that")


NATIVE_CHARS = frozenset("fdeFD?" + "bhilqBHILQ")


def library_of(array: Array) -> str:
    """The package that an array comes from: `numpy`, `torch`, `cupy`, `jaxlib` ..."""
    if type(array) is np.ndarray:
        return "numpy"
    name = type(array).__module__.partition(".")[0]
    return name if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray) else "numpy"


def as_input(array: Array) -> Any:
    """Anything that numpy understands, as the extension takes it."""
    if hasattr(array, "__dlpack__") and not isinstance(array, (np.ndarray, np.generic)):
        return array
    try:
        converted = np.asarray(array)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"a {type(array).__name__} is no array: {error}") from None
    if converted.dtype == object:
        raise InvalidArgumentError(f"a {type(array).__name__} is no array: give numpy arrays or DLPack tensors")
    return element_types.to_raw(converted)


def raw_target(array: Array) -> Any:
    """A numpy array to write to, as the extension takes it."""
    if type(array) is not np.ndarray or array.dtype.char in NATIVE_CHARS:
        return array
    raw = element_types.to_raw(array)
    if not isinstance(raw, tuple):
        return array
    if raw[2] is not None:
        raise InvalidArgumentError(f"an output of {array.dtype.name} cannot be written into an array that keeps one "
                                   "element a byte: take the new array that the run gives")
    return raw[0]


def stream_number(stream: Any) -> int:
    """A CUDA stream's handle: of torch (`cuda_stream`), of CuPy (`ptr`), by CUDA's stream protocol, or a number."""
    if hasattr(stream, "__cuda_stream__"):
        return arguments.whole("stream", stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return arguments.whole("stream", getattr(stream, attribute))
    return arguments.whole("stream", stream)


def current_stream(library: str, array: Array) -> tuple[int, Any] | None:
    """The stream that the library queues its work on now, and the object that keeps it; or None."""
    # 0 is torch's and CuPy's name of the legacy default stream, which CUDA's own name is 1.
    if library == "torch" and array.is_cuda:
        stream = sys.modules["torch"].cuda.current_stream(array.device)
        return int(stream.cuda_stream) or 1, stream
    if library == "cupy":
        stream = sys.modules["cupy"].cuda.get_current_stream()
        return int(stream.ptr) or 1, stream
    return None


def jax_array(result: np.ndarray[Any, Any], like: Array) -> Array:
    """A new result of the processor as an array of JAX on the device of an input: there it is the same memory."""
    jax: Any = sys.modules["jax"]
    place = next(iter(like.devices()))
    if place.platform == "cpu" and result.dtype.char in NATIVE_CHARS:
        return jax.dlpack.from_dlpack(result)
    return jax.device_put(result, place)


def jax_allocator(like: Array, engine: Engine) -> Callable[[int, int, Any], Array] | None:
    """Results in JAX's memory of a GPU; None where it lies on the processor, or JAX has no type of a result."""
    jax: Any = sys.modules["jax"]
    place = next(iter(like.devices()))

    def is_held(name: str) -> bool:
        try:
            return str(jax.dtypes.canonicalize_dtype(name)) == name
        except TypeError:
            return False
    if place.platform == "cpu" or not all(is_held(value.dtype) for value in engine.outputs):
        return None
    return lambda _, number, shape: jax.numpy.empty(shape, dtype=element_types.NAMES[number], device=place)


def allocator(library: str, like: Array, engine: Engine) -> Callable[[int, int, Any], Array] | None:
    """allocate(output, dtype, shape) that makes results beside an input of a library; None: numpy makes them."""
    module: Any = sys.modules.get(library)
    if library == "torch":
        def allocate(_: int, number: int, shape: Any) -> Array:
            return module.empty(shape, dtype=getattr(module, element_types.NAMES[number]), device=like.device)
        return allocate
    if library == "cupy":
        return lambda _, number, shape: module.empty(shape, dtype=element_types.NAMES[number])
    return jax_allocator(like, engine) if library == "jaxlib" else None
