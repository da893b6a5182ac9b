# SPDX-License-Identifier: Apache-2.0
"""Choices that name nothing, or come twice, are said so; what was probably meant is named."""

import os
import pathlib
import re

import numpy as np
import onnx
import pytest
from conftest import two_layers
from onnx import TensorProto, helper

FAST = ["--tune", "off"]


@pytest.mark.parametrize("words, parts", [
    (["run", "model.onnx", "--size", "length=4"], ["--size", "'length'", "batch"]),
    (["run", "model.onnx", "--size", "bacth=4"], ["did you mean 'batch'?"]),
    (["bench", "model.onnx", "--size", "batch=1:3"], ["'batch=1:3'", "range"]),
    (["run", "model.onnx", "--size", "batch=3:3"], ["range"]),
    (["run", "model.onnx", "--size", "batch=-1"], ["NAME=SIZE"]),
    (["run", "model.onnx", "--size", "batch=1", "--size", "batch=2"], ["'batch'", "twice"]),
    (["run", "model.onnx", "--dim", "batch=2", "--size", "batch=3"], ["'batch'", "is 2", "compile it for 3"]),
    (["run", "model.onnx", "--dim", "batch=2", "--size", "length=2"], ["fixed", "'length'"]),
    (["compile", "model.onnx", "--dim", "batch=2", "--dim", "batch=3"], ["--dim", "'batch'", "twice"]),
    (["compile", "model.onnx", "--dim", "batch=2", "--dim", "batch=2"], ["twice"]),
    (["compile", "model.onnx", "--shapes", "x:1x4", "--shapes", "x:2x4"], ["'x'", "twice"]),
    (["compile", "model.onnx", "--threads", "1", "--threads", "2"], ["--threads", "twice"]),
    (["compile", "model.onnx", "--tune", "off", "--tune", "full"], ["--tune", "twice"]),
    (["compile", "model.onnx", "--disable", "nosuch"], ["--disable", "'nosuch'", "merge_parallel_matmuls", "onednn"]),
    (["compile", "model.onnx", "--disable", "onednn,oneDMN,"], ["'oneDMN'"]),
    (["check", "model.onnx", "--disable", "recognize_gelu"], ["did you mean 'recognise_gelu'?"]),
    (["opt", "model.onnx", "--pass", "recognise_gelo"], ["did you mean 'recognise_gelu'?", "graft opt"]),
    (["help", "nosuch"], ["'nosuch'", "compile"]),
    (["help", "compil"], ["did you mean 'compile'?"]),
    (["help", "cache", "clera"], ["did you mean 'clear'?"]),
    (["compil", "model.onnx"], ["'compil'", "did you mean 'compile'?"]),
    (["cache", "lst"], ["`graft cache`", "did you mean 'list'?"]),
    (["compile", "--hepl"], ["'--hepl'", "did you mean '--help'?", "`graft compile --help`"]),
    (["compile", "model.onnx", "--precison=fp16"], ["'--precison'", "did you mean '--precision'?"]),
    (["run", "model.onnx", "--teleport"], ["'--teleport'", "`graft run --help`"]),
    (["--versoin"], ["did you mean '--version'?"]),
])
def test_wrong_words_end_with_2_and_what_was_meant(graft, model, tmp_path, words, parts):
    done = graft(*words)
    assert done.returncode == 2 and not done.stdout, (done.returncode, done.stderr)
    assert all(part in done.stderr for part in parts), done.stderr
    assert len(done.stderr.splitlines()) == 1 and len(list(tmp_path.iterdir())) == 1


def test_a_size_that_a_file_contradicts_is_an_error(graft, model, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 4), np.float32))
    assert graft("run", "model.onnx", "-i", "x.npy", "--size", "batch=5").returncode == 0
    done = graft("run", "model.onnx", "-i", "x.npy", "--size", "batch=3")
    assert done.returncode == 1 and "'x'" in done.stderr and "5" in done.stderr and "3" in done.stderr


def test_a_size_that_was_fixed_when_compiling_may_be_said_again(graft, model):
    assert graft("run", "model.onnx", "--dim", "batch=2", "--size", "batch=2").returncode == 0
    assert graft("compile", "model.onnx", *FAST, "--dim", "batch=2", "-o", "two.graft").returncode == 0
    assert graft("bench", "two.graft", "--size", "batch=2", "--iterations", "2").returncode == 0
    done = graft("run", "two.graft", "--size", "batch=3")
    assert done.returncode == 2 and "'batch' is 2" in done.stderr, done.stderr


