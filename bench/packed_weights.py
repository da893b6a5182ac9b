# SPDX-License-Identifier: Apache-2.0
"""Products of 4-bit weights on a CPU: what `./dev bench cpu --precision int4` runs.

MatMulNBits of one row, as in decoding text, of 8 and of 128. `x16` is 16 layers in turn, so that weights come from
memory and not from a cache. ONNX Runtime runs the same file, and one whose accuracy_level lets it round activations to
int8."""

import dataclasses
import functools

import cases
import numpy as np
from graft_peer import GraftPeer
from network_builder import cached
from peers import OnnxRuntimePeer, OpenVinoPeer

SHAPES = ((4096, 4096), (4096, 14336))  # products summed, columns
FROM_MEMORY = 16


def packed_cases():
    """One row of one layer and of many, with blocks of 32 and 128; more rows of one layer."""
    chosen = [_case(k, n, block, layers, 1)
              for k, n in SHAPES for block in (32, 128) for layers in (1, FROM_MEMORY)]
    return chosen + [_case(4096, 4096, 32, 1, rows) for rows in (8, 128)]


def _name(k, n, block, layers):
    return f"{k}x{n}_block{block}" + (f"_x{layers}" if layers > 1 else "")


def _case(k, n, block, layers, rows):
    inputs = functools.partial(_inputs, k, rows)
    model = functools.partial(model_path, k, n, block, layers, 0)
    return cases.Case(_name(k, n, block, layers), rows, model, inputs, (("rows", 1, rows, 256),), (("rows", rows),),
                      2e-9 * rows * k * n * layers)


def _inputs(k, rows):
    return {"x": np.random.default_rng(1).standard_normal((rows, k)).astype(np.float32)}


def model_path(k, n, block, layers, level):
    """The path of layers k -> n and n -> k in turn, in the cache."""
    name = f"packed-{_name(k, n, block, layers)}" + (f"-level{level}" if level else "")
    return cached(name, lambda: _build(k, n, block, layers, level))


def _build(k, n, block, layers, level):
    from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(layers):
        depth, columns = (k, n) if layer % 2 == 0 else (n, k)
        blocks = depth // block
        codes = random.integers(0, 256, (columns, blocks, block // 2), dtype=np.uint8)
        scales = ((0.5 + random.random(columns * blocks)) / (5 * np.sqrt(depth))).astype(np.float32)
        weights += [numpy_helper.from_array(codes, f"codes{layer}"),
                    numpy_helper.from_array(scales, f"scales{layer}")]
        result = "y" if layer == layers - 1 else f"y{layer}"
        nodes.append(helper.make_node("MatMulNBits", [value, f"codes{layer}", f"scales{layer}"], [result],
                                      f"layer{layer}", domain="com.microsoft", K=depth, N=columns, bits=4,
                                      block_size=block, accuracy_level=level))
        value = result
    last = n if layers % 2 else k
    graph = helper.make_graph(nodes, "packed", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", last])], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class OnnxRuntimeInt8(OnnxRuntimePeer):
    """ONNX Runtime on a file that allows activations of int8."""

    name = "ort level 4"

    def prepare(self, case, inputs, outputs):
        k, n, block, layers, _ = case.model.args
        return super().prepare(dataclasses.replace(case, model=functools.partial(model_path, k, n, block, layers, 4)),
                               inputs, outputs)


def runners(options):
    """The peers, and Graft."""
    return ([OnnxRuntimePeer(options.threads), OnnxRuntimeInt8(options.threads), OpenVinoPeer(options.threads)],
            GraftPeer(options.threads, build=options.build, tune=options.tune))


def bytes_read(case):
    """Bytes of codes and scales that one run reads."""
    k, n, block, layers, _ = case.model.args
    return layers * k * n * (0.5 + 4 / block)


def print_table(read_gb_per_s, all_cases, rows, summaries, names, peak):
    """Prints medians, the ratio to the fastest peer, and how fast Graft reads weights or multiplies."""
    del peak
    print(f"\nmedian ms; GB/s of codes and scales, and their share of {read_gb_per_s:.1f} GB/s, which reading reaches")
    print(f"{'case':28}" + "".join(f"{name:>14}" for name in names) + f"{'ratio':>8}{'GB/s':>8}{'share':>8}"
          f"{'GFLOP/s':>10}")
    for case, row, summary in zip(all_cases, rows, summaries):
        line = f"{case.label:28}" + "".join(
            f"{summary[name]['median_ms']:14.3f}" if name in summary else f"{'-':>14}" for name in names)
        line += f"{row['ratio']:8.2f}" if row["ratio"] else f"{'-':>8}"
        if "graft" in summary:
            seconds = summary["graft"]["median_ms"] * 1e-3
            rate = bytes_read(case) / seconds / 1e9
            line += f"{rate:8.1f}{rate / read_gb_per_s:8.0%}{case.gflop / seconds:10.0f}"
        print(line)
