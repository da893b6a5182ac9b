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
