# SPDX-License-Identifier: Apache-2.0
"""Types that compute, autocast, and what is compared of them."""

import pytest
import torch
from conftest import FAST, close

import graft.torch
import graft.torch.fx_graph
from graft.torch import agreement, segments


def compiled(model, **options):
    return torch.compile(model, backend="graft", options={**FAST, "strict": True, **options})


class Attention(torch.nn.Module):
    """Queries and keys that a product in float32 makes, values as a layer gives them: mixed under autocast."""

    def __init__(self, masked):
        super().__init__()
        self.masked = masked
        self.qkv = torch.nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = (each.view(2, 6, 2, 8).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        turn = torch.ones(8).cumsum(0)
        mask = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -1e4) if self.masked else None
        y = torch.nn.functional.scaled_dot_product_attention(q * turn.float(), k * turn.float(), v, attn_mask=mask)
        return y.transpose(1, 2).reshape(2, 6, 16)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_under_autocast_computes_in_the_type_of_autocast(dtype, masked):
    torch.manual_seed(0)
    model, x = Attention(masked).eval(), torch.randn(2, 6, 16)
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
        result, expected = compiled(model)(x), model(x)
    assert result.dtype == expected.dtype == dtype
    torch.testing.assert_close(result, expected, rtol=3e-2, atol=3e-2)


def test_a_model_of_16_bits_with_results_in_float32_keeps_its_engine():
    torch.manual_seed(0)
    layers = [each for _ in range(8) for each in (torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(torch.bfloat16).eval()
    run = compiled(lambda x: torch.softmax(model(x).float(), -1))
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    before = graft.torch.fallback_count()
    with torch.no_grad():
        torch.testing.assert_close(run(x), torch.softmax(model(x).float(), -1), rtol=5e-2, atol=5e-3)
    assert graft.torch.fallback_count() == before


def test_where_torch_itself_is_as_far_from_double_precision_a_result_may_differ(monkeypatch):
    def function(x):
        return (x + 1e6) - 1e6  # rounds to sixteenths

    original = segments.Engine.run_for_framework
    x = torch.linspace(0.2, 1, 50)
    for wrong, kept in ((lambda given: given, True), (lambda given: given + 0.5, False)):
        torch._dynamo.reset()
        monkeypatch.setattr(segments.Engine, "run_for_framework",
                            lambda self, capsules, allocate, stream, wrong=wrong: [
                                wrong(torch.linspace(0.2, 1, 50)) for _ in original(self, capsules, allocate, stream)])
        before = graft.torch.fallback_count()
        with torch.no_grad():
            torch.compile(function, backend="graft", options=FAST)(x)
        assert (graft.torch.fallback_count() == before) == kept


def test_memory_that_nobody_wrote_to_is_not_compared():
    run = compiled(lambda x: (torch.empty(500), torch.empty_like(x), x.new_empty(7), torch.relu(x)))
    with torch.no_grad():
        for _ in range(3):
            torch.full((500,), float("nan"))  # leaves something behind
        close(run(torch.randn(300))[3].min(), torch.tensor(0.0))


def test_what_torch_raises_while_it_is_compared_costs_the_segment_alone(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of the comparison")

    monkeypatch.setattr(agreement, "difference", broken)
    x = torch.randn(3)
    before = graft.torch.fallback_count()
    with torch.no_grad():
        close(torch.compile(torch.relu, backend="graft", options=FAST)(x), torch.relu(x))
    assert graft.torch.fallback_count() == before + 1


def test_what_is_raised_while_a_segment_is_compiled_costs_the_segment_alone(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of an engine")

    monkeypatch.setattr(segments, "Engine", broken)
    x = torch.randn(3)
    before = graft.torch.fallback_count()
    with torch.no_grad():
        close(torch.compile(torch.relu, backend="graft", options=FAST)(x), torch.relu(x))
    assert graft.torch.fallback_count() == before + 1


def test_what_is_raised_while_a_graph_is_described_costs_its_engines_alone(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of a description")

    monkeypatch.setattr(graft.torch.fx_graph.HostGraph, "add_value", broken)
    x = torch.randn(3)
    before = graft.torch.fallback_count()
    with torch.no_grad():
        close(torch.compile(torch.relu, backend="graft", options=FAST)(x), torch.relu(x))
    assert graft.torch.fallback_count() == before + 1
