# SPDX-License-Identifier: Apache-2.0
"""What a model written for torch would say in one call and an ONNX file says in several nodes: linear layers and
attention. The torch peers run these calls, so that they are measured at their best."""

import dataclasses

import onnx


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation; attributes are Python values."""

    op: str
    attributes: dict
    inputs: tuple
    outputs: tuple


def node_of(node):
    """A node of an ONNX graph."""
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    return Node(node.op_type, attributes, tuple(node.input), tuple(node.output))


def join(nodes, weights):
    """The nodes with linear layers and attention as one node each; adds the weights that these read."""
    return _join_attention(_join_linear(nodes, weights))


class _Uses:
    """Who makes and who reads each value."""

    def __init__(self, nodes):
        self.makers = {name: node for node in nodes for name in node.outputs}
        self.readers = {}
        for node in nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)

    def only_reader(self, node, op):
        """The node of this kind that alone reads the result of another, or None."""
        readers = self.readers.get(node.outputs[0], [])
        return readers[0] if len(readers) == 1 and readers[0].op == op else None

    def other_input(self, node, known):
        """The input of a binary node beside the one that `known` made."""
        return next(name for name in node.inputs if name != known.outputs[0])


def _join_linear(nodes, weights):
    """MatMul by a weight, then Add of a bias -> Linear, its weight the other way round."""
    uses, replaced = _Uses(nodes), {}
    for node in nodes:
        weight = weights.get(node.inputs[1]) if node.op == "MatMul" else None
        add = uses.only_reader(node, "Add") if weight is not None and weight.ndim == 2 else None
        bias = uses.other_input(add, node) if add else None
        if bias not in weights or weights[bias].ndim != 1:
            continue
        turned = f"{node.inputs[1]}.turned"
        weights[turned] = weight.T.contiguous()
        replaced[id(node)] = []
        replaced[id(add)] = [Node("Linear", {}, (node.inputs[0], turned, bias), add.outputs)]
    return [new for node in nodes for new in replaced.get(id(node), [node])]


def _join_attention(nodes):
    """MatMul, Div by a constant, perhaps Add of a mask, Softmax, MatMul -> Attention."""
    uses, replaced = _Uses(nodes), {}
    for first in nodes:
        divide = uses.only_reader(first, "Div") if first.op == "MatMul" else None
        if divide is None or uses.makers[divide.inputs[1]].op != "Constant":
            continue
        masked = uses.only_reader(divide, "Add")
        softmax = uses.only_reader(masked or divide, "Softmax")
        last = uses.only_reader(softmax, "MatMul") if softmax else None
        if last is None:
            continue
        scale = 1 / onnx.numpy_helper.to_array(uses.makers[divide.inputs[1]].attributes["value"]).item()
        inputs = (*first.inputs, uses.other_input(last, softmax))
        if masked:
            inputs += (uses.other_input(masked, divide),)
        for node in filter(None, (first, divide, masked, softmax)):
            replaced[id(node)] = []
        replaced[id(last)] = [Node("Attention", {"scale": scale}, inputs, last.outputs)]
    return [new for node in nodes for new in replaced.get(id(node), [node])]
