# SPDX-License-Identifier: Apache-2.0
"""Graft as the bench sees it: plans made by the `graft` command, run through the C ABI."""

import ctypes
import glob
import os
import subprocess
import tempfile

import numpy as np

import child
from graft_c import CUDA, Error, Option, Tensor, tensors_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Element types by graft_c.h's numbers, which are ONNX's TensorProto.DataType.
DATA_TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3,
              np.dtype(np.int32): 6, np.dtype(np.int64): 7, np.dtype(np.bool_): 9,
              np.dtype(np.float16): 10, np.dtype(np.float64): 11}
# numpy types by the same numbers.
NUMPY_TYPES = {number: dtype for dtype, number in DATA_TYPES.items()}


class Library:
    """libgraft.so with the functions the bench calls; a status other than 0 becomes an error."""

    def __init__(self, path):
        self.library_ = ctypes.CDLL(path)
        pointer, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        tensors, error = ctypes.POINTER(Tensor), ctypes.POINTER(Error)
        self._declare("graft_load", [ctypes.c_char_p, out, error])
        self._declare("graft_load_on", [ctypes.c_char_p, ctypes.c_char_p, out, error])
        self._declare("graft_session_create", [pointer, ctypes.c_int32, out, error])
        self._declare("graft_session_run", [pointer, tensors, ctypes.c_size_t, tensors,
                                            ctypes.c_size_t, pointer, error])
        self._declare("graft_session_set_stream", [pointer, pointer, error])
        self._declare("graft_session_wait", [pointer, error])
        self.library_.graft_compilation_count.restype = ctypes.c_uint64

    def _declare(self, name, arguments):
        function = getattr(self.library_, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int32

    def compile(self, model, options):
        """Compiles an ONNX file for options, pairs as graft_c.h lists them; the engine lives as long as the process."""
        pointer = ctypes.c_void_p
        self._declare("graft_compile", [ctypes.c_char_p, ctypes.POINTER(Option), ctypes.c_size_t, pointer, pointer,
                                        ctypes.POINTER(pointer), ctypes.POINTER(Error)])
        chosen = (Option * len(options))(*[(key.encode(), str(value).encode()) for key, value in options])
        engine, error = ctypes.c_void_p(), Error()
        check(self.library_.graft_compile(model.encode(), chosen, len(options), None, None, ctypes.byref(engine),
                                          error), error)
        return engine

    def save(self, engine, plan):
        """Writes an engine's plan."""
        self._declare("graft_engine_save", [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Error)])
        error = Error()
        check(self.library_.graft_engine_save(engine, plan.encode(), error), error)

    def load(self, plan, device="cpu"):
        """Loads a plan; the engine lives as long as the process."""
        engine, error = ctypes.c_void_p(), Error()
        check(self.library_.graft_load_on(plan.encode(), device.encode(), ctypes.byref(engine), error), error)
        return engine

    def create_session(self, engine, threads=0):
        """Makes a session, with the engine's own number of threads unless told otherwise."""
        session, error = ctypes.c_void_p(), Error()
        check(self.library_.graft_session_create(engine, threads, ctypes.byref(session), error),
              error)
        return session

    def set_stream(self, session, stream):
        """Lets the following runs queue on a CUDA stream (its handle as a number)."""
        error = Error()
        check(self.library_.graft_session_set_stream(session, stream, error), error)

    def wait(self, session):
        """Waits for all runs; an error that their kernels found becomes one here."""
        error = Error()
        check(self.library_.graft_session_wait(session, error), error)

    def device_runner(self, session, inputs, outputs):
        """Gives a function that queues one run on tensors of the GPU, given as {name: torch tensor}."""
        given, kept_given = _device_array(inputs)
        wanted, kept_wanted = _device_array(outputs)
        call, error = self.library_.graft_session_run, Error()

        def run():
            check(call(session, given, len(inputs), wanted, len(outputs), None, error), error)

        run.keep_alive = (kept_given, kept_wanted)
        return run

    def compilation_count(self):
        """How often a code generator was asked for kernels."""
        return self.library_.graft_compilation_count()

    def new_outputs(self, session, inputs, names):
        """Runs once in memory of the session; gives an array like each output, by name."""
        given, kept = tensor_array(inputs)
        wanted, error = tensors_of(len(names)), Error()
        for tensor, name in zip(wanted, names):
            tensor.name = name.encode()
        check(self.library_.graft_session_run(session, given, len(inputs), wanted, len(names), None,
                                              error), error)
        del kept
        return {name: np.empty(tensor.shape[:tensor.rank], NUMPY_TYPES[tensor.dtype])
                for name, tensor in zip(names, wanted)}

    def runner(self, session, inputs, outputs):
        """Gives a function that runs the session on fixed arrays, filling `outputs`."""
        given, kept_given = tensor_array(inputs)
        wanted, kept_wanted = tensor_array(outputs)
        call, results, error = self.library_.graft_session_run, list(outputs.values()), Error()

        def run():
            check(call(session, given, len(inputs), wanted, len(outputs), None, error), error)
            return results

        run.keep_alive = (kept_given, kept_wanted)
        return run


