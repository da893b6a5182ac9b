# SPDX-License-Identifier: Apache-2.0
"""A torch.fx graph of ATen operators: as the abstract graph that the partitioner reads, and with engines in it."""

import functools
import heapq
import operator

import torch
from torch.utils._sympy.value_ranges import bound_sympy

from .. import _graft, element_types
from .complex_numbers import BORDER, TO_COMPLEX, free_pairs, pair_complex
from .flex_attention import lower_flex_attention
from .layouts import KEPT, keep_views


# torch decomposes them for backends that know none: into arithmetic in f32, of which a graph of products is left.
WHOLE = (torch.ops.aten.scaled_dot_product_attention.default, torch.ops.aten._safe_softmax.default,
         torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)


def core_decompositions(table):
    """torch's table of decompositions into core ATen, but for what is an operator here."""
    return {op: decompose for op, decompose in table.items() if op not in WHOLE}


def element_type(dtype):
    """The number of a torch.dtype; 0 where Graft has none."""
    return element_types.NUMBERS.get(str(dtype).removeprefix("torch."), 0)


def source_of(node):
    """`model.py:12: y = self.conv(x)`, of the innermost frame that is the model's."""
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip()]
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith("File "):
            place = lines[index].split('"')
            number = lines[index].partition(", line ")[2].partition(",")[0]
            code = lines[index + 1] if index + 1 < len(lines) else ""
            return f"{place[1]}:{number}: {code}"
    return ""


def scope_of(node):
    """The path of the innermost module that the node comes from: `layer1.0.conv1`."""
    modules = node.meta.get("nn_module_stack") or {}
    path = next((each[0] for each in reversed(list(modules.values()))), "")
    path = path.replace("._modules['", "['").removeprefix("L['self']")  # torch 2.9 names the dictionary, too
    return path.replace("['", ".").replace("']", "").strip(".")


def operator_of(node):
    """`aten::add.Tensor`, `higher_order::cond`, `python::mul`."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.name()
    space = "higher_order" if isinstance(node.target, torch._ops.HigherOrderOperator) else "python"
    return f"{space}::{getattr(node.target, '__name__', node.target)}"


def draws(node):
    """Whether it draws random numbers, or has other effects: in evaluation dropout has none, nor has attention."""
    schema = getattr(node.target, "_schema", None)
    given = {each.name: each.default_value for each in schema.arguments} if schema else {}
    given = {**given, **dict(zip(given, node.args)), **node.kwargs}
    return given["train"] is not False if "train" in given else given.get("dropout_p", 1.0) != 0


def has_effects(node):
    """Whether it has to run though nobody takes its results."""
    return node.is_impure() and draws(node)


def kept_by_devices(node):
    """Why a node stays with torch whose tensors lie on several devices, or on one of which there are no engines; empty
    where it need not. A number of the processor beside tensors of a GPU is none of them."""
    tensors = torch.utils._pytree.tree_leaves([node.meta.get("val"),
                                               [each.meta.get("val") for each in node.all_input_nodes]])
    devices = {each.device for each in tensors
               if isinstance(each, torch.Tensor) and (each.dim() > 0 or each.device.type != "cpu")}
    if len(devices) > 1:
        return f"it goes between devices, {' and '.join(sorted(map(str, devices)))}"
    return next((f"there are no engines on {each}" for each in devices if each.type not in ("cpu", "cuda")), "")


def functions_of(graph_module):
    """The graphs that operators of a graph run: branches, what a loop repeats."""
    found = {node.target for node in graph_module.graph.nodes if node.op == "get_attr"}
    values = [(name, functools.reduce(getattr, name.split("."), graph_module)) for name in sorted(found)]
    return {name: value for name, value in values if isinstance(value, torch.fx.GraphModule)}


def simplify(graph_module, is_whole=True):
    """Takes out of a traced graph what engines need not know: layouts, checks whose outcome is known, and functions
    that say what attention does with a score. `is_whole`: its results are those of the model."""
    graph = graph_module.graph
    for function in functions_of(graph_module).values():
        simplify(function, is_whole=False)
    free_layouts(graph)
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default and holds(node):
            graph.erase_node(node)
    lower_flex_attention(graph_module)
    if is_whole:
        keep_views(graph_module)
        pair_complex(graph_module)
    graph_module.recompile()


def holds(node):
    """Whether a check of a tensor's type and device holds: both are what tracing found."""
    like, demands = node.args[0].meta.get("val"), dict(node.kwargs)
    demands.update(zip(("size", "stride", "dtype"), node.args[1:]))
    found = {"dtype": getattr(like, "dtype", None), "device": getattr(like, "device", None),
             "layout": getattr(like, "layout", None)}
    return all(wanted is None or wanted == found.get(name) for name, wanted in demands.items())


