# SPDX-License-Identifier: Apache-2.0
"""Branches and loops of TorchScript whose outcome only a run knows: inside of engines, or engines inside of them."""

import random
import re
from typing import List, Tuple

import pytest
import torch
from conftest import FAST, close, trained

import graft
import graft.torch
from graft.torch import script

STEPS = {"n": (0, 5, 40)}
X = [graft.torch.Input(("n", 4))]


def as_module(function):
    """A scripted module whose forward is a function of one tensor."""
    scripted = torch.jit.script(function)

    class Calls(torch.nn.Module):
        """Around the function."""

        def forward(self, x):
            """Calls it."""
            return scripted(x)

    return torch.jit.script(Calls().eval())


def doubles_until_large(x):  # noqa: D103
    steps = 0
    while bool(x.abs().sum() < 100.0) and steps < 20:
        x = x * 2.0 + 0.125
        steps += 1
    return x, x * float(steps + x.size(0))


def takes_a_branch(x):  # noqa: D103
    if bool(x.sum() > 0.0):
        y = torch.relu(x) * 2.0
        z = x.sum()
    else:
        y = torch.tanh(x)
        z = x.sum() - 1.0
    return y + z


def gives_other_sizes_by_branch(x):  # noqa: D103
    if bool(x.sum() > 0.0):
        y = torch.cat([x, x * 2.0])
    else:
        y = x[1:] - 1.0
    return torch.relu(y)


def stacks_what_a_loop_appends(x):  # noqa: D103
    h = torch.zeros(4)
    found: List[torch.Tensor] = []
    for t in range(x.size(0)):
        h = torch.tanh(h * 0.5 + x[t])
        found.append(h)
    if len(found) == 0:
        found.append(h)
    return torch.stack(found, 1), h


def appends_before_in_and_behind_a_loop(x):  # noqa: D103
    found = [x[:1] * 3.0]
    for t in range(x.size(0)):
        found += [x[t].unsqueeze(0) + 1.0, x[t].unsqueeze(0) * float(t)]
    found.append(x[:1])
    return torch.cat(found), torch.cat(found, 1), found[-1], float(len(found)) * x


def loops_within_a_branch_within_a_loop(x):  # noqa: D103
    total = torch.zeros(4)
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0.0):
            for j in range(i + 1):
                total = total + x[j] * 0.5
        else:
            total = total - x[i]
    return total


def appends_across_loops_and_branches(x):  # noqa: D103
    found: List[torch.Tensor] = []
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0.0):
            for j in range(i):
                found.append(x[j] + x[i])
        found.append(x[i])
    found.append(torch.ones(4))
    return torch.stack(found)


def carries_numbers_of_every_kind(x):  # noqa: D103
    count, scale, goes = 0, 0.5, True
    while goes:
        count += 2
        scale = scale * 1.5 + float(count) / 3.0
        x = x * scale
        goes = count < 7 and scale < 30.0
    return x * float(count) + scale


def grows_what_it_carries(x):  # noqa: D103
    y = x
    while y.size(0) < 11:
        y = torch.cat([y, x + float(y.size(0))])
    return y


def breaks_and_goes_on(x):  # noqa: D103
    y = torch.zeros(4)
    for t in range(x.size(0)):
        if bool(x[t].max() > 1.5):
            continue
        if bool(y.sum() > 6.0):
            break
        y = y + x[t].abs()
    return y


def returns_early(x):  # noqa: D103
    if bool(x.sum() > 1.0):
        return torch.relu(x) + 3.0
    y = x * 2.0
    if bool(y.sum() < -1.0):
        return torch.tanh(y)
    return y - 1.0


WHOLE = [doubles_until_large, takes_a_branch, gives_other_sizes_by_branch, stacks_what_a_loop_appends,
         appends_before_in_and_behind_a_loop, loops_within_a_branch_within_a_loop, appends_across_loops_and_branches,
         carries_numbers_of_every_kind, grows_what_it_carries]


