# SPDX-License-Identifier: Apache-2.0
"""int8 through torch.compile, torch.export and TorchScript, on a network that is trained here on digits."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import HOST
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import digits  # noqa: E402

import graft  # noqa: E402
import graft.torch  # noqa: E402
from graft.torch import ptq  # noqa: E402

MOST_LOST = 0.5  # points of accuracy
(TRAINED, TRAINED_DIGITS), (TESTED, TESTED_DIGITS) = digits.load()
TRAINED, TESTED = (torch.from_numpy(each[:, None].copy()) for each in (TRAINED, TESTED))
FAST = {"tune": "off"}


class Network(torch.nn.Module):
    """Convolutions on pictures of digits; between them an operator that no engine has if `odd`."""

    def __init__(self, odd=False):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.head = torch.nn.Linear(128, 10)
        self.odd = odd

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.nn.functional.max_pool2d(x, 2)
        if self.odd:
            x = torch.special.digamma(x + 1.5)
        x = torch.nn.functional.max_pool2d(torch.relu(self.second(x)), 2)
        return self.head(x.flatten(1))


def trained(network, epochs=5):
    """A network that knows the digits: the same one in every run."""
    torch.manual_seed(0)
    for each in network.children():
        each.reset_parameters()
    random = np.random.default_rng(0)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    wanted = torch.from_numpy(TRAINED_DIGITS)
    network.train()
    for _ in range(epochs):
        order = torch.from_numpy(random.permutation(len(TRAINED)))
        for first in range(0, len(order), 50):
            chosen = order[first:first + 50]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(TRAINED[chosen]), wanted[chosen]).backward()
            optimizer.step()
    return network.eval()


@pytest.fixture(scope="module", name="network")
def fixture_network():
    return trained(Network())


@pytest.fixture(scope="module", name="divided")
def fixture_divided():
    return trained(Network(odd=True))


@pytest.fixture(name="loader")
def fixture_loader():
    """Batches with labels; the last one is short."""
    return DataLoader(TensorDataset(TRAINED[:217], torch.from_numpy(TRAINED_DIGITS[:217])), batch_size=50)


@pytest.fixture(autouse=True)
def fixture_fresh():
    torch._dynamo.reset()
    before = graft.torch.fallback_count()
    yield
    assert graft.torch.fallback_count() == before, "a part ran in torch instead of an engine"


def scores_of(model, pictures=TESTED):
    with torch.inference_mode():
        return model(pictures)


def check_int8(model, fast, pictures=TESTED, wanted=TESTED_DIGITS):
    """It computes in 8 bits, which cost nearly nothing."""
    expected, result = scores_of(model, pictures), scores_of(fast, pictures)
    assert not torch.allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert (result - expected).abs().max() <= 0.05 * (expected.max() - expected.min())
    right = digits.right(expected, wanted)
    assert right > 93 and digits.right(result, wanted) >= right - MOST_LOST


def compiled(model, calibration, **options):
    return torch.compile(model, backend="graft", dynamic=True,
                         options={"precision": "int8", "calibration": calibration, "strict": True, **FAST, **options})


def test_torch_compile_calibrates_by_a_loader(network, loader):
    before = {name: each.clone() for name, each in network.state_dict().items()}
    check_int8(network, compiled(network, loader))
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())


def test_parts_around_other_operators_are_calibrated_together(divided, loader, caplog):
    with caplog.at_level("INFO", "graft"):
        check_int8(divided, torch.compile(divided, backend="graft", dynamic=True,
                                          options={"precision": "int8", "calibration": loader, **FAST}))
    assert "segment 0 is of int8" in caplog.text and "segment 1 is of int8" in caplog.text
    assert "on 64 samples: at most" in caplog.text and "ranges come from 208 samples" in caplog.text


def test_samples_are_divided_for_a_fixed_batch(network, loader):
    fast = torch.compile(network, backend="graft", dynamic=False,
                         options={"precision": "int8", "calibration": loader, "strict": True, **FAST})
    check_int8(network, fast, TESTED[:64], TESTED_DIGITS[:64])


def test_fewer_samples_than_a_fixed_batch(network, loader):
    fast = torch.compile(network, backend="graft", dynamic=False,
                         options={"precision": "int8", "calibration": loader, "strict": True, **FAST})
    with pytest.raises(graft.InvalidArgumentError, match="has 217 samples, and the graph takes 597 at a time"):
        scores_of(fast)


def test_calls_calibrate(network):
    fast = torch.compile(network, backend="graft", dynamic=True,
                         options={"precision": "int8", "calibration_iters": 3, "strict": True, **FAST})
    for first in (0, 200, 400):  # in fp32
        pictures = TRAINED[first:first + 200]
        torch.testing.assert_close(scores_of(fast, pictures), scores_of(network, pictures), rtol=1e-4, atol=1e-4)
    check_int8(network, fast, TESTED[:200], TESTED_DIGITS[:200])


def test_a_broken_graph_says_what_to_do(loader):
    class Broken(Network):
        def forward(self, x):
            x = torch.relu(self.first(x))
            torch._dynamo.graph_break()
            return torch.relu(self.second(x))

    model = Broken().eval()
    with pytest.raises(graft.UnsupportedError, match="continues a model.*calibration_iters=16"):
        scores_of(compiled(model, loader), TESTED[:8])
    torch._dynamo.reset()
    fast = torch.compile(model, backend="graft", options={"precision": "int8", "calibration_iters": 1, **FAST})
    expected = scores_of(model, TESTED[:8])
    torch.testing.assert_close(scores_of(fast, TESTED[:8]), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(scores_of(fast, TESTED[:8]), expected, rtol=1e-4, atol=1e-4)


class Two(torch.nn.Module):
    """Reads its second input first."""

    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(8, 6), torch.nn.Linear(4, 6)

    def forward(self, a, b):
        return torch.relu(self.right(b) + self.left(a))


@pytest.mark.parametrize("kind", ["tuples", "dictionaries", "labels"])
def test_samples_of_two_inputs(kind):
    torch.manual_seed(1)
    model, a, b = Two().eval(), torch.randn(30, 8), torch.randn(30, 4)
    pairs = [(a[first:first + 10], b[first:first + 10]) for first in (0, 10, 20)]
    samples = {"tuples": pairs, "dictionaries": [dict(zip("ab", each)) for each in pairs],
               "labels": [(each, torch.zeros(10)) for each in pairs]}[kind]
    fast = compiled(model, samples)
    expected = scores_of(lambda x: model(*x), (a, b))
    result = scores_of(lambda x: fast(*x), (a, b))
    assert not torch.equal(result, expected)
    assert (result - expected).abs().max() <= 0.02 * (expected.max() - expected.min())


CHOICES = [{"precision": "int8", "activations": "dynamic"}, {"precision": "int8", "activations": "float"},
           {"precision": "int4", "block": 16}]


@pytest.mark.parametrize("choices", CHOICES, ids=["dynamic", "float", "int4"])
@pytest.mark.parametrize("door", ["torch.compile", "torch.export", "TorchScript"])
def test_without_samples(door, choices):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(64, 320), torch.nn.GELU(), torch.nn.Linear(320, 24)).eval()
    x = torch.randn(40, 64)
    if door == "torch.compile":
        fast = torch.compile(model, backend="graft", options={"strict": True, **FAST, **choices})
    elif door == "torch.export":
        fast = graft.torch.compile(model, [x], **FAST, **choices)
    else:
        fast = graft.torch.script.compile(torch.jit.trace(model, x), [x], **FAST, **choices)
    expected, result = scores_of(model, x), scores_of(fast, x)
    assert not torch.allclose(result, expected, rtol=1e-4, atol=1e-4)
    most = 0.2 if choices["precision"] == "int4" else 0.02
    assert (result - expected).abs().max() <= most * (expected.max() - expected.min())


def test_choices_without_samples_that_do_not_go_together():
    model = torch.nn.Linear(64, 24).eval()
    for choices, reason in (({"precision": "int4", "activations": "dynamic"}, "their products take floats"),
                            ({"precision": "fp16", "activations": "dynamic"}, "choose that, too"),
                            ({"precision": "int8", "activations": "some"}, "not static, dynamic or float")):
        with pytest.raises(graft.Error, match=reason):
            graft.torch.compile(model, [torch.randn(4, 64)], **FAST, **choices)


def failing():
    """Samples that stop with an exception."""
    yield TRAINED[:8]
    raise OSError("the disk is gone")


BAD = [
    ([], "nothing has run yet"),
    ([torch.zeros(8, 1, 9, 8)], "batch 0 of calibration does not fit the graph"),
    ([torch.zeros(4, 8)], "'x' of batch 0 of calibration has the shape"),
    ([torch.zeros(4, 1, 8, 8, dtype=torch.float64)], "'x' of batch 0 of calibration is of torch.float64"),
    ([TRAINED[:8], {"y": TRAINED[:8]}], "batch 1 of calibration has no 'x'"),
    ([["a", "b"]], "'x' of batch 0 of calibration is no tensor"),
    ([TRAINED[:8] * float("nan")], "are NaN or infinite"),
    (7, "calibration is a int"),
]


@pytest.mark.parametrize("samples, reason", BAD)
def test_bad_samples_of_torch_compile(network, samples, reason):
    with pytest.raises(graft.InvalidArgumentError, match=reason):
        scores_of(compiled(network, samples), TESTED[:8])
    assert scores_of(network, TESTED[:8]).shape == (8, 10)


def test_samples_that_end_with_an_exception(network):
    with pytest.raises(OSError, match="the disk is gone"):
        scores_of(compiled(network, failing), TESTED[:8])


def test_constant_samples(network):
    assert torch.isfinite(scores_of(compiled(network, [torch.zeros(8, 1, 8, 8)]), TESTED[:8])).all()


def test_int8_without_samples_says_what_to_do(network):
    with pytest.raises(graft.InvalidArgumentError, match="give samples of the inputs to calibrate with"):
        scores_of(compiled(network, None), TESTED[:8])
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="method is a choice of precision='int8'"):
        scores_of(torch.compile(network, backend="graft", options={"method": "entropy"}), TESTED[:8])


def test_nothing_to_quantise(loader):
    with pytest.raises(graft.UnsupportedError, match="no Conv, MatMul or Gemm"):
        scores_of(compiled(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid()), loader), TESTED[:8])


@pytest.mark.parametrize("model", ["network", "divided"])
def test_an_exported_program_calibrates_by_a_loader(model, loader, tmp_path, request):
    model = request.getfixturevalue(model)
    program = graft.torch.compile(model, [graft.torch.Input(("batch", 1, 8, 8))], {"batch": (1, 50, 1000)},
                                  precision="int8", calibration=loader, strict=True, **FAST)
    check_int8(model, program)
    assert "is of int8" in program.report
    graft.torch.save(program, tmp_path / "net.pt2")
    torch.testing.assert_close(scores_of(graft.torch.load(tmp_path / "net.pt2")), scores_of(program))


def test_an_exported_program_with_a_bound(network, loader):
    given = {"precision": "int8", "calibration": loader, "strict": True, **FAST}
    shape = [graft.torch.Input(("batch", 1, 8, 8))], {"batch": (1, 50, 1000)}
    with pytest.raises(graft.UnsupportedError, match="has an error of at most 1e-09"):
        graft.torch.compile(network, *shape, **given, max_error=1e-9)
    program = graft.torch.compile(network, *shape, **given, max_error=0.05)
    check_int8(network, program)


def scripted(model, **choices):
    return graft.torch.script.compile(torch.jit.script(model), [graft.torch.Input(("batch", 1, 8, 8))],
                                      {"batch": (1, 50, 1000)}, **FAST, **choices)


@pytest.mark.parametrize("precision", ["int8", torch.int8, {torch.float, torch.half, torch.int8}])
def test_torchscript_calibrates_by_a_loader(network, loader, tmp_path, precision):
    module = scripted(network, precision=precision, calibration=loader)
    check_int8(network, module)
    torch.jit.save(module, str(tmp_path / "net.pt"))
    torch.testing.assert_close(scores_of(torch.jit.load(str(tmp_path / "net.pt"))), scores_of(module))


def test_parts_of_a_torchscript_module(divided, loader):
    module, report = graft.torch.script.compile_with_report(
        torch.jit.script(divided), [graft.torch.Input(("batch", 1, 8, 8))], {"batch": (1, 50, 1000)},
        precision="int8", calibration=loader, **FAST)
    check_int8(divided, module)
    assert report.engines == 2 and report.text.count("is of int8") == 2


def test_calibrators_of_torchscript(network, loader, tmp_path):
    file = tmp_path / "ranges.json"
    calibrator = ptq.DataLoaderCalibrator(loader, cache_file=file, use_cache=False,
                                          algo_type=ptq.CalibrationAlgo.ENTROPY_CALIBRATION_2)
    module = scripted(network, precision="int8", calibration=calibrator)
    check_int8(network, module)
    assert '"method": "entropy"' in file.read_text() and sorted(tmp_path.iterdir()) == [file]
    again = scripted(network, precision="int8", calibration=ptq.CacheCalibrator(file))
    torch.testing.assert_close(scores_of(again), scores_of(module), rtol=0, atol=0)
    fast = torch.compile(network, backend="graft", dynamic=True,
                         options={"precision": "int8", "calibration": ptq.DataLoaderCalibrator(loader), **FAST})
    check_int8(network, fast)


@pytest.mark.parametrize("samples, reason", [
    ([], "nothing has run yet"),
    ([torch.zeros(4, 1, 9, 8)], "batch 0 of calibration does not fit the module"),
    ([{"y": TRAINED[:8]}], "batch 0 of calibration has no 'x'"),
    ([TRAINED[:8] * float("nan")], "are NaN or infinite"),
])
def test_bad_samples_of_torchscript(network, samples, reason):
    with pytest.raises(graft.InvalidArgumentError, match=reason):
        scripted(network, precision="int8", calibration=samples)


def test_torchscript_without_samples_says_what_to_do(network, tmp_path):
    with pytest.raises(graft.InvalidArgumentError, match="give samples of the inputs to calibrate with"):
        scripted(network, precision="int8")
    with pytest.raises(graft.InvalidArgumentError, match="give samples of the inputs to calibrate with"):
        scripted(network, precision="int8", calibration=ptq.CacheCalibrator(tmp_path / "none.json"))
    with pytest.raises(OSError, match="the disk is gone"):
        scripted(network, precision="int8", calibration=failing)


class Decomposed(torch.nn.Module):
    """What PT2E leaves of a convolution and a product: codes of weights, and Q/DQ around what is computed."""

    def __init__(self, network, ranges):
        super().__init__()
        from torch.ao.quantization.fx import _decomposed  # noqa: F401  the operators
        self.network, self.ranges = network, ranges
        for name, layer in (("first", network.first), ("second", network.second), ("head", network.head)):
            scales = layer.weight.detach().flatten(1).abs().amax(1) / 127
            codes = (layer.weight.detach() / scales.reshape(-1, *[1] * (layer.weight.dim() - 1))).round()
            self.register_buffer(f"{name}_codes", codes.clamp(-127, 127).to(torch.int8))
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", torch.zeros(len(scales), dtype=torch.int64))

    def weight(self, name):
        return torch.ops.quantized_decomposed.dequantize_per_channel(
            getattr(self, f"{name}_codes"), getattr(self, f"{name}_scales"), getattr(self, f"{name}_zeros"), 0, -127,
            127, torch.int8)

    def rounded(self, x, place):
        given = self.ranges[place] / 255, 0, 0, 255, torch.uint8
        ops = torch.ops.quantized_decomposed
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *given), *given)

    def forward(self, x):
        net, pool = self.network, torch.nn.functional.max_pool2d
        x = torch.nn.functional.conv2d(self.rounded(x, 0), self.weight("first"), net.first.bias, padding=1)
        x = self.rounded(pool(torch.relu(net.norm(x)), 2), 1)
        x = torch.nn.functional.conv2d(x, self.weight("second"), net.second.bias, padding=1)
        x = self.rounded(pool(torch.relu(x), 2).flatten(1), 2)
        return torch.nn.functional.linear(x, self.weight("head"), net.head.bias)


@pytest.mark.parametrize("door", ["torch.compile", "torch.export", "torch.compile int8"])
def test_quantised_models_of_pt2e_run_on_integer_units(network, door):
    with torch.no_grad():
        pool = torch.nn.functional.max_pool2d
        first = pool(torch.relu(network.norm(network.first(TRAINED[:200]))), 2)
        second = pool(torch.relu(network.second(first)), 2)
    model = Decomposed(network, [1.0, float(first.max()), float(second.max())]).eval()
    if door == "torch.export":
        fast = graft.torch.compile(model, [graft.torch.Input(("batch", 1, 8, 8))], {"batch": (1, 50, 1000)},
                                   strict=True, **FAST)
        assert fast.engines == 1
        plan = next(buffer for name, buffer in fast.program.named_buffers() if "graft_plan" in name)
        steps = graft.Engine.from_bytes(plan.numpy().tobytes()).describe()["steps"]
        # A step that was divided for the machine is there twice, with the same nodes.
        firsts = {tuple(each["nodes"]): each["operators"][0] for each in steps}.values()
        assert ["ConvInteger", "ConvInteger", "MatMulInteger"] == [first for first in firsts if "Integer" in first]
    else:
        precision = {"precision": "int8"} if door.endswith("int8") else {}
        fast = torch.compile(model, backend="graft", dynamic=True, options={"strict": True, **precision, **FAST})
    expected, result = scores_of(model), scores_of(fast)
    assert (result - expected).abs().max() <= 0.02 * (expected.max() - expected.min())
    assert digits.right(result, TESTED_DIGITS) >= digits.right(scores_of(network), TESTED_DIGITS) - MOST_LOST


def test_a_program_in_cpp_calibrates_by_a_loader_of_torch_data(network, tmp_path):
    program = HOST / "calibrating_program" / "calibrating_program"
    torch.jit.save(torch.jit.script(network), str(tmp_path / "net.pt"))
    torch.save(TRAINED[:100].clone(), tmp_path / "pictures.pt")
    said = subprocess.run([program, *(tmp_path / name for name in ("net.pt", "pictures.pt", "ranges.json", "int8.pt"))],
                          capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "3 of 3 layers are int8" in said.stdout and "ranges come from 100 samples" in said.stdout
    assert "on 64 samples" in said.stdout  # two batches of 32 measure: batches have the loader's own size
    assert "calibrated by the method minmax, and entropy is asked for" in said.stdout
    graft.torch.load_library()
    check_int8(network, torch.jit.load(str(tmp_path / "int8.pt")))
