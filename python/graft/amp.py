# SPDX-License-Identifier: Apache-2.0
"""Mixed-precision models of MXNet, with the interface of mxnet.contrib.amp.

    sym, arg_params, aux_params = mx.model.load_checkpoint("net", 0)
    sym, arg_params, aux_params = graft.amp.convert_model(sym, arg_params, aux_params, target_dtype="float16")

The casts are decided in C++ (docs/AMP.md), and mxnet is needed only for its own symbols and arrays: a symbol may also
be a path or its JSON, and parameters numpy arrays.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _graft
from .arguments import named, names
from .element_types import NUMBERS, numpy_type
from .errors import InvalidArgumentError

__all__ = ["convert_block", "convert_hybrid_block", "convert_model", "convert_symbol"]

_Conditions = Iterable[tuple[str, str, Sequence[str]]]
_MXNET_BFLOAT16 = np.dtype([("bfloat16", np.uint16)])  # what mxnet has for a type that numpy lacks


def convert_symbol(sym: Any, target_dtype: Any = "float16", target_dtype_ops: Iterable[str] | None = None,
                   fp32_ops: Iterable[str] | None = None, conditional_fp32_ops: _Conditions | None = None,
                   excluded_sym_names: Iterable[str] | None = None, data_names: Iterable[str] | None = None,
                   cast_optional_params: bool = True, *, widest_dtype_ops: Iterable[str] | None = None,
                   input_dtypes: Mapping[str, Any] | None = None,
                   target_precision_ops: Iterable[str] | None = None,
                   widest_precision_ops: Iterable[str] | None = None) -> Any:
    """The symbol with amp_cast and amp_multicast: a symbol of mxnet, or JSON if a path or JSON is given and
    mxnet cannot be imported.

    target_dtype: float16 or bfloat16. The lists name operators: always of the target type, always float32, of the
    widest type of their inputs; conditional: (operator, attribute, values) that make it float32. A given list
    replaces the default of its kind, and no other default applies to operators in it. excluded_sym_names: nodes that
    stay float32. data_names: variables that are inputs; the others are parameters (default: variables that are no
    operator's weights). input_dtypes: their types by name; None or "any" for any type.
    cast_optional_params: convert parameters that only the target type reads, instead of casting them in each run.
    """
    request = _request(target_dtype, target_dtype_ops, target_precision_ops, fp32_ops, widest_dtype_ops,
                       widest_precision_ops, conditional_fp32_ops, excluded_sym_names, data_names, input_dtypes,
                       cast_optional_params)
    text, give = _taken(sym)
    return give(_graft.convert_symbol(text, request, None)[0])


_convert_symbol = convert_symbol  # the name in MXNet's first proposal


def convert_model(sym: Any, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any], target_dtype: Any = "float16",
                  target_dtype_ops: Iterable[str] | None = None, fp32_ops: Iterable[str] | None = None,
                  conditional_fp32_ops: _Conditions | None = None, excluded_sym_names: Iterable[str] | None = None,
                  cast_optional_params: bool = True, *, widest_dtype_ops: Iterable[str] | None = None,
                  data_names: Iterable[str] | None = None, input_dtypes: Mapping[str, Any] | None = None,
                  target_precision_ops: Iterable[str] | None = None,
                  widest_precision_ops: Iterable[str] | None = None) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(symbol, arg_params, aux_params) of mixed precision; the arguments are those of convert_symbol. Parameters are
    arrays of mxnet or of numpy, and stay what they are; one whose contents do not fit the target type stays float32.
    Inputs and outputs keep their types."""
    arguments, auxiliary = dict(named("arg_params", arg_params)), dict(named("aux_params", aux_params))
    request = _request(target_dtype, target_dtype_ops, target_precision_ops, fp32_ops, widest_dtype_ops,
                       widest_precision_ops, conditional_fp32_ops, excluded_sym_names, data_names, input_dtypes,
                       cast_optional_params)
    text, give = _taken(sym)
    seen = [_seen(name, array) for name, array in {**arguments, **auxiliary}.items()]
    made, report = _graft.convert_symbol(text, request, seen)
    types = json.loads(report)["parameters"]
    convert = [{name: _converted(array, types.get(name)) for name, array in each.items()}
               for each in (arguments, auxiliary)]
    return give(made), convert[0], convert[1]


def convert_hybrid_block(block: Any, target_dtype: Any = "float16", target_dtype_ops: Iterable[str] | None = None,
                         fp32_ops: Iterable[str] | None = None, conditional_fp32_ops: _Conditions | None = None,
                         excluded_sym_names: Iterable[str] | None = None, ctx: Any = None,
                         cast_optional_params: bool = True, *, input_names: Iterable[str] = ("data",),
                         **lists: Any) -> Any:
    """A SymbolBlock of mixed precision of a HybridBlock or SymbolBlock of gluon, with parameters of its own; the other
    arguments are those of convert_model. The block need not be hybridized, and need not have run, unless it finds out
    the shapes of its parameters by that. input_names: what the inputs are called, one for each. ctx: where the
    parameters are to be; None: where the block has them. Nested results come as one list."""
    mxnet: Any = importlib.import_module("mxnet")
    inputs = [mxnet.symbol.var(name) for name in names("input_names", input_names)]
    sym = _symbol_of(mxnet, block, inputs)
    arrays = {name: _initialized(mxnet, name, parameter) for name, parameter in block.collect_params().items()}
    known = set(sym.list_arguments()), set(sym.list_auxiliary_states())
    arguments, auxiliary = ({name: array for name, array in arrays.items() if name in each} for each in known)
    made, arguments, auxiliary = convert_model(
        sym, arguments, auxiliary, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
        cast_optional_params, data_names=[each.name for each in inputs], **lists)
    result = mxnet.gluon.SymbolBlock(made, inputs)
    arrays = {**arguments, **auxiliary}
    for name, parameter in result.collect_params().items():
        parameter.cast(arrays[name].dtype)
        parameter._load_init(arrays[name], [ctx] if isinstance(ctx, mxnet.Context) else ctx or [arrays[name].ctx])
    return result


def convert_block(block: Any, target_dtype: Any = "float16", target_dtype_ops: Iterable[str] | None = None,
                  fp32_ops: Iterable[str] | None = None, conditional_fp32_ops: _Conditions | None = None,
                  excluded_sym_names: Iterable[str] | None = None, input_names: Iterable[str] = ("data",),
                  **choices: Any) -> Any:
    """convert_hybrid_block, by its name and arguments in MXNet's first proposal."""
    return convert_hybrid_block(block, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
                                excluded_sym_names, input_names=input_names, **choices)


def _symbol_of(mxnet: Any, block: Any, inputs: list[Any]) -> Any:
    """What a block computes of these."""
    if not isinstance(block, mxnet.gluon.HybridBlock):
        raise InvalidArgumentError(f"block is a {type(block).__name__}: give a HybridBlock or SymbolBlock of gluon")
    flat: list[Any] = []

    def gather(made: Any) -> None:
        for each in made if isinstance(made, (list, tuple)) else [made]:
            if isinstance(each, (list, tuple)):
                gather(each)
            else:
                flat.append(each)

    gather(block(*inputs))
    return flat[0] if len(flat) == 1 else mxnet.symbol.Group(flat)


def _initialized(mxnet: Any, name: str, parameter: Any) -> Any:
    """The array of a parameter."""
    try:
        return parameter.list_data()[0]
    except mxnet.gluon.parameter.DeferredInitializationError:
        raise InvalidArgumentError(f"the shape of the parameter {name} is not known yet: run the block once") from None
    except RuntimeError:
        raise InvalidArgumentError(f"the parameter {name} has no values: call initialize() of the block, or load its "
                                   "parameters") from None


def _request(target_dtype: Any, low: Any, low_by_old_name: Any, wide: Any, widest: Any, widest_by_old_name: Any,
             conditional: Any, excluded: Any, data: Any, inputs: Any, convert: Any) -> str:
    """The arguments as the C interface takes them."""
    for one, other, name in ((low, low_by_old_name, "target_dtype_ops"),
                             (widest, widest_by_old_name, "widest_dtype_ops")):
        if one is not None and other is not None:
            raise InvalidArgumentError(f"{name} is given twice, by its name and its old name: give one")
    lists = {"target_dtype_ops": low if low is not None else low_by_old_name, "fp32_ops": wide,
             "widest_dtype_ops": widest if widest is not None else widest_by_old_name,
             "excluded_sym_names": excluded, "data_names": data}
    request: dict[str, Any] = {key: names(key, value) for key, value in lists.items() if value is not None}
    if conditional is not None:
        request["conditional_fp32_ops"] = [[op, attribute, names("conditional_fp32_ops", values)]
                                           for op, attribute, values in conditional]
    if inputs is not None:
        request["input_dtypes"] = {name: None if kind is None else _type_name(kind)
                                   for name, kind in named("input_dtypes", inputs).items()}
    request["target_dtype"] = _type_name(target_dtype)
    request["cast_optional_params"] = bool(convert)
    return json.dumps(request)


def _type_name(kind: Any) -> str:
    """float16 for "float16", numpy.float16 and its dtype; bfloat16 for mxnet's structure of that name, too."""
    if isinstance(kind, str):
        return kind
    dtype = np.dtype(kind)
    return str(dtype.names[0] if dtype.names else dtype.name)


def _taken(sym: Any) -> tuple[str, Any]:
    """The JSON of a symbol, and what makes of JSON what the caller gets back."""
    if hasattr(sym, "tojson"):
        return _json_of(sym), _loaded
    if not isinstance(sym, (str, os.PathLike)):
        raise InvalidArgumentError(f"sym is a {type(sym).__name__}: give a symbol of mxnet, its path or its JSON")
    if isinstance(sym, str) and sym.lstrip().startswith("{"):
        return sym, lambda text: text
    with open(sym, encoding="utf-8") as file:
        text = file.read()
    return text, _loaded if _has_mxnet() else lambda made: made


def _has_mxnet() -> bool:
    """Whether it is installed; a folder of that name in the way is none."""
    spec = importlib.util.find_spec("mxnet")
    return spec is not None and spec.origin is not None


def _json_of(sym: Any) -> str:
    """With the casts that are in it: mxnet leaves them out unless it is told not to."""
    try:
        return str(sym.tojson(remove_amp_cast=False))
    except TypeError:  # before 1.5 it does not know any
        return str(sym.tojson())


def _loaded(text: str) -> Any:
    mxnet: Any = importlib.import_module("mxnet")
    return mxnet.symbol.load_json(text)


def _seen(name: str, array: Any) -> tuple[str, Any, int]:
    """A parameter for the C interface: only of those which might be converted are the contents looked at."""
    known = _type_name(array.dtype)
    if known not in NUMBERS:
        raise InvalidArgumentError(f"{name} is an array of {known}, which no model of mxnet has")
    if known != "float32":
        width = np.dtype(array.dtype).itemsize
        return name, np.zeros(0, f"u{width}") if width < 16 else np.zeros(0, known), NUMBERS[known]
    return name, np.ascontiguousarray(array.asnumpy() if hasattr(array, "asnumpy") else array), 0


def _converted(array: Any, kind: str | None) -> Any:
    """An array of that type: of mxnet, if it was one."""
    if kind is None or np.dtype(array.dtype) != np.float32 or kind == "float32":
        return array
    if hasattr(array, "asnumpy"):
        mxnet: Any = importlib.import_module("mxnet")
        # astype of mxnet cuts bfloat16 off instead of rounding.
        return mxnet.nd.amp_cast(array, dtype=_MXNET_BFLOAT16 if kind == "bfloat16" else kind)
    return np.asarray(array).astype(numpy_type(kind))
