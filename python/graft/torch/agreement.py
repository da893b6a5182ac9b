# SPDX-License-Identifier: Apache-2.0
"""Whether engines compute what torch computes: each on what torch hands to its part of the model."""

import contextlib
import math

import torch

from .fx_graph import written_tensors

MOST_ERROR = 1e-3         # of an output, relative to its largest element
MOST_ERROR_16_BITS = 5e-2  # where 16-bit numbers are computed with
MOST_OTHERS = 0.01        # of integers and truth values: that many may come out otherwise, where floats decide them
MOST_OF_TORCH_ERROR = 2   # times torch's own mean error against double precision, where a result differs by more
NARROW = (torch.float16, torch.bfloat16)


EMPTY = {getattr(packet, name) for packet, name in (
    (torch.ops.aten.empty, "memory_format"), (torch.ops.aten.empty_permuted, "default"),
    (torch.ops.aten.empty_strided, "default"), (torch.ops.aten.empty_like, "default"),
    (torch.ops.aten.new_empty, "default"), (torch.ops.aten.new_empty_strided, "default"))}


class Borders(torch.fx.Interpreter):
    """Runs a graph in torch and keeps what crosses the borders of segments, until nobody needs it. Writes reach copies
    of the module's buffers, and memory that nobody wrote to holds zeros, as engines have them there."""

    def __init__(self, graph_module, wanted):
        super().__init__(graph_module)
        self.wanted = wanted
        self.kept = {}
        self.kept_others = {}  # parameters of the module, and numbers
        self.copies = {}
        self.written = written_tensors(graph_module.graph)

    def get_attr(self, target, args, kwargs):
        """A tensor of the module: nodes of one name have the same copy."""
        if target not in self.copies:
            value = super().get_attr(target, args, kwargs)
            self.copies[target] = value.clone() if target in self.written else value
        return self.copies[target]

    def placeholder(self, target, args, kwargs):
        """An argument: the caller's own where nothing writes to it."""
        value = super().placeholder(target, args, kwargs)
        return value.clone() if target in self.written else value

    def run_node(self, n):
        """One node; a value that is kept stays what it was, whoever writes to it."""
        result = super().run_node(n)
        if n.target in EMPTY:
            result.zero_()
        if n.op == "get_attr" or not isinstance(result, (torch.Tensor, list, tuple)):
            self.kept_others[n] = result
        if n in self.wanted:
            self.kept[n] = torch.utils._pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), result)
        return result


@contextlib.contextmanager
def strict_fp32():
    """torch computes in fp32 on GPUs, where it takes TF32 for convolutions unless told otherwise: its own error would
    then be larger than an engine's. Both ways of choosing that are set, as torch refuses to run where they differ."""
    places = torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul
    before = [place.fp32_precision for place in places]
    older = older_choices()
    try:
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        if "convolutions" in older:
            torch.backends.cudnn.allow_tf32 = older["convolutions"]
        if "products" in older:
            torch.set_float32_matmul_precision(older["products"])
        for place, precision in zip(places, before):
            place.fp32_precision = precision


def older_choices():
    """What torch's older switches say, as far as they say what the newer ones do."""
    found = {}
    with contextlib.suppress(RuntimeError):
        found["convolutions"] = torch.backends.cudnn.allow_tf32
    with contextlib.suppress(RuntimeError):
        found["products"] = torch.get_float32_matmul_precision()
    return found


def is_repeatable(graph_module):
    """Whether the graph computes the same again: nothing in it draws random numbers."""
    return not any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
                   for module in graph_module.modules() if isinstance(module, torch.fx.GraphModule)
                   for node in module.graph.nodes)


def disagreements(graph_module, host, parts, arguments, choices):
    """{number of a part: how its engine differs from torch}. `parts`: ((number, segment), callable of tensors that
    gives their results); `arguments` of the graph and buffers of the module stay as they are."""
    if not parts or not is_repeatable(graph_module):
        return {}
    nodes = {host.source_node(index) for (_, segment), _ in parts for index in [*segment[1], *segment[2]]}
    run = Borders(graph_module, {node for node, _ in nodes})
    try:
        with torch.no_grad(), strict_fp32():
            run.run(*arguments)
    except Exception as error:  # noqa: BLE001  whatever torch raises: nothing is known of the engines then
        return {number: f"torch cannot run its part: {error}" for (number, _), _ in parts}

    def of(index):
        node, item = host.source_node(index)
        return run.kept[node] if item is None else run.kept[node][item]

    found = {}
    for (number, segment), call in parts:
        try:
            reason = disagreement(host, segment, call([*map(of, segment[1])]), of, run, choices)
        except Exception as error:  # noqa: BLE001  costs this engine, never the model
            reason = f"it cannot be compared with torch: {type(error).__name__}: {error}"
        if reason:
            found[number] = reason
    return found


