# SPDX-License-Identifier: Apache-2.0
"""Memory of the GPU, which other programs there must leave alone meanwhile. Skipped without a GPU."""

import gc

import networks
import pytest
import torch
from conftest import FAST

import graft
import graft.torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

WIDE = 1024


def by_compile(model):
    """torch.compile."""
    return torch.compile(model, backend="graft", options={**FAST, "strict": True}, dynamic=True)


def by_script(model):
    """TorchScript."""
    return graft.torch.script.compile(torch.jit.script(model), [graft.torch.Input(("batch", WIDE))],
                                      {"batch": (1, 2, 4096)}, **FAST, strict=True)


@pytest.fixture(name="model")
def fixture_model():
    """Products whose intermediate results are larger than what may be lost."""
    layers = [torch.nn.Linear(WIDE, WIDE) for _ in range(4)]
    return networks.varied(torch.nn.Sequential(*layers)).cuda()


@pytest.mark.parametrize("door", [by_compile, by_script])
def test_alternating_batches_hold_no_more_memory(door, model):
    fast, given = door(model), [torch.randn(batch, WIDE, device="cuda") for batch in (2048, 4096)]
    with torch.inference_mode():
        for _ in range(8):
            for x in given:
                fast(x)
        torch.cuda.synchronize()
        before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
        for _ in range(100):
            for x in given:
                fast(x)
        torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert free - torch.cuda.mem_get_info()[0] < 8 << 20


@pytest.mark.parametrize("door", [by_compile, by_script])
def test_engines_give_their_memory_back(door, model):
    x = torch.randn(8, WIDE, device="cuda")

    def once():
        torch._dynamo.reset()
        with torch.inference_mode():
            door(model)(x)
        torch._dynamo.reset()
        gc.collect()

    for _ in range(4):
        once()
    torch.cuda.synchronize()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(20):  # 16 MiB of weights each
        once()
    torch.cuda.synchronize()
    assert free - torch.cuda.mem_get_info()[0] < 64 << 20
