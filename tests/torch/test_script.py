# SPDX-License-Identifier: Apache-2.0
"""Engines inside TorchScript modules."""

import concurrent.futures
import zipfile

import pytest
import torch
from conftest import FAST, Split, close, in_fresh_process, trained

import graft
import graft.logs
import graft.torch


def engines_of(module):
    """Names of the attributes that are engines."""
    return [line.split()[1] for line in str(module.graph).splitlines() if "prim::GetAttr" in line and "Engine" in line]


@pytest.mark.parametrize("capture", [torch.jit.script, lambda net: torch.jit.trace(net, torch.randn(2, 3, 8, 8))],
                         ids=["scripted", "traced"])
def test_two_engines_around_an_operator_that_stays(split, image, capture):
    made, report = graft.torch.script.compile_with_report(capture(split), [image], strict=True, **FAST)
    assert (report.engines, report.fallbacks) == (2, 0)
    kinds = [node.kind() for node in made.graph.nodes()]
    assert kinds.count("graft::execute_engine") == 2
    assert [kind for kind in kinds if kind.startswith("aten::")] == ["aten::digamma"]
    close(made(image), split(image))


def test_saved_and_loaded_in_a_fresh_process_it_agrees(split, image, tmp_path):
    made = graft.torch.script.compile(torch.jit.script(split), [image], **FAST)
    torch.jit.save(made, str(tmp_path / "net.pt"))
    torch.save((image, split(image)), tmp_path / "data.pt")
    print(in_fresh_process("""
import sys, torch, graft, graft.torch
graft.torch.load_library()
before = graft._graft.compilation_count()
net = torch.jit.load(sys.argv[1] + "/net.pt")
x, expected = torch.load(sys.argv[1] + "/data.pt")
torch.testing.assert_close(net(x), expected, rtol=1e-5, atol=1e-5)
again = torch.jit.load(sys.argv[1] + "/net.pt")   # and saved once more
torch.jit.save(again, sys.argv[1] + "/again.pt")
torch.testing.assert_close(torch.jit.load(sys.argv[1] + "/again.pt")(x), expected, rtol=1e-5, atol=1e-5)
""", tmp_path))


def test_the_report_names_what_stays_its_reason_and_its_source_line(split, image):
    text = graft.torch.dry_run(torch.jit.script(split), [image])
    assert "segment 0: 5 operators" in text and "segment 1: 4 operators" in text, text
    line = next(line for line in text.splitlines() if "aten::digamma" in line)
    assert "there is no converter for aten::digamma" in line
    assert "conftest.py:" in line and "x = torch.digamma(x + 1.5)" in line


def test_a_named_dimension_serves_every_size_of_its_range_and_refuses_others(split):
    made = graft.torch.script.compile(torch.jit.script(split), [graft.torch.Input(("batch", 3, 8, 8))],
                                      {"batch": (1, 2, 8)}, **FAST)
    for size in (1, 2, 1, 2, 8, 5):
        x = torch.randn(size, 3, 8, 8)
        close(made(x), split(x))
    strict = graft.torch.script.compile(torch.jit.script(split), [graft.torch.Input(("batch", 3, 8, 8))],
                                        {"batch": (1, 2, 8)}, strict=True, **FAST)
    with pytest.raises(RuntimeError, match=r"'x' of segment 0, which aten::conv2d \(.*conftest\.py:.*batch.*9"):
        strict(torch.randn(9, 3, 8, 8))


def test_inputs_outside_of_the_ranges_run_in_torch_are_counted_and_logged_once(split, tmp_path, caplog):
    made = graft.torch.script.compile(torch.jit.script(split), [graft.torch.Input(("batch", 3, 8, 8))],
                                      {"batch": (1, 2, 4)}, **FAST)
    graft.logs.pass_on()
    for size, refused in ((5, 2), (2, 0), (6, 2), (5, 2)):
        x = torch.randn(size, 3, 8, 8)
        before = graft.torch.fallback_count()
        close(made(x), split(x))
        assert graft.torch.fallback_count() - before == refused, size
    graft.logs.pass_on()
    assert sum("inputs outside of what its engine was made for" in line for line in caplog.messages) == 2  # engines
    torch.jit.save(made, str(tmp_path / "net.pt"))
    x = torch.randn(7, 3, 8, 8)
    close(torch.jit.load(str(tmp_path / "net.pt"))(x), split(x))


