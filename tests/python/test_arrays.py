# SPDX-License-Identifier: Apache-2.0
"""Arrays of every element type and library, and objects that only claim to be arrays."""

import ctypes

import graft
import ml_dtypes
import numpy as np
import pytest
from conftest import expected, model_of
from graft import element_types
from onnx import TensorProto, helper

MOVED = sorted(number for number, name in element_types.NAMES.items() if name not in ("str", "uint2", "int2"))


@pytest.mark.parametrize("number", MOVED, ids=lambda number: element_types.NAMES[number])
def test_elements_of_every_type_go_in_and_out(number):
    model = model_of([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], [("x", number, ["a", "b"])],
                     [("y", number, ["b", "a"])])
    kind = element_types.numpy_type(element_types.NAMES[number])
    x = (np.arange(15).reshape(3, 5) % 7).astype(np.float32).astype(kind)
    y = graft.compile(model, tune="off")(x)
    assert y.dtype == kind and y.shape == (5, 3)
    wide = np.complex128 if kind.kind == "c" else np.float64
    np.testing.assert_array_equal(y.astype(wide), x.T.astype(wide))


@pytest.mark.parametrize("name", sorted(element_types.PER_BYTE))
def test_packing_is_undone_by_unpacking(name):
    kind = element_types.numpy_type(name)
    every = np.arange(1 << element_types.bits_of(name), dtype=np.uint8)
    if name.startswith("int"):
        half = len(every) // 2
        values = np.arange(-half, half, dtype=np.int8).astype(kind)
    else:
        values = every.view(kind)
    values = np.concatenate([values, values[:1]])  # no whole number of bytes
    packed = element_types.pack(values, name)
    assert packed.size == -(-values.size // element_types.PER_BYTE[name])
    unpacked = element_types.unpack(packed, values.shape, name)
    np.testing.assert_array_equal(unpacked.astype(np.float32), values.astype(np.float32))


def test_bf16_results_are_written_into_arrays_of_the_caller():
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", 16, [4])], [("y", 16, [4])])
    target = np.zeros(4, ml_dtypes.bfloat16)
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    graft.compile(model, tune="off").run({"x": x}, {"y": target})
    np.testing.assert_array_equal(target.astype(np.float32), [0, -1, -2, -3])


class Exchanged:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_is_read_where_it_lies(engine, x):
    np.testing.assert_allclose(engine(Exchanged(x)), expected(x), atol=1e-5)


def test_dlpack_of_memory_that_is_only_read(engine, x):
    x.flags.writeable = False
    with pytest.raises(BufferError):
        Exchanged(x).__dlpack__()  # numpy has the versioned form alone for such memory
    np.testing.assert_allclose(engine(Exchanged(x)), expected(x), atol=1e-5)


def test_types_beyond_numpys_come_out_for_other_arrays_too(x):
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
                     [("x", TensorProto.FLOAT, ["n", 4])], [("y", TensorProto.BFLOAT16, ["n", 4])])
    y = graft.compile(model, tune="off")(Exchanged(x))
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x.astype(ml_dtypes.bfloat16))


def test_arrays_of_jax_go_in_and_come_out(engine, x):
    jax = pytest.importorskip("jax")
    given = jax.numpy.asarray(x)
    y = engine(given)
    assert isinstance(y, jax.Array) and y.devices() == given.devices()
    np.testing.assert_allclose(np.asarray(y), expected(x), atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda a: a + 1)(engine.run({"x": given})["y"]), expected(x) + 1, atol=1e-5)


def test_dlpack_memory_is_given_back(engine, x):
    import sys
    before = sys.getrefcount(x)
    for _ in range(10):
        engine(Exchanged(x))
    assert sys.getrefcount(x) == before


class Liar:
    """An object whose DLPack functions give what they are told to give."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_):
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def capsule(name, rank=1, shape=None, data=None, lanes=1, bits=32, code=2):
    """A DLPack capsule with any contents; its parts are kept alive for the process."""
    class Tensor(ctypes.Structure):
        """DLManagedTensor."""
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                    ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    sizes = (ctypes.c_int64 * len(shape))(*shape) if shape else None
    tensor = Tensor(data, (1, 0), rank, code, bits, lanes, ctypes.cast(sizes, ctypes.c_void_p) if shape else None,
                    None, 0, None, None)
    KEPT.append((sizes, tensor, name))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(tensor), name, None)


KEPT = []


@pytest.mark.parametrize("liar, words", [
    (lambda: Liar(None), "no capsule"),
    (lambda: Liar(7), "no capsule"),
    (lambda: Liar(capsule(b"something")), "no capsule"),
    (lambda: Liar(capsule(b"used_dltensor")), "no capsule"),
    (lambda: Liar(capsule(b"dltensor", rank=-1)), "-1 axes"),
    (lambda: Liar(capsule(b"dltensor", rank=2)), "2 axes and no shape"),
    (lambda: Liar(capsule(b"dltensor", rank=1, shape=[-5])), "negative size"),
    (lambda: Liar(capsule(b"dltensor", rank=2, shape=[5, 4])), "no memory"),
    (lambda: Liar(capsule(b"dltensor", rank=2, shape=[5, 4], lanes=4)), "4 lanes"),
    (lambda: Liar(capsule(b"dltensor", rank=2, shape=[5, 4], code=99)), "type 99"),
    (lambda: Liar(capsule(b"dltensor", rank=2, shape=[5, 4]), device=(1,)), "no pair"),
])
def test_objects_that_lie_about_dlpack_are_refused(engine, liar, words):
    with pytest.raises(graft.InvalidArgumentError, match=words):
        engine(liar())


def test_exceptions_of_dlpack_functions_come_out(engine):
    with pytest.raises(KeyError):
        engine(Liar(KeyError("mine")))


class OnGpu:
    """Says that it lies on a GPU, and keeps the streams that it was asked to be ready on."""

    def __init__(self):
        self.streams = []

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        raise BufferError("asked")


def test_arrays_on_a_gpu_are_handed_over_to_the_stream_of_the_run(engine, x):
    """-1 would say that nothing has to be waited for, which only the library knows whose stream the session has."""
    def streams_of(session):
        array = OnGpu()
        with pytest.raises(BufferError, match="asked"):
            session.run({"x": array})
        return array.streams
    with graft.Session(engine) as session:
        assert streams_of(session) == [1]
        session.run({"x": x})
        assert streams_of(session) == [1]
    with graft.Session(engine, stream=4711) as session:
        assert streams_of(session) == [4711]
