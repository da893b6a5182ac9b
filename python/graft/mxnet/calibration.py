# SPDX-License-Identifier: Apache-2.0
"""int8 engines of symbols: MXNet runs a symbol whose engines learn on samples, and then gets it with what these have
become."""

import json
import re

import mxnet
import numpy as np

from .. import _graft
from ..calibrating import batches_of
from ..errors import InvalidArgumentError


DATA = re.compile(r"data\d*")  # arguments that are data, whether they have an array or not


def engine_nodes(symbol):
    """{name: attributes} of the engines of a symbol."""
    return {node["name"]: node.get("attrs", {}) for node in json.loads(symbol.tojson())["nodes"]
            if node["op"] == "_graft_engine"}


def optimized(optimize, calibration, args, aux, ctx, options):
    """A symbol with engines of int8. `optimize(args, aux, **options)` gives it with engines that are made, or that are
    there already; `args` and `aux` become what it takes."""
    learning_args, learning_aux = dict(args or {}), dict(aux or {})
    learning = optimize(learning_args, learning_aux, **options)
    names = [each["calibration"] for each in engine_nodes(learning).values() if "calibration" in each]
    try:
        if any(_graft.calibration_runs(_graft.find_engine(name)) >= 0 for name in names):
            run_on(learning, calibration, learning_args, learning_aux, ctx or mxnet.cpu(), options.get("data_names"))
        known = {name: value for name, value in options.items() if name != "calibration_iters"}
        return optimize(args, aux, **known, **({"engines": ordered(learning)} if names else {}))
    finally:
        for name in names:
            _graft.withdraw_engine(name)


def ordered(symbol):
    """Names of the engines in the order of their segments: the plan of segment number n is `graft_engine<n>_plan`."""
    nodes = json.loads(symbol.tojson())["nodes"]
    plans = {}
    for node in nodes:
        if node["op"] == "_graft_engine":
            plan = nodes[node["inputs"][-1][0]]["name"]
            plans[int(plan.removeprefix("graft_engine").removesuffix("_plan"))] = node["attrs"]["calibration"]
    return [plans[number] for number in sorted(plans)]


def run_on(symbol, calibration, args, aux, ctx, data_names):
    """Runs a symbol on samples, once each."""
    data = [name for name in symbol.list_arguments()
            if (name not in args or DATA.fullmatch(name)) and not name.endswith("label")]
    data = names_of_data(data_names) or data
    kept = {name: array for name, array in args.items() if name not in data and not name.endswith("label")}
    if hasattr(calibration, "reset"):
        calibration.reset()  # an iterator of MXNet, which its user may have gone through
    for number, batch in enumerate(batches_of(calibration)):
        given = arrays_of(batch, data, f"batch {number} of calibration", calibration)
        try:
            bound = {**kept, **given}
            shapes, _, _ = symbol.infer_shape(**{name: array.shape for name, array in bound.items()})
            for name, shape in zip(symbol.list_arguments(), shapes):
                if name not in bound:  # labels
                    bound[name] = mxnet.nd.zeros(shape, ctx=ctx)
            for result in symbol.bind(ctx, bound, grad_req="null", aux_states=aux).forward(is_train=False):
                result.wait_to_read()
        except (mxnet.MXNetError, ValueError, TypeError) as error:
            raise InvalidArgumentError(f"batch {number} of calibration does not fit the symbol: {error}") from None


def names_of_data(data_names):
    """The option data_names as a list."""
    return [data_names] if isinstance(data_names, str) else list(data_names or ())


def arrays_of(batch, names, where, calibration):
    """{name: array} of a batch: of an iterator of MXNet, an array, a list of arrays in order (further ones, such as
    labels, are left out), or a dictionary."""
    if isinstance(batch, mxnet.io.DataBatch):
        provided = batch.provide_data or getattr(calibration, "provide_data", None)
        listed = [each[0] for each in provided] if provided else names
        batch = dict(zip(listed, batch.data))
    if not isinstance(batch, dict):
        listed = list(batch) if isinstance(batch, (list, tuple)) else [batch]
        batch = dict(zip(names, listed))
    missing = [name for name in names if name not in batch]
    if missing:
        raise InvalidArgumentError(f"{where} has no '{missing[0]}', which the symbol takes; it has "
                                   f"{', '.join(map(str, batch)) or 'nothing'}")
    return {name: array_of(batch[name], f"'{name}' of {where}") for name in names}


def array_of(given, where):
    """An array of MXNet."""
    if isinstance(given, mxnet.nd.NDArray):
        return given
    try:
        array = np.asarray(given)
        return mxnet.nd.array(array, dtype=array.dtype)
    except (KeyError, TypeError, ValueError, mxnet.MXNetError) as error:
        raise InvalidArgumentError(f"{where} is no array: {error}") from None
