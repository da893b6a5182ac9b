# SPDX-License-Identifier: Apache-2.0
"""Matrix products alone: the fp32 kernels that Graft generates beside oneDNN on its own threads.

The sizes are those of the products in MiniLM, BERT-base and the pointwise convolutions of ResNet-50.
"""

import ctypes
import functools
import math
import os
import sys

import native
import numpy as np
from cases import Case
from graft_peer import GraftPeer
from network_builder import NetworkBuilder, cached

# Generated kernels should reach this share of oneDNN's speed everywhere.
BAR = 0.8

# (what it is, columns, depth) of a layer.
MINILM = (("qkv", 1152, 384), ("attention", 384, 384), ("up", 1536, 384), ("down", 384, 1536))
BERT = (("qkv", 2304, 768), ("attention", 768, 768), ("up", 3072, 768), ("down", 768, 3072))
# (height and width, columns, depth)
RESNET = ((56, 64, 64), (56, 256, 64), (56, 64, 256), (56, 128, 256), (28, 512, 128), (28, 128, 512),
          (28, 256, 512), (28, 512, 256), (14, 1024, 256), (14, 256, 1024), (14, 512, 1024),
          (14, 1024, 512), (7, 2048, 512), (7, 512, 2048), (7, 2048, 1024))


def matmul_cases():
    """Lists the cases in the order in which they run."""
    cases = [_case(f"minilm/l{length}/{name}", batch, batch * length, columns, depth)
             for length in (16, 128, 256) for batch in (1, 8) for name, columns, depth in MINILM]
    cases += [_case(f"bert_base/l128/{name}", 1, 128, columns, depth) for name, columns, depth in BERT]
    return cases + [_case(f"resnet50/{size}x{size}/{depth}to{columns}", batch, batch * size * size,
                          columns, depth)
                    for batch in (1, 8) for size, columns, depth in RESNET]


def _case(name, batch, rows, columns, depth):
    model = functools.partial(_model, columns, depth)
    return Case(name, batch, model, functools.partial(_inputs, rows, depth),
                (("rows", rows, rows, rows),), (("rows", rows),), 2e-9 * rows * columns * depth)


def _model(columns, depth):
    """Gives the path of y [rows, columns] = x [rows, depth] times constant weights."""
    def build():
        net = NetworkBuilder("matmul")
        x = net.input("x", np.float32, ["rows", depth])
        weights = net.random("weight").normal(0, depth ** -0.5, (depth, columns))
        y = net.op("MatMul", x, net.weight("weight", weights.astype(np.float32)))
        net.output("y", y, np.float32, ["rows", columns])
        return net.model()
    return cached(f"matmul-{depth}x{columns}", build, [os.path.abspath(__file__)])


def _inputs(rows, depth):
    return {"x": np.random.default_rng(1).normal(size=(rows, depth)).astype(np.float32)}


class OneDnnPeer:
    """oneDNN's own matmul primitive, called from C++, with its weights reordered beforehand."""

    name = "onednn"

    def __init__(self, threads):
        self.threads_ = threads
        self.library_ = None

    def unavailable(self):
        if not os.path.exists(os.path.join(sys.prefix, "include", "oneapi", "dnnl", "dnnl.hpp")):
            return f"oneDNN's headers are not in {sys.prefix}"
        return None

    @property
    def settings(self):
        version = self._library().matmul_version()
        return (f"{version // 10000}.{version // 100 % 100}.{version % 100}, its own OpenMP, {self.threads_} "
                "threads, weights in the format it prefers")

    def prepare(self, case, inputs, outputs):
        import onnx
        weights = onnx.numpy_helper.to_array(onnx.load(case.model()).graph.initializer[0]).copy()
        x = inputs["x"]
        result = np.empty((x.shape[0], weights.shape[1]), np.float32)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, weights, result)]
        handle = self._library().matmul_create(x.shape[0], weights.shape[1], x.shape[1], *pointers)
        if not handle:
            raise RuntimeError("oneDNN has no primitive for it")
        call = self._library().matmul_run

        def run():
            if call(handle):
                raise RuntimeError("oneDNN's primitive failed")
            return [result]

        run.keep_alive = x
        return run

    def _library(self):
        if self.library_ is None:
            folder = os.path.join(sys.prefix, "lib")
            self.library_ = native.load("onednn_matmul", ("-I" + os.path.join(sys.prefix, "include"),
                                                          "-L" + folder, "-ldnnl", "-Wl,-rpath," + folder))
            sizes, pointers = [ctypes.c_int64] * 3, [ctypes.c_void_p] * 3
            self.library_.matmul_create.argtypes = sizes + pointers
            self.library_.matmul_create.restype = ctypes.c_void_p
            self.library_.matmul_run.argtypes = [ctypes.c_void_p]
        return self.library_


def generated_only(options):
    """Gives Graft without libraries, so that its own kernels are measured."""
    return GraftPeer(options.threads, options.build, tune=options.tune, arguments=("--disable", "onednn"))


def print_table(cases, rows, all_summaries, names, peak):
    """Prints times, speeds and shares of the peak; names what is below the bar."""
    print("\nmedian ms, GFLOP/s and share of the measured peak (~: quartiles more than 10 % apart)")
    print(f"{'case':34}{'m':>7}{'n':>6}{'k':>6}" + "".join(f"{name + ' ms':>12}{'':12}" for name in names)
          + f"{'ratio':>7}")
    ratios, below = [], []
    for case, row, summaries in zip(cases, rows, all_summaries):
        (_, m), = case.sizes
        k, n = os.path.basename(case.model())[len("matmul-"):-len(".onnx")].split("x")
        line = f"{case.label:34}{m:7}{n:>6}{k:>6}"
        for name in names:
            line += _speed(summaries.get(name), case.gflop, peak)
        if row["ratio"]:
            ratios.append(row["ratio"])
            line += f"{row['ratio']:7.2f}"
            if row["ratio"] < BAR:
                below.append(case.label)
        print(line)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of onednn / graft: {mean:.3f} over {len(ratios)} cases, lowest {min(ratios):.2f}")
        print(f"below {BAR:.0%} of oneDNN's speed: " + (", ".join(below) or "none"))


def _speed(values, gflop, peak):
    if values is None:
        return f"{'-':>12}{'':12}"
    speed = gflop / values["median_ms"] * 1e3
    mark = "~" if values["spread"] > 0.1 else ""
    return f"{mark + format(values['median_ms'], '.4f'):>12}{speed:6.0f}{speed / peak:6.0%}"
