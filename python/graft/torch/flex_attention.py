# SPDX-License-Identifier: Apache-2.0
"""flex_attention in a traced graph, as products around a softmax: the functions that change a score or hide it, which
torch states for one score, run on all at once, with the numbers of batches, heads, queries and keys as tensors."""

import math

import torch
from torch._guards import detect_fake_mode

FLEX = torch.ops.higher_order.flex_attention
aten = torch.ops.aten
# Operators in such functions that are not element by element, and mean the same for many scores as for one.
FOR_MANY = (aten.full.default, aten.new_full.default, aten.ones.default, aten.new_ones.default, aten.zeros.default,
            aten.new_zeros.default, aten.scalar_tensor.default, aten._to_copy.default, aten.clone.default,
            aten.detach.default, aten.lift_fresh_copy.default, aten.alias.default)
PREDISPATCH = "torch._functorch.predispatch"
NOTES = ("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting")


def lower_flex_attention(graph_module):
    """Writes out each call of flex_attention whose functions allow that; others stay torch's."""
    for node in graph_module.graph.find_nodes(op="call_function", target=FLEX):
        call = Call(graph_module, node)
        if call.is_for_many():
            call.write()
            read = node.all_input_nodes
            graph_module.graph.erase_node(node)
            drop(graph_module.graph, read)
            graph_module.graph.eliminate_dead_code()


def drop(graph, nodes):
    """Takes out nodes that nobody reads any more, and what they alone read: the blocks of a mask are computed by writes
    to tensors of their own, under torch's notes of which functions it repeats."""
    pending, waiting = list(nodes), set()
    while pending:
        node = pending.pop()
        if node not in waiting and node.op not in ("placeholder", "get_attr"):
            waiting.add(node)
            pending += node.all_input_nodes
    for node in reversed(list(graph.nodes)):
        if node in waiting and not node.users and not may_be_seen(node):
            graph.erase_node(node)
    repeats = [node for node in graph.nodes if getattr(node.target, "__module__", "") == PREDISPATCH]
    if all(node.target.__name__ in NOTES for node in repeats):
        for node in reversed(repeats):
            graph.erase_node(node)


def may_be_seen(node):
    """Whether it writes to what others than its users have: to anything but a tensor that an operator has just made."""
    if not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
        return False
    written = node.args[0]
    returns = written.target._schema.returns if isinstance(written.target, torch._ops.OpOverload) else ()
    return not returns or any(each.alias_info for each in returns)


