# SPDX-License-Identifier: Apache-2.0
"""What compilers of TorchScript got wrong without saying so, what each choice does, and errors."""

import concurrent.futures
import copy
import re
import zipfile

import pytest
import torch
from conftest import FAST, Split, close, in_fresh_process, trained

import graft
import graft.torch
from graft.torch import Input, script


def scripted(function):
    """A scripted module whose forward is a function of one tensor."""
    inner = torch.jit.script(function)

    class Calls(torch.nn.Module):
        """Around the function."""

        def forward(self, x):
            """Calls it."""
            return inner(x)

    return torch.jit.script(Calls().eval())


def in_range(x: torch.Tensor):
    """Raises for elements outside of [5, 6)."""
    if bool((x < 5).any()) or bool((x >= 6).any()):
        raise ValueError("outside of the domain")
    return x + 1.0


def only_channels_last(x: torch.Tensor):
    """Raises for another memory format."""
    if x.stride(1) != 1:
        raise ValueError("channels first")
    return x + 1.0


def first_row(x: torch.Tensor):
    """One row."""
    return x[:1]


def gelu(x: torch.Tensor):
    """By its error function."""
    return torch.nn.functional.gelu(x)


def relu(x: torch.Tensor):
    """An operator without weights."""
    return torch.relu(x)


def test_gelu_is_exact_and_tanh_where_it_was_said():
    x = torch.linspace(-4, 4, 1001).reshape(1, -1)
    exact = script.compile(scripted(gelu), [x], require_full=True, **FAST)
    close(exact(x), torch.nn.functional.gelu(x))
    tanh = torch.nn.GELU(approximate="tanh").eval()
    made = script.compile(torch.jit.script(tanh), [x], require_full=True, **FAST)
    close(made(x), tanh(x))
    assert (exact(x) - made(x)).abs().max() > 1e-4  # they are not the same


def test_integers_above_32_bits_stay_what_they_are():
    def scale(x):
        return x * 3 + 1099511627776

    x = torch.tensor([[2 ** 31, -2 ** 33, 2 ** 52 + 1, 7]])
    made, report = script.compile_with_report(scripted(scale), [x], **FAST)
    assert report.engines == 1, report.text
    assert torch.equal(made(x), scale(x)) and made(x).dtype == torch.int64


def test_batches_of_1_2_1_2_compile_nothing_more(split):
    made = script.compile(torch.jit.script(split), [Input(("batch", 3, 8, 8))], {"batch": (1, 1, 2)}, **FAST)
    before = graft._graft.compilation_count()
    for size in (1, 2, 1, 2):
        x = torch.randn(size, 3, 8, 8)
        close(made(x), split(x))
    assert graft._graft.compilation_count() == before and graft.torch.fallback_count() >= 0


def test_comparisons_with_nan_are_false():
    def compare(x):
        zero = torch.relu(x) * 0.0
        return (x > zero, x < zero, x >= zero, x <= zero, x == x, x != x)

    x = torch.tensor([[1.0, -1.0, float("nan"), float("inf"), 0.0]])
    for result, expected in zip(script.compile(scripted(compare), [x], **FAST)(x), compare(x)):
        assert torch.equal(result, expected)


