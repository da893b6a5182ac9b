# SPDX-License-Identifier: Apache-2.0
"""`./dev bench machine-code`: how well the inner loops of kernels for another processor use its units, by LLVM's model.

Nothing is run: `graft compile --target` makes kernels, llc their instructions, and llvm-mca says how many cycles
one turn of each innermost loop takes. Printed is the share of the cycles that the loop's vector arithmetic
alone would take, without copies, loads and stores: 100 % is a loop in which the units that it needs never wait. A
model knows no caches.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GRAFT = pathlib.Path(os.environ.get("GRAFT_BUILD", "build")) / "bin/graft"
LLVM = pathlib.Path("/usr/lib/llvm-19/bin")
PROCESSORS = ("neoverse-n1", "neoverse-v2")  # as LLVM and --target name them
VECTOR = re.compile(r"\s\w+\s+[vz]\d+\.")
NO_ARITHMETIC = re.compile(r"\s(ld\w+|st\w+|mov\w*|dup|ins|ext|zip[12]|uzp[12]|trn[12]|tbl)\s")
LABEL, BRANCH = re.compile(r"^(\.LBB\w+):"), re.compile(r"\s(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,|b)\s+(\.LBB\w+)")


def model(nodes, inputs, output, constants, element=TensorProto.FLOAT, result=TensorProto.FLOAT):
    """An ONNX model of those nodes."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value(name, element, shape) for name, shape in inputs],
        [value("y", result, output)], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def cases():
    """Models by name, with their options: products, a convolution and element-wise work."""
    random = np.random.default_rng(1)
    floats = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    product = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [128, 256])], [128, 256],
                    {"w": floats(256, 256)})
    codes = random.integers(-128, 128, (256, 256)).astype(np.int8)
    yield "product", product, []
    yield "product, bf16", product, ["--precision", "bf16"]
    yield "product, int8", model([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], [("x", [128, 256])],
                                 [128, 256], {"w": codes}, TensorProto.INT8, TensorProto.INT32), []
    yield "convolution", model([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], [("x", [1, 64, 28, 28])],
                               [1, 64, 28, 28], {"w": floats(64, 64, 3, 3)}), []
    yield "element-wise", model([helper.make_node("Mul", ["x", "a"], ["p"]), helper.make_node("Sigmoid", ["p"], ["y"])],
                                [("x", [64, 4096])], [64, 4096], {"a": floats(4096)}), []


def instructions_of(network, options, target, folder):
    """The assembly of each kernel of the network."""
    path = folder / "model.onnx"
    onnx.save(network, path)
    dumps = folder / "dumps"
    environment = {**os.environ, "GRAFT_DUMP": "kernels", "GRAFT_DUMP_DIR": str(dumps), "GRAFT_CACHE": "/dev/null"}
    dumps.mkdir()
    subprocess.run([GRAFT, "compile", path, "--target", target, "--threads", "1", "--tune", "off", *options,
                    "-o", folder / "plan.graft"], check=True, capture_output=True, env=environment)
    for dump in sorted(dumps.iterdir()):
        done = subprocess.run([LLVM / "llc", "-O2", "-relocation-model=pic", "-o", "-", dump], check=True,
                              capture_output=True, text=True)
        yield dump.name, done.stdout


def innermost_loops(assembly):
    """Blocks that end in a branch to their own beginning, as lists of instructions."""
    label, lines = None, []
    for line in assembly.splitlines():
        if found := LABEL.match(line):
            label, lines = found[1], []
        elif line.startswith("\t") and not line.startswith(("\t.", "\t//")):
            lines.append(line.split("//")[0])
            branch = BRANCH.search(line)
            if branch and branch[1] == label:
                yield list(lines)
            if branch:
                label = None


def modelled(lines, processor, fact):
    """What llvm-mca says of 100 turns."""
    text = "\n".join(BRANCH.sub("\tnop", line) for line in lines)
    done = subprocess.run([LLVM / "llvm-mca", "-mtriple=aarch64", f"-mcpu={processor}",
                           "-mattr=+i8mm,+bf16,+dotprod,+sve", "-iterations=100"], input=text, capture_output=True,
                          text=True, check=True)
    return float(re.search(rf"{fact}:\s+([\d.]+)", done.stdout)[1])


def arithmetic_of(loop):
    """The loop's vector instructions but for copies, loads and stores."""
    return [line for line in loop if VECTOR.search(line) and not NO_ARITHMETIC.search(line)]


def best_loop(network, options, processor):
    """Arithmetic, cycles and share of the loop with the most arithmetic; None where there is no loop."""
    with tempfile.TemporaryDirectory() as folder:
        loops = [loop for _, text in instructions_of(network, options, processor, pathlib.Path(folder))
                 for loop in innermost_loops(text)]
    if not loops:
        return None
    loop = max(loops, key=lambda each: len(arithmetic_of(each)))
    arithmetic = arithmetic_of(loop)
    cycles = modelled(loop, processor, "Total Cycles") / 100
    return len(arithmetic), cycles, modelled(arithmetic, processor, "Block RThroughput") / cycles


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processors", nargs="+", choices=PROCESSORS, default=PROCESSORS)
    options = parser.parse_args()
    print(f"{'kernel':<15} {'processor':<14} {'arithmetic':>10} {'cycles':>8} {'share':>6}")
    for name, network, extra in cases():
        for processor in options.processors:
            found = best_loop(network, extra, processor)
            if not found:
                sys.exit(f"{name}: no innermost loop was found")
            count, cycles, share = found
            print(f"{name:<15} {processor:<14} {count:>10} {cycles:>8.1f} {100 * share:>4.0f} %")


if __name__ == "__main__":
    main()