def samples(program):
    """Tensors of several lengths and signs, as torch takes them."""
    generator = torch.Generator().manual_seed(7)
    lengths = (1, 2, 5, 9) if program is grows_what_it_carries else (1, 2, 3, 5, 9)
    for length in lengths:
        for shift in (-0.6, 0.0, 0.6):
            yield torch.randn(length, 4, generator=generator) + shift


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_control_flow_becomes_part_of_an_engine(program):
    fallbacks = graft.torch.fallback_count()
    module = as_module(program)
    made, report = script.compile_with_report(module, X, STEPS, strict=True, **FAST)
    kinds = {node.kind() for node in made.graph.nodes()}
    assert report.engines == 1 and not {"prim::Loop", "prim::If"} & kinds, report.text
    for x in samples(program):
        close(made(x), program(x.clone()))
    assert graft.torch.fallback_count() == fallbacks


@pytest.mark.parametrize("program", [stacks_what_a_loop_appends, doubles_until_large,
                                     loops_within_a_branch_within_a_loop],
                         ids=lambda program: program.__name__)
def test_no_rounds(program):
    made = script.compile(as_module(program), X, STEPS, strict=True, **FAST)
    x = torch.zeros(0, 4) if program is not doubles_until_large else torch.full((3, 4), 100.0)
    close(made(x), program(x))


@pytest.mark.parametrize("program", [returns_early, breaks_and_goes_on], ids=lambda program: program.__name__)
def test_what_leaves_a_block_early_agrees(program):
    made = script.compile(as_module(program), X, STEPS, **FAST)
    for x in samples(program):
        close(made(x), program(x))


class Stepper(torch.nn.Module):
    """A loop that prints, with enough beside that for engines."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x, h) -> Tuple[torch.Tensor, torch.Tensor]:
        """All steps' results, and the last state."""
        found: List[torch.Tensor] = []
        for t in range(x.size(0)):
            h = torch.tanh(self.inner(h) + self.outer(x[t]))
            found.append(torch.relu(h) * 2.0)
            if t % 2 == 0:
                print("step", t, h.size(0))
        return torch.stack(found), h


def test_what_prints_stays_and_what_is_beside_it_becomes_an_engine_inside_the_loop(capfd):
    net = trained(Stepper())
    made, report = script.compile_with_report(torch.jit.script(net), [*X, torch.zeros(4)], STEPS, **FAST)
    assert report.engines == 1 and "inside of" in report.text and "prim::Print" in report.text, report.text
    text = str(made.graph)
    assert text.index("prim::Loop") < text.index("graft::execute_engine"), text
    for steps in (1, 4, 7):
        x, h = torch.randn(steps, 4), torch.randn(4)
        expected = net(x, h)
        said = capfd.readouterr().out
        close(made(x, h), expected)
        assert capfd.readouterr().out == said


def test_engines_inside_of_a_loop_are_saved_and_fall_back(tmp_path, capfd):
    net = trained(Stepper())
    made = script.compile(torch.jit.script(net), [*X, torch.zeros(4)], STEPS, **FAST)
    torch.jit.save(made, str(tmp_path / "net.pt"))
    loaded = torch.jit.load(str(tmp_path / "net.pt"))
    x, h = torch.randn(3, 4), torch.randn(4)
    close(loaded(x, h), net(x, h))
    assert "step 2 4" in capfd.readouterr().out
    before = graft.torch.fallback_count()
    given = torch.randn(2, 4)  # a state of another number of axes than the engines were made for
    close(loaded(x, given), net(x, given))
    assert graft.torch.fallback_count() > before


def test_a_branch_with_an_operator_that_no_engine_has_says_so():
    def program(x):
        y = torch.relu(x)
        if bool(x.sum() > 0.0):
            y = torch.digamma(y + 1.5)
        return y * 2.0

    module = as_module(program)
    made, report = script.compile_with_report(module, X, STEPS, **FAST)
    assert re.search(r"stays: prim::If \S+: its function 'then' has aten::digamma", report.text), report.text
    for x in samples(program):
        close(made(x), program(x))
    with pytest.raises(graft.UnsupportedError, match="aten::digamma"):
        script.compile(module, X, STEPS, require_full=True, **FAST)


