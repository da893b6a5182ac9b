# SPDX-License-Identifier: Apache-2.0
"""Engines and sessions."""

import collections
import json
import sys
import threading

import numpy as np

from . import _graft, element_types, logs
from .errors import InvalidArgumentError

Axis = collections.namedtuple("Axis", "size text min opt max")
StepTime = collections.namedtuple("StepTime", "name begin_us end_us")


class Value(collections.namedtuple("Value", "name dtype shape axes")):
    """An input or output of an engine. `shape`: a number for each fixed axis, and the text of a symbolic one (`batch`,
    `2*length`); `axes`: the same with the ranges that the engine was compiled for."""

    @classmethod
    def of(cls, name, number, axes):
        """From what the extension tells."""
        axes = tuple(Axis(*axis) for axis in axes)
        shape = tuple(axis.size if axis.size >= 0 else axis.text for axis in axes)
        return cls(name, element_types.NAMES[number], shape, axes)


class Engine:
    """A compiled network: immutable, and usable from any number of threads at the same time.

    >>> engine = graft.compile("model.onnx")
    >>> y = engine(x)                          # arrays in the model's order, one result or a tuple
    >>> results = engine.run({"x": x})         # by name: {output: array}

    Arrays are numpy's, or anything with DLPack (torch, CuPy, JAX), used where they lie. Results are of the library
    that the first input came from, on the same device.
    """

    def __init__(self, handle, device="cpu"):
        self._handle = handle
        self.device = device
        self.inputs = tuple(Value.of(*value) for value in handle.inputs())
        self.outputs = tuple(Value.of(*value) for value in handle.outputs())
        self._free = []  # sessions of calls that have ended
        self._lock = threading.Lock()

    def __call__(self, *arrays):
        """Runs once. Takes the inputs in order; gives the output, or a tuple where there are several."""
        if len(arrays) != len(self.inputs):
            raise InvalidArgumentError(f"the engine has {len(self.inputs)} inputs "
                                       f"({', '.join(value.name for value in self.inputs)}), {len(arrays)} were given")
        with _Borrowed(self) as session:
            results = session.run_in_order(list(arrays), [None] * len(self.outputs))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, feeds, outputs=None):
        """Runs once, by name: {input: array} -> {output: array}.

        `outputs`: names of those that are wanted (default: all), or {name: array} to write results into arrays of the
        caller's, which must have the right type and shape and may have any strides."""
        with _Borrowed(self) as session:
            return session.run(feeds, outputs)

    def save(self, path):
        """Writes a plan, which `graft.load` and the command `graft` read; the file is replaced whole or not at all."""
        self._handle.save(str(path))

    def describe(self):
        """What was planned: target, options, ways of the steps, candidates with their times and reasons."""
        return json.loads(self._handle.describe())

    def profile(self, feeds=None, runs=10):
        """Times of the steps, as records for `pandas.DataFrame`: name, way, microseconds (median of `runs` runs).

        `feeds`: {input: array}; default: random inputs of the usual sizes."""
        from .bench import random_feeds
        feeds = feeds or random_feeds(self)
        session = Session(self)
        session.profiling = True
        durations = collections.defaultdict(list)
        for _ in range(runs + 1):
            session.run(feeds)
            for number, step in enumerate(session.step_times()):
                durations[number, step.name].append(step.end_us - step.begin_us)
        ways = {step["name"]: step["way"] for step in self.describe()["steps"]}
        return [{"step": number, "name": name, "way": ways.get(name, ""), "microseconds": float(np.median(times[1:]))}
                for (number, name), times in durations.items()]

    def __reduce__(self):
        raise TypeError("an engine cannot be pickled: save() it and load the plan in the other process")

    def __repr__(self):
        def text(values):
            return ", ".join(f"{value.name}: {value.dtype}[{', '.join(map(str, value.shape))}]" for value in values)
        return f"<graft.Engine ({text(self.inputs)}) -> ({text(self.outputs)}) on {self.device}>"


class _Borrowed:
    """A session of the engine's own for one call; calls at the same time get different ones."""

    def __init__(self, engine):
        self.engine = engine

    def __enter__(self):
        with self.engine._lock:
            free = self.engine._free
            self.session = free.pop() if free else None
        if self.session is None:
            self.session = Session(self.engine)
        return self.session

    def __exit__(self, *_):
        with self.engine._lock:
            self.engine._free.append(self.session)


