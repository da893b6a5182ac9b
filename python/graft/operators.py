# SPDX-License-Identifier: Apache-2.0
"""Operators of your own: functions over tensor expressions, which become definitions as text (docs/OWN_OPERATORS.md).

    from typing import Annotated
    from graft import operators as op
    from graft.operators import Tensor

    @graft.operator("example::RootMeanSquare")
    def root_mean_square(x: Annotated[Tensor, "T[..., n]"], scale: Annotated[Tensor, "T[n]"], *,
                         epsilon: float = 1e-5) -> Annotated[Tensor, "T[..., n]"]:
        "x over the root of the mean of its squares, times scale"
        return x / op.sqrt((x * x).sum("n") / op.size("n") + epsilon) * scale

    graft.compile("model.onnx", ops=[root_mean_square])

Axes have names, and values are combined by them: a value broadcasts along axes that it lacks, and a reduction names the
axes that it removes. `...` stands for all other axes, by numpy's broadcasting. The function runs once, when it is
decorated. Its result is the definition; compiled code contains no Python.

The text alone, `x: "T[..., n]"`, is equal and shorter, but type checkers and linters take it for a type.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_origin

from . import arguments
from .errors import InvalidArgumentError

_REGISTERED: list[Any] = []
_DEEPEST = 90  # of an expression, before it becomes a tensor of its own: the text may nest 200 deep, twice for a call
_LONGEST = 1000  # characters of one, which is repeated wherever it is used


class Operator:
    """A definition: `name`, and its `text`, which `graft.compile(..., ops=[...])` takes."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def __repr__(self) -> str:
        return f"<graft.Operator {self.name}>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the definition into a file for `--ops`."""
        with open(arguments.path("path", path), "w", encoding="utf-8") as file:
            file.write(self.text)


def register(*ops: Any) -> None:
    """Makes operators known to every compile() and check() of this process from now on: what `ops=` takes."""
    for each in ops:
        source_text(each)
    _REGISTERED.extend(ops)


def sources(ops: Any) -> list[str]:
    """The paths and texts of a call's operators, the registered ones first."""
    listed = list(ops) if isinstance(ops, Iterable) and not isinstance(ops, (str, bytes)) else [ops]
    return list(dict.fromkeys(source_text(each) for each in [*_REGISTERED, *listed]))


def source_text(source: Any) -> str:
    """An operator's text, or a path."""
    if isinstance(source, Operator):
        return source.text
    if isinstance(source, str) and "\n" in source:
        return arguments.text("ops", source)
    return arguments.path("ops", source)


class Expression:
    """The elements of a tensor along named axes. Arithmetic and comparison as usual; `&`, `|`, `~` for conditions."""

    __array_ufunc__ = None  # numpy's scalars leave arithmetic to this class

    def __init__(self, trace: Trace, text: str, axes: tuple[str, ...], depth: int = 1) -> None:
        self._trace, self._text, self.axes, self._depth = trace, text, axes, depth

    def __bool__(self) -> bool:
        raise InvalidArgumentError("an expression is neither true nor false while the function is traced: use where()")

    def __add__(self, other: Any) -> Expression: return combine("({} + {})", self, other)
    def __radd__(self, other: Any) -> Expression: return combine("({} + {})", other, self)
    def __sub__(self, other: Any) -> Expression: return combine("({} - {})", self, other)
    def __rsub__(self, other: Any) -> Expression: return combine("({} - {})", other, self)
    def __mul__(self, other: Any) -> Expression: return combine("({} * {})", self, other)
    def __rmul__(self, other: Any) -> Expression: return combine("({} * {})", other, self)
    def __truediv__(self, other: Any) -> Expression: return combine("({} / {})", self, other)
    def __rtruediv__(self, other: Any) -> Expression: return combine("({} / {})", other, self)
    def __floordiv__(self, other: Any) -> Expression: return combine("floor_div({}, {})", self, other)
    def __mod__(self, other: Any) -> Expression: return combine("mod({}, {})", self, other)
    def __pow__(self, other: Any) -> Expression: return combine("pow({}, {})", self, other)
    def __neg__(self) -> Expression: return combine("(-{})", self)
    def __abs__(self) -> Expression: return combine("abs({})", self)
    def __lt__(self, other: Any) -> Expression: return combine("({} < {})", self, other)
    def __le__(self, other: Any) -> Expression: return combine("({} <= {})", self, other)
    def __gt__(self, other: Any) -> Expression: return combine("({} > {})", self, other)
    def __ge__(self, other: Any) -> Expression: return combine("({} >= {})", self, other)
    def __eq__(self, other: Any) -> Expression: return combine("({} == {})", self, other)  # type: ignore[override]
    def __ne__(self, other: Any) -> Expression: return combine("({} != {})", self, other)  # type: ignore[override]
    def __and__(self, other: Any) -> Expression: return combine("and({}, {})", self, other)
    def __or__(self, other: Any) -> Expression: return combine("or({}, {})", self, other)
    def __invert__(self) -> Expression: return combine("not({})", self)

    __hash__ = None  # type: ignore[assignment]

    def sum(self, *axes: str) -> Expression: return self._trace.reduce("add", self, axes)
    def prod(self, *axes: str) -> Expression: return self._trace.reduce("mul", self, axes)
    def min(self, *axes: str) -> Expression: return self._trace.reduce("min", self, axes)
    def max(self, *axes: str) -> Expression: return self._trace.reduce("max", self, axes)

    def mean(self, *axes: str) -> Expression:
        """The sum over the axes through the product of their sizes."""
        total = self.sum(*axes)
        for axis in axes:
            total = total / size(axis)
        return total


