# SPDX-License-Identifier: Apache-2.0
"""Engines in modules: with MXNET_USE_GRAFT=1 a Module that is bound for inference gets engines once it has weights,
by set_params, init_params or Module.load. It is then the module of a symbol with engines, and its parameters are their
plans; new weights bring the plain symbol back first."""

import functools
import json
import threading

from mxnet.module import BucketingModule, Module

from ..errors import InvalidArgumentError
from . import binding

_plain = {name: getattr(Module, name) for name in ("bind", "init_params", "set_params")}
_plain_buckets = {name: getattr(BucketingModule, name) for name in ("bind", "switch_bucket")}
_KEPT = "_graft_plain_symbol"  # the attribute of a module with engines that has the symbol it was made of
_SHARES = "_graft_shares_arrays"  # of one that has arrays together with others
_buckets = threading.local()  # whether modules are bound for buckets


def wrap():
    """Puts the functions of this module in place of MXNet's. Once for a process."""
    Module.bind, Module.init_params, Module.set_params = _bind, _init_params, _set_params
    for name, function in _plain_buckets.items():
        setattr(BucketingModule, name, _for_buckets(function))


def _for_buckets(function):
    """The modules that it binds share their arrays."""
    @functools.wraps(function)
    def bind(*arguments, **named):
        before, _buckets.bound = getattr(_buckets, "bound", False), True
        try:
            return function(*arguments, **named)
        finally:
            _buckets.bound = before
    return bind


@functools.wraps(_plain["bind"])
def _bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
          shared_module=None, grad_req="write"):
    if for_training and force_rebind and hasattr(self, _KEPT):
        raise InvalidArgumentError("the weights of this module are in engines, which cannot be trained: make another "
                                   "Module for training, and hand it the weights")
    if hasattr(shared_module, _KEPT):
        raise InvalidArgumentError("the weights of the shared module are in engines: bind the modules that share "
                                   "arrays without MXNET_USE_GRAFT")
    setattr(self, _SHARES, shared_module is not None or getattr(_buckets, "bound", False))
    with binding.quiet():  # what simple_bind says of missing weights; they come later
        _plain["bind"](self, data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module,
                       grad_req)
    if self.params_initialized:
        _take_engines(self)


@functools.wraps(_plain["init_params"])
def _init_params(self, *positional, **named):
    given = dict(zip(("initializer", "arg_params", "aux_params", "allow_missing", "force_init"), positional), **named)
    if not self.params_initialized or given.get("force_init", False):
        _restore(self, not given.get("allow_missing", False))
    _plain["init_params"](self, *positional, **named)
    _take_engines(self)


@functools.wraps(_plain["set_params"])
def _set_params(self, arg_params, aux_params, allow_missing=False, force_init=True, allow_extra=False):
    if allow_missing and force_init:
        _restore(self, False)
    _plain["set_params"](self, arg_params, aux_params, allow_missing, force_init, allow_extra)
    _take_engines(self)


def _take_engines(self):
    """The module becomes that of the symbol with engines, if the variable asks for it."""
    if not binding.get_use_graft() or not self.binded or hasattr(self, _KEPT):
        return
    reason = binding.reason_to_stay(self._context[0], self.for_training, "")
    if not reason and (self._state_names or getattr(self, _SHARES)):
        reason = "it has states" if self._state_names else "it shares arrays with other modules"
    if reason:
        binding.LOGGER.info("this module stays with MXNet: %s", reason)
        return
    plain, shapes = self._symbol, [*self._data_shapes, *(self._label_shapes or ())]
    args, aux = (dict(arrays) for arrays in self.get_params())
    known = set(plain.list_arguments())
    options = {"data_names": [each.name for each in shapes if each.name in known], **binding.options()}
    made = plain.optimize_for("graft", args, aux, ctx=self._context[0],
                              shape_dict={each.name: each.shape for each in shapes if each.name in known},
                              type_dict={each.name: each.dtype for each in shapes if each.name in known}, **options)
    if all(node["op"] != "_graft_engine" for node in json.loads(made.tojson())["nodes"]):
        return
    _become(self, made)
    with binding.quiet():
        _plain["init_params"](self, initializer=None, arg_params=args, aux_params=aux, allow_extra=True)
    setattr(self, _KEPT, plain)


def _restore(self, whole):
    """The module of the plain symbol again, without weights; `whole`: it gets all of them now."""
    if not hasattr(self, _KEPT):
        return
    if not whole:
        raise InvalidArgumentError("the weights of this module are in engines: hand in all of them, without "
                                   "allow_missing")
    plain = getattr(self, _KEPT)
    delattr(self, _KEPT)
    _become(self, plain)


def _become(self, symbol):
    """The module of another symbol with the same inputs, bound for inference as it was."""
    data_shapes, label_shapes = self._data_shapes, self._label_shapes
    Module.__init__(self, symbol, self._data_names, self._label_names, self.logger, self._context,
                    self._work_load_list, group2ctxs=self._group2ctxs)
    with binding.quiet():
        _plain["bind"](self, data_shapes, label_shapes, for_training=False)
