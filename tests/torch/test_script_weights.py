# SPDX-License-Identifier: Apache-2.0
"""Weights of a module with engines exist once, in the engines: what runs in torch instead takes them from there."""

import pytest
import torch
from conftest import FAST, close, in_fresh_process, trained

import graft.torch

MEGABYTE = 1 << 20


class Images(torch.nn.Module):
    """Normalisations go into convolutions, one of them in groups, and channels of one are a head's features."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(16, 96, 3, padding=1, bias=False), torch.nn.BatchNorm2d(96)
        self.second, self.other_norm = torch.nn.Conv2d(96, 96, 3, groups=2), torch.nn.BatchNorm2d(96, affine=False)
        self.point = torch.nn.Conv2d(96, 256, 1)
        self.head = torch.nn.Linear(256, 300)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.other_norm(self.second(x)))
        return self.head(torch.relu(self.point(x)).mean((2, 3)))


class Words(torch.nn.Module):
    """A table, and products of one operand, which become one."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(500, 64)
        self.query, self.key, self.value = (torch.nn.Linear(64, 64) for _ in range(3))
        self.norm, self.last = torch.nn.LayerNorm(64), torch.nn.Linear(64, 200)

    def forward(self, words):
        x = self.table(words)
        x = torch.nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.last(self.norm(x))


KINDS = {"images": (Images, lambda batch: torch.randn(batch, 16, 8, 8), graft.torch.Input(("batch", 16, 8, 8))),
         "words": (Words, lambda batch: torch.randint(0, 500, (batch, 7)),
                   graft.torch.Input(("batch", 7), torch.int64))}


@pytest.fixture(name="kind", params=KINDS)
def fixture_kind(request):
    """(model, inputs of a batch, described)."""
    build, inputs, described = KINDS[request.param]
    torch.manual_seed(5)
    return trained(build()), inputs, described


def compiled(model, described, **choices):
    """For batches of 1 to 4."""
    return graft.torch.script.compile(torch.jit.script(model), [described], {"batch": (1, 2, 4)}, **choices, **FAST)


def constant_bytes(block):
    """Of tensors in a graph."""
    found = 0
    for node in block.nodes():
        if node.kind() == "prim::Constant" and node.output().type().kind() == "TensorType":
            value = node.output().toIValue()
            found += value.nbytes if isinstance(value, torch.Tensor) else 0
        found += sum(constant_bytes(inner) for inner in node.blocks())
    return found


def weight_bytes(model):
    return sum(each.nbytes for each in model.parameters())


def test_a_file_holds_weights_once_and_what_runs_in_torch_agrees(kind, tmp_path):
    model, inputs, described = kind
    made = compiled(model, described)
    assert constant_bytes(made.graph) < 0.1 * weight_bytes(model)
    sizes = {}
    for name, module in (("both", made), ("strict", compiled(model, described, strict=True))):
        torch.jit.save(module, str(tmp_path / name))
        sizes[name] = (tmp_path / name).stat().st_size
    assert sizes["both"] < sizes["strict"] + 0.1 * weight_bytes(model) + 30000, sizes
    loaded = torch.jit.load(str(tmp_path / "both"))
    torch.jit.save(loaded, str(tmp_path / "again"))
    for module in (made, loaded, torch.jit.load(str(tmp_path / "again"))):
        for batch, refused in ((3, 0), (7, 1), (2, 0), (5, 1)):
            x, before = inputs(batch), graft.torch.fallback_count()
            close(module(x), model(x))
            assert graft.torch.fallback_count() == before + refused


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_weights_of_16_bits_are_those_that_torch_computes_with_instead(kind, precision):
    model, inputs, described = kind
    made = compiled(model, described, precision=precision)
    assert constant_bytes(made.graph) < 0.1 * weight_bytes(model)
    x = inputs(6)
    result, expected = made(x), model(x)
    assert (result - expected).abs().max() < 0.05 * expected.abs().max()


def test_weights_that_an_engine_computed_with_stay_constants():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(64, 64))

        def forward(self, x):
            return torch.nn.functional.linear(x, torch.tanh(self.weight))

    model = Scaled().eval()
    made = graft.torch.script.compile(torch.jit.script(model), [graft.torch.Input(("batch", 64))],
                                      {"batch": (1, 2, 4)}, **FAST)
    x = torch.randn(9, 64)
    close(made(x), model(x))


MEMORY = """
import ctypes, gc, sys, torch, graft.torch
graft.torch.load_library()

def resident(key="VmRSS"):
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1]) / 1024

small = torch.jit.script(torch.nn.Linear(4, 4).eval())    # brings in what every module needs
graft.torch.script.compile(small, [(2, 4)], tune="off")(torch.randn(2, 4))
before = resident()
"""


def test_resident_memory_holds_weights_once_after_compiling_and_after_loading(tmp_path):
    """128 MB of weights; what is not weights takes up to 50."""
    x = torch.randn(9, 2048)
    net = torch.jit.script(torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).eval())
    torch.save((x, net(x)), tmp_path / "data.pt")
    torch.jit.save(net, str(tmp_path / "original.pt"))
    del net
    compiled_mb = in_fresh_process(MEMORY + """
original = torch.jit.load(sys.argv[1] + "/original.pt")
described = [graft.torch.Input(("batch", 2048))]
made = graft.torch.script.compile(original, described, {"batch": (1, 2, 4)}, tune="off")
del original
made(torch.randn(2, 2048))
print(resident() - before)
torch.jit.save(made, sys.argv[1] + "/net.pt")
""", tmp_path)
    assert float(compiled_mb) < 180
    assert (tmp_path / "net.pt").stat().st_size < 132 * MEGABYTE
    loaded, later = map(float, in_fresh_process(MEMORY + """
x, expected = torch.load(sys.argv[1] + "/data.pt")
net = torch.jit.load(sys.argv[1] + "/net.pt")
net(torch.randn(2, 2048))
loaded = resident() - before
count = graft.torch.fallback_count()
for _ in range(3):
    torch.testing.assert_close(net(x), expected, rtol=1e-4, atol=1e-5)
assert graft.torch.fallback_count() == count + 3
print(loaded, resident() - before)
""", tmp_path).split())
    assert loaded < 180 and later < 180, (loaded, later)
