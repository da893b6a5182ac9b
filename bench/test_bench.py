# SPDX-License-Identifier: Apache-2.0
"""Checks of the bench itself: python -m unittest discover -s bench."""

import contextlib
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy as np
from onnx import numpy_helper

import cases
import child
import cuda_records
import door_table
import graft_peer
import matmul
import lengths
import mixed_table
import networks
import peaks
import python_call
import rows as result_rows
import run
import tensorflow_table
import timing
import torch_fusions
import torch_table
from trained import case as trained_case, files as trained_files

# A library with graft_c.h's functions whose every run doubles its first input.
DOUBLING_LIBRARY = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef struct { size_t struct_size; const char* name; int32_t dtype, rank; const int64_t *shape, *strides;
                 void* data; uint64_t bytes; int32_t device; } Tensor;
typedef struct { int32_t status; char message[2044]; } Error;
static int engines;
int32_t graft_load(const char* path, void** engine, Error* error) {
  ++engines; *engine = &engines; return 0;
}
int32_t graft_load_on(const char* path, const char* device, void** engine, Error* error) {
  return graft_load(path, engine, error);
}
int32_t graft_session_set_stream(void* session, void* stream, Error* error) { return 0; }
int32_t graft_session_wait(void* session, Error* error) { return 0; }
int engines_loaded(void) { return engines; }
int32_t graft_session_create(void* engine, int32_t threads, void** session, Error* error) {
  *session = engine; return 0;
}
uint64_t graft_compilation_count(void) { return 0; }
int32_t graft_session_run(void* session, const Tensor* in, size_t ins, Tensor* out, size_t outs,
                          const void* allocator, Error* error) {
  strcpy(error->message, "expected input 'input' of rank 2");
  if (ins != 1 || outs != 1 || strcmp(in->name, "input") || strcmp(out->name, "output")) return 2;
  if (in->dtype != 1 || in->rank != 2) return 2;
  if (!out->data) {
    static float own[64];
    out->data = own; out->dtype = 1; out->rank = 2; out->shape = in->shape;
    static const int64_t strides[2] = {3, 1}; out->strides = strides;
  }
  for (int64_t row = 0; row < in->shape[0]; ++row)
    for (int64_t column = 0; column < in->shape[1]; ++column)
      ((float*)out->data)[row * out->strides[0] + column * out->strides[1]] =
          2 * ((float*)in->data)[row * in->strides[0] + column * in->strides[1]];
  return 0;
}
"""


def doubling_peer(folder):
    """Builds a GraftPeer on the library above and a command that only records its arguments."""
    library, command = os.path.join(folder, "libgraft.so"), os.path.join(folder, "graft")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                   input=DOUBLING_LIBRARY, text=True, check=True)
    with open(command, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\necho "$@" >> {folder}/calls\n')
    os.chmod(command, stat.S_IRWXU)
    return graft_peer.GraftPeer(2, build=folder)


def doubling_case(folder, batch):
    """A case of a model y = 2 x with a symbolic batch."""
    from network_builder import NetworkBuilder, save_model
    net = NetworkBuilder("double")
    x = net.input("input", np.float32, ["batch", 3])
    net.output("output", net.op("Add", x, x), np.float32, ["batch", 3])
    path = os.path.join(folder, "double.onnx")
    save_model(net.model(), path)
    values = np.arange(batch * 3, dtype=np.float32).reshape(3, batch).T
    return cases.Case("double", batch, lambda: path, lambda: {"input": values},
                      (("batch", 1, 2, 8),), (("batch", batch),), 1.0)


class Graft(unittest.TestCase):
    def test_runs_strided_inputs_through_the_c_interface_on_one_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = doubling_peer(folder)
            self.assertIsNone(peer.unavailable())
            for batch in (2, 5):
                case = doubling_case(folder, batch)
                inputs = case.inputs()
                results = peer.prepare(case, inputs, None)()
                np.testing.assert_array_equal(results[0], 2 * inputs["input"])
            self.assertEqual(peer.library_.library_.engines_loaded(), 1)
            with open(folder + "/calls", encoding="utf-8") as file:
                self.assertRegex(file.read(), r"^compile .*--threads 2 .*--dim batch=1:2:8\n$")

    def test_reports_the_message_of_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            case = doubling_case(folder, 2)
            inputs = {"input": np.zeros(3, np.float32)}
            with self.assertRaisesRegex(RuntimeError, "of rank 2"):
                doubling_peer(folder).prepare(case, inputs, None)

    def test_is_left_out_where_nothing_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("build", graft_peer.GraftPeer(2, build=folder).unavailable())


class Rows(unittest.TestCase):
    def peer(self, name, function):
        prepare = lambda case, inputs, outputs: lambda: function(inputs["input"])
        return types.SimpleNamespace(name=name, prepare=prepare)

    def rows(self, *peers):
        with tempfile.TemporaryDirectory() as folder:
            options = types.SimpleNamespace(bench="cpu", precision="fp32", rounds=3)
            return run.run_case(doubling_case(folder, 2), peers, options)

    def test_ratio_is_fastest_peer_over_graft(self):
        row, _, failed = self.rows(self.peer("one", lambda x: [2 * x]),
                                   self.peer("two", lambda x: [x + x]),
                                   self.peer("graft", lambda x: [2 * x]))
        self.assertEqual(failed, [])
        self.assertEqual(set(row["peers"]), {"one", "two"})
        self.assertEqual(row["ratio"], min(row["peers"].values()) / row["graft_ms"])

    def test_a_wrong_or_failing_runner_is_named_and_not_timed(self):
        def fail(x):
            raise RuntimeError("no memory")

        def nan(x):
            return [x * np.nan]

        row, _, failed = self.rows(self.peer("one", lambda x: [2 * x]), self.peer("fails", fail),
                                   self.peer("nan", nan),
                                   self.peer("graft", lambda x: [2.001 * x]))
        self.assertEqual(failed, ["fails", "nan", "graft"])
        self.assertEqual(set(row["peers"]), {"one"})
        self.assertIsNone(row["graft_ms"])
        self.assertIsNone(row["ratio"])

    def test_runners_take_turns(self):
        calls = []
        runners = {name: lambda name=name: calls.append(name) for name in "ABC"}
        samples = timing.interleaved(runners, 2)
        turns = [name for index, name in enumerate(calls) if not index or calls[index - 1] != name]
        self.assertEqual("".join(turns), "ABC" * 3)  # the first is the warm-up
        self.assertEqual({len(seconds) for seconds in samples.values()},
                         {2 * timing.MAX_RUNS_PER_TURN})

    def test_groups_come_in_another_order_each_round_and_their_runners_in_turns(self):
        calls = []
        groups = {group: {name: lambda call=(group, name): calls.append(call) for name in "AB"}
                  for group in range(5)}
        samples = timing.interleaved_groups(groups, 4)
        turns = [call for index, call in enumerate(calls) if not index or calls[index - 1] != call]
        orders = [turns[start:start + 10] for start in range(0, 50, 10)]  # the first is the warm-up
        for order in orders:
            self.assertEqual("".join(name for _, name in order), "AB" * 5)
            self.assertEqual({group for group, _ in order}, set(range(5)))
        self.assertGreater(len({tuple(order) for order in orders}), 2)
        self.assertEqual({len(seconds) for runners in samples.values() for seconds in runners.values()},
                         {4 * timing.MAX_RUNS_PER_TURN})

    def test_one_plan_for_all_lengths_is_held_against_the_fixed_ones(self):
        options = types.SimpleNamespace(bench="cpu")
        samples = {16: {"one plan": [0.002] * 5, "fixed": [0.001] * 5},
                   99: {"one plan": [0.004] * 5, "fixed": [0.004] * 5}}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            rows = lengths.print_rows(options, samples)
        self.assertEqual([row["case"] for row in rows],
                         ["lengths/minilm/l16", "lengths/minilm/l99", "lengths/minilm/all"])
        self.assertEqual([round(row["ratio"], 3) for row in rows], [0.5, 1.0, round(5 / 6, 3)])
        self.assertIn("MISSED", printed.getvalue())

    def test_results_that_differ_end_a_comparison(self):
        reference = [np.arange(10, dtype=np.float32)]
        result_rows.compare("same", reference, [reference[0] + np.float32(1e-6)])
        with self.assertRaisesRegex(SystemExit, "wrong"):
            result_rows.compare("wrong", reference, [reference[0] + np.float32(0.1)])

    def test_a_childs_time_and_memory_are_its_own(self):
        grab = [sys.executable, "-S", "-c", "import time; x = bytearray(200 << 20); time.sleep(0.3)"]
        seconds, peak_bytes = child.measure(grab)
        self.assertGreater(seconds, 0.3)
        self.assertGreater(peak_bytes, 200 << 20)
        held = bytearray(100 << 20)  # of this process, and not of the next child
        _, peak_bytes = child.measure(["true"])
        self.assertLess(peak_bytes, len(held))
        with self.assertRaisesRegex(RuntimeError, "absent"):
            child.measure(["ls", "/absent"])

    def test_peaks_are_measured(self):
        measured = peaks.measure(1)
        self.assertGreater(measured["fp32_gflops"], 1)
        self.assertGreater(measured["copy_gb_per_s"], 0.1)

    def test_every_case_runs_within_the_sizes_its_plan_is_built_for(self):
        for case in cases.cpu_cases():
            bounds = {symbol: (low, high) for symbol, low, _, high in case.dims}
            for symbol, size in case.sizes:
                self.assertTrue(bounds[symbol][0] <= size <= bounds[symbol][1], case.label)
            self.assertEqual({array.shape[0] for array in case.inputs().values()}, {case.batch})


class Cuda(unittest.TestCase):
    def row(self, batch, peers):
        options = types.SimpleNamespace(bench="cuda")
        return result_rows.row_of(options, "net", batch, None, peers, "GPU X", "float16")

    def test_recorded_times_are_found_again_and_added_to(self):
        with tempfile.TemporaryDirectory() as folder:
            records = cuda_records.Records("GPU X", "2.11.0+cu130", folder)
            self.assertEqual(records.peers("net", 2, "float16"), {})
            records.keep(self.row(2, {"eager": 3.0, "compile": 2.0}))
            records.keep(self.row(2, {"compile": 1.5}))
            records.keep(self.row(1, {"eager": 1.0}))
            records.write()
            again = cuda_records.Records("GPU X", "2.11.0", folder)
            self.assertEqual(os.listdir(folder), ["gpu-x-torch-2.11.0.json"])
        self.assertEqual(again.peers("net", 2, "float16"), {"eager": 3.0, "compile": 1.5})
        self.assertEqual(again.peers("net", 2, "float32"), {})

    def test_a_drift_is_a_time_that_left_what_was_recorded(self):
        found = cuda_records.drifts({"eager": 1.0, "compile": 2.0}, {"eager": 1.02, "compile": 1.9, "graph": 9.0}, 0.03)
        self.assertEqual(found, [("compile", 2.0, 1.9)])

    def test_the_cases_are_five_networks_at_three_sizes_of_batch(self):
        found = cases.cuda_cases()
        self.assertEqual(len({case.label for case in found}), 15)
        self.assertEqual({case.batch for case in found}, {1, 32, 128})
        self.assertTrue(all(dict(case.sizes)["batch"] == case.batch for case in found))

    def test_linear_layers_and_attention_become_one_call_each(self):
        model = networks.tiny_transformer()
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        before = [torch_fusions.node_of(node) for node in model.graph.node]
        after = torch_fusions.join(before, {name: Weight(array) for name, array in weights.items()})
        counts = {op: sum(node.op == op for node in after) for op in ("Attention", "Linear", "Softmax", "MatMul")}
        self.assertEqual(counts, {"Attention": 2, "Linear": 12, "Softmax": 0, "MatMul": 0})
        attention = next(node for node in after if node.op == "Attention")
        self.assertAlmostEqual(attention.attributes["scale"], 8 ** -0.5)
        self.assertEqual(len(attention.inputs), 4, "queries, keys, values and the mask")


class Weight:
    """What the fusions ask of a tensor, without torch."""

    def __init__(self, array):
        self.array, self.ndim = array, array.ndim

    @property
    def T(self):
        return Weight(self.array.T)

    def contiguous(self):
        return self


class Matmul(unittest.TestCase):
    def test_names_what_is_below_the_bar(self):
        cases_ = matmul.matmul_cases()[:2]
        rows_ = [{"ratio": 0.5}, {"ratio": 2.0}]
        times = {name: {"median_ms": 1.0, "spread": 0.0} for name in ("onednn", "graft")}
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            matmul.print_table(cases_, rows_, [times, times], ["onednn", "graft"], 100.0)
        self.assertIn("geometric mean of onednn / graft: 1.000 over 2 cases, lowest 0.50",
                      output.getvalue())
        self.assertTrue(output.getvalue().endswith(f"oneDNN's speed: {cases_[0].label}\n"))


class PythonCallTest(unittest.TestCase):
    def test_the_table_replaces_the_one_of_the_page(self):
        page = "# Performance\n\n## A call from Python\n\nold\n\n## Next\n\nstays\n"
        changed = python_call.with_table(page, "call  us\nrun  1.0", "2026-01-02")
        self.assertIn("wrote on 2026-01-02", changed)
        self.assertIn("```\ncall  us\nrun  1.0\n```\n\n## Next\n\nstays\n", changed)
        self.assertNotIn("old", changed)
        self.assertEqual(python_call.with_table(changed, "call  us\nrun  1.0", "2026-01-02"), changed)
        with self.assertRaises(SystemExit):
            python_call.with_table("# Performance\n", "call", "2026-01-02")

    def test_the_page_has_its_section(self):
        self.assertEqual(len(python_call.SECTION.findall(python_call.PAGE.read_text())), 1)


class MixedTable(unittest.TestCase):
    def row(self, batch, fp32, mixed):
        return {"network": "n", "batch": batch, "images_per_second": {"fp32": fp32, "mixed": mixed}, "error": ""}

    def test_mixed_precision_that_does_not_pay_is_a_fault(self):
        paying = [self.row(1, 100, 99), self.row(2, 100, 120), self.row(4, 100, 149), self.row(16, 100, 300)]
        self.assertEqual(list(mixed_table.faults(paying)), [])
        slow = list(mixed_table.faults([self.row(2, 100, 90), self.row(4, 100, 130)]))
        self.assertEqual(slow, ["n, batch 2: mixed is 0.90 times as fast as fp32, at least 1",
                                "n, batch 4: mixed is 1.30 times as fast as fp32, at least 1.5"])

    def test_a_column_that_was_not_measured_is_a_dash(self):
        self.assertEqual(mixed_table.table_line(self.row(4, 100.4, 200.8)), "| n | 4 | 100 | - | 201 | - | 2.00 |")

    def test_rows_become_the_table_of_the_page(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools" / "docs"))
        import tables  # noqa: PLC0415  # of another folder
        text = tables.mixed_table({"gpu": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-24", "low": "fp16",
                                   "tune": "fast", "rows": [self.row(4, 100.4, 200.8)]})
        self.assertIn("NVIDIA H200, torch 2.11.0, 2026-11-24, --low fp16, --tune fast; images per second:", text)
        self.assertIn("| n | 4 | 100 | - | 201 | - | 2.00 |", text)
        text = tables.error_table({"gpu": "cpu", "date": "2026-11-24", "low": "fp16",
                                   "rows": [{"network": "n", "batch": 4, "error": "output f32[4, 9] 1e-3"}]})
        self.assertIn("| n | 4 | output f32[4, 9] 1e-3 |", text)

    def test_a_row_that_is_there_is_taken_if_its_choices_are_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            options = mixed_table.parse_options(["--folder", folder, "--no-torch"])
            row = {**self.row(4, 100, 200), "choices": mixed_table.choices(options)}
            self.assertIsNone(mixed_table.kept_row("n", 4, options))
            mixed_table.keep_row(row, options)
            self.assertEqual(mixed_table.kept_row("n", 4, options), row)
            self.assertIsNone(mixed_table.kept_row("n", 8, options))
            other = mixed_table.parse_options(["--folder", folder, "--no-torch", "--low", "bf16"])
            self.assertIsNone(mixed_table.kept_row("n", 4, other))

    def test_an_unknown_network_is_named(self):
        output = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(output):
            mixed_table.parse_options(["--networks", "resnet50_v1,vgg"])
        self.assertIn("--networks vgg: there are", output.getvalue())


class Accuracy(unittest.TestCase):
    """What trained networks are judged by, and the table of it."""

    def test_a_file_is_its_beginning_and_its_end_without_white_space(self):
        settings = {"block_size": 8, "beg_size": 4, "end_size": 3, "padding_token": 256}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "file"
            path.write_bytes(b"  abcdefghij\n\n")
            self.assertEqual(bytes(trained_files.bytes_of(path, settings)), b"abcdhij")
            path.write_bytes(b" x ")
            self.assertEqual(trained_files.bytes_of(path, settings), [120, 32, 256, 256, 256, 32, 120])

    def test_groups_have_a_size_and_the_last_one_less(self):
        self.assertEqual(trained_case.grouped([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])

    def test_a_package_that_is_absent_is_named_with_its_list(self):
        with self.assertRaisesRegex(SystemExit, "none_such is not installed: see tools/deps/environment-accuracy.txt"):
            trained_case.folder_of("none_such")

    def test_the_best_static_form_is_bold_and_what_cannot_be_made_a_dash(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools" / "docs"))
        import tables  # noqa: PLC0415  # of another folder
        right = {"fp32": 90, "int8": 89.5, "dynamic": None, "int4": 91, "ORT int8": 12.25, "NNCF int8": 89.5}
        facts = {"gpu": "cpu", "date": "2026-11-30", "onnxruntime": "1.31.1", "nncf": "3.4.0", "seeds": 3,
                 "bound": 0.1, "rows": [{"network": "n", "right": right, "error": 0.0512, "layers": 3, "of": 4},
                                        {"network": "m", "right": {**right, "int8": None}, "error": None}]}
        text = tables.accuracy_table(facts)
        self.assertIn("| n | 90.00 | **89.50** | - | 91.00 | 12.25 | **89.50** | 0.051, 3 of 4 |", text)
        self.assertIn("| m | 90.00 | - | - | 91.00 | 12.25 | **89.50** | refused |", text)


class DoorTable(unittest.TestCase):
    """Rows that outlive a stop, and the tables made of them."""
    done = {"engines": 1, "inside": 70, "operators": 70, "error": 1e-6, "compile_s": 2.0, "graft_ms": 7.5}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table = torch_table.table_of(["x", "y"], ["a"], folder.name)
        self.table.page = pathlib.Path(folder.name) / "page.md"
        self.table.page.write_text(f"before\n{self.table.begin}| network | a |\n|---|---|\n| y | kept |\n| gone | 1 |\n"
                                   f"{self.table.end}after\n")

    def test_a_cell_says_what_became_of_a_network(self):
        self.assertEqual(torch_table.cell(self.done), "1, 100% of 70, 1e-06, 2.0 s, 7.50 ms")
        self.assertEqual(torch_table.cell({**self.done, "error": 0.5}), "wrong by 0.5")
        self.assertEqual(torch_table.cell({**self.done, "error": float("nan")}), "wrong by nan")
        self.assertEqual(torch_table.cell({"failed": "a | b"}), "failed: a / b")
        self.assertEqual(torch_table.cell({"refused": "x"}), "torch refuses")

    def test_a_cell_of_tensorflow_has_the_error_of_each_precision(self):
        row = {**self.done, "error": {"fp32": 1e-6, "fp16": 1e-3}}
        self.assertEqual(tensorflow_table.cell(row), "1, 100% of 70, 1e-06, 1e-03")
        self.assertEqual(tensorflow_table.cell({**row, "error": {"fp32": 1e-6, "fp16": float("inf")}}),
                         "fp16 is wrong by inf")
        self.assertEqual(tensorflow_table.cell({"failed": "x"}), "failed: x")

    def test_what_is_not_one_engine_is_listed_with_its_segments(self):
        whole = {"engines": 1, "stays": [], "segments_fp32": ["Relu"]}
        parts = {"engines": 2, "stays": ["Where"], "segments_fp32": ["Conv2D 3, Relu", "Softmax"]}
        self.assertEqual(tensorflow_table.notes({("x", "a"): whole}), [])
        self.assertEqual(tensorflow_table.notes({("x", "a"): whole, ("y", "a"): parts}),
                         ["", "- y, a: Conv2D 3, Relu; Softmax; TensorFlow runs Where"])

    def test_rows_replace_their_lines_and_others_stay(self):
        door_table.save(self.table.path_of("x", "a"), self.done)
        self.table.write()
        self.assertEqual(self.table.page.read_text().splitlines()[4:-2],
                         ["| x | 1, 100% of 70, 1e-06, 2.0 s, 7.50 ms |", "| y | kept |"])

    def test_a_process_that_ends_early_is_a_row(self):
        self.table.program = self.table.folder / "program.py"
        self.table.program.write_text("import os, sys; print('it fell', file=sys.stderr); sys.stderr.flush(); "
                                      "os.abort()")
        self.table.run_row("x", "a", ["off", 1, 1])
        self.assertIn("-6: it fell", self.table.row("x", "a")["failed"])


if __name__ == "__main__":
    unittest.main()
