# SPDX-License-Identifier: Apache-2.0
"""Every choice that the three doors pass on to engines and to the partitioner shows its effect behind each of them."""

import pytest
import torch
from conftest import FAST, close, trained

import graft
import graft.torch
from graft.torch import segments

# option, value, how the engine's own description states it
CHOICES = [("precision", "bf16", "bf16"), ("threads", 1, "1"), ("threads", 2, "2"), ("tune", "off", "off"),
           ("tune", "fast", "fast"), ("mode", "interpret", "interpret"),
           ("disable", "fold_constants", "fold_constants")]


class Dense(torch.nn.Module):
    """One engine."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 4)

    def forward(self, x, *, scale=None):
        """Two products."""
        y = self.last(torch.relu(self.first(x)))
        return y if scale is None else y * scale


@pytest.fixture(name="dense")
def fixture_dense():
    """A network that every door takes whole."""
    return trained(Dense())


def by_torch_compile(net, x, options):
    """A call through torch.compile."""
    with torch.inference_mode():
        return torch.compile(net, backend="graft", options=options)(x)


def by_export(net, x, options):
    """A call of a program of torch.export."""
    return graft.torch.compile(net, [x], **options)(x)


@pytest.fixture(name="engines")
def fixture_engines(monkeypatch):
    """Engines that are made while the test runs."""
    made = []

    class Kept(segments.Engine):
        """One that is remembered."""

        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)
    monkeypatch.setattr(segments, "Engine", Kept)
    return made


def stated(engine, name):
    """What the engine was compiled with."""
    return {each["key"]: each["value"] for each in engine.describe()["options"]}[name]


@pytest.mark.parametrize("call", [by_torch_compile, by_export])
@pytest.mark.parametrize(("name", "value", "expected"), CHOICES)
def test_engines_are_compiled_as_chosen(dense, engines, call, name, value, expected):
    x = torch.rand(3, 6)
    result = call(dense, x, {**FAST, name: value, "strict": True})
    assert [stated(each, name) for each in engines] == [expected]
    tolerance = 0.02 if value == "bf16" else 1e-5
    torch.testing.assert_close(result, dense(x), rtol=tolerance, atol=tolerance)
    assert torch.equal(result, dense(x)) is False or value != "bf16"  # it really computes in 16 bits


@pytest.mark.parametrize(("name", "value", "expected"), CHOICES)
def test_plans_of_modules_are_compiled_as_chosen(dense, tmp_path, name, value, expected):
    scripted = torch.jit.trace(dense, torch.rand(3, 6))
    (tmp_path / "net.plan").write_bytes(graft.torch.script.convert_to_plan(scripted, [(3, 6)],
                                                                           **{**FAST, name: value}))
    assert stated(graft.load(tmp_path / "net.plan"), name) == expected


def test_a_deadline_ends_compiling_and_leaves_the_part_with_torch(dense):
    x = torch.rand(3, 6)
    for call in (by_torch_compile, by_export):
        before = graft.torch.fallback_count()
        close(call(dense, x, {**FAST, "deadline": 1e-6}), dense(x))
        assert graft.torch.fallback_count() == before + 1
        torch._dynamo.reset()
    scripted = torch.jit.trace(dense, x)
    assert graft.torch.script.compile_with_report(scripted, [x], deadline=1e-6, **FAST)[1].engines == 0
    with pytest.raises(graft.Error, match="deadline"):
        graft.torch.script.compile(scripted, [x], deadline=1e-6, strict=True, **FAST)


def test_engines_that_save_less_than_the_minimum_gain_are_left_out(dense):
    x = torch.rand(3, 6)
    for model in (dense, torch.jit.trace(dense, x)):
        assert "segment 0" not in graft.torch.dry_run(model, [x], minimum_gain=10**9)
        assert "the minimum is a gain of 1000000000" in graft.torch.dry_run(model, [x], minimum_gain=10**9)
        torch._dynamo.reset()
    assert graft.torch.compile(dense, [x], minimum_gain=10**9, **FAST).engines == 0


def test_arguments_by_name_are_inputs(dense):
    x, scale = torch.rand(3, 6), torch.rand(4)
    program = graft.torch.compile(dense, [x], kwargs={"scale": scale}, strict=True, **FAST)
    assert program.engines == 1
    close(program(x, scale=scale * 3), dense(x, scale=scale * 3))


@pytest.mark.parametrize(("name", "value", "said"), [
    ("enabled_precisions", {torch.half}, "here it is precision"), ("min_block_size", 3, "here it is minimum_size"),
    ("torch_executed_ops", ["aten::relu"], "here it is exclude_ops"), ("workspace_size", 1 << 20, "leave it out"),
    ("truncate_long_and_double", True, "leave it out"), ("require_full_compilation", True, "here it is require_full")])
def test_options_of_torch_tensorrt_are_answered_with_names_of_graft(dense, name, value, said):
    x = torch.rand(3, 6)
    scripted = torch.jit.trace(dense, x)
    for call in (lambda: by_torch_compile(dense, x, {name: value}), lambda: by_export(dense, x, {name: value}),
                 lambda: graft.torch.script.compile(scripted, [x], **{name: value})):
        with pytest.raises(Exception, match=f"option {name} .*{said}"):
            call()
        torch._dynamo.reset()