def test_names_of_the_variable_are_checked_too(graft, model):
    for words in (["compile", "model.onnx"], ["run", "model.onnx"], ["check", "model.onnx"]):
        done = graft(*words, env={**os.environ, "GRAFT_DISABLE": "foo"})
        assert done.returncode == 1 and "GRAFT_DISABLE" in done.stderr and "'foo'" in done.stderr
    assert graft("check", "model.onnx", env={**os.environ, "GRAFT_DISABLE": "onednn"}).returncode == 0


def test_what_can_be_left_out_can_be(graft, model):
    done = graft("compile", "model.onnx", "-o", "plan.graft", *FAST, "--disable", "onednn", "--disable", "sink_casts")
    assert done.returncode == 0, done.stderr
    assert "option disable = onednn,sink_casts" in graft("inspect", "plan.graft", "--no-run").stdout


def test_help_is_a_command_too(graft):
    assert graft("help").stdout == graft("--help").stdout
    for words in (["compile"], ["cache"], ["cache", "clear"], ["build"]):
        assert graft("help", *words).stdout == graft(*words, "--help").stdout != ""


def other_model(path):
    """The small model's product, and another."""
    proto = two_layers()
    proto.graph.node.append(helper.make_node("Softmax", ["y"], ["z"], name="other"))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 33]))
    onnx.save(proto, path)


def test_a_record_says_how_much_of_it_was_used(graft, model, tmp_path):
    other_model(tmp_path / "larger.onnx")
    for name in ("model", "larger"):
        done = graft("compile", f"{name}.onnx", *FAST, "--compile-to", "plan", "-o", f"{name}.txt")
        assert done.returncode == 0, done.stderr
    whole = graft("compile", "model.onnx", *FAST, "--record", "model.txt", "-o", "plan.graft")
    assert whole.returncode == 0 and not whole.stderr, whole.stderr
    regions = (tmp_path / "larger.txt").read_text().count("\nregion ")
    assert regions >= 2
    for words in (["compile", "model.onnx", "-o", "plan.graft"], ["compile", "model.onnx", "--compile-to", "plan"],
                  ["check", "model.onnx"], ["run", "model.onnx"]):
        part = graft(*words, *FAST, "--record", "larger.txt")
        assert part.returncode == 0, part.stderr
        found = re.search(r"(\d+) of the (\d+) regions that the record 'larger.txt' names", part.stderr)
        assert found and int(found[2]) == regions and 0 < int(found[1]) < regions, part.stderr


def test_a_record_that_fits_nothing_is_an_error(graft, model, tmp_path):
    assert graft("compile", "model.onnx", *FAST, "--compile-to", "plan", "-o", "choices.txt").returncode == 0
    text = (tmp_path / "choices.txt").read_text()
    (tmp_path / "foreign.txt").write_text(re.sub(r"\nregion .", "\nregion x", text))
    done = graft("compile", "model.onnx", *FAST, "--record", "foreign.txt", "-o", "plan.graft")
    assert done.returncode == 1 and "none of the" in done.stderr and "foreign.txt" in done.stderr, done.stderr
    assert not (tmp_path / "plan.graft").exists()
    assert graft("compile", "model.onnx", *FAST, "--target", "sm_90a", "-o", "gpu.graft").returncode == 0
    done = graft("compile", "model.onnx", "--record", "gpu.graft", "-o", "plan.graft")
    assert done.returncode == 1 and "sm_90a" in done.stderr and "gpu.graft" in done.stderr
    assert not (tmp_path / "plan.graft").exists()


def test_the_header_of_c_and_the_error_name_every_choice_of_compiling():
    root = pathlib.Path(__file__).resolve().parents[2]
    source = (root / "src/driver/compile_options.cpp").read_text()
    taken = set(re.findall(r'choice\.key == "([a-z0-9-]+)"', source))
    assert {"dim", "params", "record"} <= taken
    header = (root / "include/graft/graft_c.h").read_text()
    text = header[header.index("/* A choice, spelled as on the command"):header.index("typedef struct graft_option")]
    rows = re.findall(r"^ \*   ([a-z][a-z0-9-]*(?:, [a-z0-9-]+)*) +\S", text, re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} == taken
    said = source[source.index("there is no such choice; there are ") + 35:].split(",\n                std::string")[0]
    assert set(re.findall(r"[a-z0-9-]+", said.replace('"', " "))) == taken