def free_layouts(graph):
    """view -> reshape: strides need not be those that tracing saw, as engines give rows one after another, and torch's
    own decompositions (of attention) other ones than the operators that they stand for. as_strided(x) -> x where it
    gives the elements of x in their order: torch states so that a pooled image has its channels last."""
    for node in list(graph.nodes):
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            node.target = torch.ops.aten.reshape.default
        elif node.target is torch.ops.aten.as_strided.default and is_same_view(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def is_same_view(node):
    """Whether as_strided gives each element the place that it has: strides of axes of size 1 say nothing."""
    like = node.args[0].meta.get("val")
    sizes, strides = ([known(each) for each in listed] for listed in node.args[1:3])
    if not isinstance(like, torch.Tensor) or sizes != [known(each) for each in like.shape]:
        return False
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    if offset is not None and known(offset) != known(like.storage_offset()):
        return False
    return all(size == 1 or stride == known(own) for size, stride, own in zip(sizes, strides, like.stride()))


def known(size):
    """A number, or the expression of one that varies: equal where the sizes are."""
    size = size.meta["val"] if isinstance(size, torch.fx.Node) else size
    return size.node.expr if isinstance(size, torch.SymInt) else size


def written_tensors(graph):
    """The names of the arguments and buffers that nodes of a graph write to, also through views of them."""
    found = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for argument, given in zip(schema.arguments, node.args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                torch.fx.map_arg(given, lambda each: found.add(shown_by(each)))
    return found - {None}


def shown_by(node):
    """The name of the argument or buffer whose memory a node shows, as far as views tell."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = node.target is operator.getitem or (schema and any(each.alias_info for each in schema.returns))
        if not is_view or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return None
        node = node.args[0]
    return node.target


class HostGraph:
    """Both forms of a graph, by each other's indices."""

    def __init__(self, graph_module, constants, ranges=None):
        """`constants`: {placeholder: tensor}, parameters that become the engines' own. `ranges`: {symbol: its bounds},
        where they are not those that tracing worked with."""
        self.graph = graph_module.graph
        self.module = graph_module
        self.constants = constants
        self.ranges = ranges
        self.handle = _graft.HostGraph("aten")
        self.nodes = []      # by index: the fx node, or None for one that only the partitioner knows
        self.ops, self.names, self.counted = [], [], []  # by index: as the partitioner has them
        self.after = []      # by index: nodes that have to run before, data apart
        self.functions = {}  # fx node -> the HostGraph of a function that operators run
        self.values = []     # by index: what gives the value: an fx node
        self.value_names = []
        self.indices = {}    # fx node -> index of its value, or a list of them
        self.sizes_of = {}   # text of a symbolic size -> (node, axis) that has it, the last one
        self.symbols = {}    # text of a symbolic size -> name of the symbol
        self.writers = []
        self.written = written_tensors(self.graph)
        self.read()

    def read(self):
        """Reads all nodes, in order."""
        inputs, outputs = [], []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                inputs.append(self.read_placeholder(node))
            elif node.op == "get_attr":
                inputs.append(self.read_attribute(node))
            elif node.op == "output":
                torch.fx.map_arg(node.args, lambda each: outputs.append(self.index_of(each)))
            elif not self.is_item(node):
                self.read_node(node)
        self.handle.set_borders([each for each in inputs if each is not None], outputs)

    # ---- Values ----

    def add_value(self, name, like, node, constant=None):
        """A value of the sizes that tracing found; `like`: a (fake) tensor, or anything else for what is no tensor."""
        if isinstance(like, torch.Tensor):
            sizes = [self.size_of(size, f"{name}_{axis}") for axis, size in enumerate(like.shape)]
            index = self.handle.add_value(name, element_type(like.dtype), sizes, True, constant)
        else:
            index = self.handle.add_value(name, 0, None, False, None)
        self.values.append(node)
        self.value_names.append(name)
        return index

    def size_of(self, size, fresh):
        """A number, or the name of a symbol, with its range stated."""
        if isinstance(size, int):
            return size
        text = str(size.node.expr)
        if text not in self.symbols:
            self.symbols[text] = text if text.isidentifier() else fresh
            hint = size.node.hint
            low, high = self.bounds_of(size)
            usual = max(low, hint) if isinstance(hint, int) else low
            self.handle.set_range(self.symbols[text], low, usual, max(usual, high) if high else 0)
        return self.symbols[text]

    def bounds_of(self, size):
        """The smallest and largest that a size can be; 0 where nothing is known, as of a half of what has no bound."""
        try:
            ranges = self.ranges
            bounds = (size.node.shape_env.bound_sympy(size.node.expr) if ranges is None
                      else bound_sympy(size.node.expr, ranges))
        except Exception:  # noqa: BLE001  bounds are torch's own affair, and a size is right without
            return 0, 0
        return tuple(max(int(each), 0) if getattr(each, "is_Integer", False) else 0
                     for each in (bounds.lower, bounds.upper))

    def read_placeholder(self, node):
        """The index of an input's value; None for constants."""
        like = node.meta.get("val")
        if node in self.constants:
            self.indices[node] = self.add_constant(node, self.constants[node])
            return None
        self.indices[node] = self.add_value(node.name, like, node)
        self.note_sizes(node)
        return self.indices[node]

    def note_sizes(self, node):
        """Whoever needs a size takes it from the nearest tensor that has it, so that no other crosses a border."""
        like = node.meta.get("val")
        for axis, size in enumerate(like.shape if isinstance(like, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                self.sizes_of[str(size.node.expr)] = (node, axis)

    def add_constant(self, node, tensor):
        tensor = tensor.detach()
        if element_type(tensor.dtype) and tensor.layout == torch.strided:
            return self.add_value(node.name, tensor, node, tensor.cpu().contiguous())
        return self.add_value(node.name, tensor, node)

    def read_attribute(self, node):
        """A constant of the traced function, or a function that an operator runs. The index of the value of a buffer
        that the graph writes to, which is an input."""
        value = functools.reduce(getattr, node.target.split("."), self.module)
        if isinstance(value, torch.fx.GraphModule):
            self.functions[node] = HostGraph(value, {}, self.ranges)
            return None
        if isinstance(value, torch.Tensor) and node.target in self.written:
            self.indices[node] = self.add_value(node.name, value, node)
            return self.indices[node]
        self.indices[node] = (self.add_constant(node, value) if isinstance(value, torch.Tensor)
                              else self.add_value(node.name, None, node))
        return None

    def index_of(self, node):
        """The index of a node's one value."""
        if self.is_item(node):
            return self.indices[node.args[0]][node.args[1]]
        index = self.indices[node]
        return index if isinstance(index, int) else index[0]

    def is_item(self, node):
        """Whether it takes one of several results."""
        return (node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node) and
                isinstance(self.indices.get(node.args[0]), list))

    # ---- Nodes ----

    def argument(self, given):
        """As the extension takes it."""
        if isinstance(given, torch.fx.Node):
            if given in self.functions:
                return given.target
            like = given.meta.get("val")
            if isinstance(like, torch.SymInt):
                return _graft.ValueArgument(self.size_value(given, str(like.node.expr)))
            return _graft.ValueArgument(self.index_of(given))
        if isinstance(given, (list, tuple)):
            return [self.argument(each) for each in given]
        if isinstance(given, torch.dtype):
            return _graft.TypeArgument(element_type(given))
        return given if given is None or isinstance(given, (bool, int, float)) else str(given)

    def size_value(self, node, text):
        """A size that comes in as a number, or is taken from a tensor far away, is for an engine that of the nearest
        tensor that has it."""
        if text not in self.sizes_of:
            return self.index_of(node)
        tensor, axis = self.sizes_of[text]
        name = f"{tensor.name}_size_{axis}"
        if name not in self.indices:
            self.indices[name] = self.handle.add_value(name, 0, None, False, None)
            self.values.append(node)
            self.value_names.append(name)
            self.add_node(None, "aten::sym_size.int", name, [_graft.ValueArgument(self.index_of(tensor)), axis], {},
                          [self.indices[name]], counts=False, replicable=True)
        return self.indices[name]

    def read_node(self, node):
        """One operator."""
        like = node.meta.get("val")
        arguments = [self.argument(each) for each in node.args]
        attributes = {name: self.argument(each) for name, each in node.kwargs.items()}
        if isinstance(like, (list, tuple)):
            outputs = [self.add_value(f"{node.name}_{i}", each, node) for i, each in enumerate(like)]
            self.indices[node] = outputs
        else:
            self.indices[node] = self.add_value(node.name, like, node)
            outputs = [self.indices[node]]
        schema = getattr(node.target, "_schema", None)
        kept = ""
        if schema is not None and schema.is_mutable:
            kept = "it writes into its argument, which others see"
        elif has_effects(node):
            kept = "it has side effects"
        stays = node.meta.get(KEPT, "") or kept_by_devices(node)
        tensors = any(isinstance(each, torch.Tensor) for each in (like if isinstance(like, (list, tuple)) else [like]))
        runs = isinstance(node.target, torch._ops.HigherOrderOperator)
        named = runs or isinstance(node.target, torch._ops.OpOverload)
        self.add_node(node, operator_of(node), node.name, arguments, attributes, outputs,
                      counts=tensors and named and not {KEPT, BORDER} & set(node.meta),
                      replicable=node.target is TO_COMPLEX or (not tensors and not kept),
                      kept=kept, stays=stays)
        self.note_sizes(node)

    def add_node(self, node, op, name, arguments, attributes, outputs, counts, replicable, kept="", stays=""):
        """Those that write or have side effects (`kept`) stay where they are among all others; `stays`: why torch
        computes it, wherever it comes."""
        index = len(self.nodes)
        after = list(range(index)) if kept else list(self.writers)
        if kept:
            self.writers.append(index)
        functions = {each.target: self.functions[each].handle for each in (node.all_input_nodes if node else [])
                     if each in self.functions}
        self.handle.add_node(op, name, scope_of(node) if node else "", source_of(node) if node else "", arguments,
                             attributes, outputs, after, counts, replicable, kept or stays, functions)
        self.nodes.append(node)
        self.ops.append(op)
        self.names.append(name)
        self.counted.append(counts)
        self.after.append(after if kept or self.writers else [])

    # ---- Engines ----

    def write_engines(self, parts):
        """Puts calls in place of segments: `parts` are ((nodes, inputs, outputs, ...), write), where write(graph,
        nodes) writes a node that takes those and gives a list."""
        stand_for, replaced = {}, []
        last = next(iter(reversed(self.graph.nodes)))
        for segment, write in parts:
            nodes, inputs, outputs = segment[:3]
            with self.graph.inserting_before(last):
                call = write(self.graph, [self.node_of(each) for each in inputs])
                items = [self.graph.call_function(operator.getitem, (call, i)) for i in range(len(outputs))]
            call.meta["val"] = [self.node_of(index).meta.get("val") for index in outputs]
            replaced += zip(outputs, items)
            for node in nodes:
                stand_for.setdefault(node, []).append(call)
        for index, item in replaced:  # only now, so that calls that take each other's results are changed, too
            old = self.node_of(index)
            item.meta = dict(old.meta)
            old.replace_all_uses_with(item)
        order = []
        for index, before in enumerate(self.after):
            mine = stand_for.get(index, [self.nodes[index]] if self.nodes[index] else [])
            for other in before:
                earlier = stand_for.get(other, [self.nodes[other]] if self.nodes[other] else [])
                order += [(first, second) for first in earlier for second in mine]
        free_pairs(self.graph)
        sort_nodes(self.graph, order)
        self.graph.eliminate_dead_code(has_effects)
        self.module.recompile()

    def source_node(self, index):
        """(fx node that gives a value, its position among several results or None)."""
        node = self.values[index]
        several = self.indices.get(node)
        return node, several.index(index) if isinstance(several, list) else None

    def tensors_of(self, segment):
        """What tracing found of a segment's results and inputs."""
        found = [self.node_of(index).meta.get("val") for index in [*segment[2], *segment[1]]]
        return [each for each in found if isinstance(each, torch.Tensor)]

    def node_of(self, index):
        """The fx node that gives a value: for one of several results the node that takes it."""
        node, position = self.source_node(index)
        if position is None:
            return node
        taken = next((user for user in node.users if self.is_item(user) and user.args[1] == position), None)
        if taken is None:
            with self.graph.inserting_after(node):
                taken = self.graph.call_function(operator.getitem, (node, position))
        return taken


def sort_nodes(graph, order):
    """Brings nodes into an order in which they can run, as near to the old one as there is. `order`: pairs of nodes
    whose order data does not show."""
    nodes = list(graph.nodes)
    position = {node: index for index, node in enumerate(nodes)}
    followers, waits = [[] for _ in nodes], [0] * len(nodes)
    pairs = [(position[each], index) for index, node in enumerate(nodes) for each in node.all_input_nodes]
    pairs += [(position[first], position[second]) for first, second in order if first is not second]
    for first, second in pairs:
        followers[first].append(second)
        waits[second] += 1
    last = len(nodes) - 1  # the output stays last, placeholders first
    ready = [index for index, count in enumerate(waits) if count == 0 and index != last]
    heapq.heapify(ready)
    placed = []
    while ready:
        index = heapq.heappop(ready)
        placed.append(nodes[index])
        for follower in followers[index]:
            waits[follower] -= 1
            if waits[follower] == 0 and follower != last:
                heapq.heappush(ready, follower)
    if len(placed) != last:
        raise AssertionError("the segments have a cycle")
    for node in placed:
        nodes[last].prepend(node)
