# SPDX-License-Identifier: Apache-2.0
"""Whatever is given to the package, it computes the right result or raises an error that says what to change: never a
crash, never a wrong result, and it goes on working. Inputs are made up by Hypothesis, the same in every run; with
GRAFT_FUZZ_SECONDS for so long (30)."""

import ctypes
import os
import time

import graft
import numpy as np
import pytest
from conftest import expected, layer_model
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from test_arrays import Liar, capsule

SECONDS = float(os.environ.get("GRAFT_FUZZ_SECONDS", "30"))
SHARES = 3
# What somebody who reads the message can act upon; MemoryError and so on are among graft's own.
UNDERSTOOD = (graft.InvalidArgumentError, graft.UnsupportedError)
MEMORY = (ctypes.c_char * 4096)()


def fuzz(check, *strategies):
    """Examples as long as the share of the time lasts, a hundred for each seed; gives how many there were."""
    end, number = time.monotonic() + SECONDS / SHARES, 0
    options = settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    while number == 0 or time.monotonic() < end:
        options(seed(number)(given(*strategies)(check)))()
        number += 1


def sizes():
    return st.integers(-3, 70) | st.sampled_from([0, 1, 3, 4, 5, 1 << 31, 1 << 62, -(1 << 63)])


@st.composite
def numpy_arrays(draw):
    """Arrays of any type, shape, strides, byte order and permissions."""
    kind = draw(st.sampled_from(["f4", "f4", "f4", "f8", ">f4", "f2", "i4", "u1", "?", "c8", "S3", "U2", "O", "M8[s]",
                                 [("a", "f4"), ("b", "i2")]]))
    rows = (draw(st.integers(0, 70)), 4)
    shape = rows if draw(st.booleans()) else tuple(draw(st.lists(st.integers(0, 70), max_size=4)))
    if np.prod(shape, dtype=float) > 100_000:
        shape = shape[:1]
    array = np.zeros(shape, kind)
    if array.dtype.kind == "f":
        array += (np.arange(array.size).reshape(shape) % 7).astype(array.dtype)
    change = draw(st.sampled_from(["none", "reversed", "transposed", "every second", "broadcast", "read-only",
                                   "field"]))
    if change == "reversed" and array.ndim:
        array = array[::-1]
    elif change == "transposed":
        array = array.T
    elif change == "every second" and array.ndim:
        array = array[::2]
    elif change == "broadcast" and array.ndim:
        array = np.broadcast_to(array[:1], array.shape) if array.shape[0] else array
    elif change == "read-only":
        array.flags.writeable = False
    elif change == "field" and array.ndim == 2 and array.dtype == np.float32:
        wide = np.zeros(array.shape, [("pad", "u1"), ("value", "f4")])
        wide["value"] = array
        array = wide["value"]
    return array


@st.composite
def liars(draw):
    """Objects whose DLPack functions say what no array says; memory that they claim is there where it is read."""
    rank = draw(st.integers(-2, 5) | st.sampled_from([64, 65, 1 << 30]))
    shape = draw(st.none() | st.just([5, 4]) | st.lists(sizes(), min_size=max(0, min(rank, 70)), max_size=70))
    fits = shape is not None and len(shape) >= rank and all(0 <= size <= 16 for size in shape[:max(rank, 0)])
    fits = fits and np.prod(shape[:max(rank, 0)], dtype=float) * 16 <= len(MEMORY)
    if shape is not None and len(shape) < rank <= 64:
        shape = None  # who gives a shape that is too short gives others' memory, which nobody can see
    data = ctypes.addressof(MEMORY) if fits and draw(st.booleans()) else None
    name = draw(st.sampled_from([b"dltensor", b"dltensor", b"dltensor", b"used_dltensor", b"dltensor_versioned", b"x"]))
    given_capsule = draw(st.sampled_from(["capsule"] * 4 + ["none", "number", "raises"]))
    device = draw(st.sampled_from([(1, 0), (1, 0), (0, 0), (2, 0), (3, 0), (-1, -1), (99, 7), (1,), (), "ab", 7, None,
                                   ("a", "b"), (1 << 40, 0)]))
    if given_capsule == "raises":
        return Liar(graft.InvalidArgumentError("mine"), device)
    if given_capsule != "capsule":
        return Liar(None if given_capsule == "none" else 7, device)
    return Liar(capsule(name, rank=min(rank, (1 << 31) - 1), shape=shape or None, data=data,
                        lanes=draw(st.integers(0, 3)), bits=draw(st.sampled_from([32, 32, 0, 1, 8, 16, 64, 255])),
                        code=draw(st.sampled_from([2, 2, 0, 1, 3, 4, 5, 6, 99, 255]))), device)


