# SPDX-License-Identifier: Apache-2.0
"""How tensors lie in memory, as torch's trace states it. Engines give rows one after another; what is a view in torch
stays one, and what crosses a border has the strides that the trace states."""

import operator

import torch

KEPT = "graft_kept"  # in a node's meta: why it stays with torch, where no other node need wait for it
VIEW = "it is a view, which torch makes without a copy"
ASKED = "graft_order"  # in the meta of a node that gives a result: the order of its axes in eager mode
OF_STORAGE = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default,
              torch.ops.aten.sym_storage_offset.default, torch.ops.aten.sym_stride.int)


def storage_of(node):
    """What tells which memory a node's tensor lies in; None where it is no tensor."""
    like = node.meta.get("val")
    if not isinstance(like, torch.Tensor) or like.layout != torch.strided:
        return None
    return like.untyped_storage()._cdata


def source_of_view(node):
    """The node whose memory a view shows: (that node, the nodes between it and the view); None for what is no view."""
    storage = storage_of(node)
    if node.op != "call_function" or storage is None:
        return None
    if node.target is operator.getitem:
        listed = node.args[0]
        found = source_among(listed, storage) if isinstance(listed, torch.fx.Node) else None
        return (found, [listed, node]) if found is not None else None
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return None
    found = source_among(node, storage)
    if found is None and any(each.alias_info for each in node.target._schema.returns):  # a module's own tensor
        first = node.args[0] if node.args else None
        found = first if isinstance(first, torch.fx.Node) and first.op == "get_attr" else None
    return (found, [node]) if found is not None else None


def source_among(node, storage):
    """The tensor among a node's arguments that lies in that memory."""
    return next((each for each in node.all_input_nodes if storage_of(each) == storage), None)


def keep_views(graph_module):
    """Makes torch's own views of results that are views: of arguments, of other results, or with gaps between their
    elements. The same view inside of a segment remains there. What is said of a tensor's memory is said to torch."""
    graph = graph_module.graph
    copies = {}  # node -> its copy that stays with torch

    def copied(node):
        if node in copies:
            return copies[node]
        found = source_of_view(node)
        if found is None:
            return node
        source, chain = found
        stand_for = {source: copied(source)}
        for each in chain:
            if each not in copies:
                with graph.inserting_after(each):
                    copies[each] = graph.node_copy(each, lambda n: stand_for.get(n, copies.get(n, n)))
                copies[each].meta = {**each.meta, KEPT: VIEW}
            stand_for[each] = copies[each]
        return copies[node]

    for node in list(graph.nodes):
        if node.target in OF_STORAGE and isinstance(node.meta.get("val"), int):
            node.replace_all_uses_with(node.meta["val"])
        elif node.target in OF_STORAGE and node not in copies.values():
            node.replace_input_with(node.args[0], copied(node.args[0]))
            root = root_of(node.args[0])
            if root.op == "call_function":
                root.meta[KEPT] = "its memory is asked for, which torch's own kernels decide"
            if node.target is torch.ops.aten.as_strided.default:
                node.meta[KEPT] = VIEW
                copies[node] = node
    output = next(iter(reversed(graph.nodes)))
    results = set(output.all_input_nodes)
    sharing = {}
    for node in results:
        sharing.setdefault(storage_of(node), []).append(node)
    for node in results:
        if is_view_for_the_caller(node, sharing):
            output.replace_input_with(node, copied(node))
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or node.is_impure())


def is_view_for_the_caller(node, sharing):
    """Whether a result shows memory that the caller has otherwise, too, or only parts of some memory."""
    root = root_of(node)
    if root is node:
        return False
    return (root.op != "call_function" or len(sharing[storage_of(node)]) > 1 or not is_dense(node.meta["val"]) or
            not is_as_large(node.meta["val"], root.meta.get("val")))


def root_of(node):
    """The node that made the memory that a view shows; the node itself where it is no view."""
    found = source_of_view(node)
    while found is not None:
        node, found = found[0], source_of_view(found[0])
    return node


def is_as_large(like, other):
    """Whether two tensors have as many elements, in the example where sizes vary."""
    counts = [numbers([each.numel()]) if isinstance(each, torch.Tensor) else None for each in (like, other)]
    return None in counts or counts[0] == counts[1]


def mentions_storage(graph):
    """Whether a graph of torch.compile says how elements lie in memory, which decompositions may change."""
    return any(getattr(node.target, "__name__", node.target) in ("as_strided", "as_strided_scatter", "as_strided_")
               for node in graph.nodes if node.op in ("call_function", "call_method"))


