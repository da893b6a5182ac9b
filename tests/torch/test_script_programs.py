# SPDX-License-Identifier: Apache-2.0
"""Programs that people give to TorchScript compilers: loops, prints, collections, parts by name."""

import re
import subprocess
from typing import Dict, List, Optional, Tuple

import pytest
import torch
from conftest import FAST, HOST, close, trained

import graft
import graft.torch
from graft.torch import script


class RNN(torch.nn.Module):
    """A loop over the steps of its input, which appends to a list and prints now and then."""

    def __init__(self, W_h, U_h, W_y, b_h, b_y):
        super().__init__()
        self.W_h = torch.nn.Parameter(W_h)
        self.U_h = torch.nn.Parameter(U_h)
        self.W_y = torch.nn.Parameter(W_y)
        self.b_h = torch.nn.Parameter(b_h)
        self.b_y = torch.nn.Parameter(b_y)

    def forward(self, x, h):
        """All steps' results, and the last state."""
        y = []
        for t in range(x.size(0)):
            h = torch.tanh(x[t] @ self.W_h + h @ self.U_h + self.b_h)
            y += [torch.tanh(h @ self.W_y + self.b_y)]
            if t % 10 == 0:
                print("stats: ", h.mean(), h.var())
        return torch.stack(y), h


@pytest.fixture(name="rnn")
def fixture_rnn():
    """In evaluation mode."""
    torch.manual_seed(0)
    return RNN(torch.randn(3, 4), torch.randn(4, 4), torch.randn(4, 4), torch.randn(4), torch.randn(4)).eval()


def printed(capfd, function):
    """What a function gives, and the numbers that it printed."""
    result = function()
    return result, capfd.readouterr().out


def assert_said(said, wanted):
    """The same text, and numbers that are close: another order of sums shows in their last digits."""
    number = r"-?\d+\.\d+(e-?\d+)?"
    assert re.sub(number, "N", said) == re.sub(number, "N", wanted)
    values = [[float(found.group()) for found in re.finditer(number, text)] for text in (said, wanted)]
    assert values[0] == pytest.approx(values[1], rel=1e-5, abs=1e-6)


def test_an_rnn_of_known_length_is_unrolled_and_prints_what_it_printed(rnn, capfd):
    x, h = torch.randn(12, 3), torch.randn(4)
    scripted = torch.jit.script(rnn)
    expected, wanted = printed(capfd, lambda: scripted(x, h))
    made, report = script.compile_with_report(scripted, [x, h], **FAST)
    capfd.readouterr()
    result, said = printed(capfd, lambda: made(x, h))
    close(result[0], expected[0])
    close(result[1], expected[1])
    assert_said(said, wanted)
    assert said.count("stats:") == 2
    assert report.engines >= 1 and "prim::Loop" not in str(made.graph), report.text
    with pytest.raises(RuntimeError, match=r"the argument 'x' is Float\[13, 3\].*compiled for Float\[12, 3\]"):
        made(torch.randn(13, 3), h)  # the unrolled loop would leave a step out


def test_a_traced_rnn_agrees(rnn, capfd):
    x, h = torch.randn(5, 3), torch.randn(4)
    made, report = script.compile_with_report(torch.jit.trace(rnn, (x, h)), [x, h], **FAST)
    expected = rnn(x, h)
    capfd.readouterr()
    result = made(x, h)
    close(result[0], expected[0])
    close(result[1], expected[1])
    assert report.engines >= 1, report.text


def test_an_rnn_of_changing_length_is_an_engine_inside_its_loop_but_for_the_print(rnn, capfd):
    scripted = torch.jit.script(rnn)
    made, report = script.compile_with_report(scripted, [graft.torch.Input(("steps", 3)), torch.randn(4)],
                                              {"steps": (1, 8, 32)}, **FAST)
    assert report.engines >= 1 and ", body:" in report.text, report.text
    loop = str(made.graph).partition("prim::Loop")[2]
    assert "graft::execute_engine" in loop.partition("prim::Print")[0], report.text
    for steps in (1, 12, 21):
        x, h = torch.randn(steps, 3), torch.randn(4)
        expected, wanted = printed(capfd, lambda: scripted(x, h))  # noqa: B023
        result, said = printed(capfd, lambda: made(x, h))  # noqa: B023
        close(result[0], expected[0])
        close(result[1], expected[1])
        assert_said(said, wanted)


@torch.jit.script
def graph_of_two(a, b):
    """Additions, products and a hyperbolic tangent."""
    c = a + b
    d = c * c
    e = torch.tanh(d * c)
    return d + (e + e)


