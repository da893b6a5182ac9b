# SPDX-License-Identifier: Apache-2.0
"""What each pass makes of a small program, as text in tests/torch/lowering: ./dev update writes it anew."""

import os
import pathlib
import re
from typing import Dict, List

import pytest
import torch
from conftest import FAST, close, trained

from graft.torch import script

GOLDEN = pathlib.Path(__file__).parent / "lowering"
X = (2, 4)


def inner(x: torch.Tensor) -> torch.Tensor:
    """Called by another."""
    return torch.relu(x) + 1.0


def inlines_calls(x):  # noqa: D103
    return inner(x) * inner(x)


def drops_dropout(x):  # noqa: D103
    return torch.relu(torch.dropout(x, 0.5, False))


def joins_matmul_and_add_to_linear(x):  # noqa: D103
    weight, bias = torch.ones(3, 4), torch.ones(3)
    return torch.relu(torch.matmul(x, weight.t()) + bias)


def joins_addmm_to_linear(x):  # noqa: D103
    return torch.relu(torch.addmm(torch.ones(3), x, torch.full((4, 3), 0.5)))


def keeps_matmul_whose_sum_is_no_bias(x):  # noqa: D103
    product = torch.matmul(x, torch.full((4, 4), 0.5))
    return product + x, product + torch.ones(2, 4)


def folds_sizes_and_the_branches_that_ask_for_them(x):  # noqa: D103
    if x.dim() != 2:
        raise ValueError("x has two axes")
    return x.reshape(x.size(0) * x.size(1))


def unrolls_a_loop_over_an_axis(x):  # noqa: D103
    y = torch.zeros(4)
    for t in range(x.size(0)):
        y = torch.tanh(y + x[t])
    return y


def unrolls_loops_within_loops(x):  # noqa: D103
    for i in range(2):
        for j in range(i + 1):
            x = x * float(i + j + 1)
    return x


def keeps_a_loop_whose_end_depends_on_data(x):  # noqa: D103
    while bool(x.sum() < 100.0):
        x = x * 2.0
    return x


def makes_lists_of_appended_ones(x):  # noqa: D103
    y: List[torch.Tensor] = []
    y.append(torch.relu(x))
    y += [torch.tanh(x)]
    return torch.cat(y)


def extends_lists_of_tensors_and_of_names(x):  # noqa: D103
    names, y = ["a"], [torch.relu(x)]
    names.extend(["b", "c"])
    y.extend([torch.tanh(x), x])
    named = dict([(name, value) for name, value in zip(names, y)])
    return named["b"] + named["c"] * y[-3]


def keeps_appends_to_a_list_that_a_branch_sees(x):  # noqa: D103
    y = [torch.relu(x)]
    if bool(x.sum() > 0):
        y.append(x)
    return torch.cat(y)


def reads_through_dicts_and_lists_of_pairs(x):  # noqa: D103
    named: Dict[str, torch.Tensor] = {}
    named["a"] = torch.relu(x)
    named["b"] = torch.tanh(named["a"])
    names, parts = list(named.keys()), list(named.values())
    parts.insert(0, parts[-1] * 2.0)
    names.insert(0, "c")
    both = dict([(name, part) for name, part in zip(names, parts)])
    return both["c"] + both["a"] * float(len(both))


def makes_a_list_of_a_known_one(x):  # noqa: D103
    front: List[torch.Tensor] = []
    front.append(torch.ones(1, 1).expand(x.shape[0], -1))
    return torch.cat(front + [x], dim=1)


def folds_whether_a_value_is_itself(x):  # noqa: D103
    y = torch.relu(x)
    return torch.tanh(y) if y is not y or y.is_nested else torch.sigmoid(y)


def keeps_the_length_of_a_list_that_a_loop_fills(x):  # noqa: D103
    y = [x]
    for _ in range(int(x.sum() > 0) + 1):
        y.insert(0, torch.relu(x))
    y.append(x * 2.0)
    return torch.cat(y) * float(len(y))


def keeps_appends_to_a_list_that_has_another_name(x):  # noqa: D103
    y = [x]
    both = [y, y]
    y.append(torch.relu(x))
    return torch.cat(both[1])


def changes_a_copied_list_of_numbers(x):  # noqa: D103
    sizes = [2, 3]
    other = sizes.copy()
    other[0] = 4
    return x * float(sum(sizes)) + float(sum(other))