Tensor = Expression  #: what annotations call an input or output: Annotated[Tensor, "T[..., n]"]


class Trace:
    """What a function does while it is traced: the forms so far."""

    current: Trace | None = None

    def __init__(self, taken: Iterable[str]) -> None:
        self.forms: list[str] = []
        self.taken = set(taken)
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        name = f"t{self.count}"
        return self.fresh() if name in self.taken else name

    def reduce(self, fold: str, value: Expression, axes: tuple[str, ...]) -> Expression:
        if not axes or len(set(axes)) != len(axes) or any(axis not in value.axes for axis in axes):
            raise InvalidArgumentError(f"a reduction over {axes} of what has the axes {value.axes}: name some of these")
        kept = tuple(axis for axis in value.axes if axis not in axes)
        name = self.fresh()
        self.forms.append(f"reduce {name} over {over(kept)} fold {fold} {over(axes)} {{ lift {value._text} }}")
        return Expression(self, element(name, kept), kept)

    def store(self, value: Expression) -> None:
        """Makes a tensor of its own of an expression that has grown."""
        name = self.fresh()
        self.forms.append(f"compute {name} over {over(value.axes)} {{ value {value._text} }}")
        value._text, value._depth = element(name, value.axes), 1


def over(axes: Iterable[str]) -> str:
    """`[..., i_n < n]`: the axes of a form, each with the variable that loads use."""
    return f"[{', '.join(axis if axis == '...' else f'i_{axis} < {axis}' for axis in axes)}]"


def element(name: str, axes: Iterable[str]) -> str:
    """`x[..., i_n]`."""
    return f"{name}[{', '.join(axis if axis == '...' else f'i_{axis}' for axis in axes)}]"


def literal(value: Any) -> str:
    """A number of Python, which takes the type of what it is computed with."""
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "__index__"):
        return str(int(value))
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{value!r} is no number and no expression") from None
    if math.isnan(number) or math.isinf(number):
        return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    return repr(number) if "e" in repr(number) or "." in repr(number) else f"{number}.0"


def combine(pattern: str, *operands: Any) -> Expression:
    """An expression of expressions and numbers, over all their axes."""
    trace = Trace.current
    if trace is None:
        raise InvalidArgumentError("expressions are made inside of a function that graft.operator decorates")
    given = [each if isinstance(each, Expression) else Expression(trace, literal(each), ()) for each in operands]
    if any(each._trace is not trace for each in given):
        raise InvalidArgumentError("an expression of another operator was used")
    for each in given:
        if each._depth >= _DEEPEST or len(each._text) > _LONGEST:
            trace.store(each)
    axes = tuple(dict.fromkeys(axis for each in given for axis in each.axes))
    axes = tuple(sorted(axes, key=lambda axis: axis != "..."))  # stable: `...` comes first
    return Expression(trace, pattern.format(*(each._text for each in given)), axes,
                      1 + max(each._depth for each in given))


