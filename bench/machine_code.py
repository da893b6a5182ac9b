# SPDX-License-Identifier: Apache-2.0
"""`./dev bench machine-code`: how well the inner loops of kernels for another processor use its units, by LLVM's model.

Nothing is run: `graft compile --target` makes kernels, llc their instructions, and llvm-mca says how many cycles
one turn of each innermost loop takes. Printed is the share of the cycles that the loop's arithmetic alone
would take: 100 % is a loop in which the arithmetic units never wait. A model knows no caches.
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
# Processors by LLVM's names, with the target of the kernels and the vector arithmetic that starts in a clock (Arm's
# Software Optimization Guides of Neoverse N1 and V2).
PROCESSORS = {"neoverse-n1": ("neoverse-n1", 2), "neoverse-v2": ("neoverse-v2", 4)}
ARITHMETIC = re.compile(r"\s(fml[as]|fmadd|fadd|fsub|fmul|fmax|fmin|fmaxnm|fminnm|[su]+dot|bfdot)\s+[vz]")
LABEL, BRANCH = re.compile(r"^(\.LBB\w+):"), re.compile(r"\s(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,|b)\s+(\.LBB\w+)")


def model(nodes, inputs, output, constants):
    """An ONNX model of those nodes."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [value("y", TensorProto.FLOAT, output)], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def cases():
    """Models by name: a product, a convolution and element-wise work."""
    random = np.random.default_rng(1)
    floats = lambda *shape: random.standard_normal(shape).astype(np.float32)  # noqa: E731
    yield "product", model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [128, 256])], [128, 256],
                           {"w": floats(256, 256)})
    yield "convolution", model([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], [("x", [1, 64, 28, 28])],
                               [1, 64, 28, 28], {"w": floats(64, 64, 3, 3)})
    yield "element-wise", model([helper.make_node("Mul", ["x", "a"], ["p"]), helper.make_node("Sigmoid", ["p"], ["y"])],
                                [("x", [64, 4096])], [64, 4096], {"a": floats(4096)})


def instructions_of(network, target, folder):
    """The assembly of each kernel of the network."""
    path = folder / "model.onnx"
    onnx.save(network, path)
    dumps = folder / "dumps"
    environment = {**os.environ, "GRAFT_DUMP": "kernels", "GRAFT_DUMP_DIR": str(dumps), "GRAFT_CACHE": "/dev/null"}
    dumps.mkdir()
    subprocess.run([GRAFT, "compile", path, "--target", target, "--threads", "1", "--tune", "off", "-o",
                    folder / "plan.graft"], check=True, capture_output=True, env=environment)
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
                yield lines
            if branch:
                label = None


def cycles_of(lines, processor):
    """Cycles of one turn, by llvm-mca, of 100 turns."""
    text = "\n".join(BRANCH.sub("\tnop", line) for line in lines)
    done = subprocess.run([LLVM / "llvm-mca", "-mtriple=aarch64", f"-mcpu={processor}", "-mattr=+i8mm,+bf16,+dotprod",
                           "-iterations=100"], input=text, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]) / 100


def best_loop(network, processor):
    """Arithmetic, cycles and share of the loop with the most arithmetic; None where there is no loop."""
    target, units = PROCESSORS[processor]
    with tempfile.TemporaryDirectory() as folder:
        loops = [loop for _, text in instructions_of(network, target, pathlib.Path(folder))
                 for loop in innermost_loops(text)]
    counted = [(sum(bool(ARITHMETIC.search(line)) for line in loop), loop) for loop in loops]
    if not counted:
        return None
    count, loop = max(counted, key=lambda each: each[0])
    cycles = cycles_of(loop, processor)
    return count, cycles, count / units / cycles


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processors", nargs="+", choices=list(PROCESSORS), default=list(PROCESSORS))
    options = parser.parse_args()
    print(f"{'kernel':<14} {'processor':<14} {'arithmetic':>10} {'cycles':>8} {'share':>6}")
    for name, network in cases():
        for processor in options.processors:
            found = best_loop(network, processor)
            if not found:
                sys.exit(f"{name}: no innermost loop was found")
            count, cycles, share = found
            print(f"{name:<14} {processor:<14} {count:>10} {cycles:>8.1f} {100 * share:>4.0f} %")


if __name__ == "__main__":
    main()
