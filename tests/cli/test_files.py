# SPDX-License-Identifier: Apache-2.0
"""Files that the command reads and writes: which it refuses to replace, and where links, devices and `-` lead."""

import contextlib
import ctypes
import io
import json
import os
import pty
import stat
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from conftest import COMMAND, expected, two_layers
from onnx import TensorProto, helper, numpy_helper

BATCH = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
FAST = ["--tune", "off"]


def names(folder):
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["model.onnx", "./model.onnx", "link", "twin"])
@pytest.mark.parametrize("words", [
    ["compile", "model.onnx", "--output"],
    ["compile", "model.onnx", "--compile-to", "import", "--output"],
    ["run", "model.onnx", "--output"],
    ["bench", "model.onnx", "--json"],
    ["inspect", "model.onnx", "--trace"],
])
def test_no_input_is_replaced(graft, model, tmp_path, words, name):
    (tmp_path / "link").symlink_to("model.onnx")
    os.link(model, tmp_path / "twin")
    before, kept = model.read_bytes(), names(tmp_path)
    done = graft(*words, name)
    assert done.returncode == 2 and "one file" in done.stderr and words[-1] in done.stderr, done.stderr
    assert model.read_bytes() == before and names(tmp_path) == kept


@pytest.mark.parametrize("words", [
    ["run", "model.onnx", "--input", "x=x.npy", "--output", "x.npy"],
    ["run", "model.onnx", "--input", "given.npz", "--output", "given.npz"],
    ["run", "model.onnx", "--reference", "given.npz", "--output", "given.npz"],
    ["bench", "model.onnx", "--input", "x.npy", "--json", "x.npy"],
])
def test_no_tensor_that_is_read_is_replaced(graft, model, tmp_path, words):
    np.save(tmp_path / "x.npy", BATCH)
    np.savez(tmp_path / "given.npz", x=BATCH)
    before = (tmp_path / words[-1]).read_bytes()
    done = graft(*words)
    assert done.returncode == 2 and words[-1] in done.stderr
    assert (tmp_path / words[-1]).read_bytes() == before


@pytest.mark.parametrize("words", [["compile", "apart.onnx", "-o"], ["run", "apart.onnx", "-o"],
                                   ["bench", "apart.onnx", "--json"]])
def test_weights_beside_the_model_are_not_replaced(graft, tmp_path, words):
    onnx.save(two_layers(), tmp_path / "apart.onnx", save_as_external_data=True, location="weights.npz",
              size_threshold=0)
    before = (tmp_path / "weights.npz").read_bytes()
    done = graft(*words, "weights.npz")
    assert done.returncode == 2 and "weights.npz" in done.stderr, done.stderr
    assert (tmp_path / "weights.npz").read_bytes() == before


def test_a_text_is_not_replaced_by_what_is_made_of_it(graft, model, tmp_path):
    assert graft("compile", "model.onnx", "--compile-to", "import", "-o", "stage.txt").returncode == 0
    before = (tmp_path / "stage.txt").read_bytes()
    for name in ("stage.txt", "stage.txt.npz"):
        words = ("compile", "stage.txt", "--compile-from", "import", "--compile-to", "passes", "-o", name)
        assert graft(*words).returncode == 2, name
    assert (tmp_path / "stage.txt").read_bytes() == before


def test_an_output_goes_through_links(graft, model, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "plan.graft").symlink_to("deep/target.graft")
    for _ in range(2):  # a link that dangles, and one to a file
        assert graft("compile", "model.onnx", "-o", "plan.graft", *FAST).returncode == 0
        assert (tmp_path / "plan.graft").is_symlink() and names(tmp_path / "deep") == ["target.graft"]
    (tmp_path / "y.npy").symlink_to("deep/y.npy")
    assert graft("run", "plan.graft", "-o", "y.npy").returncode == 0
    assert (tmp_path / "y.npy").is_symlink() and np.load(tmp_path / "deep/y.npy").shape == (1, 33)


