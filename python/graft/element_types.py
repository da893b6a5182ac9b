# SPDX-License-Identifier: Apache-2.0
"""Element types: ONNX's numbers, numpy's types, and those that only ml_dtypes has."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

# number of TensorProto.DataType -> name, in numpy's and ml_dtypes' spelling
NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "str", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}
NUMBERS = {name: number for number, name in NAMES.items()}
# elements in a byte of those that share bytes, lowest bits first
PER_BYTE = {"uint4": 2, "int4": 2, "float4_e2m1fn": 2, "uint2": 4, "int2": 4}
NATIVE = frozenset(("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "bool", "float16", "float64",
                    "uint32", "uint64", "complex64", "complex128"))


@functools.lru_cache(maxsize=None)
def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy type of that name; those beyond numpy's own come from ml_dtypes, which must then be installed."""
    if name in NATIVE:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"elements of type {name} need the package ml_dtypes: pip install ml_dtypes") from error
    kind: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return kind


def to_raw(array: np.ndarray[Any, Any]) -> Any:
    """A numpy array as the extension takes it: itself, or (unsigned integers, the number of the type that they stand
    for, and the shape where elements share bytes)."""
    name = array.dtype.name
    if name in NATIVE or name not in NUMBERS:
        return array
    if name in PER_BYTE:
        return pack(array, name), NUMBERS[name], array.shape
    return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8), NUMBERS[name], None


def from_raw(result: Any, name: str) -> Any:
    """A new output as the extension gives it -> an array of that type."""
    if name in NATIVE or name == "str":
        return result
    if name in PER_BYTE:
        packed, shape = result
        return unpack(packed, shape, name)
    return result.view(numpy_type(name))


def bits_of(name: str) -> int:
    """Bits of an element that shares its byte."""
    return 8 // PER_BYTE[name]


def pack(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """One element a byte, as ml_dtypes keeps them -> elements that share bytes, in a row."""
    per_byte, bits = PER_BYTE[name], bits_of(name)
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per_byte, np.uint8)]).reshape(-1, per_byte)
    packed: np.ndarray[Any, Any] = np.bitwise_or.reduce(flat << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1)
    return packed.astype(np.uint8)


def unpack(packed: np.ndarray[Any, Any], shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """The reverse of `pack`, in ml_dtypes' type."""
    per_byte, bits = PER_BYTE[name], bits_of(name)
    count = int(np.prod(shape, dtype=np.int64))
    flat = (packed.reshape(-1, 1) >> (np.arange(per_byte, dtype=np.uint8) * bits)) & ((1 << bits) - 1)
    flat = flat.reshape(-1)[:count].astype(np.uint8)
    if name.startswith("int"):  # ml_dtypes keeps signed elements sign-extended
        sign = np.uint8(1 << (bits - 1))
        flat = ((flat ^ sign).astype(np.int16) - int(sign)).astype(np.int8).view(np.uint8)
    elements: np.ndarray[Any, Any] = flat.view(numpy_type(name))
    return elements.reshape(shape)
