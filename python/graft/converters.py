# SPDX-License-Identifier: Apache-2.0
"""Converters of your own: how an operator of a framework becomes operators of Graft (docs/ADDING_A_CONVERTER.md).

    @graft.converter("my::swish(Tensor self, float beta=1.0) -> Tensor")
    def swish(graph, x, beta):
        return graph.add("Mul", x, graph.add("Sigmoid", graph.add("Mul", x, beta)))

The function is called for each node of that operator, with the graph to build and the node's arguments in the order
of the signature: tensors as Values; numbers, texts, lists and None unchanged. It returns the results. It then serves
all compilations of the process.
"""

from __future__ import annotations

import atexit
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import _graft, arguments, element_types
from .errors import InvalidArgumentError
from .operators import Operator

Function = Callable[..., Any]
_registered: dict[Any, list[int]] = {}


class Refusal(Exception):
    """What graph.refuse raises: the operator is left to the next converter, or to the framework."""


class Value:
    """A tensor of the graph that is built: its `name`, `dtype` ("float32", None where unknown) and `shape` (numbers,
    and names of dynamic dimensions; None if unknown)."""

    def __init__(self, graph: Graph, index: int) -> None:
        self._graph, self._index = graph, index
        self.name, number, shape = graph._conversion.describe(index)
        self.dtype = element_types.NAMES.get(number)
        self.shape = None if shape is None else tuple(shape)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements of a constant; another value is refused."""
        number, shape, data = self._graph._conversion.content(self._index)
        name = element_types.NAMES[number]
        if name in element_types.PER_BYTE:
            self._graph.refuse(f"'{self.name}' has elements of {name}, which numpy does not have")
        return np.frombuffer(data, element_types.numpy_type(name)).reshape(shape)

    def __repr__(self) -> str:
        return f"<Value {self.name} {self.dtype} {self.shape}>"


class Graph:
    """What a converter builds with. `op`, `name` and `source` are those of the node that it converts."""

    def __init__(self, conversion: _graft.Conversion) -> None:
        self._conversion = conversion
        self.op, self.name, self.source = conversion.op, conversion.name, conversion.source

    def add(self, op: str | Operator, /, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node, and returns its result, or a tuple of `outputs` results.

        op          an operator that `graft ops` lists, or a result of graft.operator
        inputs      Values, None for one that is left out, arrays, lists and numbers, which become constants: a number
                    has the type of the first Value
        attributes  numbers, texts, lists of these, arrays
        """
        definition = op.text if isinstance(op, Operator) else ""
        full = op.name if isinstance(op, Operator) else arguments.text("op", op)
        domain, _, name = full.rpartition("::")
        like = next((each.dtype for each in inputs if isinstance(each, Value)), None)
        made = self._conversion.add(name, domain, [self._input(each, like) for each in inputs],
                                    {key: self._attribute(each) for key, each in attributes.items()}, outputs,
                                    definition)
        values = tuple(Value(self, each) for each in made)
        return values[0] if outputs == 1 else values

    def constant(self, elements: Any, dtype: str | None = None) -> Value:
        """A constant of an array, a number or nested lists; without `dtype` floats are float32, as torch has them."""
        array = np.asarray(elements)
        if dtype is None and array.dtype == np.float64 and not isinstance(elements, (np.ndarray, np.generic)):
            dtype = "float32"
        array = np.asarray(elements, None if dtype is None else element_types.numpy_type(dtype))
        number = element_types.NUMBERS.get(array.dtype.name, 0)
        return Value(self, self._conversion.constant(number, list(array.shape), array.tobytes()))

    def shape(self, name: str) -> Value:
        """An argument that is a list of sizes, dynamic ones included, as a tensor of int64 with one axis, for
        Reshape, Expand and Slice."""
        return Value(self, self._conversion.shape_tensor(name))

    def refuse(self, reason: str) -> NoReturn:
        """Leaves the operator to the next converter, or else to the framework, which reports say with the reason."""
        raise Refusal(reason)

    def _input(self, given: Any, like: str | None) -> int:
        if given is None:
            return -1
        if isinstance(given, Value):
            return given._index
        number = isinstance(given, (bool, int, float))
        return self.constant(given, like if number else None)._index

    def _attribute(self, given: Any) -> Any:
        if isinstance(given, (np.ndarray, Value)):
            return _graft.ValueArgument(self._input(given, None))
        if isinstance(given, np.generic):
            return given.item()
        return [self._attribute(each) for each in given] if isinstance(given, (list, tuple)) else given

    def _argument(self, given: Any) -> Any:
        if isinstance(given, _graft.ValueArgument):
            return Value(self, given.index)
        if isinstance(given, _graft.TypeArgument):
            return element_types.NAMES[given.number]
        return [self._argument(each) for each in given] if isinstance(given, list) else given


