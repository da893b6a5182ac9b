# SPDX-License-Identifier: Apache-2.0
"""Small graphs that ask for more than they should get, and what a run of them may do."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import hostile_files as files
import hostile_graphs as graphs
import numpy as np
import pytest
from conftest import COMMAND, compiled, python_says
from onnx import helper

EMULATOR = COMMAND.parent.parent / "emulator"


@pytest.fixture
def arrays(tmp_path):
    """Saves inputs, and gives the words that name them."""
    def made(**given):
        words = []
        for name, array in given.items():
            np.save(tmp_path / f"{name}.npy", np.asarray(array))
            words += ["--input", f"{name}={name}.npy"]
        return words
    return made


@pytest.mark.parametrize(("symbol", "maker"), [
    ("$s:0", 'input %c: f32[1]\n  input %s: i64[1]\n  %e: f32[$s:0] = Expand "ex" (%c, %s)'),
    (":nz:count", 'input %z: f32[q]\n  %e: i64[1, :nz:count] = NonZero "nz" (%z)')])
def test_inputs_have_no_sizes_that_a_run_finds(tmp_path, bounded, symbol, maker):
    (tmp_path / "m.txt").write_text(graphs.text_of_size(symbol, maker))
    status, said = compiled(bounded, "m.txt", "--compile-from", "import")
    assert status == 1 and "kept for sizes found while running" in said


def test_definitions_in_texts_are_verified_too(tmp_path, bounded):
    definition = ("operator t::Leak {\\n  input x: f32[n]\\n  input at: i64[m]\\n  output y: f32[m]\\n  reduce y, p "
                  "over [i < m] fold [k < 1] ordered { left a: f32, u: i64 right b: f32, q: i64 lift x[0], at[i] "
                  "identity 0, 0 combine x[q], q }\\n}")
    (tmp_path / "m.txt").write_text('graph "g" {\n  opset "" 28\n  opset "t" 1\n  input %x: f32[n]\n  input %at: i64[m]'
                                    '\n  %y: f32[m] = t::Leak "leak" (%x, %at) {definition = "' + definition +
                                    '"}\n  output %y\n}\n')
    status, said = compiled(bounded, "m.txt", "--compile-from", "import")
    assert status == 1 and "'combine' reads a tensor; only 'lift' may" in said


def test_sizes_of_nodes_whose_names_collide_are_two(tmp_path, bounded, arrays):
    graphs.colliding_counts(tmp_path / "m.onnx")
    assert compiled(bounded, "m.onnx")[0] == 0
    status, said = bounded("run", "made.graft", *arrays(x=np.ones(1, np.float32), y=np.ones(1 << 22, np.float32)),
                           "-o", "r.npz")
    assert status == 0, said
    assert {name: array.shape for name, array in np.load(tmp_path / "r.npz").items()} == {
        "p": (1, 1), "q": (1, 1 << 22)}


def test_scratch_of_many_threads_does_not_overflow(tmp_path, bounded, arrays):
    graphs.expanded(tmp_path / "m.onnx", "TopK")
    assert compiled(bounded, "m.onnx", "--threads", "64")[0] == 0
    status, said = bounded("run", "made.graft", *arrays(c=np.ones(1, np.float32), s=[1 << 56]))
    assert status == 1 and "memory" in said, said


def test_sorts_stay_in_their_memory(tmp_path, bounded, arrays):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    (tmp_path / "shared.c").write_text(graphs.SHARED_MEMORY)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "shared.c", "-o", "shared.so"], cwd=tmp_path, check=True)
    graphs.expanded(tmp_path / "m.onnx", "TopK", 1 << 40)
    assert compiled(bounded, "m.onnx")[0] == 0
    words = ["run", "made.graft", "--run-deadline", "5", *arrays(c=np.ones(1, np.float32))]
    assert bounded(*words, seconds=60, environment={"LD_PRELOAD": str(tmp_path / "shared.so")})[0] == 1


def test_memory_that_there_is_not_names_the_node(tmp_path, bounded, arrays):
    graphs.expanded(tmp_path / "m.onnx", "TopK", 1 << 40)
    assert compiled(bounded, "m.onnx")[0] == 0
    status, said = bounded("run", "made.graft", *arrays(c=np.ones(1, np.float32)))
    assert status == 1 and "out of memory: node 'TopK'" in said, said


def test_sums_end_by_their_deadline(tmp_path, bounded, arrays):
    graphs.expanded(tmp_path / "m.onnx", "ReduceSum", 1 << 40, files.INT64, keepdims=0)
    status, said = bounded("run", "m.onnx", "--tune", "off", "--run-deadline", "2", *arrays(c=[1]))
    assert status == 1 and "deadline" in said, said


@pytest.mark.parametrize(("write", "says"), [
    (lambda path: graphs.operator_of_booleans(path, "Exp"), "takes float"),
    (lambda path: graphs.operator_of_booleans(path, "Sqrt"), "takes float"),
    (graphs.missing_operand, "its input 'b' is missing"), (graphs.of_no_type, "it has no element type"),
    (lambda path: graphs.shape_of_many_elements(path, 4096), "4096 elements")])
def test_graphs_that_are_none_are_named(tmp_path, bounded, write, says):
    write(tmp_path / "m.onnx")
    status, said = bounded("check", "m.onnx", seconds=10)
    assert status == 1 and says in said, said


@pytest.mark.parametrize("op", ["MatMul", "Conv", "Gemm"])
@pytest.mark.parametrize("fixed", [True, False])
def test_products_of_nothing_are_empty(tmp_path, bounded, arrays, op, fixed):
    x, w = (["n", 3, 5, 5], (4, 3, 3, 3)) if op == "Conv" else (["n", 32], (32, 16))
    files.save(tmp_path / "m.onnx", [helper.make_node(op, ["x", "w"], ["y"])], [files.value("x", files.FLOAT, x)],
               [files.value("y", files.FLOAT, None)], [("w", np.ones(w, np.float32))])
    given = arrays(x=np.zeros((0, *x[1:]), np.float32))
    sizes = ["--dim", "n=0" if fixed else "n=0:4:8"]
    status, said = bounded("run", "m.onnx", "--tune", "off", *sizes, *given, "-o", "y.npz")
    assert status == 0, said
    assert np.load(tmp_path / "y.npz")["y"].shape == ((0, 4, 3, 3) if op == "Conv" else (0, 16))


@pytest.mark.parametrize("write", [
    lambda path: graphs.doublings(path, 50), lambda path: graphs.cuts(path, 10), lambda path: graphs.cuts(path, 20),
    lambda path: graphs.poolings(path, 120), lambda path: graphs.same_input(path, "Sum", 20_000),
    lambda path: graphs.same_input(path, "Concat", 20_000, axis=0)],
    ids=["doublings", "10 cuts", "20 cuts", "poolings", "Sum", "Concat"])
def test_what_repeats_costs_what_it_is_long(tmp_path, bounded, write):
    write(tmp_path / "m.onnx")
    status, said = bounded("check", "m.onnx", seconds=10)
    assert status == 0, said


def test_archives_unpack_to_what_is_asked_for(tmp_path, bounded):
    (tmp_path / "bomb.npz").write_bytes(graphs.zip_bomb())
    files.save(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], [files.value("x", files.FLOAT, [4])],
               [files.value("y", files.FLOAT, None)])
    assert bounded("run", "m.onnx", "--tune", "off", "--input", "bomb.npz", seconds=10)[0] == 1


def test_maps_in_json_are_not_nested_without_end(tmp_path, bounded):
    node = helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="SPARSE",
                            max_map=8)
    kind = helper.make_map_type_proto(files.INT64, helper.make_tensor_type_proto(files.FLOAT, []))
    files.save(tmp_path / "m.onnx", [node], [helper.make_value_info("m", kind)], [files.value("y", files.FLOAT, None)])
    (tmp_path / "m.json").write_text('{"1": ' + files.nested(200_000) + "}")
    assert "nested more than" in bounded("run", "m.onnx", "--tune", "off", "--input", "m=m.json")[1]


@pytest.mark.parametrize("rank", [0, 1])
def test_statistics_of_what_has_no_channels(tmp_path, bounded, rank):
    norm = files.call("_native_batch_norm_legit.no_stats", "y", input="w")
    norm["inputs"] += [{"name": "training", "arg": {"as_bool": True}, "kind": 1},
                       {"name": "momentum", "arg": {"as_float": 0.1}, "kind": 1},
                       {"name": "eps", "arg": {"as_float": 1e-5}, "kind": 1}]
    norm["outputs"] += [{"as_tensor": {"name": "mean"}}, {"as_tensor": {"name": "deviation"}}]
    shape = (4,) * rank
    stored = np.ones(shape, np.float32).tobytes()
    files.program(tmp_path / "m.pt2", {"w": (7, shape, (1,) * rank, 0)}, [norm], "y", stored)
    assert bounded("check", "m.pt2")[0] == 1


def test_results_that_a_node_has_not(tmp_path, bounded):
    (tmp_path / "m.pb").write_bytes(graphs.relu_graph())
    status, said = compiled(bounded, "m.pb", "--outputs", "y:1")
    assert status == 1 and "y" in said
    assert compiled(bounded, "m.pb", "--outputs", "y:0")[0] == 0


def test_functions_are_not_copied_without_end(tmp_path, bounded):
    (tmp_path / "m.pb").write_bytes(graphs.large_function_called(2000))
    status, said = compiled(bounded, "m.pb", "--outputs", "c1999")
    assert status == 1 and "beside its files of" in said, said
    (tmp_path / "m.pb").write_bytes(graphs.large_function_called(3))
    assert compiled(bounded, "m.pb", "--outputs", "c2")[0] == 0


@pytest.mark.parametrize("words", [["extract", "--outputs", "y", "-o", "part.onnx"],
                                   ["convert", "--precision", "fp16", "-o", "part.onnx"],
                                   ["plugin", "--types", "Neg", "--for", "cuda", "-o", "made"],
                                   ["reduce", "--check", "false", "-o", "part.onnx"]], ids=lambda words: words[0])
def test_commands_that_cut_models_have_the_budget_of_an_import(tmp_path, bounded, words):
    files.tree_of_many_targets(tmp_path / "m.onnx")
    bounded(words[0], "m.onnx", *words[1:])


def test_runs_that_others_cancel_give_no_other_error(tmp_path):
    files.save(tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"])],
               [files.value("x", files.FLOAT, ["n", 32])], [files.value("y", files.FLOAT, None)])
    script = ("import threading, time, numpy as np, graft\n"
              "s = graft.Session(graft.compile('m.onnx', tune='off')); x = np.ones((4, 32), np.float32)\n"
              "seen, done = {'ok': 0, 'cancelled': 0}, threading.Event()\n"
              "def cancel():\n"
              "  while not done.is_set(): s.cancel()\n"
              "threads = [threading.Thread(target=cancel) for _ in range(4)]\n"
              "for t in threads: t.start()\n"
              "end = time.monotonic() + 3\n"
              "try:\n"
              "  while time.monotonic() < end:\n"
              "    try: s.run({'x': x}); seen['ok'] += 1\n"
              "    except graft.CancelledError: seen['cancelled'] += 1\n"
              "finally:\n"
              "  done.set()\n"
              "  for t in threads: t.join()\n"
              "print(seen['ok'] + seen['cancelled'] > 100)\n")
    assert python_says(tmp_path, script) == ["True"]


@pytest.mark.parametrize("name", ["N", "return", "const", "x y", "int32_t"])
def test_plugins_of_dimensions_with_any_name_compile(tmp_path, bounded, name):
    headers = pathlib.Path("/usr/local/cuda/include")
    if not (headers / "cuda.h").is_file() or not shutil.which("g++"):
        pytest.skip("there are no headers of CUDA, or no compiler")
    files.save(tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"], name="s")],
               [files.value("x", files.FLOAT, [name, 8])], [files.value("y", files.FLOAT, None)])
    status, said = bounded("plugin", "m.onnx", "-o", "made", "--types", "Softmax", "--for", "cuda")
    assert status == 0, said
    header = next((tmp_path / "made").glob("graft_*.h")).name
    (tmp_path / "made" / "use.cpp").write_text(f'#include "{header}"\n')
    done = subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-I", ".", "-I", headers, "use.cpp"],
                          cwd=tmp_path / "made", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:500]


def test_no_library_is_taken_from_beside_the_current_folder(tmp_path, bounded):
    """Where CUPTI is looked for: beside the program, never beside the model."""
    if not (EMULATOR / "libcuda.so.1").is_file() or not shutil.which("cc"):
        pytest.skip("this build has no emulated GPU, or there is no C compiler")
    (tmp_path / "nvidia" / "x" / "lib").mkdir(parents=True)
    (tmp_path / "evil.c").write_text('#include <unistd.h>\n__attribute__((constructor)) static void run(void) '
                                     '{ _exit(write(2, "FOREIGN CODE", 12)); }\n')
    for library in ("libcupti.so.13", "libcupti.so.12", "libnvToolsExt.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "evil.c", "-o",
                        tmp_path / "nvidia" / "x" / "lib" / library], check=True)
    (tmp_path / "model").mkdir()
    files.save(tmp_path / "model" / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])],
               [files.value("x", files.FLOAT, [4])], [files.value("y", files.FLOAT, None)])
    environment = {"LD_PRELOAD": f"{EMULATOR / 'libcuda.so.1'}:{EMULATOR / 'libnvrtc.so.13'}",
                   "GRAFT_CACHE": "/dev/null", "GRAFT_DISABLE": "cublaslt,cudnn",
                   "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["graft", "inspect", "m.onnx", "--device", "cuda", "--tune", "off", "--trace", "t.json"],
                          cwd=tmp_path / "model", env=os.environ | environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert "FOREIGN CODE" not in done.stderr, done.stderr


def test_a_process_that_gets_no_threads_does_without(bounded):
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o777)
        files.save(pathlib.Path(folder) / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"])],
                   [files.value("x", files.FLOAT, ["n", 32])], [files.value("y", files.FLOAT, None)])

        # Root has no limit of processes. The other user may read all, as the tree may lie in a folder of root's.
        words = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--inh-caps=+dac_override",
                 "--ambient-caps=+dac_override", "prlimit", "--nproc=2:2", COMMAND]
        done = subprocess.run([*words, "compile", "m.onnx", "-o", "q.graft", "--tune", "off", "--threads", "8"],
                              cwd=folder, env=os.environ | {"HOME": folder, "GRAFT_CACHE": f"{folder}/cache"},
                              capture_output=True, text=True, timeout=300, check=False)
        assert "setpriv:" not in done.stderr and "prlimit:" not in done.stderr, done.stderr
        assert done.returncode in (0, 1) and "terminate called" not in done.stderr, done.stderr
