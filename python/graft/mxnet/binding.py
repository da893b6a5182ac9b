# SPDX-License-Identifier: Apache-2.0
"""Engines at bind: MXNET_USE_GRAFT=1 makes Symbol.simple_bind and Symbol.bind put engines into what they bind.

The variable is read at every bind, as the TensorRT integration of MXNet 1.3 read its own, whose names count where
ours is not set. A bind for training, one without weights and one for another device than a CPU stay as MXNet does them.
"""

import contextlib
import ctypes
import functools
import logging
import os
import threading

from mxnet.symbol import Symbol

from .. import arguments
from ..errors import InvalidArgumentError
from . import library

VARIABLE = "MXNET_USE_GRAFT"
LOGGER = logging.getLogger("graft")

_plain_bind = Symbol.bind
_plain_simple_bind = Symbol.simple_bind
_options = {}  # of optimize_for, for binds that the variable asks for
_inside = threading.local()  # whether a module binds, which takes engines itself
_library = library.load()


def get_use_graft():
    """Whether the next bind for inference gets engines: MXNET_USE_GRAFT, or, where that is not set,
    MXNet_USE_TENSORRT or MXNET_USE_TENSORRT."""
    variable = ctypes.c_char_p()
    wanted = _library.graft_mxnet_use_at_bind(ctypes.byref(variable))
    if wanted < 0:
        name = variable.value.decode()
        raise InvalidArgumentError(f"{name} is {os.environ[name]!r}: set it to 0 or 1")
    return wanted == 1


def set_use_graft(status, **options):
    """Sets MXNET_USE_GRAFT for this process. `options`: those of optimize_for("graft"), for all binds from now on."""
    os.environ[VARIABLE] = str(int(bool(status)))
    _options.clear()
    _options.update(options)


def options():
    """Those of optimize_for, for binds that the variable asks for."""
    return dict(_options)


@contextlib.contextmanager
def quiet():
    """Binds inside stay with MXNet, and nothing is said of it."""
    before, _inside.module = getattr(_inside, "module", False), True
    try:
        yield
    finally:
        _inside.module = before


def get_optimized_symbol(executor):
    """What an executor runs: the symbol with engines, or the one that was bound."""
    return executor._symbol


def graft_bind(symbol, ctx, all_params, type_dict=None, stype_dict=None, group2ctx=None, **kwargs):
    """simple_bind for inference with engines, whatever the variable says. all_params: weights and statistics by name;
    kwargs: the shapes of the data, as simple_bind takes them."""
    return _simple_bind_engines(symbol, ctx, dict(arguments.named("all_params", all_params)), type_dict, stype_dict,
                                group2ctx, kwargs)


def wrap():
    """Puts the functions of this module in place of MXNet's. Once for a process."""
    Symbol.bind = _bind
    Symbol.simple_bind = _simple_bind


@functools.wraps(_plain_simple_bind)
def _simple_bind(self, ctx, grad_req="write", type_dict=None, stype_dict=None, group2ctx=None, shared_arg_names=None,
                 shared_exec=None, shared_buffer=None, **kwargs):
    if not getattr(_inside, "module", False) and get_use_graft():
        weights = set(shared_buffer or ()) & set(self.list_inputs()) - set(kwargs)
        reason = reason_to_stay(ctx, _requests(grad_req), "" if weights else
                                 "it has no weights: hand them in by shared_buffer, or call optimize_for before")
        reason = reason or (shared_exec is not None and "it shares the arrays of another executor")
        if not reason:
            return _simple_bind_engines(self, ctx, shared_buffer, type_dict, stype_dict, group2ctx, kwargs)
        LOGGER.info("this bind stays with MXNet: %s", reason)
    return _plain_simple_bind(self, ctx, grad_req, type_dict, stype_dict, group2ctx, shared_arg_names, shared_exec,
                              shared_buffer, **kwargs)


@functools.wraps(_plain_bind)
def _bind(self, ctx, args, args_grad=None, grad_req="write", aux_states=None, group2ctx=None, shared_exec=None):
    if get_use_graft():
        arrays = args_grad.values() if isinstance(args_grad, dict) else args_grad or ()
        trains = any(array is not None for array in arrays) and _requests(grad_req)
        reason = reason_to_stay(ctx, trains, "" if args else "it has no arguments")
        if not reason:
            args, aux_states = _by_name(self.list_arguments(), args), _by_name(self.list_auxiliary_states(), aux_states)
            made = self.optimize_for("graft", args, aux_states, ctx=ctx, **_options)
            return _plain_bind(made, ctx, args, None, "null", aux_states, group2ctx, shared_exec)
        LOGGER.info("this bind stays with MXNet: %s", reason)
    return _plain_bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx, shared_exec)


def _simple_bind_engines(symbol, ctx, params, type_dict, stype_dict, group2ctx, kwargs):
    """An executor of the symbol with engines. What has an array here is a weight, and what has a shape is data."""
    shapes = {name: shape for name, shape in kwargs.items() if isinstance(shape, tuple)}
    known = [set(symbol.list_arguments()), set(symbol.list_auxiliary_states())]
    args, aux = ({name: array for name, array in params.items() if name in names and name not in shapes}
                 for names in known)
    options = {"data_names": [name for name in shapes if name in known[0]], **_options}
    made = symbol.optimize_for("graft", args, aux, ctx=ctx, shape_dict=shapes, type_dict=type_dict,
                               stype_dict=stype_dict, **options)
    left = set(made.list_arguments())
    dense = {name: "default" for name in left}  # engines ask for it, and MXNet does not infer it of handed-in arrays
    executor = _plain_simple_bind(made, ctx, "null", _of(left, type_dict), {**dense, **_of(left, stype_dict)},
                                  group2ctx, shared_buffer=args, **_of(left, shapes))
    executor.copy_params_from({}, aux)  # MXNet takes arguments alone out of the buffer
    return executor


def reason_to_stay(ctx, trains, lacks):
    """Why a bind gets no engines; empty where it does."""
    if trains:
        return "it asks for gradients"
    if not ctx.device_type.startswith("cpu"):
        return f"it is for {ctx}, and engines run on CPUs"
    return lacks


def _requests(grad_req):
    """Whether gradients are asked for."""
    kinds = [grad_req] if isinstance(grad_req, str) else grad_req.values() if isinstance(grad_req, dict) else grad_req
    return any(kind != "null" for kind in kinds or ())


def _by_name(names, arrays):
    """A dictionary of its own, of arrays that come in the order of the names or by name."""
    return dict(arrays) if isinstance(arrays, dict) else dict(zip(names, arrays or ()))


def _of(names, entries):
    """Those of some names."""
    return {name: entry for name, entry in (entries or {}).items() if name in names}
