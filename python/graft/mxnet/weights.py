# SPDX-License-Identifier: Apache-2.0
"""Weights that engines hold, and what a program does with MXNet's arrays around that: arrays that MXNet still computes
are waited for before they are read, and a block whose parameters have changed gets engines of the new ones."""

import ctypes
import functools
import logging
import threading

import mxnet
import numpy as np
from mxnet.gluon import HybridBlock, Parameter, SymbolBlock
from mxnet.symbol import Symbol

from ..calibrating import Int8
from . import calibration, library

BACKEND = "graft"
LOGGER = logging.getLogger("graft")
_WATCHED = "_graft_weights"  # the attribute of a block with engines that has the parameters in them
_WRITERS = ("set_data", "_load_init", "_init_impl", "cast", "reset_ctx")  # of a Parameter

_plain = {name: getattr(HybridBlock, name) for name in ("_build_cache", "_call_cached_op", "_clear_cached_op")}
_plain_clear_symbol_block = SymbolBlock._clear_cached_op
_plain_optimize_for = Symbol.optimize_for
_library = library.load()
_library.graft_mxnet_fingerprint.restype = ctypes.c_uint64
_library.graft_mxnet_fingerprint.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_writes = [0]  # how often parameters were set through their methods, in this process
_rebuilds = threading.RLock()


def wrap():
    """Puts the functions of this module in place of MXNet's. Once for a process."""
    Symbol.optimize_for = _optimize_for
    for name, function in {"_build_cache": _build_cache, "_call_cached_op": _call_cached_op,
                           "_clear_cached_op": _clear_cached_op}.items():
        setattr(HybridBlock, name, function)
    SymbolBlock._clear_cached_op = _clear_symbol_block
    for name in _WRITERS:
        setattr(Parameter, name, _counted(getattr(Parameter, name)))


@functools.wraps(_plain_optimize_for)
def _optimize_for(self, backend, args=None, aux=None, ctx=None, shape_dict=None, type_dict=None, stype_dict=None,
                  skip_infer=False, **named):
    def optimize(args, aux, **options):
        return _plain_optimize_for(self, backend, args, aux, ctx, shape_dict, type_dict, stype_dict, skip_infer,
                                   **options)

    if backend != BACKEND:
        return optimize(args, aux, **named)
    mxnet.nd.waitall()  # the library is handed addresses: what is written there later would be lost
    int8 = Int8(named)
    if int8.calibration is None:
        return optimize(args, aux, **int8.options)
    return calibration.optimized(optimize, int8.calibration, args, aux, ctx, int8.options)


def _counted(function):
    """A method that sets a parameter, after which contents are compared wholly."""
    @functools.wraps(function)
    def counted(*positional, **named):
        try:
            return function(*positional, **named)
        finally:
            _writes[0] += 1
    return counted


class Watched:
    """The parameters that the engines of a block have taken, as they were."""

    def __init__(self, graph, parameters):
        self.graph = graph  # the block's own, with data, as it was before
        self._parameters = parameters
        self._arrays = [each.data() for each in parameters]
        self._handles = (ctypes.c_void_p * len(parameters))(*(each.handle for each in self._arrays))
        self._bytes = (ctypes.c_size_t * len(parameters))(
            *(each.size * np.dtype(each.dtype).itemsize for each in self._arrays))
        self._writes = _writes[0]
        self._whole, self._samples = self._fingerprint(True), self._fingerprint(False)

    def _fingerprint(self, whole):
        return _library.graft_mxnet_fingerprint(self._handles, self._bytes, len(self._arrays), int(whole))

    def changed(self):
        """Whether a parameter is another one now. What was set through a parameter's methods is compared wholly; what
        was written into its array, by all of a small one and samples of a large one."""
        writes = _writes[0]
        if writes == self._writes:
            return self._fingerprint(False) != self._samples
        if any(each.data() is not array for each, array in zip(self._parameters, self._arrays)):
            return True
        if self._fingerprint(True) != self._whole:
            return True
        self._writes = writes
        return False


@functools.wraps(_plain["_build_cache"])
def _build_cache(self, *positional):
    if self._backend != BACKEND:
        return _plain["_build_cache"](self, *positional)
    graph = self._get_graph(*positional)
    _plain["_build_cache"](self, *positional)
    left, known = set(self._cached_graph[1].list_inputs()), self.collect_params()
    taken = [known[name] for name in graph[1].list_inputs() if name not in left and name in known]
    self.__dict__[_WATCHED] = Watched(graph, taken)
    return None


@functools.wraps(_plain["_call_cached_op"])
def _call_cached_op(self, *positional):
    watched = self.__dict__.get(_WATCHED)
    if watched is not None and watched.changed():
        with _rebuilds:
            if self.__dict__.get(_WATCHED) is watched:  # no other thread has done it
                LOGGER.info("parameters of %s have changed: its engines are built again", self.name)
                self._clear_cached_op()
                self._build_cache(*positional)
    return _plain["_call_cached_op"](self, *positional)


@functools.wraps(_plain["_clear_cached_op"])
def _clear_cached_op(self):
    self.__dict__.pop(_WATCHED, None)
    _plain["_clear_cached_op"](self)


@functools.wraps(_plain_clear_symbol_block)
def _clear_symbol_block(self):
    """A SymbolBlock keeps its graph, which is the one without engines."""
    watched = self.__dict__.get(_WATCHED)
    _plain_clear_symbol_block(self)
    if watched is not None:
        self._cached_graph = watched.graph