def _function(name: str, meaning: str) -> Callable[..., Expression]:
    def call(*operands: Any) -> Expression:
        return combine(f"{name}({', '.join(['{}'] * len(operands))})", *operands)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = meaning
    return call


exp, exp2 = _function("exp", "e to the x."), _function("exp2", "2 to the x.")
log, log1p, expm1 = _function("log", "ln x."), _function("log1p", "ln(1 + x)."), _function("expm1", "e^x - 1.")
sqrt, erf, tanh = _function("sqrt", "The root."), _function("erf", "The error function."), _function("tanh", "tanh x.")
sin, cos, tan = _function("sin", "sin x."), _function("cos", "cos x."), _function("tan", "tan x.")
asin, acos, atan = _function("asin", "arcsin x."), _function("acos", "arccos x."), _function("atan", "arctan x.")
sinh, cosh = _function("sinh", "sinh x."), _function("cosh", "cosh x.")
floor, ceil = _function("floor", "Downwards."), _function("ceil", "Upwards.")
trunc, round = _function("trunc", "Towards zero."), _function("round", "To nearest, halves to even.")
minimum, maximum = _function("min", "The smaller; NaN if either is."), _function("max", "The larger; NaN if either is.")
isnan, isinf = _function("is_nan", "Whether x is NaN."), _function("is_inf", "Whether x is infinite.")
where = _function("select", "where(condition, a, b): a where the condition holds, else b.")