def makes_results_of_writes_into_parts(x):  # noqa: D103
    mask = x.new_zeros((4, 4))
    mask[0:2, 1:3] = 1
    mask[3] = 2
    mask[2] = 0.5
    mask[1, :] = torch.relu(x)[0]
    return x @ mask


def keeps_writes_into_parts_that_an_older_view_shows(x):  # noqa: D103
    mask = torch.zeros(4, 4)
    row = mask[1]
    mask[1:3] = 5.0
    return x * row


def makes_results_of_writes_that_nobody_else_sees(x):  # noqa: D103
    y = x * 2.0
    y.add_(1.0)
    y.relu_()
    return y


def keeps_a_write_into_an_argument(x):  # noqa: D103
    y = x[0]
    y.add_(1.0)
    return x * 2.0


def keeps_checks_that_depend_on_data(x):  # noqa: D103
    y = torch.relu(x)
    if bool(y.sum() > 1e6):
        raise RuntimeError("too large")
    return y * 2.0


def keeps_exact_gelu_batch_norm_and_log_softmax(x):  # noqa: D103
    one = torch.ones(4)
    y = torch.nn.functional.batch_norm(torch.nn.functional.gelu(x), one, one, one, one)
    return torch.log_softmax(y, 1)


def drops_aliases_and_what_nobody_reads(x):  # noqa: D103
    unused = torch.tanh(x)
    del unused
    return torch.relu(x.detach())


PROGRAMS = [inlines_calls, drops_dropout, joins_matmul_and_add_to_linear, joins_addmm_to_linear,
            keeps_matmul_whose_sum_is_no_bias, folds_sizes_and_the_branches_that_ask_for_them,
            unrolls_a_loop_over_an_axis, unrolls_loops_within_loops, keeps_a_loop_whose_end_depends_on_data,
            makes_lists_of_appended_ones, extends_lists_of_tensors_and_of_names,
            keeps_appends_to_a_list_that_a_branch_sees,
            reads_through_dicts_and_lists_of_pairs, makes_a_list_of_a_known_one, folds_whether_a_value_is_itself,
            keeps_the_length_of_a_list_that_a_loop_fills, keeps_appends_to_a_list_that_has_another_name,
            changes_a_copied_list_of_numbers, makes_results_of_writes_into_parts,
            keeps_writes_into_parts_that_an_older_view_shows, makes_results_of_writes_that_nobody_else_sees,
            keeps_a_write_into_an_argument, keeps_checks_that_depend_on_data,
            keeps_exact_gelu_batch_norm_and_log_softmax, drops_aliases_and_what_nobody_reads]


def module_of(function):
    """A scripted module whose forward is a function."""
    scripted = torch.jit.script(function)

    class Calls(torch.nn.Module):
        """Around the function."""

        def forward(self, x):
            """Calls it."""
            return scripted(x)

    return torch.jit.script(Calls().eval())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_lowering(program):
    module = module_of(program)
    text, before = "", ""
    for name, graph in script.lowering_steps(module, [X]):
        graph = re.sub(r" *# .*|__torch__\.\S*\.", "", graph)  # lines of this file, and names that torch numbers
        text += f"--- {name}{' (unchanged)' if graph == before else ''}\n{'' if graph == before else graph}"
        before = graph
    path = GOLDEN / f"{program.__name__}.txt"
    if os.environ.get("GRAFT_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "./dev update writes it anew"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_was_lowered_gives_what_it_gave(program):
    made = script.compile(module_of(program), [X], **FAST)
    for _ in range(2):
        x = torch.rand(X) + 0.5
        given = x.clone()
        close(made(given), program(x))
        close(given, x)  # what the program writes into its argument is there


class Checked(torch.nn.Module):
    """A check between two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        """Raises for large values."""
        y = self.first(x)
        if bool(y.max() > 1000.0):
            raise ValueError("y is too large")
        return self.last(torch.relu(y))


def test_a_check_between_engines_raises_as_before():
    net = trained(Checked())
    made, report = script.compile_with_report(torch.jit.script(net), [(2, 4)], **FAST)
    assert report.engines == 1, report.text  # raising sooner or later than what has no effects is the same
    x = torch.rand(2, 4)
    close(made(x), net(x))
    with pytest.raises(torch.jit.Error, match="y is too large"):
        made(x * 1e6)
