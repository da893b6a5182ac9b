# SPDX-License-Identifier: Apache-2.0
"""libgraft.so through its C interface: compile a model's bytes, run it on TensorProtos."""

import ctypes
import dataclasses
import json
import os
import pathlib
import sys

import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

from graft_c import Error, Option, Tensor, Text, tensors_of  # noqa: E402


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
    library.graft_value_release.argtypes = [ctypes.c_void_p]
    library.graft_value_kind.argtypes = library.graft_value_count.argtypes = [ctypes.c_void_p]
    library.graft_value_count.restype = ctypes.c_size_t
    library.graft_value_element.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.graft_value_element.restype = ctypes.c_void_p
    library.graft_value_tensor.argtypes = [ctypes.c_void_p, ctypes.POINTER(Tensor), ctypes.c_void_p]
    library.graft_engine_input.argtypes = library.graft_engine_output.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.graft_engine_input.restype = ctypes.POINTER(ValueInfo)
    library.graft_engine_input_count.argtypes = [ctypes.c_void_p]
    library.graft_engine_input_count.restype = ctypes.c_size_t
    return library


class ValueInfo(ctypes.Structure):
    """graft_value_info"""

    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("axes", ctypes.c_void_p), ("type", ctypes.c_char_p)]


NOTHING, TENSOR, SEQUENCE, MAP = range(4)  # GRAFT_NOTHING ...


@dataclasses.dataclass
class Map:
    """Keys and a value for each, TensorProtos of one axis."""

    keys: onnx.TensorProto
    values: onnx.TensorProto


def packed_bits(proto):
    """A TensorProto's elements as the packed little-endian bytes that the interface takes."""
    if proto.raw_data:
        return bytes(proto.raw_data)
    return bytes(numpy_helper.from_array(numpy_helper.to_array(proto)).raw_data)


def describe(slot, proto, keep):
    """Fills in a graft_tensor for a TensorProto; `keep` takes what has to live as long."""
    if proto.data_type == onnx.TensorProto.STRING:
        data = (Text * max(1, len(proto.string_data)))(*[Text(text, len(text)) for text in proto.string_data])
        slot.bytes = ctypes.sizeof(Text) * len(proto.string_data)
    else:
        raw = packed_bits(proto)
        data = ctypes.create_string_buffer(raw, max(1, len(raw)))
        slot.bytes = len(raw)
    shape = (ctypes.c_int64 * len(proto.dims))(*proto.dims)
    keep += [data, shape]
    slot.dtype, slot.rank = proto.data_type, len(proto.dims)
    slot.shape, slot.data = shape, ctypes.cast(data, ctypes.c_void_p)


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

    def dynamic_inputs(self):
        """The names of the inputs that are no tensors."""
        infos = [self.library.graft_engine_input(self.handle, index).contents
                 for index in range(self.library.graft_engine_input_count(self.handle))]
        return {info.name.decode() for info in infos if info.type}

    def value_of(self, data):
        """A graft_value of a TensorProto, a list, a Map or None; to be released."""
        error, value = Error(), ctypes.c_void_p()
        if data is None:
            status = self.library.graft_value_of_nothing(ctypes.byref(value), ctypes.byref(error))
        elif isinstance(data, list):
            elements = [self.value_of(each) for each in data]
            array = (ctypes.c_void_p * max(1, len(elements)))(*elements)
            status = self.library.graft_value_of_sequence(array, ctypes.c_size_t(len(elements)), ctypes.byref(value),
                                                          ctypes.byref(error))
            for element in elements:
                self.library.graft_value_release(element)
        elif isinstance(data, Map):
            keep, parts = [], tensors_of(2)
            describe(parts[0], data.keys, keep)
            describe(parts[1], data.values, keep)
            status = self.library.graft_value_of_map(ctypes.byref(parts[0]), ctypes.byref(parts[1]),
                                                     ctypes.byref(value), ctypes.byref(error))
        else:
            keep, tensor = [], tensors_of(1)
            describe(tensor[0], data, keep)
            status = self.library.graft_value_of_tensor(tensor, ctypes.byref(value), ctypes.byref(error))
        if status:
            raise GraftError(error.text)
        return value

    def read_value(self, value):
        """A graft_value as a TensorProto, a list, a Map or None."""
        kind = self.library.graft_value_kind(value)
        if kind == NOTHING:
            return None
        if kind == SEQUENCE:
            return [self.read_value(self.library.graft_value_element(value, index))
                    for index in range(self.library.graft_value_count(value))]
        if kind == MAP:
            return Map(*[self.read_value(self.library.graft_value_element(value, index)) for index in range(2)])
        tensor = tensors_of(1)[0]
        if kind != TENSOR or self.library.graft_value_tensor(value, ctypes.byref(tensor), None):
            raise GraftError(f"a value of kind {kind} cannot be compared")
        return to_proto(tensor)

    def run(self, inputs, outputs):
        """Runs once: `inputs` are (name, TensorProto, list, Map or None), `outputs` names; gives such values."""
        error, session = Error(), ctypes.c_void_p()
        if self.library.graft_session_create(self.handle, 0, ctypes.byref(session), ctypes.byref(error)):
            raise GraftError(error.text)
        try:
            keep, given, dynamic, values = [], tensors_of(len(inputs)), self.dynamic_inputs(), []
            for slot, (name, data) in zip(given, inputs):
                slot.name = name.encode()
                if name in dynamic:
                    values.append(self.value_of(data))
                    slot.value = values[-1].value
                else:
                    describe(slot, data, keep)
            wanted = tensors_of(len(outputs))
            for slot, name in zip(wanted, outputs):
                slot.name = name.encode()
            status = self.library.graft_session_run(
                session, given, ctypes.c_size_t(len(inputs)), wanted, ctypes.c_size_t(len(outputs)), None,
                ctypes.byref(error))
            for value in values:
                self.library.graft_value_release(value)
            if status:
                raise GraftError(error.text)
            return [self.read_value(slot.value) if slot.value else to_proto(slot) for slot in wanted]
        finally:
            self.library.graft_session_destroy(session)


def to_proto(tensor):
    """A result as a TensorProto."""
    proto = onnx.TensorProto(data_type=tensor.dtype, dims=[tensor.shape[i] for i in range(tensor.rank)])
    if tensor.dtype == onnx.TensorProto.STRING:
        texts = ctypes.cast(tensor.data, ctypes.POINTER(Text))
        data = [ctypes.cast(ctypes.addressof(texts[i]), ctypes.POINTER(ctypes.c_void_p))[0]
                for i in range(tensor.bytes // ctypes.sizeof(Text))]
        proto.string_data.extend(ctypes.string_at(start, texts[i].bytes) for i, start in enumerate(data))
        return proto
    proto.raw_data = ctypes.string_at(tensor.data, tensor.bytes) if tensor.bytes else b""
    return proto
