# SPDX-License-Identifier: Apache-2.0
"""Attention as one operator through torch's tracing, which makes of it what torch's own kernels want: for many of
them a mask with an element for each head, row and column, where engines know that a mask says nothing, or repeats."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from .run_plan import LIBRARY

LIBRARY.define("attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
               "bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
               tags=(torch.Tag.pt2_compliant_tag,))
for place in ("CPU", "CUDA"):
    LIBRARY.impl("attention", scaled_dot_product_attention, place)
torch.library.register_fake("graft::attention", scaled_dot_product_attention, lib=LIBRARY)


def under_autocast(device):
    """What autocast does with torch's own: attention computes in its type, whatever mix of types comes in."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device}"))

    def attention(query, key, value, attn_mask=None, *given, **named):
        kind = device.lower()
        dtype = torch.get_autocast_dtype(kind)

        def cast(tensor):
            eligible = (tensor is not None and tensor.is_floating_point() and tensor.dtype != torch.float64 and
                        tensor.device.type == kind)
            return tensor.to(dtype) if eligible else tensor

        with torch._C._ExcludeDispatchKeyGuard(keys):
            return HIDDEN(cast(query), cast(key), cast(value), cast(attn_mask), *given, **named)
    return attention


for place in ("CPU", "CUDA"):
    LIBRARY.impl("attention", under_autocast(place), f"Autocast{place}")
HIDDEN = torch.ops.graft.attention.default
SHOWN = torch.ops.aten.scaled_dot_product_attention.default


def hide_attention(graph_module):
    """Puts an operator that torch's tracing does not know in the place of attention, also in branches and loops. It has
    no gradients."""
    replace(graph_module, scaled_dot_product_attention, HIDDEN)


def show_attention(graph_module):
    """Takes it back when torch has traced the graph."""
    replace(graph_module, HIDDEN, SHOWN)


def replace(graph_module, old, new):
    """Makes all calls of one function calls of another."""
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        calls = module.graph.find_nodes(op="call_function", target=old)
        for node in calls:
            node.target = new
        if calls:
            module.recompile()