class Call:
    """One call: what it is given, and the nodes that stand for it."""

    def __init__(self, graph_module, node):
        self.module, self.graph, self.node = graph_module, graph_module.graph, node
        names = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options",
                 "score_mod_other_buffers", "mask_mod_other_buffers")
        given = {**dict(zip(names, node.args)), **node.kwargs}
        self.query, self.key, self.value, self.scale = (given[name] for name in ("query", "key", "value", "scale"))
        self.changes, self.hides = given["score_mod"], given["block_mask"][-1]
        self.taken = {self.changes: given.get("score_mod_other_buffers", ()),
                      self.hides: given.get("mask_mod_other_buffers", ())}
        self.mode = detect_fake_mode([each.meta.get("val") for each in (self.query, self.key, self.value)])

    def function(self, name):
        """The graph of a function."""
        return getattr(self.module, name.target).graph

    def is_for_many(self):
        """Whether both functions compute one number from numbers, each operator element by element."""
        if self.mode is None:
            return False
        for name in (self.changes, self.hides):
            for node in self.function(name).nodes:
                if node.op == "get_attr" or (node.op == "call_function" and not is_by_element(node)):
                    return False
                like = node.meta.get("val")
                if node.op == "call_function" and not (isinstance(like, torch.Tensor) and like.dim() == 0):
                    return False
        return True

    def write(self):
        """Puts nodes before the call, and their results where its own were read."""
        with self.graph.inserting_before(self.node):
            out, logsumexp, largest = self.results()
        for user in list(self.node.users):  # each takes one of the results
            user.replace_all_uses_with((out, logsumexp, largest)[user.args[1]])
            self.graph.erase_node(user)

    def results(self):
        """The nodes of the three results."""
        query, key, value = self.query, self.each_head(self.key), self.each_head(self.value)
        dtype = query.meta["val"].dtype
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        turned = self.call(aten.transpose.int, self.cast(key, wide), -2, -1)
        scores = self.call(aten.mul.Scalar, self.product(self.cast(query, wide), turned), self.scale)
        places = [self.places(scores, axis) for axis in range(4)]
        changed = self.cast(self.inline(self.changes, (scores, *places)), wide)
        shown = self.inline(self.hides, places)
        scores = self.call(aten.where.ScalarOther, shown, changed, -math.inf)
        weights = self.call(aten._safe_softmax.default, scores, -1)
        out = self.product(self.cast(weights, dtype), value)
        # By torch's convention both are to the base of 2.
        logsumexp = self.call(aten.div.Scalar, self.call(aten.logsumexp.default, scores, [-1]), math.log(2))
        largest = self.call(aten.div.Scalar, self.call(aten.amax.default, scores, [-1]), math.log(2))
        return out, logsumexp, largest

    def product(self, left, right):
        """Products of matrices, whose sizes vary where those of the operands do: torch's own rule would fix them."""
        sizes = [*left.meta["val"].shape[:-1], right.meta["val"].shape[-1]]
        with self.mode:
            like = left.meta["val"].new_empty(sizes)
        return self.written(self.graph.call_function(aten.matmul.default, (left, right)), like)

    def call(self, op, *args, **kwargs):
        """A node for an operator, with the tensor that torch's tracing would have found."""
        given_args, given_kwargs = torch.fx.map_arg((args, kwargs), lambda each: each.meta["val"])
        with self.mode:
            like = op(*given_args, **given_kwargs)
        return self.written(self.graph.call_function(op, args, kwargs), like)

    def written(self, node, like):
        """The node, as part of the line of the model that the call is of."""
        node.meta["val"] = like
        for key in ("stack_trace", "nn_module_stack"):
            if key in self.node.meta:
                node.meta[key] = self.node.meta[key]
        return node

    def cast(self, node, dtype):
        """The tensor in another type, where it is of another."""
        return node if node.meta["val"].dtype == dtype else self.call(aten._to_copy.default, node, dtype=dtype)

    def size(self, node, axis):
        """A size: a number, or the node of one that varies."""
        known = node.meta["val"].shape[axis]
        return known if isinstance(known, int) else self.call(aten.sym_size.int, node, axis)

    def each_head(self, node):
        """Keys or values for each batch and head of the queries: several of these may share one."""
        own, all_heads = node.meta["val"].shape, self.query.meta["val"].shape
        share = all_heads[1] // own[1]
        if share != 1:
            node = self.call(aten.repeat_interleave.self_int, node, share, 1)
        return node

    def places(self, scores, axis):
        """The numbers along an axis of the scores, so that they spread over the others."""
        device = scores.meta["val"].device
        numbers = self.call(aten.arange.default, self.size(scores, axis), dtype=torch.int32, device=device)
        return self.call(aten.view.default, numbers, [-1 if each == axis else 1 for each in range(4)])

    def inline(self, name, arguments):
        """A function's nodes, on whole tensors."""
        inside = self.function(name)
        placeholders = [node for node in inside.nodes if node.op == "placeholder"]
        made = dict(zip(placeholders, (*arguments, *self.taken[name])))
        for node in inside.nodes:
            if node.op == "call_function":
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda each: made[each])
                made[node] = self.call(node.target, *args, **kwargs)
            elif node.op == "output":
                result = node.args[0]
                return made[result[0] if isinstance(result, (tuple, list)) else result]
        raise AssertionError("a graph has no output")


def is_by_element(node):
    """Whether an operator computes each element from those at its place; an index, from its numbers."""
    if node.target is aten.index.Tensor or node.target is aten._unsafe_index.Tensor:
        tensor, indices = node.args[:2]
        return isinstance(tensor, torch.fx.Node) and tensor.op == "placeholder" and None not in indices
    if node.target in FOR_MANY:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags
