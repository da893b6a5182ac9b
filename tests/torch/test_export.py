# SPDX-License-Identifier: Apache-2.0
"""graft.torch.compile, save and load: engines inside programs of torch.export."""

import gc
import logging
import operator

import pytest
import torch
from conftest import FAST, Split, close, compute_wrongly, in_fresh_process, trained

import graft
import graft.torch

BATCHES = {"batch": (1, 4, 16)}
IMAGES = graft.torch.Input(("batch", 3, 8, 8))


@pytest.fixture(name="program")
def fixture_program(split):
    """Split with engines, for batches of 1 to 16."""
    return graft.torch.compile(split, [IMAGES], BATCHES, strict=True, **FAST)


def test_batches_of_the_range_run_and_others_are_refused(split, program):
    assert program.engines == 2
    for batch in (1, 2, 1, 2, 5, 16):
        x = torch.randn(batch, 3, 8, 8)
        close(program(x), split(x))
    with pytest.raises(Exception, match="16"):
        program(torch.randn(17, 3, 8, 8))


def test_arguments_of_the_same_sizes_are_checked_once(split, program, monkeypatch):
    x = torch.randn(3, 3, 8, 8)
    with torch.inference_mode():
        close(program(x), split(x))
        calls = []
        monkeypatch.setattr(program.module, "forward", lambda *given: calls.append(given))
        close(program(x + 1), split(x + 1))
        assert not calls
        program(x[:2])
        assert len(calls) == 1  # other sizes are checked
        monkeypatch.undo()
        for wrong in (torch.randn(17, 3, 8, 8), x.double()):
            for _ in range(2):
                with pytest.raises(Exception, match="16|f64"):
                    program(wrong)
        program.to(torch.float32)
        assert not program.checked
        close(program(x), split(x))


def test_a_program_is_traced_by_its_operator(program, image):
    program(image)
    traced = torch.export.export(program, (image,))
    assert sum(node.target is torch.ops.graft.run_plan.default for node in traced.graph.nodes) == 2
    close(traced.module()(image), program(image))


def test_a_saved_program_agrees_in_a_fresh_process(split, program, image, tmp_path):
    graft.torch.save(program, tmp_path / "net.pt2")
    torch.save((image, split(image)), tmp_path / "pair.pt")
    print(in_fresh_process("""
import sys, torch, graft.torch
x, expected = torch.load(sys.argv[2])
compiled = graft._graft.compilation_count()  # of kernels, which the cache has
for net in (graft.torch.load(sys.argv[1]), torch.export.load(sys.argv[1]).module()):
    with torch.inference_mode():
        torch.testing.assert_close(net(x), expected, rtol=1e-5, atol=1e-5)
        assert net(torch.cat([x, x, x])).shape == (6, 5)
assert graft._graft.compilation_count() == compiled
""", tmp_path / "net.pt2", tmp_path / "pair.pt"))


def test_weights_are_in_the_engines_alone(split, program):
    assert [name for name in program.program.state_dict if not name.startswith("graft_plan_")] == []
    plans = sum(each.numel() for each in program.program.state_dict.values())
    graph_alone = 40_000  # of plans without weights, generously
    assert plans < sum(each.numel() * 4 for each in split.parameters()) + graph_alone


def test_parameters_that_native_operators_take_stay(image):
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.gate = torch.nn.Parameter(torch.rand(8) + 1)

        def forward(self, x):
            return torch.relu(self.linear(x)) * torch.digamma(self.gate)

    model, x = trained(Gated()), image
    program = graft.torch.compile(model, [x], **FAST)
    assert "gate" in program.program.state_dict and "linear.weight" not in program.program.state_dict
    close(program(x), model(x))


def test_an_exported_program_is_taken_with_its_own_dimensions(split, image):
    batch = torch.export.Dim("batch", min=1, max=9)
    program = graft.torch.compile(torch.export.export(split, (image,), dynamic_shapes=({0: batch},)), **FAST)
    for count in (1, 9):
        x = torch.randn(count, 3, 8, 8)
        close(program(x), split(x))
    with pytest.raises(Exception, match="9"):
        program(torch.randn(10, 3, 8, 8))


def test_sizes_computed_from_symbols_and_nested_inputs(tmp_path):
    class Pair(torch.nn.Module):
        def forward(self, pair, options):
            x = torch.relu(torch.cat([pair[0], options["other"]], 0))
            return {"rows": x.reshape(-1), "sum": (x + 1, pair[0] * 2)}

    inputs = [(graft.torch.Input(("n", 4)),), {"other": graft.torch.Input((2, 4))}]
    program = graft.torch.compile(Pair().eval(), inputs, {"n": (1, 3, 50)}, strict=True, **FAST)
    graft.torch.save(program, tmp_path / "pair.pt2")
    for net in (program, graft.torch.load(tmp_path / "pair.pt2")):
        for n in (1, 3, 50):
            x, other = torch.randn(n, 4), torch.randn(2, 4)
            result, expected = net((x,), {"other": other}), Pair()((x,), {"other": other})
            close(result["rows"], expected["rows"])
            close(result["sum"][0], expected["sum"][0])
            close(result["sum"][1], expected["sum"][1])


def test_the_operator_knows_its_results_without_data(program):
    call = next(node for node in program.program.graph.nodes if node.target is torch.ops.graft.run_plan.default)
    signature = call.args[2]
    with torch._subclasses.FakeTensorMode():
        plan = torch.empty(1, dtype=torch.uint8)
        results = torch.ops.graft.run_plan([torch.empty(7, 3, 8, 8)], plan, signature)
        assert [each.shape[0] for each in results] == [7] and results[0].dtype == torch.float32
        with pytest.raises(Exception, match="takes 1 tensors"):
            torch.ops.graft.run_plan([], plan, signature)


def test_engines_that_differ_from_torch_are_found(split, image, monkeypatch, caplog):
    before = graft.torch.fallback_count()
    compute_wrongly(monkeypatch, 1.2)  # which no other test says: a message comes once in a process
    with caplog.at_level(logging.WARNING, "graft"):
        program = graft.torch.compile(split, [image], **FAST)
    assert program.engines == 0 and graft.torch.fallback_count() == before + 2
    assert "differs from torch's own: by" in caplog.text
    close(program(image), split(image))
    with pytest.raises(graft.Error, match="differs from torch's own"):
        graft.torch.compile(split, [image], strict=True, **FAST)
    assert graft.torch.compile(split, [image], check=False, **FAST).engines == 2


def test_engines_go_with_their_programs(split, image):
    from graft.torch import run_plan
    gc.collect()
    before = len(run_plan._engines)
    program = graft.torch.compile(split, [image], **FAST)
    program(image)
    assert len(run_plan._engines) == before + 2
    del program
    gc.collect()
    assert len(run_plan._engines) == before


def test_wrong_inputs_are_errors(split, image, tmp_path):
    with pytest.raises(graft.InvalidArgumentError, match="training mode"):
        graft.torch.compile(trained(Split()).train(), [image])
    for arguments, words in (((3, [image]), "neither"), ((split, None), "inputs are missing"),
                             ((split, [IMAGES]), "has no range"),
                             ((split, [image], {"batch": 3}), "no graft.torch.Input names")):
        with pytest.raises(graft.InvalidArgumentError, match=words):
            graft.torch.compile(*arguments)
    with pytest.raises(graft.UnsupportedError, match=r"digamma.*conftest.py"):
        graft.torch.compile(split, [image], require_full=True)
    with pytest.raises(graft.Error, match="fp3"):
        graft.torch.compile(split, [image], precision="fp3")
    with pytest.raises(graft.Error, match="check is 3"):
        graft.torch.compile(split, [image], check=3)
    (tmp_path / "no.pt2").write_bytes(b"nothing")
    with pytest.raises(graft.InvalidModelError, match="no.pt2"):
        graft.torch.load(tmp_path / "no.pt2")
    with pytest.raises(FileNotFoundError):
        graft.torch.load(tmp_path / "missing.pt2")


def test_control_flow_that_torch_cannot_export_is_an_error_with_a_remedy():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(graft.UnsupportedError, match="backend='graft'"):
        graft.torch.compile(Branch().eval(), [torch.randn(3)])


def test_another_model_of_the_same_code_has_its_own_engines(split, image):
    other = trained(Split())
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(-0.7)
    programs = [graft.torch.compile(each, [image], **FAST) for each in (split, other)]
    for program, model in zip(programs, (split, other)):
        close(program(image), model(image))


class Checked(torch.nn.Module):
    """Casts, of which torch.export makes checks of what is cast."""

    def forward(self, x):
        """In the middle of the network."""
        y = torch.relu(x).to(torch.float64) * 2
        return torch.tanh(y.to(torch.float32) + torch.arange(4))


def test_checks_whose_outcome_tracing_knows_are_no_border():
    x = torch.randn(2, 4)
    exported = torch.export.export(Checked(), (x,))
    assert any(node.target is torch.ops.aten._assert_tensor_metadata.default for node in exported.graph.nodes)
    program = graft.torch.compile(exported, require_full=True, strict=True, **FAST)
    assert program.engines == 1
    close(program(x), Checked()(x))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_attention_is_one_operator_and_nothing_of_it_stays(activation):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True)
    model, x = torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 16)
    program = graft.torch.compile(model, [x], **FAST, require_full=True, strict=True)
    called = [node.target for node in program.program.graph.nodes if node.op == "call_function"]
    assert called == [torch.ops.graft.run_plan.default, operator.getitem]
    fast = torch.compile(model, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():  # where torch runs a layer as one operator
        close(program(x), model(x))
        close(fast(x), model(x))