def test_an_excluded_operator_is_kept_inside_of_a_branch():
    module = as_module(takes_a_branch)
    _, report = script.compile_with_report(module, X, STEPS, exclude_ops=["aten::tanh"], **FAST)
    assert "the operator aten::tanh was excluded" in report.text and "stays: prim::If" in report.text, report.text


def test_a_list_that_somebody_else_has_stays():
    def program(x):
        found = [x]
        both = [found, found]
        for t in range(x.size(0)):
            found.append(x[t:t + 1] * 2.0)
        return torch.cat(both[1]) + 1.0

    made = script.compile(as_module(program), X, STEPS, **FAST)
    for x in samples(program):
        close(made(x), program(x))


class Encoder(torch.nn.Module):
    """Torch's own layer, which asks whether autocast is on."""

    def __init__(self, norm_first):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)

    def forward(self, x):
        """One layer."""
        return self.layer(x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_one_engine(norm_first):
    torch.manual_seed(2)
    net = Encoder(norm_first).eval()
    x = torch.randn(2, 5, 16)
    made, report = script.compile_with_report(torch.jit.script(net), [x], **FAST)
    assert report.engines == 1 and "stays" not in report.text, report.text
    with torch.no_grad():
        close(made(x), net(x))


# ---- Random programs ----

class Writer:
    """Writes a program of nested loops, branches and lists, of which torch says whether it is one."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []

    def expression(self):
        """Of y, x and the round."""
        return self.random.choice(["torch.tanh(y + 0.25)", "y * 0.75 + x[0]", "torch.relu(y) - 0.5", "y - x[-1] * 0.5",
                                   "torch.sigmoid(y) + s", "y + float(k) * 0.125"])

    def condition(self):
        """Of data, or of numbers."""
        return self.random.choice(["bool(y.sum() > 0.5)", "k % 2 == 0", "s < 2.0", "bool(x[0].max() > y.min())"])

    def block(self, indent, depth):
        """Statements of one block."""
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["assign", "assign", "number", "append", "if", "for", "while"])
            if depth >= 3 and kind in ("if", "for", "while"):
                kind = "assign"
            self.statement(kind, indent, depth)

    def statement(self, kind, indent, depth):
        """One, with what is inside of it."""
        space = "    " * indent
        if kind == "assign":
            self.lines.append(f"{space}y = {self.expression()}")
        elif kind == "number":
            self.lines.append(space + self.random.choice(["k += 1", "s = s * 0.5 + 0.25", "k = k + x.size(0)"]))
        elif kind == "append":
            self.lines.append(f"{space}found.append(y * {self.random.randint(1, 4)}.0)")
        elif kind == "if":
            self.lines.append(f"{space}if {self.condition()}:")
            self.block(indent + 1, depth + 1)
            self.lines.append(f"{space}else:")
            self.block(indent + 1, depth + 1)
        elif kind == "for":
            name = f"i{depth}"
            self.lines.append(f"{space}for {name} in range({self.random.choice(['x.size(0)', 'k % 3', '2'])}):")
            self.block(indent + 1, depth + 1)
        else:
            name = f"w{len(self.lines)}"
            self.lines += [f"{space}{name} = 0", f"{space}while {name} < 3 and {self.condition()}:",
                           f"{space}    {name} += 1"]
            self.block(indent + 1, depth + 1)

    def text(self):
        """The function."""
        self.block(1, 0)
        return "\n".join(["def program(x):", "    y = x[0] * 0.5", "    k, s = 1, 0.5",
                          "    found: List[torch.Tensor] = []", *self.lines, "    found.append(y)",
                          "    return torch.stack(found), y * s + float(k)", ""])


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_with_torch(seed, tmp_path):
    text = Writer(seed).text()
    path = tmp_path / f"program_{seed}.py"
    path.write_text("from typing import List\nimport torch\n" + text, encoding="utf-8")
    scope = {"__name__": "random_program"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    program = scope["program"]
    made = script.compile(as_module(program), X, {"n": (1, 3, 8)}, **FAST)
    generator = torch.Generator().manual_seed(seed)
    for length in (1, 3, 4):
        x = torch.randn(length, 4, generator=generator)
        close(made(x), program(x))