def converter(signature: str, *, priority: int = 0, frontend: str = "aten") -> Callable[[Function], Function]:
    """Makes the decorated function convert an operator in all later compilations of this process.

    signature  as the framework has it: "my::op(Tensor self, int[2] stride=1, *, bool exact=False) -> Tensor"
    priority   the highest is asked first. Graft's own converters have 0, and come after yours of 0; with less than 0
               yours is asked if Graft's refuses
    frontend   whose operator it is: "aten", that of PyTorch

    Raises InvalidArgumentError for an invalid signature.
    """
    arguments.text("signature", signature)

    def register(function: Function) -> Function:
        code = getattr(function, "__code__", None)
        place = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code else ""
        origin = f"{getattr(function, '__qualname__', function)}{place}"
        names = names_of(signature)
        taken = _graft.add_converter(frontend, signature, priority, origin,
                                     lambda conversion: run(function, names, conversion))
        _registered.setdefault(function, []).append(taken)
        return function

    return register


def load_converters(path: str | os.PathLike[str]) -> None:
    """Takes the converters of a shared library (graft/graft_converter.h), which is loaded, so it has to be trusted."""
    _registered.setdefault(str(path), []).append(_graft.load_converters(arguments.path("path", path)))


def remove_converter(converter: Any) -> None:
    """Takes back the converters of a function, or of a library by its path."""
    key = converter if callable(converter) else str(converter)
    if key not in _registered:
        raise InvalidArgumentError(f"{key!r} is no converter of this process")
    for each in _registered.pop(key):
        _graft.remove_converters(each)


@atexit.register
def _remove_all() -> None:
    for key in list(_registered):
        remove_converter(key)


def names_of(signature: str) -> list[str]:
    """Names of the arguments: what stands last of each before its default."""
    names, depth, part = [], 0, ""
    for letter in signature[signature.find("(") + 1:]:
        if letter == ")" and depth == 0 or letter == "," and depth == 0:
            words = part.partition("=")[0].split()
            if words and words != ["*"]:
                names.append(words[-1])
            part = ""
            if letter == ")":
                break
            continue
        depth += letter in "([" and 1 or (letter in ")]" and -1 or 0)
        part += letter
    return names


def run(function: Function, names: Sequence[str], conversion: _graft.Conversion) -> None:
    """Converts a node; what the function raises becomes the failure that its user sees."""
    graph = Graph(conversion)
    try:
        results = function(graph, *[graph._argument(conversion.argument(name)) for name in names])
        give(graph, results)
    except Refusal as refusal:
        conversion.refuse(str(refusal))
    except _graft.ConversionStopped:
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught  # whatever it is, it is told
        frame = traceback.extract_tb(error.__traceback__)[-1]
        conversion.fail(f"{type(error).__name__}: {error} ({os.path.basename(frame.filename)}:{frame.lineno})")


def give(graph: Graph, results: Any) -> None:
    """States what a function has returned: a Value, or a tuple of them; a list where a result is a list of tensors."""
    several = results if isinstance(results, (tuple, list)) else (results,)
    for each in several:
        if not isinstance(each, Value):
            raise TypeError(f"a converter returns what graph.add gives, and this one returned a {type(each).__name__}")
    state = graph._conversion.give_list if isinstance(results, list) else graph._conversion.give
    state([each._index for each in several])