def disagreement(host, segment, results, expected, run, choices):
    """How the results of one engine differ too much from torch's; empty where they do not. Where they do, a run of the
    segment in double precision decides: torch's own rounding may be as large."""
    narrow = (dict(choices).get("precision", "fp32") != "fp32" or computes_in_16_bits(host, segment, expected)
              or rounds_to_codes(host, segment))
    wide = None
    for index, result in zip(segment[2], results):
        reason = difference(result, expected(index), narrow)
        if not reason:
            continue
        with contextlib.suppress(Exception):  # of operators that torch has for some types alone
            wide = wide or wide_run(host, segment, expected, run)
            if error_of(result, wide[index]) <= MOST_OF_TORCH_ERROR * error_of(expected(index), wide[index]):
                continue
        return f"its result {host.value_names[index]} differs from torch's own: {reason}"
    return ""


def rounds_to_codes(host, segment):
    """Whether a segment quantises: a code at a border of two may come out as its neighbour."""
    return any("quantize_per_" in host.ops[index] for index in segment[0])


def computes_in_16_bits(host, segment, value):
    """Whether a number of 16 bits is anywhere in a segment, at its borders or inside."""
    inside = [host.nodes[index].meta.get("val") for index in segment[0] if host.nodes[index] is not None]
    found = torch.utils._pytree.tree_leaves([inside, [value(index) for index in [*segment[1], *segment[2]]]])
    return any(isinstance(each, torch.Tensor) and each.dtype in NARROW for each in found)


def wide_run(host, segment, value, run):
    """{index of a result: what the segment computes in double precision from what it was given}."""
    def widened(given):
        if isinstance(given, torch.Tensor) and given.is_floating_point():
            return given.detach().to(torch.float64)
        return torch.float64 if isinstance(given, torch.dtype) and given.is_floating_point else given

    tree_map = torch.utils._pytree.tree_map
    inside = {host.nodes[index] for index in segment[0]}
    values = {host.node_of(index): widened(value(index)) for index in segment[1]}
    for node in host.graph.nodes:
        if node in values:
            continue
        if node in host.constants:
            values[node] = widened(host.constants[node])
        elif node in run.kept_others:
            values[node] = widened(run.kept_others[node])
        elif node in inside or (host.is_item(node) and node.args[0] in values):
            given = tree_map(widened, torch.fx.map_arg((node.args, dict(node.kwargs)), lambda each: values[each]))
            with torch.no_grad():
                values[node] = node.target(*given[0], **given[1])
    return {index: values[host.node_of(index)] for index in segment[2]}


def error_of(result, exact):
    """The mean distance of elements from exact ones, or the share of integers and truth values that differ."""
    if not exact.is_floating_point():
        return (result != exact).double().mean().item()
    apart = (result.to(torch.float64) - exact).abs()
    return torch.where(result.to(torch.float64) == exact, 0.0, apart).mean().item()


def difference(result, expected, narrow=False):
    """How much too far two tensors are apart; empty where they are not."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"{result.dtype} {list(result.shape)} for {expected.dtype} {list(expected.shape)}"
    if expected.numel() == 0:
        return ""
    if not expected.is_floating_point() and not expected.is_complex():
        share = (result != expected).double().mean().item()
        return f"{share:.1%} of the elements" if share > MOST_OTHERS else ""
    most = MOST_ERROR_16_BITS if narrow or expected.dtype in NARROW else MOST_ERROR
    wide = torch.complex128 if expected.is_complex() else torch.float64
    result, expected = result.to(wide), expected.to(wide)
    finite = torch.isfinite(expected)
    same = torch.where(finite, torch.isfinite(result), (result == expected) | (result.isnan() & expected.isnan()))
    if not bool(same.all()):
        return "not the same elements are finite"
    if not bool(finite.any()):
        return ""
    apart = (result - expected)[finite].abs().max().item()
    largest = expected[finite].abs().max().item()
    error = apart / largest if largest > 0 else (math.inf if apart > 1e-6 else 0.0)
    return f"by {error:.2g} of its largest element, {largest:.4g}, where {most:g} is allowed" if error > most else ""