def check(status, error):
    """Raises the library's own message unless the status is 0."""
    if status != 0:
        raise RuntimeError(error.text)


class GraftPeer:
    """Compiles each model once for all its cases, then runs every case on that one plan."""

    name = "graft"

    def __init__(self, threads, build=None, library=None, command=None, tune="full", arguments=()):
        build = build or os.environ.get("GRAFT_BUILD") or os.path.join(ROOT, "build")
        self.threads_ = threads
        self.tune_ = tune
        self.arguments_ = arguments  # more of them for `graft compile`
        self.library_path_ = library or find_built(build, "libgraft.so")
        self.command_ = command or find_built(build, "graft")
        self.library_ = None
        self.sessions_ = {}
        self.folder_ = None

    def unavailable(self):
        if self.library_path_ is None or self.command_ is None:
            return "no libgraft.so and graft command in the build folder; build first, or --build"
        return None

    @property
    def settings(self):
        version = subprocess.run([self.command_, "--version"], capture_output=True, text=True,
                                 check=True).stdout.strip()
        return (f"{version}, " + " ".join(["--threads", str(self.threads_), "--tune", self.tune_, *self.arguments_])
                + ", one plan per model for all sizes")

    @property
    def library_path(self):
        """The path of libgraft.so."""
        return self.library_path_

    @property
    def command(self):
        """The path of the graft command."""
        return self.command_

    @property
    def arguments(self):
        """What the command gets beside the model and its sizes."""
        return self.arguments_

    def open_library(self):
        """Opens libgraft.so, once."""
        if self.library_ is None:
            self.library_ = Library(self.library_path_)
        return self.library_

    def prepare(self, case, inputs, outputs):
        """Gives a function that runs the case on the plan for all its sizes."""
        del outputs  # the library tells their shapes
        return self.runner(case, inputs)

    def runner(self, case, inputs, dims=None, target="native"):
        """The same for sizes (the case's own where None) and a target."""
        library = self.open_library()
        session = self._session(case.model(), dims or case.dims, target)
        names = output_names(case.model())
        return library.runner(session, inputs, library.new_outputs(session, inputs, names))

    def compile(self, model, dims, path, target="native", tune=None, environment=None):
        """Makes a plan; gives the seconds and the peak bytes of the command."""
        words = [self.command_, "compile", model, "-o", path, "--threads", self.threads_,
                 "--tune", tune or self.tune_, *self.arguments_]
        if target != "native":
            words += ["--target", target]
        for symbol, *bounds in dims:
            words += ["--dim", f"{symbol}={':'.join(map(str, bounds))}"]
        return child.measure(words, environment)

    def _session(self, model, dims, target):
        """The one session on the plan for these choices."""
        key = (model, dims, target)
        if key not in self.sessions_:
            self.folder_ = self.folder_ or tempfile.TemporaryDirectory(prefix="graft-bench-")
            plan = os.path.join(self.folder_.name, f"{len(self.sessions_)}.graft")
            self.compile(model, dims, plan, target)
            library = self.open_library()
            self.sessions_[key] = library.create_session(library.load(plan))
        return self.sessions_[key]


def tensor_array(arrays):
    """Describes named arrays in the C layout; also returns what must outlive the description."""
    tensors, kept = tensors_of(len(arrays)), []
    for tensor, (name, array) in zip(tensors, arrays.items()):
        sizes = ctypes.c_int64 * array.ndim
        shape = sizes(*array.shape)
        strides = sizes(*(step // array.itemsize for step in array.strides))
        kept += [array, shape, strides]
        tensor.name, tensor.dtype, tensor.rank = name.encode(), DATA_TYPES[array.dtype], array.ndim
        tensor.shape, tensor.strides, tensor.data = shape, strides, array.ctypes.data
        tensor.bytes = 0
    return tensors, kept


def _device_array(tensors):
    """The same for contiguous tensors of torch on the GPU."""
    described, kept = tensors_of(len(tensors)), []
    for slot, (name, tensor) in zip(described, tensors.items()):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous")
        shape = (ctypes.c_int64 * tensor.ndim)(*tensor.shape)
        kept += [tensor, shape]
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        slot.name, slot.dtype, slot.rank = name.encode(), DATA_TYPES[dtype], tensor.ndim
        slot.shape, slot.data, slot.device = shape, tensor.data_ptr(), CUDA
    return described, kept


def output_names(model_path):
    """The names of the model's outputs, in order."""
    import onnx
    model = onnx.load(model_path, load_external_data=False)
    return [value.name for value in model.graph.output]


def find_built(build, name):
    """Finds a built file of this name anywhere in the build folder, the newest where several."""
    wanted = os.R_OK if name.endswith(".so") else os.X_OK
    found = [path for path in glob.glob(os.path.join(build, "**", name), recursive=True)
             if os.path.isfile(path) and os.access(path, wanted)]
    return max(found, key=os.path.getmtime, default=None)
