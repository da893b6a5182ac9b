# SPDX-License-Identifier: Apache-2.0
"""Complex numbers at the borders of engines, which have pairs of reals in their place: a tensor of complex numbers is
handed over as torch's view of it as reals, and no element is copied for that."""

import torch

from .layouts import ASKED, KEPT

BORDER = "graft_border"  # in the meta of nodes that were put into a graph for a border
TO_REAL, TO_COMPLEX = torch.ops.aten.view_as_real.default, torch.ops.aten.view_as_complex.default


def is_complex(node):
    """Whether a node gives one tensor of complex numbers."""
    like = node.meta.get("val")
    return isinstance(like, torch.Tensor) and like.is_complex() and like.layout == torch.strided


def pair_complex(graph_module):
    """x -> view_as_complex(view_as_real(x)) for whoever reads complex numbers, so that a border may lie between the two
    wherever it comes. Those that write to x still do."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op in ("output", "call_module") or not is_complex(node) or KEPT in node.meta or not node.users:
            continue
        readers = [user for user in node.users
                   if not getattr(getattr(user.target, "_schema", None), "is_mutable", False)]
        taken, like = node, node.meta["val"]
        for is_lazy, resolve in ((like.is_conj(), torch.ops.aten.resolve_conj.default),
                                 (like.is_neg(), torch.ops.aten.resolve_neg.default)):
            if is_lazy:  # only a mark says so, which no view of reals has
                taken = added(graph, taken, resolve)
        real = added(graph, taken, TO_REAL)
        if ASKED in node.meta:
            real.meta[ASKED] = [*node.meta[ASKED], like.dim()]
        shown = added(graph, real, TO_COMPLEX)
        for user in readers:
            user.replace_input_with(node, shown)


def added(graph, node, operator):
    """A call of an operator behind its one argument."""
    with graph.inserting_after(node):
        made = graph.call_function(operator, (node,))
    made.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
    made.meta.update({"val": operator(node.meta["val"]), BORDER: True})
    return made


def free_pairs(graph):
    """Takes out again what no border came to lie between."""
    for node in list(graph.nodes):
        if node.target is not TO_COMPLEX or BORDER not in node.meta:
            continue
        source = node.args[0]
        if source.target is not TO_REAL or BORDER not in source.meta:
            continue
        while BORDER in source.meta:
            source = source.args[0]
        node.replace_all_uses_with(source)