class Words(torch.nn.Module):
    """An embedding, whose indices have to lie in its table, and a layer."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 3)

    def forward(self, words):
        """Words to features."""
        return torch.relu(self.layer(self.table(words)))


def test_indices_of_an_embedding_are_int64_and_checked():
    net = trained(Words())
    made = script.compile(torch.jit.script(net), [Input((2, 5))], **FAST)  # its table tells the type
    words = torch.randint(0, 7, (2, 5))
    close(made(words), net(words))
    with pytest.raises((RuntimeError, IndexError), match="range|bounds|index"):
        made(torch.full((2, 5), 7))


def test_a_list_appended_to_across_a_border_holds_each_element_once():
    def collect(x):
        y = [torch.relu(x)]
        y.append(torch.digamma(y[0] + 1.5))
        y.append(torch.sigmoid(y[1]) * 2.0)
        return torch.cat(y), len(y)

    x = torch.randn(2, 3)
    made, report = script.compile_with_report(scripted(collect), [x], **FAST)
    assert report.engines >= 2, report.text
    for _ in range(3):
        result, count = made(x)
        close(result, collect(x)[0])
        assert count == 3


def test_the_type_of_an_input_is_that_of_the_first_weights_that_it_meets(split):
    double = Split()
    double = trained(double.double())
    made = script.compile(torch.jit.script(double), [Input((2, 3, 8, 8))], **FAST)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(made(x), double(x), rtol=1e-10, atol=1e-10)
    with pytest.warns(UserWarning, match="input x is described as Double, and the first weights that it meets want Fl"):
        script.compile(torch.jit.script(split), [Input((2, 3, 8, 8), torch.float64)], **FAST)
    with pytest.warns(UserWarning, match="input x meets no weights that tell its type: it is taken as Float"):
        script.compile(scripted(relu), [Input((2, 3))], **FAST)


def test_samples_lie_in_their_domain_and_have_their_memory_format(split):
    module = torch.jit.script(split)
    assert script.compare(module, module, [Input((2, 3, 8, 8))]) == (0, 0, "")
    module = scripted(in_range)
    assert script.compare(module, module, [Input((64,), torch.float32, tensor_domain=(5, 6))]).fault == ""
    with pytest.raises(graft.Error, match="outside of the domain"):
        script.compare(module, module, [Input((64,), torch.float32)])
    strided = scripted(only_channels_last)
    shape = (1, 4, 3, 3)
    last = Input(shape, torch.float32, memory_format=torch.channels_last)
    assert script.compare(strided, strided, [last]).fault == ""
    with pytest.raises(graft.Error, match="channels first"):
        script.compare(strided, strided, [Input(shape, torch.float32)])


def test_comparing_finds_differences_of_values_and_of_sizes(split):
    first, other = torch.jit.script(split), torch.jit.script(trained(Split()).double().float())
    made = script.compile(first, [(2, 3, 8, 8)], **FAST)
    found = script.compare(first, made, [(2, 3, 8, 8)])
    assert found.fault == "" and found.relative < 1e-5
    with torch.no_grad():
        other.head.bias.add_(1.0)
    assert script.compare(first, other, [(2, 3, 8, 8)]).absolute == pytest.approx(1.0, rel=1e-3)
    rows = scripted(first_row)
    assert "the result is" in script.compare(rows, scripted(relu), [Input((2, 3), torch.float32)]).fault


def test_a_plan_of_a_whole_method_runs_without_torch_and_goes_back_into_a_module(tmp_path):
    net = trained(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)))
    plan = script.convert_to_plan(torch.jit.script(net), [Input(("n", 4))], {"n": (1, 2, 8)}, **FAST)
    (tmp_path / "net.graft").write_bytes(plan)
    x = torch.rand(3, 4)
    engine = graft.load(str(tmp_path / "net.graft"))
    result = next(iter(graft_run(engine, x).values()))
    close(torch.from_numpy(result), net(x))
    module = script.embed_plan(plan)
    close(module(x), net(x))
    torch.jit.save(module, str(tmp_path / "plan.pt"))
    close(torch.jit.load(str(tmp_path / "plan.pt"))(x), net(x))
    with pytest.raises(graft.InvalidArgumentError, match="'input' is not among those named: y"):
        script.embed_plan(plan, inputs=["y"])
    with pytest.raises(graft.InvalidArgumentError, match="plan in memory"):
        script.embed_plan(b"no plan")


def graft_run(engine, x):
    """By name."""
    return engine.run({engine.inputs[0].name: x.numpy()})


def test_what_no_engine_can_do_is_named_with_its_line(split, image):
    module = torch.jit.script(split)
    (line,) = script.check_operator_support(module, [image])
    assert re.search(r"aten::digamma: there is no converter for .* \(.*conftest\.py:\d+: x = torch\.digamma", line)
    assert script.check_operator_support(module, [image], only="stem") != [line]
    with pytest.raises(graft.UnsupportedError, match=r"convert_to_plan: .*\n  aten::digamma: .*conftest\.py"):
        script.convert_to_plan(module, [image])
    assert not script.check_operator_support(scripted(relu), [Input((2, 3), torch.float32)])
    for said in ("graft ", "torch " + torch.__version__.partition("+")[0], "engine format 4"):
        assert said in script.get_build_info()


def test_less_than_16_bits_without_ranges_is_an_error_that_says_so(split, image):
    for choice in ({"precision": "int8"}, {"precision": torch.int8}, {"calibrator": "cache.bin"}):
        with pytest.raises(graft.InvalidArgumentError, match="give samples of the inputs|here it is calibration"):
            script.compile(torch.jit.script(split), [image], **choice)


def test_choices_of_precision_and_threads_show_in_the_engines(split, image):
    def engine(**choices):
        made = script.compile(torch.jit.script(split), [image], **FAST, **choices)
        return made.graft_engine_0.describe(), made

    described, made = engine(precision="bf16")
    assert '"bf16"' in described
    assert 1e-5 < (made(image) - split(image)).abs().max() / split(image).abs().max() < 0.05
    assert '"threads": 1' in engine(threads=1)[0].replace('":', '": ').replace("  ", " ")


def test_engines_of_the_first_format_are_read(split, image, tmp_path):
    path, old = tmp_path / "net.pt", tmp_path / "old.pt"
    torch.jit.save(script.compile(torch.jit.script(split), [image], strict=True, only="stem", **FAST), str(path))
    with zipfile.ZipFile(path) as new, zipfile.ZipFile(old, "w", zipfile.ZIP_STORED) as written:
        for name in new.namelist():
            data = new.read(name)
            if name.endswith("/data.pkl"):  # its format, and its settings, which were the device alone
                assert data.count(b"K\x04X") == 1
                data = data.replace(b"K\x04X", b"K\x01X")
                at = data.index(b"device cpu\n")
                length = int.from_bytes(data[at - 4:at], "little")
                data = data[:at - 4] + (3).to_bytes(4, "little") + b"cpu" + data[at + length:]
            written.writestr(name, data)
    close(torch.jit.load(str(old))(image), split(image))


def test_eight_threads_of_one_module_over_batches_1_to_16(split):
    made = script.compile(torch.jit.script(split), [Input(("batch", 3, 8, 8))], {"batch": (1, 4, 12)}, **FAST)
    inputs = [torch.randn(size, 3, 8, 8) for size in range(1, 17)]  # the last four run in torch
    expected = [split(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result, wanted in zip(pool.map(made, inputs * 8), expected * 8):
            close(result, wanted)


def test_a_hundred_compilations_leave_no_memory_behind(monkeypatch):
    # malloc else keeps large blocks that were freed, in holes between small ones
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(2 ** 20))
    print(in_fresh_process("""
