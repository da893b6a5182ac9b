# SPDX-License-Identifier: Apache-2.0
"""Whether engines compute what torch computes: each on what torch hands to its part of the model."""

import contextlib
import math

import torch

MOST_ERROR = 1e-3         # of an output, relative to its largest element
MOST_ERROR_16_BITS = 5e-2  # where 16-bit numbers are computed with
MOST_OTHERS = 0.01        # of integers and truth values: that many may come out otherwise, where floats decide them


class Borders(torch.fx.Interpreter):
    """Runs a graph in torch and keeps what crosses the borders of segments, until nobody needs it."""

    def __init__(self, graph_module, wanted):
        super().__init__(graph_module)
        self.wanted = wanted
        self.kept = {}

    def run_node(self, n):
        """One node; a value that is kept stays what it was, whoever writes to it."""
        result = super().run_node(n)
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
    gives their results); `arguments` of the graph are not written to."""
    if not parts or not is_repeatable(graph_module):
        return {}
    nodes = {host.source_node(index) for (_, segment), _ in parts for index in [*segment[1], *segment[2]]}
    run = Borders(graph_module, {node for node, _ in nodes})
    with torch.no_grad(), strict_fp32():
        run.run(*[each.clone() if isinstance(each, torch.Tensor) else each for each in arguments])

    def of(index):
        node, item = host.source_node(index)
        return run.kept[node] if item is None else run.kept[node][item]

    found = {}
    for (number, segment), call in parts:
        results = call(*[of(index) for index in segment[1]])
        for index, result in zip(segment[2], results):
            reason = difference(result, of(index), choices)
            if reason:
                found[number] = f"its result {host.values[index].name} differs from torch's own: {reason}"
                break
    return found


def difference(result, expected, choices=()):
    """How much too far two tensors are apart; empty where they are not."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"{result.dtype} {list(result.shape)} for {expected.dtype} {list(expected.shape)}"
    if expected.numel() == 0:
        return ""
    if not expected.is_floating_point() and not expected.is_complex():
        share = (result != expected).double().mean().item()
        return f"{share:.1%} of the elements" if share > MOST_OTHERS else ""
    narrow = expected.dtype in (torch.float16, torch.bfloat16) or dict(choices).get("precision", "fp32") != "fp32"
    most = MOST_ERROR_16_BITS if narrow else MOST_ERROR
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