def test_wrong_types_shapes_and_numbers_of_inputs_are_errors_that_name_the_input(split, image):
    made = graft.torch.script.compile(torch.jit.script(split), [image], **FAST)
    with pytest.raises(RuntimeError, match=r"'x' of segment 0, which aten::conv2d \(.*conftest\.py:\d+: .*\) reads, "
                                           r"has type Double and the engine was made for Float: convert the tensor"):
        made(image.double())
    strict = graft.torch.script.compile(torch.jit.script(split), [image], strict=True, **FAST)
    with pytest.raises(RuntimeError, match=r"'x' of segment 0, which aten::conv2d .* is refused: .*compile the module"):
        strict(torch.randn(2, 3, 9, 8))
    with pytest.raises(RuntimeError, match="meta"):
        made(image.to("meta"))
    with pytest.raises(graft.InvalidArgumentError, match="forward takes 1 arguments, 2 are described"):
        graft.torch.script.compile(torch.jit.script(split), [image, image])
    with pytest.raises(graft.InvalidArgumentError, match="'batch' has no range"):
        graft.torch.script.compile(torch.jit.script(split), [graft.torch.Input(("batch", 3, 8, 8))])


def test_modules_that_cannot_be_compiled_are_errors_with_a_remedy(image):
    with pytest.raises(graft.InvalidArgumentError, match=r"training mode: call eval\(\)"):
        graft.torch.script.compile(torch.jit.script(Split()), [image])
    with pytest.raises(graft.InvalidArgumentError, match="is no ScriptModule"):
        graft.torch.script.compile(trained(Split()), [image])


def test_require_full_names_each_operator_that_stays_with_its_source_line(split, image):
    with pytest.raises(graft.UnsupportedError, match=r"aten::digamma: there is no converter.*conftest\.py:\d+"):
        graft.torch.script.compile(torch.jit.script(split), [image], require_full=True)


def test_choices_keep_parts_with_torch(split, image):
    scripted = torch.jit.script(split)
    for choices, engines in (({"exclude": "stem"}, 2), ({"only": "stem"}, 1), ({"minimum_size": 5}, 1),
                             ({"most_segments": 1}, 1), ({"exclude_ops": ["aten::conv2d", "aten::linear"]}, 2)):
        made, report = graft.torch.script.compile_with_report(scripted, [image], **choices, **FAST)
        assert report.engines == engines, (choices, report.text)
        close(made(image), split(image))
    with pytest.raises(graft.InvalidArgumentError, match="backbone"):
        graft.torch.script.compile(scripted, [image], only="backbone")
    with pytest.raises(graft.InvalidArgumentError, match="precision"):
        graft.torch.script.compile(scripted, [image], precision="fp3")


def test_an_engine_that_cannot_be_built_is_counted_and_its_part_stays_with_torch(split, image):
    scripted = torch.jit.script(split)
    before = graft.torch.fallback_count()
    # another processor's instructions: a choice that fits no engine here
    made, report = graft.torch.script.compile_with_report(scripted, [image], target="sm_90a", **FAST)
    assert (report.engines, report.fallbacks) == (0, 2)
    assert graft.torch.fallback_count() == before + 2
    close(made(image), split(image))
    with pytest.raises(graft.Error):
        graft.torch.script.compile(scripted, [image], target="sm_90a", strict=True, **FAST)


class Writes(torch.nn.Module):
    """Views, writes in place, and a print between what engines can do."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 6)

    def forward(self, x):
        y = torch.relu(self.first(x))
        row = y[0]
        z = y * 2
        row.add_(100.0)         # seen through y, not through z
        print("row", row.sum().item() > 300)
        w = y + z
        w.relu_()
        return w, row, {"last": torch.sigmoid(w)}


def test_writes_views_and_prints_keep_their_order(capfd):
    net = trained(Writes())
    x = torch.rand(3, 6)
    made = graft.torch.script.compile(torch.jit.script(net), [x], **FAST)
    expected, result = net(x), made(x)
    close(result[0], expected[0])
    close(result[1], expected[1])
    close(result[2]["last"], expected[2]["last"])
    assert capfd.readouterr().out.count("row True") == 2


class Branches(torch.nn.Module):
    """Control flow that stays, with parts before and after it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.relu(self.first(x))
        if bool(x.sum() > 0):
            y = y * 3
        for _ in range(x.size(0)):
            y = y + 1
        return torch.relu(self.last(y))


def test_control_flow_stays_with_torch_between_engines():
    net = trained(Branches())
    x = torch.rand(2, 4)
    made, report = graft.torch.script.compile_with_report(torch.jit.script(net), [x], **FAST)
    assert report.engines >= 1, report.text
    for sign in (1, -1):
        close(made(sign * x), net(sign * x))


