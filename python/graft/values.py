# SPDX-License-Identifier: Apache-2.0
"""Strings, sequences, optionals and maps: lists, None and dictionaries of numpy arrays, and the library's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _graft, element_types
from .errors import InvalidArgumentError

NOTHING, TENSOR, SEQUENCE, MAP = range(4)  # graft_value_kind


def is_held(dtype: str) -> bool:
    """Whether an input or output of that type travels as a value of the library."""
    return dtype == "str" or "(" in dtype


def hold(name: str, given: Any) -> _graft.HeldValue:
    """The library's value: None is nothing, lists and tuples are sequences, dictionaries are maps, and all else is a
    tensor. Raises InvalidArgumentError naming the input."""
    if given is None:
        return _graft.HeldValue.nothing()
    if isinstance(given, Mapping):
        keys = np.asarray(list(given))
        return _graft.HeldValue.map(hold_tensor(name, keys), hold_tensor(name, np.asarray(list(given.values()))))
    if isinstance(given, (list, tuple)):
        return _graft.HeldValue.sequence([hold(name, each) for each in given])
    return hold_tensor(name, given)


def hold_tensor(name: str, given: Any) -> _graft.HeldValue:
    """A tensor of numbers or strings; what numpy makes an array of."""
    if hasattr(given, "__dlpack__") and not isinstance(given, (np.ndarray, np.generic)):
        given = np.from_dlpack(given)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"'{name}': a {type(given).__name__} is no array: {error}") from None
    if array.dtype == object or array.dtype.kind in "US":
        known: dict[str, bytes] = {}  # equal strings are kept once
        return _graft.HeldValue.texts(
            [known.get(text) or known.setdefault(text, as_bytes(name, text)) if isinstance(text, str) else
             as_bytes(name, text) for text in array.ravel().tolist()], list(array.shape))
    raw = element_types.to_raw(np.ascontiguousarray(array).reshape(array.shape))
    return _graft.HeldValue.tensor(*(raw if isinstance(raw, tuple) else (raw, 0, None)))


def as_bytes(name: str, text: Any) -> bytes:
    """A string as the library keeps it, in UTF-8."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise InvalidArgumentError(f"'{name}': {text!r} is no string: give numpy arrays, or arrays of str")


def take(value: _graft.HeldValue) -> Any:
    """The reverse of `hold`: strings become arrays of `object`; bytes that are no UTF-8 keep their values as
    surrogates."""
    kind = value.kind()
    if kind == NOTHING:
        return None
    if kind == SEQUENCE:
        return [take(value.element(index)) for index in range(value.size())]
    if kind == MAP:
        return dict(zip(take(value.element(0)).tolist(), take(value.element(1))))
    data, number, shape = value.take()
    name = element_types.NAMES[number]
    if name == "str":
        known: dict[bytes, str] = {}
        texts = [known.get(text) or known.setdefault(text, text.decode("utf-8", "surrogateescape")) for text in data]
        return np.array(texts, dtype=object).reshape(shape)
    if name in element_types.PER_BYTE:
        return element_types.unpack(np.frombuffer(data, np.uint8), shape, name)
    return np.frombuffer(data, element_types.numpy_type(name)).reshape(shape).copy()