def as_module(function, arguments):
    """A module whose forward is a function."""
    class Calls(torch.nn.Module):
        """Around the function."""

        def forward(self, a, b):
            """Calls it."""
            return function(a, b)

    return torch.jit.trace(Calls().eval(), arguments)


def test_the_graph_of_two_arguments_is_one_engine():
    a, b = torch.rand(2, dtype=torch.float64), torch.rand(2, dtype=torch.float64)
    made, report = script.compile_with_report(as_module(graph_of_two, (a, b)), [a, b], require_full=True, **FAST)
    assert report.engines == 1
    torch.testing.assert_close(made(a, b), graph_of_two(a, b), rtol=1e-12, atol=1e-12)


class Digits(torch.nn.Module):
    """LeNet: poolings whose windows are lists, a linear layer of its own name, log_softmax."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 4, 3), torch.nn.Conv2d(4, 8, 3)
        self.drop = torch.nn.Dropout2d(0.5)
        self.fc1 = torch.nn.Linear(8, 10)

    def forward(self, x):
        """Logarithms of probabilities, for images of any size."""
        x = torch.max_pool2d(torch.relu(self.conv1(x)), [3, 3], 2)
        x = self.drop(torch.max_pool2d(torch.relu(self.conv2(x)), 2))
        x = torch.nn.functional.adaptive_avg_pool2d(x, 1)
        return torch.log_softmax(self.fc1(torch.flatten(x, 1)), 1)


@pytest.mark.parametrize("capture", [torch.jit.script, lambda net: torch.jit.trace(net, torch.ones(1, 1, 28, 28))],
                         ids=["scripted", "traced"])
def test_images_of_one_size_and_of_a_range_of_sizes(capture):
    net = trained(Digits())
    fixed = script.compile(capture(net), [(1, 1, 28, 28)], require_full=True, **FAST)
    x = torch.ones(1, 1, 28, 28)
    close(fixed(x), net(x))
    ranged = script.compile(capture(net), [graft.torch.Input(min_shape=(1, 1, 16, 16), opt_shape=(1, 1, 28, 28),
                                                             max_shape=(1, 1, 54, 54))], strict=True, **FAST)
    for height, width in ((16, 16), (28, 28), (54, 54), (17, 40)):
        x = torch.rand(1, 1, height, width)
        close(ranged(x), net(x))
    with pytest.raises(RuntimeError, match="55"):
        ranged(torch.rand(1, 1, 28, 55))


def run_program(*arguments):
    """The program in C++ of tests/torch/program; what it prints."""
    program = HOST / "program" / "program"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_program_in_cpp_compiles_saves_and_loads_a_module(tmp_path):
    net = trained(Digits())
    torch.jit.save(torch.jit.script(net), str(tmp_path / "net.pt"))
    said = run_program(tmp_path / "net.pt", tmp_path / "saved.pt")
    assert said.startswith("1 engines, 0 fallbacks\n") and "'batch' has no range" in said
    assert "engine format" in said
    graft.torch.load_library()
    x = torch.rand(1, 1, 30, 40)
    close(torch.jit.load(str(tmp_path / "saved.pt"))(x), net(x))


class Pair(torch.nn.Module):
    """Takes a tuple, gives one."""

    def forward(self, pair: Tuple[torch.Tensor, torch.Tensor]):
        """Sum and product."""
        a, b = pair
        return torch.relu(a + b), a * b


def test_a_program_in_cpp_hands_in_tuples(tmp_path):
    torch.jit.save(torch.jit.script(Pair().eval()), str(tmp_path / "net.pt"))
    run_program(tmp_path / "net.pt", tmp_path / "saved.pt", "--pair")


class Detector(torch.nn.Module):
    """A backbone, and what follows it: boxes above a threshold, of which there is any number."""

    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(),
                                            torch.nn.Conv2d(8, 8, 3, stride=2), torch.nn.ReLU())
        self.scores, self.boxes = torch.nn.Conv2d(8, 1, 1), torch.nn.Conv2d(8, 4, 1)

    def forward(self, images: List[torch.Tensor]) -> Dict[str, torch.Tensor]:
        """Boxes and scores of one image."""
        features = self.backbone(images[0].unsqueeze(0))
        scores = torch.sigmoid(0.01 * self.scores(features)).flatten()
        boxes = self.boxes(features).permute(0, 2, 3, 1).reshape(-1, 4)
        kept = torch.nonzero(scores > scores.mean()).squeeze(1)
        if kept.numel() == 0:
            raise RuntimeError("nothing found")
        return {"boxes": boxes[kept], "scores": scores[kept]}


def test_only_the_backbone_of_a_detector_by_its_name():
    net = trained(Detector())
    image = torch.randn(3, 32, 32)
    made, report = script.compile_with_report(torch.jit.script(net), [[image]], only="backbone", **FAST)
    assert report.engines == 1 and "segment 0: 4 operators" in report.text, report.text
    for _ in range(3):
        image = torch.randn(3, 32, 32)
        result, expected = made([image]), net([image])
        assert result.keys() == expected.keys()
        for key, value in expected.items():
            close(result[key], value)


class Nested(torch.nn.Module):
    """Tuples, lists and dicts, in and out, two levels deep."""

    def forward(self, pair: Tuple[torch.Tensor, List[torch.Tensor]], named: Dict[str, torch.Tensor]):
        """All of them."""
        a, rest = pair
        b = torch.relu(a + rest[0]) * named["scale"]
        c = torch.sigmoid(rest[1] - b)
        return (b, [c, a * 2.0]), {"sum": torch.tanh(b + c)}


def test_nested_collections_go_in_and_come_out():
    net = Nested().eval()

    def arguments():
        a, b, c, d = (torch.randn(2, 3) for _ in range(4))
        return (a, [b, c]), {"scale": d}

    made, report = script.compile_with_report(torch.jit.script(net), list(arguments()), **FAST)
    assert report.engines >= 1 and "aten::relu" not in [node.kind() for node in made.graph.nodes()], report.text
    given = arguments()
    (b, (c, d)), named = made(*given)
    (eb, (ec, ed)), enamed = net(*given)
    for result, expected in ((b, eb), (c, ec), (d, ed), (named["sum"], enamed["sum"])):
        close(result, expected)
    described = [(graft.torch.Input(("n", 3)), [graft.torch.Input(("n", 3)), graft.torch.Input(("n", 3))]),
                 {"scale": graft.torch.Input(("n", 3))}]
    ranged = script.compile(torch.jit.script(net), described, {"n": (1, 2, 4)}, **FAST)
    close(ranged(*given)[1]["sum"], enamed["sum"])
    with pytest.raises(graft.InvalidArgumentError, match=r"pair\.1 is List\[Tensor\], and a tuple is described"):
        script.compile(torch.jit.script(net), [(given[0][0], (given[0][0], given[0][0])), given[1]])
    with pytest.raises(graft.InvalidArgumentError, match="pair has 2 elements, 1 are described"):
        script.compile(torch.jit.script(net), [(given[0][0],), given[1]])


class Masked(torch.nn.Module):
    """Arguments that need not be given."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, mask: Optional[torch.Tensor] = None, scale: float = 2.0):
        """The layer's result, masked."""
        y = torch.relu(self.layer(x)) * scale
        if mask is not None:
            y = y * mask
        return torch.sigmoid(y)