import gc, torch, graft, graft.torch
from graft.torch import script
net = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).eval())
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096
x = torch.rand(2, 1024)
for i in range(120):
    made = script.compile(net, [x], tune="off")
    made(x)
    del made
    if i == 19:
        before = resident()
grown = resident() - before
# torch.jit.freeze and a run keep 7 MB of types and graphs; weights and engines would be 400 MB
assert grown < 20 * 2 ** 20, f"{grown / 2 ** 20:.1f} MB in 100 compilations"
"""))


def test_a_missing_library_and_one_of_another_torch_are_errors(tmp_path):
    print(in_fresh_process("""
import sys, graft.torch
try:
    graft.torch.load_library(sys.argv[1] + "/libgraft_torch.so")
except graft.DeviceError as error:
    assert "graft-host torch" in str(error), error
else:
    raise SystemExit("no error")
open(sys.argv[1] + "/libgraft_torch.so", "w").write("nothing")
try:
    graft.torch.load_library(sys.argv[1] + "/libgraft_torch.so")
except graft.DeviceError as error:
    assert "does not work with this torch" in str(error), error
else:
    raise SystemExit("no error")
""", tmp_path))


class Halving(torch.nn.Module):
    """What an operator that stays gives meets a tensor of half its input's sizes."""

    def __init__(self):
        super().__init__()
        self.down = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.out = torch.nn.Conv2d(4, 2, 1)

    def forward(self, x):
        """A residual connection across the border of two engines."""
        y = torch.relu(self.down(x))
        return torch.relu(self.out(y + torch.special.i1(y)))


def test_sizes_that_are_made_of_others_cross_a_border():
    net = trained(Halving())
    ranged = graft.torch.Input(min_shape=(1, 3, 4, 4), opt_shape=(2, 3, 16, 16), max_shape=(4, 3, 64, 64))
    made, report = script.compile_with_report(torch.jit.script(net), [ranged], strict=True, **FAST)
    assert report.engines == 2, report.text
    for shape in [(2, 3, 16, 16), (1, 3, 5, 9), (4, 3, 64, 33)]:
        x = torch.rand(shape)
        close(made(x), net(x))


class Streaming(torch.nn.Module):
    """Keeps the last frames."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 3)
        self.register_buffer("state", torch.zeros(1, 4, 2))

    def forward(self, x):
        whole = torch.cat([self.state, x], -1)
        self.state.copy_(whole[..., -2:])
        return torch.tanh(self.conv(whole))


class Rolling(torch.nn.Module):
    """Writes to a part of its buffer, and returns it."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 3)
        self.register_buffer("history", torch.zeros(1, 4, 12))

    def forward(self, x):
        self.history.copy_(torch.roll(self.history, -1, 0))
        self.history[:, :, 2:] = x
        return self.history, torch.tanh(self.conv(self.history))


class Cached(torch.nn.Module):
    """A cache that is written at a position inside of a branch."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 3)
        self.register_buffer("keys", torch.zeros(3, 4, 10))

    def forward(self, x):
        position = (x[0, 0, 0] > 0).long().reshape(1)
        if bool(x.sum() > 0):
            self.keys.index_copy_(0, position, x)
        return torch.relu(self.conv(self.keys))


@pytest.mark.parametrize("make", [Streaming, Rolling, Cached])
def test_what_a_method_writes_to_its_buffers_is_read_anew_and_compiling_writes_nothing(make, tmp_path):
    torch.manual_seed(0)
    plain = make().eval()
    module = torch.jit.script(copy.deepcopy(plain))
    made = script.compile(module, [(1, 4, 10)], **FAST)
    assert script.compare(module, made, [(1, 4, 10)]).relative < 1e-4
    for (name, one), (_, other) in zip(made.named_buffers(), plain.named_buffers()):
        torch.testing.assert_close(one, other, msg=name)
    torch.jit.save(made, tmp_path / "net.pt")
    with torch.no_grad():
        for run in (made, torch.jit.load(tmp_path / "net.pt")):
            expected = copy.deepcopy(plain)
            for _ in range(4):
                x = torch.randn(1, 4, 10)
                for one, other in zip(torch.utils._pytree.tree_leaves(run(x)),
                                      torch.utils._pytree.tree_leaves(expected(x))):
                    close(one, other)
            for (name, one), (_, other) in zip(run.named_buffers(), expected.named_buffers()):
                torch.testing.assert_close(one, other, msg=name)
