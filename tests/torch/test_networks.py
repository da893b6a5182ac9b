# SPDX-License-Identifier: Apache-2.0
"""Known networks by the doors that torch has for them: one of each family and mechanism. The whole table is
`./dev bench torch --table`."""

import json

import networks
import pytest
import torch
from conftest import FAST

import graft.torch

pytest.importorskip("torchvision")
FAMILIES = ("resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5",
            "ssdlite320_mobilenet_v3_large backbone", "timm resnet50", "BERT", "GPT-2", "Llama", "ViT")
MOST_ERROR = 2e-4  # of the largest element: sums of fp32 in another order, through all of its layers


@pytest.fixture(name="network", params=FAMILIES)
def fixture_network(request):
    """(network, model, inputs, torch's own results)."""
    network = networks.BY_NAME[request.param]
    model, inputs = networks.varied(network.build()), network.inputs()
    with torch.inference_mode():
        expected = model(*inputs)
    assert all(each.float().std() > 1e-3 for each in networks.flat(expected)), "its results do not vary"
    return network, model, inputs, expected


def test_torch_compile(network):
    network, model, inputs, expected = network
    fast = torch.compile(model, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        assert networks.error_of(fast(*inputs), expected) < MOST_ERROR
    torch._dynamo.reset()
    graphs = json.loads(graft.torch.dry_run(model, inputs, format="json"))
    assert sum(len(graph["segments"]) for graph in graphs) >= 1
    if network.whole:
        assert [len(graph["segments"]) for graph in graphs] == [1]
        assert [graph["stays"] for graph in graphs] == [[]]


def test_torch_export(network, tmp_path):
    network, model, inputs, expected = network
    program = graft.torch.compile(model, inputs, strict=True, require_full=network.whole, **FAST)
    graft.torch.save(program, tmp_path / "net.pt2")
    with torch.inference_mode():
        assert networks.error_of(program(*inputs), expected) < MOST_ERROR
        assert networks.error_of(graft.torch.load(tmp_path / "net.pt2")(*inputs), expected) < MOST_ERROR
    assert program.engines == 1 or not network.whole