def things():
    """What else somebody may hand over."""
    return st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=9) | st.lists(
        st.floats(allow_nan=True) | st.none(), max_size=4) | st.builds(object) | st.just({})


def any_array():
    return numpy_arrays() | numpy_arrays() | liars() | things()


def works(engine):
    """The engine still computes."""
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(engine(x), expected(x), atol=1e-5)


def test_arrays_of_any_kind_are_read_or_refused(engine):
    def check(array, by_name):
        try:
            result = engine.run({"x": array})["y"] if by_name else engine(array)
        except UNDERSTOOD as error:
            assert len(str(error)) > 3
            return
        if isinstance(array, Liar):  # whose memory was read
            assert result.shape[1:] == (3,)
            return
        np.testing.assert_allclose(result, expected(np.asarray(array, np.float32)), rtol=1e-4, atol=1e-4)

    fuzz(check, any_array(), st.booleans())
    works(engine)


def test_outputs_of_any_kind_are_written_or_refused(engine):
    x = np.arange(20, dtype=np.float32).reshape(5, 4)

    def check(outputs, feeds):
        try:
            results = engine.run(feeds, outputs)
        except UNDERSTOOD as error:
            assert len(str(error)) > 3
            return
        for result in results.values():
            if isinstance(result, np.ndarray):
                np.testing.assert_allclose(result, expected(x), rtol=1e-4, atol=1e-4)

    names = st.sampled_from(["y", "y", "x", "z", ""])
    fuzz(check, st.dictionaries(names, any_array(), max_size=2) | things(),
         st.dictionaries(st.sampled_from(["x", "x", "x", "y", ""]), st.just(x), max_size=2) | things())
    works(engine)


def numbers():
    return st.integers() | st.floats() | st.none() | st.text(max_size=3) | st.integers(0, 4)


def calls():
    """(method, its arguments)"""
    return (st.tuples(st.sampled_from(["set_deadline", "set_memory_limit"]), st.tuples(numbers()))
            | st.tuples(st.sampled_from(["close", "cancel", "wait", "step_times", "run"]), st.just(())))


def choices():
    """Keyword arguments of graft.compile."""
    names = ["dims", "shapes", "device", "precision", "tune", "threads", "target", "disable", "record", "progress",
             "directory", "mode", "nothing"]
    values = st.dictionaries(st.sampled_from(["batch", "x", ""]), numbers() | st.lists(numbers(), max_size=4),
                             max_size=2)
    return st.dictionaries(st.sampled_from(names), values | things() | numbers(), min_size=1, max_size=2)


def test_sessions_and_choices_of_any_kind_are_taken_or_refused(engine):
    x = np.ones((5, 4), np.float32)

    def check(threads, methods, chosen):
        try:
            session = graft.Session(engine, threads=threads)
        except UNDERSTOOD as error:
            assert len(str(error)) > 3
            session = graft.Session(engine)
        for name, given_to_it in methods:
            try:
                getattr(session, name)(*(({"x": x},) if name == "run" else given_to_it))
            except (*UNDERSTOOD, graft.OutOfMemoryError, graft.CancelledError) as error:
                assert len(str(error)) > 3
        try:
            graft.compile(layer_model(), **{"tune": "off", "threads": 1, **chosen})
        except graft.Error as error:
            assert not isinstance(error, graft.InternalError) and len(str(error)) > 3

    fuzz(check, numbers(), st.lists(calls(), max_size=8), choices())
    works(engine)


def test_texts_that_c_cannot_take_are_refused():
    for choice in ({"directory": b"\x80"}, {"record": b"\x80"}, {"device": "c\0pu"}, {"tune": "\udc80"}):
        with pytest.raises(graft.InvalidArgumentError, match="UTF-8"):
            graft.compile(layer_model(), **choice)
    for path in ("\udc80", "a\0b"):
        with pytest.raises(graft.InvalidArgumentError):
            graft.load(path)
