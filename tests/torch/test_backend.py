# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="graft")."""

import importlib.metadata
import json
import pathlib
import tomllib

import numpy as np
import pytest
import torch
from conftest import FAST, Split, close, in_fresh_process, trained

import graft
import graft.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def frames():
    """How often a graph has been compiled."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_torch_finds_the_backend_without_an_import():
    print(in_fresh_process("""
import sys, torch
assert "graft" in torch._dynamo.list_backends()
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
assert "graft" not in sys.modules
fast = torch.compile(net, backend="graft", options={"tune": "off", "strict": True})
x = torch.randn(2, 4)
with torch.inference_mode():
    torch.testing.assert_close(fast(x), net(x))
"""))


def test_the_build_tree_states_the_entry_points_of_the_package():
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    points = importlib.metadata.distribution(project["name"]).entry_points
    found = {point.name: point.value for point in points if point.group == "torch_dynamo_backends"}
    assert found == project["entry-points"]["torch_dynamo_backends"]


def test_two_engines_around_an_operator_that_stays_and_batches_without_compiling_again(split):
    before = graft.torch.fallback_count()
    fast = torch.compile(split, backend="graft", options={**FAST, "strict": True}, dynamic=True)
    with torch.inference_mode():
        for batch in (2, 3, 2, 7, 15):  # at 16 torch itself chooses another convolution
            x = torch.randn(batch, 3, 8, 8)
            close(fast(x), split(x))
    assert frames() == 1
    assert graft.torch.fallback_count() == before


def test_dry_run_tells_segments_and_source_lines(split, image):
    text = graft.torch.dry_run(split, [image])
    assert "segment 0:" in text and "segment 1:" in text and "segment 2:" not in text
    line = next(line for line in text.splitlines() if "aten::digamma" in line)
    assert "there is no converter for aten::digamma" in line and "conftest.py:" in line


def test_a_dynamic_size_is_taken_from_a_tensor_that_the_part_has_anyway(split, image):
    torch._dynamo.mark_dynamic(image, 0)
    text = graft.torch.dry_run(split, [image])
    heads = [line for line in text.splitlines() if line.startswith("segment ")]
    assert len(heads) == 2 and not any("," in head.partition(" operators, ")[2].partition(" -> ")[0] for head in heads)


def refused_states(*_):
    raise ValueError("another table")


def test_states_of_tensors_tell_where_they_lie_how_often_they_were_written_to_and_what_is_in_them():
    table, version = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None), torch._C.TensorBase._version
    if table is None:
        pytest.skip("torch 2.9 has no functions of DLPack for C")
    tensors = [torch.zeros(3), torch.zeros(4, dtype=torch.complex64).conj(), torch.zeros(0), torch.zeros(2, 3)[1:]]
    tensors[0].add_(1).mul_(2)
    read = graft._graft.TensorStates(table, version, [3, 1, 0, 2], [-1, -1, -1, -1])
    states = np.frombuffer(read((*tensors, None)), np.uint64).reshape(-1, 3)
    for (address, count, _), tensor in zip(states, [tensors[each] for each in (3, 1, 0, 2)], strict=True):
        assert address == tensor.data_ptr() and count == tensor._version
    with pytest.raises(IndexError, match="fewer arguments"):
        read((torch.zeros(1),))
    with pytest.raises(TypeError):
        read((None,) * 4)
    with pytest.raises(ValueError, match="as many samples"):
        graft._graft.TensorStates(table, version, [0], [])

    def contents(tensor, samples=-1):
        return np.frombuffer(graft._graft.TensorStates(table, version, [0], [samples])((tensor,)), np.uint64)[2]

    for tensor in (torch.rand(7, 5), torch.rand(5, 9).t(), torch.rand(6, 11)[:, 2:9], torch.rand(3).half(),
                   torch.rand(2, 6, 5, 4).to(memory_format=torch.channels_last), torch.tensor(True)):
        before = contents(tensor)
        for at in np.ndindex(*tensor.shape):
            kept = tensor[at].clone()
            tensor.data[at] = not kept if tensor.dtype == torch.bool else kept + 1
            assert contents(tensor) != before
            tensor.data[at] = kept
            assert contents(tensor) == before
    large = torch.zeros(1000, 333)
    before = contents(large, 16)
    large.data.add_(1)
    assert contents(large, 16) != before and contents(large, 0) == 0
    gaps = torch.zeros(8, 9)
    before = contents(gaps[:, 1:])
    gaps[:, 0] = 1
    assert contents(gaps[:, 1:]) == before, "elements beside the tensor's own count"


@pytest.mark.parametrize("in_one_call", [True, False])
def test_changed_parameters_and_other_models_of_the_same_code_are_seen(split, image, monkeypatch, in_one_call):
    if not in_one_call:  # as with a torch that has no table of DLPack functions
        monkeypatch.setattr(graft._graft, "TensorStates", refused_states)
    other = trained(Split())
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(-0.7)
    fast, fast_other = (torch.compile(net, backend="graft", options=FAST) for net in (split, other))
    with torch.inference_mode():
        close(fast(image), split(image))
        close(fast_other(image), other(image))
    with torch.no_grad():
        split.head.bias.add_(5.0)
        close(fast(image), split(image))
        split.head.weight.data = split.head.weight.data * -2.0  # torch counts no write
        close(fast(image), split(image))


def test_where_gradients_are_wanted_it_runs_in_torch_and_is_counted(split, image):
    before = graft.torch.fallback_count()
    result = torch.compile(split, backend="graft", options=FAST)(image)
    close(result, split(image))
    result.sum().backward()
    assert split.head.weight.grad is not None
    assert graft.torch.fallback_count() == before + 1
    torch._dynamo.reset()
    with pytest.raises(Exception, match="inference_mode"):
        torch.compile(split, backend="graft", options={**FAST, "strict": True})(image)


def test_choices_are_passed_on_and_wrong_ones_are_errors(split, image):
    for options, expected in (({"only": "stem"}, 1), ({"exclude_ops": "aten::addmm"}, 2), ({"minimum_size": 6}, 0)):
        text = graft.torch.dry_run(split, [image], **options)
        assert sum(line.startswith("segment ") for line in text.splitlines()) == expected, (options, text)
        torch._dynamo.reset()
    with torch.inference_mode(), pytest.raises(Exception, match="fp3"):
        torch.compile(split, backend="graft", options={"precision": "fp3"})(image)


def test_graph_breaks_and_several_results():
    def function(x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return torch.sigmoid(y), y.sum(), x.shape[0]

    x = torch.randn(3, 4)
    with torch.inference_mode():
        result = torch.compile(function, backend="graft", options=FAST)(x)
    expected = function(x)
    close(result[0], expected[0])
    close(result[1], expected[1])
    assert result[2] == 3


def test_writes_in_place_reach_the_caller():
    def function(x, total):
        total.add_(torch.relu(x))
        return total * 2

    x = torch.randn(3, 4)
    total, expected = torch.ones(3, 4), torch.ones(3, 4)
    wanted = function(x, expected)
    with torch.inference_mode():
        result = torch.compile(function, backend="graft", options=FAST)(x, total)
    close(result, wanted)
    close(total, expected)


def test_dry_run_as_data_a_picture_and_a_page(split, image):
    graph, = json.loads(graft.torch.dry_run(split, [image], format="json"))
    assert [each["operators"] for each in graph["segments"]] == [5, 5] and graph["operators"] == 11
    stays, = graph["stays"]
    assert stays["op"] == "aten::digamma" and "no converter" in stays["reason"] and "conftest.py:" in stays["source"]
    first, second = graph["segments"]
    assert second["inputs"] == ["digamma"] and first["nodes"][0]["op"] == "aten::convolution"
    torch._dynamo.reset()
    dot = graft.torch.dry_run(split, [image], format="dot")
    assert 'subgraph cluster_1' in dot and '"digamma" [label="aten::digamma", color=red' in dot
    assert '"digamma" -> "convolution_1"' in dot and dot.count("{") == dot.count("}")
    torch._dynamo.reset()
    page = graft.torch.dry_run(split, [image], format="html")
    assert "10 of 11 operators in 2 engines" in page and "<td>aten::digamma</td>" in page
    with pytest.raises(graft.InvalidArgumentError, match="text, json, dot, html"):
        graft.torch.dry_run(split, [image], format="svg")


class Pooled(torch.nn.Module):
    """As ConvNeXt and Swin end: an image whose channels lie last, pooled to one pixel."""

    def forward(self, x):
        """Of torch the result has its channels last, too, which torch.compile's graph says with as_strided."""
        return torch.nn.functional.adaptive_avg_pool2d(torch.relu(x).permute(0, 3, 1, 2), 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_pooled_image_whose_channels_lie_last_is_one_engine(dynamic):
    x = torch.randn(3, 5, 6, 4)
    fast = torch.compile(Pooled(), backend="graft", options={**FAST, "strict": True}, dynamic=dynamic)
    with torch.inference_mode():
        close(fast(x), Pooled()(x))
    torch._dynamo.reset()
    if not dynamic:
        [graph] = json.loads(graft.torch.dry_run(Pooled(), [x], format="json"))
        assert (len(graph["segments"]), graph["stays"]) == (1, [])


def test_views_with_strides_of_their_own_stay_what_they_are():
    overlapping = torch.compile(lambda x: torch.relu(x).as_strided((3, 2), (1, 1)) * 2, backend="graft", options=FAST)
    transposed = torch.compile(lambda x: torch.relu(x).as_strided((4, 4), (1, 4)) * 2, backend="graft", options=FAST)
    x = torch.randn(4, 4)
    with torch.inference_mode():
        close(overlapping(x), torch.relu(x).as_strided((3, 2), (1, 1)) * 2)
        close(transposed(x), torch.relu(x).T * 2)


@pytest.mark.parametrize("options", [{"precison": "fp16"}, {"precision": "fp12"}, {"minimum_size": "few"}])
def test_wrong_choices_are_errors_where_gradients_are_wanted(split, image, options):
    with pytest.raises(Exception, match="precison|fp12|few"):
        torch.compile(split, backend="graft", options=options)(image)
    torch._dynamo.reset()
