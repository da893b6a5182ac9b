# SPDX-License-Identifier: Apache-2.0
"""The operators that an engine stands for, as a function that it falls back to, or is built of."""

import hashlib

import tensorflow
from tensorflow.core.framework import graph_pb2  # pylint: disable=no-name-in-module

LEAVES_ALONE = "_tf_data_function"  # an attribute of functions that Grappler does not rewrite


def engines_of(graph_def):
    """The nodes that are engines."""
    return [node for node in graph_def.node if node.op == "GraftEngine"]


def given_to(graph_def, engine):
    """The tensors that an engine takes, by their names before the graph was rewritten."""
    results = {node.name: [name.decode() for name in node.attr["results"].list.s] for node in engines_of(graph_def)}
    for source in list(engine.input)[:len(engine.attr["InT"].list.type)]:
        name, _, index = source.partition(":")
        yield results[name][int(index or 0)] if name in results else source


def add_function(original, converted, engine, as_they_are=False):
    """Gives an engine's node its operators, as a function in the graph's library, in place of its plan. `as_they_are`:
    Grappler leaves them alone, as what it makes of them are operators for TensorFlow."""
    native = function_of(original, converted, engine)
    definition, called = native.function_def, native.graph.as_graph_def().library
    definition.signature.name = ""
    content = definition.SerializeToString(deterministic=True)
    definition.signature.name = f"graft_segment_{hashlib.sha256(content).hexdigest()[:16]}"
    if as_they_are:
        for each in (definition, *called.function):
            each.attr[LEAVES_ALONE].b = True
    known = {each.signature.name for each in converted.library.function}
    new = [each for each in (definition, *called.function) if each.signature.name not in known]
    converted.library.function.extend(new)
    converted.library.gradient.extend(called.gradient)
    del engine.attr["segment"].list.func[:]
    engine.attr["segment"].list.func.add(name=definition.signature.name)
    engine.attr["plan"].s = b""


def function_of(original, converted, engine):
    """A ConcreteFunction of an engine's operators: `engine` is a node of `converted`, which was made of `original`."""
    by_name = {node.name: node for node in original.node}
    given = {source: f"graft_given_{i}" for i, source in enumerate(given_to(converted, engine))}
    types = [tensorflow.as_dtype(number) for number in engine.attr["InT"].list.type]
    part = graph_pb2.GraphDef(versions=original.versions, library=original.library)
    queue = [name.decode() for name in engine.attr["nodes"].list.s]
    inside = frozenset(queue)
    seen = set(queue)
    while queue:  # the operators, and the constants that they take
        node = part.node.add()
        node.CopyFrom(by_name[queue.pop()])
        sources = [source.removesuffix(":0") for source in node.input if not source.startswith("^")]
        before = [source for source in node.input if source.startswith("^") and source[1:] in inside]
        node.ClearField("input")
        node.input.extend([given.get(source, source) for source in sources] + before)
        node.attr.pop("_class", None)
        needed = {source.partition(":")[0] for source in sources if source not in given}
        queue += sorted(needed - seen)
        seen |= needed
    results = [name.decode() for name in engine.attr["results"].list.s]

    def run(*tensors):
        names = [name if ":" in name else f"{name}:0" for name in results]
        return tensorflow.graph_util.import_graph_def(part, dict(zip(given.values(), tensors)), names, name="")

    # No tf.function, which adds edges between what has effects, also where that is in a loop of TensorFlow 1.
    return tensorflow.compat.v1.wrap_function(run, [tensorflow.TensorSpec(None, dtype) for dtype in types])
