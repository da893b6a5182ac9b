# SPDX-License-Identifier: Apache-2.0
"""The operators that an engine stands for, as a function that it falls back to."""

import tensorflow
from tensorflow.core.framework import graph_pb2  # pylint: disable=no-name-in-module


def engines_of(graph_def):
    """The nodes that are engines."""
    return [node for node in graph_def.node if node.op == "GraftEngine"]


def given_to(graph_def, engine):
    """The tensors that an engine takes, by their names before the graph was rewritten."""
    results = {node.name: [name.decode() for name in node.attr["results"].list.s] for node in engines_of(graph_def)}
    for source in list(engine.input)[:len(engine.attr["InT"].list.type)]:
        name, _, index = source.partition(":")
        yield results[name][int(index or 0)] if name in results else source


def function_of(original, converted, engine):
    """A ConcreteFunction of an engine's operators: `engine` is a node of `converted`, which was made of `original`."""
    by_name = {node.name: node for node in original.node}
    given = {source: f"graft_given_{i}" for i, source in enumerate(given_to(converted, engine))}
    types = [tensorflow.as_dtype(number) for number in engine.attr["InT"].list.type]
    part = graph_pb2.GraphDef(versions=original.versions, library=original.library)
    for placeholder, dtype in zip(given.values(), types):
        node = part.node.add(name=placeholder, op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.unknown_rank = True
    queue = [name.decode() for name in engine.attr["nodes"].list.s]
    seen = set(queue)
    while queue:  # the operators, and the constants that they take
        node = part.node.add()
        node.CopyFrom(by_name[queue.pop()])
        sources = [source.removesuffix(":0") for source in node.input if not source.startswith("^")]
        node.ClearField("input")
        node.input.extend(given.get(source, source) for source in sources)
        node.attr.pop("_class", None)
        needed = {source.partition(":")[0] for source in sources if source not in given}
        queue += sorted(needed - seen)
        seen |= needed
    results = [name.decode() for name in engine.attr["results"].list.s]

    def run(*tensors):
        names = [name if ":" in name else f"{name}:0" for name in results]
        return tensorflow.graph_util.import_graph_def(part, dict(zip(given.values(), tensors)), names, name="")

    specs = [tensorflow.TensorSpec(None, dtype) for dtype in types]
    return tensorflow.function(run, input_signature=specs, autograph=False).get_concrete_function()
