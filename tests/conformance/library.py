# SPDX-License-Identifier: Apache-2.0
"""libgraft.so through its C interface: compile a model's bytes, run it on TensorProtos."""

import ctypes
import json
import os
import pathlib
import sys

import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

from graft_c import Error, Option, tensors_of  # noqa: E402


class GraftError(Exception):
    """What the library reports, in its own words."""


def load():
    """The library of the build folder named by GRAFT_BUILD, or of build/."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
    library = ctypes.CDLL(str(build / "lib" / "libgraft.so"))
    library.graft_engine_describe.restype = ctypes.c_char_p
    library.graft_engine_describe.argtypes = [ctypes.c_void_p]
    library.graft_engine_release.argtypes = [ctypes.c_void_p]
    library.graft_session_destroy.argtypes = [ctypes.c_void_p]
    return library


def packed_bits(proto):
    """A TensorProto's elements as the packed little-endian bytes that the interface takes."""
    if proto.raw_data:
        return bytes(proto.raw_data)
    return bytes(numpy_helper.from_array(numpy_helper.to_array(proto)).raw_data)


class Engine:
    """A compiled model; use it in a `with`."""

    def __init__(self, library, model_bytes, options):
        self.library = library
        self.handle = ctypes.c_void_p()
        options = [("tune", "off"), *options]
        pairs = (Option * len(options))(*[Option(k.encode(), v.encode()) for k, v in options])
        error = Error()
        status = library.graft_compile_bytes(model_bytes, ctypes.c_size_t(len(model_bytes)), None, pairs,
                                             ctypes.c_size_t(len(options)), None, None,
                                             ctypes.byref(self.handle), ctypes.byref(error))
        if status:
            raise GraftError(error.text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.graft_engine_release(self.handle)

    def describe(self):
        """graft_engine_describe, parsed."""
        return json.loads(self.library.graft_engine_describe(self.handle).decode())

    def run(self, inputs, outputs):
        """Runs once: `inputs` are (name, TensorProto), `outputs` names; gives TensorProtos."""
        error, session = Error(), ctypes.c_void_p()
        if self.library.graft_session_create(self.handle, 0, ctypes.byref(session), ctypes.byref(error)):
            raise GraftError(error.text)
        try:
            keep, given = [], tensors_of(len(inputs))
            for slot, (name, proto) in zip(given, inputs):
                raw = packed_bits(proto)
                data = ctypes.create_string_buffer(raw, max(1, len(raw)))
                shape = (ctypes.c_int64 * len(proto.dims))(*proto.dims)
                keep += [data, shape]
                slot.name, slot.dtype, slot.rank = name.encode(), proto.data_type, len(proto.dims)
                slot.shape, slot.data = shape, ctypes.cast(data, ctypes.c_void_p)
                slot.bytes = len(raw)
            wanted = tensors_of(len(outputs))
            for slot, name in zip(wanted, outputs):
                slot.name = name.encode()
            status = self.library.graft_session_run(
                session, given, ctypes.c_size_t(len(inputs)), wanted, ctypes.c_size_t(len(outputs)), None,
                ctypes.byref(error))
            if status:
                raise GraftError(error.text)
            return [to_proto(slot) for slot in wanted]
        finally:
            self.library.graft_session_destroy(session)


def to_proto(tensor):
    """A result as a TensorProto."""
    proto = onnx.TensorProto(data_type=tensor.dtype, dims=[tensor.shape[i] for i in range(tensor.rank)])
    proto.raw_data = ctypes.string_at(tensor.data, tensor.bytes) if tensor.bytes else b""
    return proto
