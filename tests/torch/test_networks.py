# SPDX-License-Identifier: Apache-2.0
"""Known networks by the doors that torch has for them: one of each family and mechanism. The whole table is
`./dev bench torch --table`."""

import json

import doors
import networks
import pytest
import torch
from conftest import FAST

import graft.torch

pytest.importorskip("torchvision")
FAMILIES = ("resnet18", "squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5",
            "ssdlite320_mobilenet_v3_large backbone", "timm convnext_tiny", "BERT", "GPT-2", "Llama", "ViT", "T5",
            "CLIP", "Whisper decoder step")
# By the other doors: lists of parts, dicts, lists that are appended, and masks that are written part by part.
ELSEWHERE = (("shufflenet_v2_x0_5", "trace"), ("maxvit", "script"), ("fasterrcnn_resnet50_fpn backbone", "script"),
             ("retinanet_resnet50_fpn backbone", "script"), ("swin_t", "script"), ("T5", "trace"),
             ("Whisper encoder", ".pt2"), ("CLIP", ".pt2"))
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


@pytest.mark.parametrize(("name", "door"), ELSEWHERE)
def test_networks_are_whole_by_other_doors(name, door):
    network = networks.BY_NAME[name]
    model, inputs = networks.varied(network.build()), network.inputs()
    with torch.no_grad():
        made = doors.DOORS[door](model, inputs, **FAST)
        assert made.whole, f"{made.engines} engines, {made.inside} of {made.operators} operators"
        assert networks.error_of(made.run(*inputs), model(*inputs)) < MOST_ERROR