def test_arguments_that_are_not_described_have_their_defaults():
    net = trained(Masked())
    x = torch.rand(2, 4)
    made, report = script.compile_with_report(torch.jit.script(net), [x], **FAST)
    assert report.engines == 1 and "prim::If" not in report.text, report.text
    close(made(x), net(x))
    close(made(x, None, 2.0), net(x))
    for given in ((x, x), (x, None, 3.0)):
        with pytest.raises(RuntimeError, match="the argument '(mask|scale)' is given, and the module was compiled"):
            made(*given)
    with_mask = script.compile(torch.jit.script(net), [x, x], **FAST)
    close(with_mask(x, x * 2), net(x, x * 2))


class TwoMethods(torch.nn.Module):
    """One of them is compiled."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(4, 3), torch.nn.Linear(3, 4)

    @torch.jit.export
    def encode(self, x):
        """The first half."""
        return torch.relu(self.inner(x))

    def forward(self, x):
        """Both halves."""
        return self.outer(self.encode(x))


def test_methods_other_than_forward():
    net = trained(TwoMethods())
    x = torch.rand(2, 4)
    made, report = script.compile_with_report(torch.jit.script(net), [x], method="encode", **FAST)
    assert report.engines == 1
    close(made.encode(x), net.encode(x))
    close(made(x), net(x))
    assert "graft::execute_engine" in str(made.encode.graph) and "graft::execute_engine" not in str(made.graph)
    with pytest.raises(graft.InvalidArgumentError, match="no method decode"):
        script.compile(torch.jit.script(net), [x], method="decode")
