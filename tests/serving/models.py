# SPDX-License-Identifier: Apache-2.0
"""Small networks to serve, and what numpy makes of their weights."""

import os
import pathlib
import shlex
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import pages  # noqa: E402
from support.command import run  # noqa: E402

FLOAT, INT64, STRING, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL
# Options of `graft compile`, by the name of the plan: the network's, unless a dash follows it.
PLANS = {"dense": ["--dim", "batch=1:8:32"],
         "dense-other": ["--dim", "batch=1:8:32"],
         "dense-unbounded": [],
         "dense-gpu": ["--dim", "batch=1:8:32", "--target", "sm_90a"],
         "nothing": ["--dim", "batch=1:8:32"],
         "rows": ["--dim", "batch=1:8:32", "--dim", "length=0:4:64"],
         "texts": ["--dim", "batch=1:2:8"],
         "sums": ["--dim", "batch=1:2:8"],
         "total": [],
         "rounds": []}


def weights(name, *shape):
    """An initializer, the same in each process."""
    seed = sum(map(ord, name))
    values = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[0])
    return values.astype(np.float32)


def value(name, kind, *shape):
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def save(folder, name, nodes, inputs, outputs, **initializers):
    """Writes a network."""
    constants = [numpy_helper.from_array(array, key) for key, array in initializers.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def rounds_body():
    """What a round of the loop does."""
    nodes = [helper.make_node("MatMul", ["state", "loop_weights"], ["product"]),
             helper.make_node("Tanh", ["product"], ["next"]),
             helper.make_node("Identity", ["go_on"], ["goes_on"])]
    return helper.make_graph(nodes, "body", [value("round", INT64), value("go_on", BOOL), value("state", FLOAT, 1, 64)],
                             [value("goes_on", BOOL), value("next", FLOAT, 1, 64)])


def write(folder):
    """Writes all networks as ONNX files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("dense", "dense-other"):
        save(folder, name, [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
             [value("x", FLOAT, "batch", 8)], [value("y", FLOAT, "batch", 4)], w=weights(name, 8, 4))
    save(folder, "nothing", [helper.make_node("Identity", ["x"], ["y"])], [value("x", FLOAT, "batch", 384)],
         [value("y", FLOAT, "batch", 384)])
    save(folder, "rows", [helper.make_node("Gather", ["table", "i"], ["y"])], [value("i", INT64, "batch", "length")],
         [value("y", FLOAT, "batch", "length", 3)], table=weights("table", 10, 3))
    save(folder, "texts", [helper.make_node("StringConcat", ["a", "b"], ["c"])],
         [value("a", STRING, "batch", 2), value("b", STRING, "batch", 2)], [value("c", STRING, "batch", 2)])
    save(folder, "sums", [helper.make_node("Add", ["x", "before"], ["sum"]),
                          helper.make_node("Identity", ["sum"], ["after"])],
         [value("x", FLOAT, "batch", 3), value("before", FLOAT, "batch", 3)],
         [value("sum", FLOAT, "batch", 3), value("after", FLOAT, "batch", 3)])
    save(folder, "total", [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0)], [value("x", FLOAT, "n")],
         [value("s", FLOAT)])
    save(folder, "rounds", [helper.make_node("Squeeze", ["n"], ["count"]),
                            helper.make_node("Loop", ["count", "", "x"], ["y"], body=rounds_body())],
         [value("n", INT64, 1), value("x", FLOAT, 1, 64)], [value("y", FLOAT, 1, 64)],
         loop_weights=weights("loop_weights", 64, 64))


def compile_plans(folder, graft):
    """Compiles them, untuned: what is measured changes nothing about results."""
    for plan, options in PLANS.items():
        network = plan if (folder / f"{plan}.onnx").is_file() else plan.partition("-")[0]
        run(graft, "compile", folder / f"{network}.onnx", "-o", folder / f"{plan}.graft", "--tune", "off", *options)


def follow_tutorial(folder, graft):
    """The first two blocks of the tutorial, which make a model and its plan; the rest is test_tutorial.py's."""
    folder.mkdir(parents=True, exist_ok=True)
    (_, model), (_, command), *_ = pages.blocks("tutorials/sentence_encoder.md")
    subprocess.run([sys.executable, "-c", model], cwd=folder, check=True, timeout=60)
    run(graft, *shlex.split(command)[1:], cwd=folder)


def prepare(build):
    """Writes and compiles all of them into the build folder, where the tests look for them."""
    folder = build / "serving" / "models"
    write(folder)
    compile_plans(folder, build / "bin" / "graft")
    follow_tutorial(build / "serving" / "tutorial", build / "bin" / "graft")
    os.environ.update(GRAFT_SERVING_MODELS=str(folder))
