# SPDX-License-Identifier: Apache-2.0
"""A smaller network with the same kind of finding."""

import networks
from worker import Failure


def minimise(checker, model, inputs, target, kind):
    """The network and its inputs, with as few nodes as greedy steps reach."""
    def fails(candidate, given):
        return any(finding.kind == kind for finding in checker.check(candidate, given, target))

    notes, checker.notes = checker.notes, {}
    try:
        for step in (fewer_outputs, later_inputs):
            model, inputs = step(checker, model, inputs, fails)
    finally:
        checker.notes = notes
    return model, inputs


def fewer_outputs(checker, model, inputs, fails):
    """The first value that is enough as the only output."""
    types = networks.value_types(model)
    for node in model.graph.node:
        names = [name for name in node.output if name in types]
        if not names:
            continue
        given, nodes = inputs, networks.needed_nodes(model, names, inputs)
        given = read_by(nodes, inputs)
        candidate = networks.with_nodes(model, nodes, given, {name: types[name] for name in names})
        if fails(candidate, given):
            return candidate, given
    return model, inputs


def later_inputs(checker, model, inputs, fails):
    """Nodes give way to inputs that have their values, from the first on, until none may."""
    types = networks.value_types(model)
    try:
        values = {**inputs, **checker.interpret(networks.exposed(model, types), inputs)}
    except Failure:
        return model, inputs
    outputs = {output.name: output.type for output in model.graph.output}
    for node in list(model.graph.node):
        given = {**inputs, **{name: values[name] for name in node.output if name in values}}
        nodes = networks.needed_nodes(model, list(outputs), given)
        if set(node.output) & set(outputs) or len(nodes) >= len(model.graph.node):
            continue
        given = read_by(nodes, given)
        candidate = networks.with_nodes(model, nodes, given, outputs)
        if fails(candidate, given):
            model, inputs = candidate, given
    return model, inputs


def read_by(nodes, values):
    """The values that the nodes read."""
    used = {name for node in nodes for name in networks.names_read(node)}
    return {name: value for name, value in values.items() if name in used}