class Session:
    """What one run at a time needs: intermediate results and scratch memory, kept between runs. Make one for each
    thread; an engine that is called makes its own.

    `threads`: how many threads of the processor a run uses (0: as many as the engine was compiled for).
    `stream`: on a GPU, the stream in whose order runs stand: a number (cudaStream_t) or an object of torch or CuPy;
    default: torch's or CuPy's current stream where inputs are theirs.
    """

    def __init__(self, engine, threads=0, stream=None):
        self.engine = engine
        self._session = _graft.Session(engine._handle, threads)
        self._stream = None
        self._fixed_stream = stream is not None
        self._input_names = [value.name for value in engine.inputs]
        self._output_names = [value.name for value in engine.outputs]
        self._raw_outputs = [value.dtype not in element_types.NATIVE for value in engine.outputs]
        if stream is not None:
            self._use_stream(stream_number(stream))

    def run(self, feeds, outputs=None):
        """Runs once, by name; see Engine.run."""
        missing = [name for name in self._input_names if name not in feeds]
        unknown = [name for name in feeds if name not in self._input_names]
        if missing or unknown:
            raise InvalidArgumentError(
                f"inputs {', '.join(missing)} are missing" if missing else
                f"there is no input {', '.join(map(repr, unknown))}; the engine takes {', '.join(self._input_names)}")
        given = outputs if isinstance(outputs, dict) else {}
        wanted = list(self._output_names if outputs is None else outputs)
        for name in wanted:
            if name not in self._output_names:
                raise InvalidArgumentError(f"there is no output '{name}'; the engine gives "
                                           f"{', '.join(self._output_names)}")
        targets = [given.get(name) for name in self._output_names]
        results = self.run_in_order([feeds[name] for name in self._input_names], targets)
        return {name: result for name, result in zip(self._output_names, results) if name in wanted}

    def run_in_order(self, inputs, targets):
        """Runs once: inputs in the engine's order; per output an array to write to, or None. Gives the list of them."""
        library = library_of(inputs[0]) if inputs else "numpy"
        if library == "numpy":
            inputs = [array if type(array) is np.ndarray and array.dtype.char in NATIVE_CHARS else as_input(array)
                      for array in inputs]
            results = self._session.run(inputs, [raw_target(array) for array in targets], None)
            results = [target if target is not None else result for target, result in zip(targets, results)]
        else:
            if not self._fixed_stream:
                self._use_stream(current_stream(library, inputs[0]))
            results = self._session.run(inputs, targets, allocator(library, inputs[0]))
        logs.pass_on()
        if True in self._raw_outputs and library == "numpy":
            results = [element_types.from_raw(result, value.dtype) if target is None else result
                       for result, target, value in zip(results, targets, self.engine.outputs)]
        return results

    def _use_stream(self, number):
        if number is not None and number != self._stream:
            self._session.set_stream(number)
            self._stream = number

    def wait(self):
        """On a GPU: returns when all runs have finished; raises what their kernels found wrong."""
        self._session.wait()

    def set_memory_limit(self, limit):
        """The most bytes that the session may hold beside the engine's constants; 0: no limit. A run that would need
        more raises OutOfMemoryError."""
        self._session.set_memory_limit(limit)

    @property
    def arena_bytes(self):
        """Bytes of the memory that intermediate results of the last run took."""
        return self._session.arena_bytes()

    def _set_profiling(self, on):
        self._session.set_profiling(bool(on))

    profiling = property(None, _set_profiling, doc="Whether the following runs record the time of each step.")

    def step_times(self):
        """Times of the steps of the last profiled run, in microseconds from its start."""
        return [StepTime(*row) for row in self._session.profile()]

    def close(self):
        """Gives its memory back now; later calls raise InvalidArgumentError."""
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("a session cannot be pickled")


NATIVE_CHARS = frozenset("fdeFD?" + "bhilqBHILQ")


def library_of(array):
    """The package that an array comes from: `numpy`, `torch`, `cupy`, `jaxlib` ..."""
    if type(array) is np.ndarray:
        return "numpy"
    name = type(array).__module__.partition(".")[0]
    return name if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray) else "numpy"


def as_input(array):
    """Anything that numpy understands, as the extension takes it."""
    if hasattr(array, "__dlpack__") and not isinstance(array, (np.ndarray, np.generic)):
        return array
    converted = np.asarray(array)
    if converted.dtype == object:
        raise InvalidArgumentError(f"a {type(array).__name__} is no array: give numpy arrays or DLPack tensors")
    return element_types.to_raw(converted)


def raw_target(array):
    """A numpy array to write to, as the extension takes it."""
    if array is None or type(array) is not np.ndarray or array.dtype.name in element_types.NATIVE:
        return array
    raw = element_types.to_raw(array)
    if not isinstance(raw, tuple):
        return array
    if raw[2] is not None:
        raise InvalidArgumentError(f"an output of {array.dtype.name} cannot be written into an array that keeps one "
                                   "element a byte: take the new array that the run gives")
    return raw[0]


def stream_number(stream):
    """A CUDA stream's handle: of torch (`cuda_stream`), of CuPy (`ptr`), by CUDA's stream protocol, or a number."""
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1]
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    return int(stream)


def current_stream(library, array):
    """The stream that the library queues its work on now, or None."""
    if library == "torch" and array.is_cuda:
        # 0 is torch's name of the legacy default stream, which CUDA's own name is 1.
        return sys.modules["torch"].cuda.current_stream(array.device).cuda_stream or 1
    if library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr or 1
    return None


def allocator(library, like):
    """allocate(output, dtype, shape) that makes results beside an input of a library; None: numpy makes them."""
    module = sys.modules.get(library)
    if library == "torch":
        def allocate(_, number, shape):
            name = {"float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}.get(
                element_types.NAMES[number], element_types.NAMES[number])
            return module.empty(shape, dtype=getattr(module, name), device=like.device)
        return allocate
    if library == "cupy":
        return lambda _, number, shape: module.empty(shape, dtype=element_types.NAMES[number])
    return None