def orders_of_results(graph):
    """For each result of a graph of torch.compile, before decompositions, the order of its axes in memory."""
    results = next(iter(reversed(graph.nodes))).args[0]
    found = [shown_as(each) if isinstance(each, torch.fx.Node) else None for each in results]
    return [order_in_memory(each) if isinstance(each, torch.Tensor) and each.layout == torch.strided else None
            for each in found]


def shown_as(node):
    """A tensor that lies in memory as torch's kernels lay the node's result: those of padding keep the order of their
    argument, where torch's trace states rows."""
    like = node.meta.get("example_value")
    if getattr(node.target, "__name__", "") == "pad" and node.args and isinstance(node.args[0], torch.fx.Node):
        given = node.args[0].meta.get("example_value")
        if isinstance(given, torch.Tensor) and given.dim() == 4 and given.is_contiguous(
                memory_format=torch.channels_last) and not given.is_contiguous():
            return like.to(memory_format=torch.channels_last)
    return like


def ask_for_orders(graph, orders, first):
    """Notes the orders with the results of the traced graph, from the place `first` on. What is a view has its own."""
    results = next(iter(reversed(graph.nodes))).args[0]
    for node, order in zip(results[first:], orders):
        like = node.meta.get("val") if isinstance(node, torch.fx.Node) and node.op == "call_function" else None
        if order is not None and isinstance(like, torch.Tensor) and len(order) == like.dim():
            if source_of_view(node) is None:
                node.meta[ASKED] = order


def numbers(sizes):
    """Sizes or strides as numbers, those of the example for sizes that vary; None where data decide one."""
    found = [each if isinstance(each, int) else each.node.hint for each in sizes]
    return None if any(not isinstance(each, int) for each in found) else found


def order_in_memory(like):
    """The axes of a tensor from the one that varies slowest in memory to the fastest; None where its elements do not
    fill the memory, or nothing is known."""
    sizes, strides = numbers(like.shape), numbers(like.stride())
    if sizes is None or strides is None:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -strides[axis])
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return order


def is_dense(like):
    """Whether its elements fill the memory, each its own; so, too, where nothing is known."""
    known = numbers(like.shape) is not None and numbers(like.stride()) is not None
    return not known or like.numel() == 0 or order_in_memory(like) is not None


def state_layouts(host, partition):
    """Lets segments give results in the order in which torch has them in memory, as rows of permuted axes, which torch
    permutes back without a copy. Tells whether the graph has changed, which then has to be read again."""
    changed = False
    for nodes, _, outputs, *_ in partition.segments():
        inside = {host.nodes[index] for index in nodes}
        for index in outputs:
            node = host.node_of(index)
            like = node.meta.get("val")
            if not isinstance(like, torch.Tensor) or like.layout != torch.strided:
                continue
            order = node.meta[ASKED] if ASKED in node.meta else order_in_memory(like)
            if order is not None and not is_in_order(like, order):
                permute_for_users(host.graph, node, order, inside)
                changed = True
    if changed:
        host.module.recompile()
    return changed


def is_in_order(like, order):
    """Whether rows lie one after another: axes of size 1 lie wherever they are said to."""
    sizes = numbers(like.shape)
    wide = [axis for axis in order if sizes[axis] != 1]
    return wide == sorted(wide)


def dense(like):
    """A tensor of the same sizes whose rows lie one after another."""
    return torch.empty_like(like, memory_format=torch.contiguous_format)


def permute_for_users(graph, node, order, inside):
    """x -> permute(permute(x)) for those outside of a segment; the first is part of it."""
    back = sorted(range(len(order)), key=order.__getitem__)
    users = [user for user in node.users if user not in inside and not (
        user.target is operator.getitem and user.args[0] is node)]
    with graph.inserting_after(node):
        rows = graph.call_function(torch.ops.aten.permute.default, (node, order))
    with graph.inserting_after(rows):
        shown = graph.call_function(torch.ops.aten.permute.default, (rows, back))
    meta = {key: each for key, each in node.meta.items() if key != ASKED}
    rows.meta = {**meta, "val": dense(node.meta["val"].permute(order))}
    shown.meta = {**meta, "val": rows.meta["val"].permute(back), KEPT: VIEW}
    for user in users:
        user.replace_input_with(node, shown)
