# SPDX-License-Identifier: Apache-2.0
"""graft.torch.quantize: modules by the samples of a DataLoader, and calibrators by the names of TRTorch."""

import graft
import graft.torch
import pytest
import torch
from conftest import trained
from graft.torch import ptq
from torch.utils.data import DataLoader, TensorDataset


class Net(torch.nn.Module):
    """A normalised convolution, a residual and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU())
        self.body = torch.nn.Conv2d(16, 16, 3, padding=1)
        self.head = torch.nn.Linear(16, 5)

    def forward(self, x, scale=None):
        x = self.stem(x)
        x = torch.relu(self.body(x) + x)
        x = self.head(x.mean((2, 3)))
        return x if scale is None else x * scale


class Named(torch.nn.Module):
    """Two inputs, and results in a dictionary."""

    def __init__(self):
        super().__init__()
        self.left, self.right = torch.nn.Linear(8, 6), torch.nn.Linear(4, 6)

    def forward(self, a, b):
        total = torch.relu(self.left(a) + self.right(b))
        return {"total": total, "sum": total.sum(1)}


@pytest.fixture(name="model")
def fixture_model():
    return trained(Net())


@pytest.fixture(name="pictures")
def fixture_pictures():
    return torch.randn(21, 3, 10, 10, generator=torch.Generator().manual_seed(2))


@pytest.fixture(name="loader")
def fixture_loader(pictures):
    """Batches with labels, the last one short."""
    return DataLoader(TensorDataset(pictures, torch.zeros(len(pictures))), batch_size=8)


def near(model, quantized, *args):
    """Whether 8 bits cost little, and something."""
    with torch.no_grad():
        expected, found = model(*args), quantized(*args)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    error = (found - expected).norm() / expected.norm()
    return 0 < error < 0.05


def test_a_module_by_the_batches_of_a_loader(model, loader, pictures):
    quantized = graft.torch.quantize(model, loader, tune="off")
    assert [layer.precision for layer in quantized.report.layers] == ["int8"] * 3
    assert quantized.report.samples == 21
    for count in (1, 2, 21):
        assert near(model, quantized, pictures[:count])
    assert near(model, quantized, pictures.permute(0, 1, 3, 2))
    assert graft.load(quantized.quantized.plan)(pictures).shape == (21, 5)


def test_an_exported_program_and_inputs_with_ranges(model, loader, pictures):
    size = torch.export.Dim("n", min=1, max=64)
    program = torch.export.export(model, (pictures[:4],), dynamic_shapes=({0: size},))
    assert near(model, graft.torch.quantize(program, loader, tune="off"), pictures)
    ranged = graft.torch.quantize(model, loader, [graft.torch.Input(("n", 3, 10, 10))], {"n": (1, 8, 64)}, tune="off")
    assert near(model, ranged, pictures)
    fixed = graft.torch.quantize(model, loader, [pictures[:4]], tune="off")
    assert fixed.report.samples == 20 and near(model, fixed, pictures[:4])


def test_a_generator_and_names():
    model = trained(Named())
    batches = [{"a": torch.randn(5, 8), "b": torch.randn(5, 4)} for _ in range(3)]
    quantized = graft.torch.quantize(model, (each for each in batches), tune="off")
    assert quantized.report.samples == 15
    with torch.no_grad():
        expected, found = model(**batches[0]), quantized(**batches[0])
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert (found[name] - value).norm() < 0.05 * value.norm()
    with pytest.raises(graft.InvalidArgumentError, match="the model was exported with"):
        quantized(batches[0]["a"])


def test_the_metric_runs_engines_on_tensors(model, loader, pictures):
    with torch.no_grad():
        exact = model(pictures)

    def score(run):
        return -float((run(pictures) - exact).abs().max())

    quantized = graft.torch.quantize(model, loader, metric=score, max_drop=1.0, tune="off")
    assert quantized.report.metric < quantized.report.metric_fp32


def test_calibrators_by_their_old_names(model, loader, pictures, tmp_path):
    cache = tmp_path / "ranges.json"
    calibrator = ptq.DataLoaderCalibrator(loader, cache_file=cache, device=torch.device("cpu"))
    first = graft.torch.quantize(model, calibrator, tune="off")
    assert first.report.as_dict()["method"] == "entropy" and cache.exists()
    again = graft.torch.quantize(model, ptq.CacheCalibrator(cache), [graft.torch.Input(("n", 3, 10, 10))],
                                 {"n": (1, 8, 64)}, tune="off")
    assert not again.report.as_dict()["measured"]
    assert torch.equal(again(pictures), first(pictures))
    used = ptq.DataLoaderCalibrator(loader, cache_file=cache, use_cache=True)
    assert not graft.torch.quantize(model, used, tune="off").report.as_dict()["calibration"]["written"]
    with pytest.raises(graft.InvalidArgumentError, match="by the method entropy, and minmax is asked for"):
        graft.torch.quantize(model, ptq.DataLoaderCalibrator(loader, cache_file=cache, use_cache=True,
                                                             algo_type=ptq.CalibrationAlgo.MINMAX_CALIBRATION))
    anew = ptq.DataLoaderCalibrator(loader, cache_file=cache, algo_type=ptq.CalibrationAlgo.MINMAX_CALIBRATION)
    assert graft.torch.quantize(model, anew, tune="off").report.as_dict()["method"] == "minmax"
    assert [path.name for path in tmp_path.iterdir()] == ["ranges.json"] and '"minmax"' in cache.read_text()


def test_what_cannot_be_done_says_why(model, loader):
    with pytest.raises(graft.InvalidArgumentError, match="training mode"):
        graft.torch.quantize(Net().train(), loader)
    with pytest.raises(graft.InvalidArgumentError, match="inputs are missing"):
        graft.torch.quantize(model)
    with pytest.raises(graft.InvalidArgumentError, match="there are no samples"):
        graft.torch.quantize(model, [])
    with pytest.raises(graft.InvalidArgumentError, match="neither a torch.nn.Module"):
        graft.torch.quantize(torch.relu, loader)
    with pytest.raises(graft.InvalidArgumentError, match="algo_type is 'entropy'"):
        ptq.DataLoaderCalibrator(loader, algo_type="entropy")
    with pytest.raises(Exception, match="give samples of the inputs to calibrate with"), torch.inference_mode():
        torch.compile(model, backend="graft", options={"precision": "int8"})(torch.zeros(1, 3, 10, 10))
