# SPDX-License-Identifier: Apache-2.0
"""What rows of the table of ATen operators are tried with that put elements where indices say, or add them up in bags;
as row_cases.py has them."""

import torch
from row_cases import F16, F64, I32, I64, whole, x


def scatter_cases():
    """Into places, what comes to one of them instead of what was there or joined with it."""
    where = torch.tensor([[0, 1], [2, 0]])
    yield "scatter.src", (x(3, 4), 0, where, x(3, 4) + 9), {}
    yield "scatter.value", (x(3, 4), -1, where, 1.5), {}
    yield "scatter.reduce", (x(3, 4), 0, where, x(2, 2)), {"reduce": "multiply"}
    yield "scatter_add", (x(3, 4), 0, torch.tensor([[0, 0], [0, 0]]), x(2, 2)), {}
    for name in ("sum", "prod", "amax", "amin"):
        yield "scatter_reduce.two", (x(3, 4), 1, where, x(2, 2)), {"reduce": name}
    twice = torch.tensor([[0, 1], [0, 2]])
    for name in ("sum", "prod", "amax", "amin", "mean"):
        for kept in (True, False):
            yield "scatter_reduce.two", (x(3, 4), 0, twice, x(2, 2), name), {"include_self": kept}
    integers = torch.tensor([[9, 7, 5, 3], [-8, -6, 4, 2], [1, -1, 2, -2]])
    for dtype in (I64, I32, torch.int8, torch.uint8):
        for name in ("sum", "prod", "amax", "amin", "mean"):
            for kept in (True, False):
                yield "scatter_reduce.two", (integers.to(dtype), 0, twice, integers.to(dtype)[1:], name), {
                    "include_self": kept}
    places = torch.tensor([2, 0, 2])
    for name in ("prod", "mean", "amax", "amin"):
        for kept in (True, False):
            yield "index_reduce", (x(4, 3), 0, places, x(3, 3), name), {"include_self": kept}
            wide = x(2, 4, 3, dtype=F64), -2, places, x(2, 3, 3, dtype=F64)
            yield "index_reduce", (*wide, name), {"include_self": kept}
            yield "index_reduce", (integers, 1, places, integers[:, 1:], name), {"include_self": kept}
        yield "index_reduce", (x(4, 3, dtype=F16), 0, places.int(), x(3, 3, dtype=F16), name), {}
        yield "index_reduce", (x(4, 3), 0, places[:0], x(0, 3), name), {"include_self": False}
    yield "index_add", (x(4, 3), 0, places, x(3, 3)), {"alpha": 0.5}
    yield "index_add", (integers, -1, places, integers[:, 1:]), {"alpha": 2}
    yield "index_copy", (x(4, 3), 0, torch.tensor([2, 0]), x(2, 3) * 9), {}


def bag_cases():
    """Sums over bags of rows: of one length, of any, and empty ones."""
    table, rows = x(7, 3), whole(12, high=7)
    ends = torch.tensor([0, 3, 3, 8])
    names = "_embedding_bag _embedding_bag_forward_only embedding_bag"
    for mode in (0, 1, 2):
        yield names, (table, rows, ends, False, mode), {}
        yield names, (table, rows, torch.tensor([0, 4, 8]), False, mode), {}
        yield names, (table, rows.int(), torch.tensor([0, 3, 3, 8, 12], dtype=I32), False, mode, False, None, True), {}
        yield names, (table, rows[:0], torch.tensor([0, 0]), False, mode), {}
        for dtype in (F16, torch.bfloat16, F64):
            yield names, (table.to(dtype), rows, torch.tensor([0, 3, 4, 12]), False, mode), {}
        for offsets in (ends, torch.tensor([0, 6]), torch.tensor([0])):
            padded = (table, rows, offsets, False, mode, False, None, False)
            yield "_embedding_bag _embedding_bag_forward_only embedding_bag.padding_idx", (*padded, int(rows[4])), {}
            yield "embedding_bag.padding_idx", (*padded, -3), {}
            yield "embedding_bag.padding_idx", (*padded, None), {}
    for offsets in (ends, torch.tensor([0, 4, 8])):
        yield names, (table, rows, offsets, False, 0, False, x(12)), {}
        yield "embedding_bag.padding_idx", (table, rows, offsets, False, 0, False, x(12), False, 2), {}


def all_cases():
    """(names, arguments, attributes)."""
    for family in (scatter_cases, bag_cases):
        yield from family()