def test_dumps_follow_no_links(graft, model, tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps/fuse.region.txt").symlink_to("../precious")
    environment = {**os.environ, "GRAFT_DUMP": "region", "GRAFT_DUMP_DIR": "dumps"}
    done = graft("compile", "model.onnx", *FAST, env=environment)
    assert done.returncode == 1 and "fuse.region.txt" in done.stderr and "symbolic link" in done.stderr
    assert (tmp_path / "precious").read_text() == "old"


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to_file", [False, True])
def test_standard_output_takes_a_plan(model, tmp_path, name, to_file):
    kept = os.lstat("/dev/stdout")
    words = [str(COMMAND), "compile", "model.onnx", *FAST, "-o", name]
    with open(tmp_path / "out", "wb") if to_file else contextlib.nullcontext(subprocess.PIPE) as stdout:
        done = subprocess.run(words, cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0 and b"steps" in done.stderr, done.stderr
    if not to_file:
        (tmp_path / "out").write_bytes(done.stdout)
    assert names(tmp_path) == ["model.onnx", "out"]
    (tmp_path / "out").rename(tmp_path / "plan.graft")
    run = subprocess.run([str(COMMAND), "run", "plan.graft"], cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert os.lstat("/dev/stdout") == kept and stat.S_ISLNK(kept.st_mode)


def test_standard_output_takes_results_and_texts(model, tmp_path):
    def run(*words):
        done = subprocess.run([str(COMMAND), *words], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    np.save(tmp_path / "x.npy", BATCH)
    given = io.BytesIO(run("run", "model.onnx", "-i", "x.npy", "-o", "-"))
    np.testing.assert_allclose(np.load(given)["y"], expected(two_layers(), BATCH), atol=1e-5)
    plain = run("compile", "model.onnx", "--compile-to", "import")
    assert b"Relu" in plain and run("compile", "model.onnx", "--compile-to", "import", "-o", "-") == plain
    for name in ("-", "/dev/stdout"):
        assert json.loads(run("bench", "model.onnx", "--iterations", "2", "--json", name))[0]["runs"] == 2
    assert "traceEvents" in run("inspect", "model.onnx", "--runs", "1", "--trace", "/dev/fd/1").decode()
    assert names(tmp_path) == ["model.onnx", "x.npy"]


def test_a_terminal_takes_no_plan(model, tmp_path):
    ours, theirs = pty.openpty()
    for words in (["compile", "model.onnx", "-o", "-"], ["run", "model.onnx", "-o", "/dev/stdout"]):
        done = subprocess.run([str(COMMAND), *words], cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 2 and b"is a terminal" in done.stderr
    os.close(ours)
    os.close(theirs)
    assert names(tmp_path) == ["model.onnx"]


def test_devices_are_written_and_stay(graft, model, tmp_path):
    os.mkfifo(tmp_path / "fifo.graft")
    with subprocess.Popen(["cat", "fifo.graft"], cwd=tmp_path, stdout=subprocess.PIPE) as reader:
        assert graft("compile", "model.onnx", *FAST, "-o", "fifo.graft").returncode == 0
        assert reader.communicate(timeout=60)[0].startswith(b"GRAFT")
    assert (tmp_path / "fifo.graft").is_fifo()
    done = graft("compile", "model.onnx", *FAST, "-o", "/dev/full")
    assert done.returncode == 1 and "/dev/full" in done.stderr and "space" in done.stderr
    assert graft("compile", "model.onnx", *FAST, "-o", "/dev/null").returncode == 0
    for device in ("/dev/full", "/dev/null"):
        assert stat.S_ISCHR(os.lstat(device).st_mode)


@pytest.mark.parametrize("words", [
    ["compile", "model.onnx", "-o"], ["run", "model.onnx", "-o"],
    ["bench", "model.onnx", "--duration", "300", "--json"], ["inspect", "model.onnx", "--runs", "1000000", "--trace"],
])
def test_a_place_that_is_not_there_is_named_before_the_work(graft, model, tmp_path, words):
    done = graft(*words, "absent/result.npz")
    assert done.returncode == 1 and not done.stdout, done.stdout
    assert "invalid argument: absent/result.npz" in done.stderr and "check the path" in done.stderr
    assert names(tmp_path) == ["model.onnx"]


def test_a_missing_file_is_no_fault_of_a_device(graft, model):
    for words in (["run", "absent.graft"], ["compile", "absent.onnx"], ["run", "model.onnx", "-i", "absent.npy"],
                  ["compile", "model.onnx", "--record", "absent.txt"]):
        done = graft(*words)
        assert done.returncode == 1 and done.stderr.startswith("graft: invalid argument: absent."), done.stderr


def without_rights():
    """Root, too, is held to the modes of folders: drops CAP_DAC_OVERRIDE for what is executed."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP


def test_clearing_a_cache_that_stays_is_a_failure(graft, model, tmp_path):
    environment = {**os.environ, "GRAFT_CACHE": str(tmp_path / "kernels")}
    assert graft("run", "model.onnx", *FAST, env=environment).returncode == 0
    kept = names(tmp_path / "kernels")
    (tmp_path / "kernels").chmod(0o500)
    done = graft("cache", "clear", env=environment, preexec_fn=without_rights)
    (tmp_path / "kernels").chmod(0o700)
    assert done.returncode == 1 and f"{len(kept)} files" in done.stderr and "ermission" in done.stderr, done.stderr
    assert names(tmp_path / "kernels") == kept


def test_archives_lead_nowhere(graft, tmp_path):
    odd = ["../up", "/root", "a//b", "a/../b", "50%", "plain/name.0", "C:x", "back\\slash"]
    nodes = [helper.make_node("Add", ["x", "w"], [name]) for name in odd]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in odd],
                              [numpy_helper.from_array(np.ones(2, np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              tmp_path / "odd.onnx")
    np.save(tmp_path / "x.npy", np.zeros(2, np.float32))
    assert graft("run", "odd.onnx", "-i", "x.npy", "-o", "y.npz").returncode == 0
    entries = zipfile.ZipFile(tmp_path / "y.npz").namelist()
    assert "plain/name.0.npy" in entries and len(set(entries)) == len(odd)
    for entry in entries:
        assert not entry.startswith("/") and "\\" not in entry and ":" not in entry, entry
        assert not {"", ".", ".."} & set(entry.split("/")), entry
    # Names come back: the same file is a reference.
    done = graft("run", "odd.onnx", "-i", "x.npy", "--reference", "y.npz")
    assert done.returncode == 0 and done.stdout.count("agrees") == len(odd), done.stdout
