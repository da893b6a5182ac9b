# SPDX-License-Identifier: Apache-2.0
"""What a signature holds beside its graph: tables, which a converted one goes on taking, and variables, which become
constants of it and must not be written to."""

from typing import Any, NamedTuple

import tensorflow

from ..errors import UnsupportedError

CONDITION_FIRST = {"If", "StatelessIf", "Case", "StatelessCase"}  # what chooses the function is no argument of it


class Resource(NamedTuple):
    """What a frozen graph takes beside the signature's inputs."""

    node: str
    handle: Any
    owner: Any  # what is saved with a model for it; None where it has no owner


def owners_of(model, handles):
    """The objects of a model that hold these resources."""
    wanted = {id(handle) for handle in handles}
    found, seen = [], set()
    for each in tensorflow.train.TrackableView(model).descendants():
        handle = handle_of(each)
        if handle is not None and id(handle) in wanted and id(each) not in seen:
            seen.add(id(each))
            found.append(each)
    return found


def handle_of(trackable):
    """The tensor by which functions capture a variable, a table, or an asset."""
    if isinstance(trackable, tensorflow.Variable):
        return trackable.handle
    for name in ("resource_handle", "asset_path"):
        try:
            handle = getattr(trackable, name, None)
        except (NotImplementedError, ValueError):  # a resource that is not made yet
            handle = None
        if handle is not None:
            return handle
    return None


def taken_by(frozen, function, model):
    """What a frozen function takes beside the inputs of its signature, as Resources."""
    placeholders = function.inputs[len(function.inputs) - len(function.captured_inputs):]
    handles = {each.op.name: handle for each, handle in zip(placeholders, function.captured_inputs)}
    left = [tensor.op.name for tensor in frozen.inputs if tensor.op.name in handles]
    owners = {id(handle_of(each)): each for each in owners_of(model, [handles[name] for name in left])}
    return [Resource(name, handles[name], owners.get(id(handles[name]))) for name in left]


def check_not_written(function, folder):
    """Raises UnsupportedError for a variable that the function, or one that it calls, writes to."""
    names = {id(each.handle): each.name for each in function.graph.variables}
    placeholders = function.inputs[len(function.inputs) - len(function.captured_inputs):]
    carried = {}
    for placeholder, handle in zip(placeholders, function.captured_inputs):
        if handle.dtype == tensorflow.resource:
            carried[placeholder.op.name] = names.get(id(handle), placeholder.op.name)
    graph = function.graph.as_graph_def()
    library = {each.signature.name: each for each in graph.library.function}
    known = {name for name in carried.values() if name in names.values()}
    found = _written(graph.node, carried, library, frozenset())
    if found is not None and found[0] in known:
        name, node = found
        raise UnsupportedError(f"{folder}: the model writes to its variable '{name.removesuffix(':0')}' ({node.op} "
                               f"'{node.name}'), and an engine keeps nothing between calls: save the model for "
                               "inference, without what counts or keeps states")


def _written(nodes, carried, library, inside):
    """(variable, node) of the first write to one; `carried`: variables by the names of tensors that hold them."""
    carried = dict(carried)
    for node in nodes:
        sources = [source.partition(":")[0] for source in node.input if not source.startswith("^")]
        if node.op == "Identity" and sources and sources[0] in carried:
            carried[node.name] = carried[sources[0]]
        if _writes(node.op) and sources and sources[0] in carried:
            return carried[sources[0]], node
        arguments = sources[1:] if node.op in CONDITION_FIRST else sources
        for called in _functions_of(node):
            definition = library.get(called)
            if definition is None or called in inside or not any(name in carried for name in arguments):
                continue
            given = {argument.name: carried[name] for argument, name in zip(definition.signature.input_arg, arguments)
                     if name in carried}
            found = _written(definition.node_def, given, library, inside | {called})
            if found is not None:
                return found
    return None


def _writes(op):
    """Whether its first input is a variable that it changes."""
    return (op.startswith("Assign") and op.endswith("VariableOp")) or op.startswith(("ResourceApply", "ResourceScatter",
                                                                                      "ResourceSparse",
                                                                                      "ResourceStridedSliceAssign"))


def _functions_of(node):
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (each.name for each in value.list.func)