def test_threads_run_one_module_at_the_same_time(split):
    made = graft.torch.script.compile(torch.jit.script(split), [graft.torch.Input(("batch", 3, 8, 8))],
                                      {"batch": (1, 4, 16)}, **FAST)
    inputs = [torch.randn(size, 3, 8, 8) for size in range(1, 17)]
    expected = [split(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result, wanted in zip(pool.map(made, inputs * 4), expected * 4):
            close(result, wanted)


def test_layouts_and_views_are_used_as_they_are(split, image):
    made = graft.torch.script.compile(torch.jit.script(split), [image], **FAST)
    close(made(image.to(memory_format=torch.channels_last)), split(image))
    wide = torch.randn(2, 3, 8, 16)
    close(made(wide[..., ::2]), split(wide[..., ::2]))
    with torch.inference_mode():
        close(made(image), split(image))


def test_asking_an_engine_for_gradients_is_an_error(split, image):
    made = graft.torch.script.compile(torch.jit.script(split), [image], **FAST)
    result = made(image.clone().requires_grad_())
    close(result, split(image))
    with pytest.raises(RuntimeError, match="derivative for graft::execute_engine is not implemented"):
        result.sum().backward()


def with_changes(source, target, change):
    """A copy of a module's file whose entries went through change(name, bytes)."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return str(target)


def test_files_of_newer_formats_and_damaged_ones_are_refused_and_those_of_another_torch_read(split, image, tmp_path):
    path = tmp_path / "net.pt"
    torch.jit.save(graft.torch.script.compile(torch.jit.script(split), [image], **FAST), str(path))
    version = torch.__version__.partition("+")[0].encode()
    state = b"K\x04X" + len(version).to_bytes(4, "little") + version  # the format's number, then torch's version

    def pickled(new):
        def change(name, data):
            if not name.endswith("/data.pkl"):
                return data
            assert data.count(state) == 1  # the second engine's refers to it
            return data.replace(state, new)
        return change

    other = b"K\x04X" + len(b"1.13.1").to_bytes(4, "little") + b"1.13.1"
    newer = state.replace(b"K\x04", b"K\x63")
    for change, message in ((pickled(newer), "format 99, this version of Graft reads 1 to 4"),
                            (lambda name, data: data if "/data/" not in name or len(data) < 2000 else
                             data[:len(data) // 2] + bytes(len(data) - len(data) // 2), "plan in memory")):
        with pytest.raises(ValueError, match=message):
            torch.jit.load(with_changes(path, tmp_path / "other.pt", change))
    for name, change in (("same.pt", lambda _, data: data), ("other.pt", pickled(other))):
        close(torch.jit.load(with_changes(path, tmp_path / name, change))(image), split(image))


class Shuffled(torch.nn.Module):
    """As ShuffleNet shares its channels out."""

    def forward(self, x):
        """chunk and split give lists, which are unpacked, joined and indexed."""
        a, b = x.chunk(2, 1)
        parts = torch.split(torch.relu(b), 1, 1)
        return torch.cat([a, torch.tanh(b), parts[-1]], 1) * 2


@pytest.mark.parametrize("make", [torch.jit.script, lambda module: torch.jit.trace(module, torch.randn(2, 4, 3))],
                         ids=["script", "trace"])
def test_lists_of_parts_stay_inside_of_an_engine(make):
    grafted = graft.torch.script.compile(make(Shuffled().eval()), [graft.torch.Input(("batch", 4, 3))],
                                         {"batch": (1, 2, 8)}, require_full=True, **FAST)
    for batch in (2, 5):
        x = torch.randn(batch, 4, 3)
        close(grafted(x), Shuffled()(x))


def test_a_list_of_parts_that_torch_reads_stays_with_torch():
    class Partly(torch.nn.Module):
        """Half of what chunk gives is torch's."""

        def forward(self, x):
            """digamma has no converter."""
            a, b = torch.relu(x).chunk(2, 1)
            return torch.tanh(a) + torch.digamma(b + 1.5)

    x = torch.randn(2, 4)
    grafted, report = graft.torch.script.compile_with_report(torch.jit.script(Partly().eval()), [x], **FAST)
    close(grafted(x), Partly()(x))
    assert report.engines >= 1
    kept = graft.torch.script.compile(torch.jit.script(Partly().eval()), [x], exclude_ops=["prim::ListUnpack"], **FAST)
    close(kept(x), Partly()(x))


def test_another_device_than_the_modules_is_an_error_that_says_what_to_do(split, image):
    with pytest.raises(graft.InvalidArgumentError, match=r"lies on cpu.*hand in module.to\('cuda'\)"):
        graft.torch.script.compile(torch.jit.script(split), [image], device="cuda", **FAST)


def test_a_process_that_only_runs_modules_does_not_import_torchs_tracing():
    in_fresh_process("""
import sys, torch
import graft.torch
graft.torch.load_library()
assert not {"torch._dynamo", "sympy"} & set(sys.modules)
assert graft.torch.compile.__module__ == "graft.torch.exported" and graft.torch.dynamo.backend
assert torch.ops.graft.run_plan
""")