def sigmoid(x: Any) -> Expression:
    """1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exp(-x))


def size(axis: str) -> Expression:
    """The number of elements along an axis, as a number in expressions."""
    return combine("{}", Expression(_current(), axis, ()))


def cast(dtype: str, x: Expression) -> Expression:
    """x in the type "f32", "i64" ..., or in that of a variable such as "T"."""
    if not re.fullmatch(r"[A-Za-z_]\w*", dtype):
        raise InvalidArgumentError(f"{dtype!r} is no element type")
    return combine(f"cast<{dtype}>({{}})", x)


def position(axis: str) -> Expression:
    """The index along an axis, an i64."""
    return Expression(_current(), f"i_{axis}", (axis,))


def _current() -> Trace:
    if Trace.current is None:
        raise InvalidArgumentError("expressions are made inside of a function that graft.operator decorates")
    return Trace.current


def operator(name: str, *, types: dict[str, str] | None = None) -> Callable[[Callable[..., Any]], Operator]:
    """Makes an operator of a function over expressions.

    name   "domain::Name", as nodes of a model spell them
    types  the types of the type variables in annotations: {"T": "float"}; float, integer, number, or names such
           as "f32, f64". A variable that is not listed stands for float

    Parameters are the node's inputs, annotated with type and axes: Annotated[Tensor, "T[..., n]"], or "i64[batch]"
    alone. Those behind `*` are its attributes: `epsilon: float = 1e-5`, `groups: int`. The function returns an
    expression, or a tuple of them, for the outputs, which the annotation of the result describes the same way.
    """
    def decorate(function: Callable[..., Any]) -> Operator:
        return Operator(name, _definition(name, function, types or {}))
    return decorate


_OPERAND = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\]]*)\]\s*")


def _texts(annotation: Any) -> list[Any]:
    """What the annotation says of each value, where that is a text: `Annotated[Tensor, "T[..., n]"]`, a tuple of such
    types or of texts, or a text; all of them may be texts themselves (`from __future__ import annotations`)."""
    if isinstance(annotation, tuple) or get_origin(annotation) is tuple:
        parts = annotation if isinstance(annotation, tuple) else get_args(annotation)
        return [text for part in parts for text in _texts(part)]
    if get_origin(annotation) is Annotated:
        return [annotation.__metadata__[0]]
    if isinstance(annotation, str) and "Annotated" in annotation:
        return [text for _, text in re.findall(r"""(['"])(.*?)\1""", annotation)]
    if isinstance(annotation, str) and annotation.startswith("("):
        return re.findall(r"[A-Za-z_]\w*\s*\[[^\]]*\]", annotation)
    return [annotation]


def _operand(what: str, annotation: Any) -> tuple[str, tuple[str, ...]]:
    """`T[..., n]` -> its type and axes."""
    if isinstance(annotation, str) and len(annotation) > 1 and annotation[0] == annotation[-1] in "'\"":
        annotation = annotation[1:-1]  # under `from __future__ import annotations`
    match = _OPERAND.fullmatch(annotation) if isinstance(annotation, str) else None
    axes = tuple(axis.strip() for axis in match[2].split(",")) if match and match[2].strip() else ()
    good = match and all(axis == "..." or re.fullmatch(r"[A-Za-z_]\w*|\d+", axis) for axis in axes)
    if not good or "..." in axes[1:] or len(set(axes)) != len(axes):
        raise InvalidArgumentError(f"{what} is annotated with {annotation!r}: give a type and axes of different names, "
                                   "such as 'T[..., n]'")
    if any(axis.isdigit() for axis in axes):
        raise InvalidArgumentError(f"{what}: give the axis {axes} a name; a definition as text can have numbers there")
    assert match
    return match[1], axes


def _attribute(parameter: inspect.Parameter) -> str:
    kinds = {int: "integer", float: "real", "int": "integer", "float": "real"}
    kind = kinds.get(parameter.annotation)
    if kind is None:
        raise InvalidArgumentError(f"the attribute '{parameter.name}' is annotated with {parameter.annotation!r}: "
                                   "int or float")
    default = "" if parameter.default is parameter.empty else f" = {literal(parameter.default)}"
    return f"  attribute {parameter.name}: {kind}{default}"


def _definition(name: str, function: Callable[..., Any], types: dict[str, str]) -> str:
    """The text of the operator that the function is."""
    signature = inspect.signature(function)
    inputs, attributes = [], []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes.append(parameter)
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            (annotation, *more) = _texts(parameter.annotation)
            annotation = parameter.annotation if more else annotation
            inputs.append((parameter.name, *_operand(f"the input '{parameter.name}'", annotation)))
        else:
            raise InvalidArgumentError(f"the parameter '{parameter.name}' of {name} stands for several: name each")
    result = signature.return_annotation
    listed = [None] if result is signature.empty else _texts(result)
    outputs = [_operand("the result", annotation) for annotation in listed]
    taken = {given for given, _, _ in inputs} | {each.name for each in attributes}
    trace = Trace(taken | {axis for _, _, axes in inputs for axis in axes})
    output_names = ["y"] if len(outputs) == 1 else [f"y{number}" for number in range(len(outputs))]
    output_names = [output if output not in trace.taken else trace.fresh() for output in output_names]
    trace.taken |= set(output_names)

    outer, Trace.current = Trace.current, trace
    try:
        values = function(*(Expression(trace, element(given, axes), axes) for given, _, axes in inputs),
                          **{each.name: Expression(trace, each.name, ()) for each in attributes})
        values = values if isinstance(values, tuple) else (values,)
        if len(values) != len(outputs):
            raise InvalidArgumentError(f"{name} returns {len(values)} values, but its annotation has {len(outputs)}")
        for output, value, (_, axes) in zip(output_names, values, outputs):
            value = value if isinstance(value, Expression) else combine("{}", value)
            if not set(value.axes) <= set(axes):
                raise InvalidArgumentError(f"{name} returns a value with the axes {value.axes}, but its annotation has "
                                           f"{axes}")
            trace.forms.append(f"compute {output} over {over(axes)} {{ value {value._text} }}")
    finally:
        Trace.current = outer

    used = dict.fromkeys(kind for kind in [kind for _, kind, _ in inputs] + [kind for kind, _ in outputs]
                         if kind in types or kind[0].isupper())
    doc = " ".join((function.__doc__ or "").split()).replace('"', "'")
    lines = [f"operator {name} {{"]
    lines += [f'  "{doc}"'] if doc else []
    lines += [f"  type {kind}: {types.get(kind, 'float')}" for kind in used]
    lines += [_attribute(each) for each in attributes]
    lines += [f"  input {given}: {kind}[{', '.join(axes)}]" for given, kind, axes in inputs]
    lines += [f"  output {output}: {kind}[{', '.join(axes)}]" for output, (kind, axes) in zip(output_names, outputs)]
    return "\n".join([*lines, *(f"  {form}" for form in trace.forms), "}", ""])
