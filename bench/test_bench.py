# SPDX-License-Identifier: Apache-2.0
"""Checks of the bench itself: python -m unittest discover -s bench."""

import os
import stat
import subprocess
import tempfile
import types
import unittest

import numpy as np

import cases
import graft_peer
import peaks
import run
import timing

# A library with graft_c.h's functions whose every run doubles its first input.
DOUBLING_LIBRARY = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef struct { const char* name; int32_t dtype, rank; const int64_t *shape, *strides;
                 void* data; uint64_t bytes; } Tensor;
typedef struct { int32_t status; char message[2044]; } Error;
static int engines;
int32_t graft_load(const char* path, void** engine, Error* error) {
  ++engines; *engine = &engines; return 0;
}
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
                results = peer.prepare(case, inputs, [np.zeros((batch, 3), np.float32)])()
                np.testing.assert_array_equal(results[0], 2 * inputs["input"])
            self.assertEqual(peer.library_.library_.engines_loaded(), 1)
            with open(folder + "/calls", encoding="utf-8") as file:
                self.assertRegex(file.read(), r"^compile .*--threads 2 .*--dim batch=1:2:8\n$")

    def test_reports_the_message_of_the_library(self):
        with tempfile.TemporaryDirectory() as folder:
            case = doubling_case(folder, 2)
            inputs = {"input": np.zeros(3, np.float32)}
            runner = doubling_peer(folder).prepare(case, inputs, [np.zeros((2, 3), np.float32)])
            with self.assertRaisesRegex(RuntimeError, "of rank 2"):
                runner()

    def test_is_left_out_where_nothing_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("build", graft_peer.GraftPeer(2, build=folder).unavailable())


class Rows(unittest.TestCase):
    def peer(self, name, function):
        prepare = lambda case, inputs, outputs: lambda: function(inputs["input"])
        return types.SimpleNamespace(name=name, prepare=prepare)

    def rows(self, *peers):
        with tempfile.TemporaryDirectory() as folder:
            options = types.SimpleNamespace(bench="cpu", rounds=3)
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


if __name__ == "__main__":
    unittest.main()
