# SPDX-License-Identifier: Apache-2.0
"""Node cases of the onnx package with mistakes put into them, compiled: each gives an engine or a clear error.

A mistake is one that models have: another element type, an input or output too few or too many, another rank or
extent, an input without a type or a shape, a missing, unknown or different attribute. What is sought is an error that
says "internal", an end of the process, and more than SECONDS_PER_MODEL. `--count N --seed S` draw N models;
`--save FOLDER` keeps those that fail.
"""

import argparse
import os
import pathlib
import random
import resource
import signal
import sys

import onnx
from onnx import AttributeProto, TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import case_files  # noqa: E402
import library  # noqa: E402

SECONDS_PER_MODEL = 4
MEMORY = 6 << 30
LARGEST_MODEL = 20_000
TYPES = [TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.INT32,
         TensorProto.UINT8, TensorProto.INT8, TensorProto.DOUBLE, TensorProto.STRING, TensorProto.COMPLEX64,
         TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.UINT64]


def tensors(graph):
    """The declared inputs that are tensors."""
    return [value for value in graph.input if value.type.HasField("tensor_type")]


def change_type(draw, graph):
    """Another element type of an input."""
    values = tensors(graph)
    if values:
        draw.choice(values).type.tensor_type.elem_type = draw.choice(TYPES)


def drop_type(draw, graph):
    """An input without a type, or without an element type."""
    if graph.input:
        value = draw.choice(graph.input)
        if draw.random() < 0.5:
            value.ClearField("type")
        elif value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("elem_type")


def drop_shape(draw, graph):
    """An input of unknown rank."""
    values = tensors(graph)
    if values:
        draw.choice(values).type.tensor_type.ClearField("shape")


def change_shape(draw, graph):
    """Another rank, extent or name of an extent."""
    values = tensors(graph)
    if not values:
        return
    dims = draw.choice(values).type.tensor_type.shape.dim
    kind = draw.randrange(4)
    if kind == 0 and dims:
        del dims[draw.randrange(len(dims))]
    elif kind == 1:
        dims.add().dim_value = draw.choice([1, 2, 3])
    elif kind == 2 and dims:
        draw.choice(dims).dim_value = draw.choice([0, 1, 2, 5, 7, 1 << 20, 1 << 31])
    elif dims:
        draw.choice(dims).dim_param = draw.choice(["n", "m", "n + m", "2*n", "n - 1", "n//2"])


def change_inputs(draw, graph):
    """An input of a node too few, too many, left out, or in the place of another."""
    node = draw.choice(graph.node)
    kind = draw.randrange(5)
    if kind == 0 and node.input:
        del node.input[draw.randrange(len(node.input))]
    elif kind == 1 and node.input:
        node.input.append(draw.choice(node.input))
    elif kind == 2 and node.input:
        node.input[draw.randrange(len(node.input))] = ""
    elif kind == 3 and len(node.input) > 1:
        node.input[draw.randrange(len(node.input))] = draw.choice(node.input)
    else:
        del node.input[:]


def change_outputs(draw, graph):
    """An output of a node too few, too many or left out."""
    node = draw.choice(graph.node)
    kind = draw.randrange(4)
    if kind == 0 and node.output:
        del node.output[draw.randrange(len(node.output))]
    elif kind == 1:
        node.output.extend(f"extra_{i}" for i in range(draw.choice([1, 2, 9])))
    elif kind == 2 and node.output:
        node.output[draw.randrange(len(node.output))] = ""
    else:
        graph.output[0].type.tensor_type.elem_type = draw.choice(TYPES)


def change_attribute(draw, graph):
    """An attribute that is missing, unknown, or of another value or type."""
    node = draw.choice(graph.node)
    kind = draw.randrange(5)
    names = [attribute.name for attribute in node.attribute] or ["axis"]
    name = draw.choice(names)
    value = draw.choice([-1, 0, 1, 3, 7, -9, 1 << 40, -(1 << 63), 0.5, "nearest", [1, 1], [0], [-1, 2, 1], [0.5, 2.0],
                         ["a"], TensorProto(data_type=1, dims=[1], float_data=[2])])
    if kind < 3:
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
    if kind in (1, 2):
        node.attribute.append(helper.make_attribute(name, value))
    elif kind == 3:
        node.attribute.append(helper.make_attribute("unheard_of", value))
    elif kind == 4 and node.attribute:
        draw.choice(node.attribute).type = draw.choice([AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS])


def make_constant(draw, graph):
    """An input that is a constant, of small numbers or odd ones."""
    values = [value for value in tensors(graph)
              if value.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL,
                                                      TensorProto.INT32)]
    if not values:
        return
    value = draw.choice(values)
    dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    count = 1
    for extent in dims:
        count *= extent
    if count > 4096:
        return
    kind = value.type.tensor_type.elem_type
    pool = {TensorProto.BOOL: [0, 1], TensorProto.FLOAT: [0.0, 1.0, -1.0, 2.5, 1e30]}.get(
        kind, [0, 1, -1, 2, 3, 1 << 20, (1 << 31) - 1])
    graph.initializer.append(helper.make_tensor(value.name, kind, dims, [draw.choice(pool) for _ in range(count)]))


def change_operator(draw, graph):
    """Another operator on the same inputs."""
    graph.node[draw.randrange(len(graph.node))].op_type = draw.choice(
        ["Add", "Sub", "Exp", "Sqrt", "Concat", "Sum", "Or", "Not", "MatMul", "Reshape", "Slice", "Gather", "Softmax",
         "Where", "Max", "Transpose", "Conv", "ReduceSum", "Split", "Expand", "Tile", "TopK", "If", "Loop"])


MISTAKES = [change_type, change_type, drop_type, drop_shape, change_shape, change_shape, change_inputs, change_inputs,
            change_outputs, change_attribute, change_attribute, make_constant, change_operator]


def mutated(bases, draw):
    """A model's bytes with one to three mistakes, and what they are."""
    name, data = draw.choice(bases)
    model = onnx.ModelProto.FromString(data)
    made = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        mistake = draw.choice(MISTAKES)
        made.append(mistake.__name__)
        try:
            mistake(draw, model.graph)
        except (ValueError, IndexError):  # nothing there to change
            pass
    return f"{name}: {', '.join(made)}", model.SerializeToString()


def verdict(graft, data):
    """Compiles a model; gives the message of an internal error, or None."""
    try:
        with library.Engine(graft, data, [("mode", "interpret")]):
            return None
    except library.GraftError as error:
        text = str(error)
        return text if "internal" in text or "bug in Graft" in text else None


def work(models, pipe):
    """In a process of its own: writes a line before and after each model."""
    graft = library.load()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number, (_, data) in models:
        signal.alarm(SECONDS_PER_MODEL)
        os.write(pipe, f"{number} {verdict(graft, data) or ''}".replace("\n", " ").encode() + b"\n")
        signal.alarm(0)


def run(models):
    """Compiles all; yields (number, message) of those that fail."""
    left = list(enumerate(models))
    while left:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            work(left, write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            for line in lines:
                number, message = line.rstrip("\n").split(" ", 1)
                if message:
                    yield int(number), message
                left.pop(0)
        status = os.waitpid(child, 0)[1]
        if left:
            number = left.pop(0)[0]
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            yield number, f"took longer than {SECONDS_PER_MODEL} s" if late else f"ended the process, status {status}"


def main():
    """Draws and compiles models; the exit status says whether all was well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    options = parser.parse_args()
    cases = [(case.name, case.model.SerializeToString()) for case in case_files.collect()]
    bases = [(name, data) for name, data in cases if len(data) <= LARGEST_MODEL]
    draw = random.Random(options.seed)
    models = [mutated(bases, draw) for _ in range(options.count)]
    failed = 0
    for number, message in run(models):
        failed += 1
        print(f"{number} {models[number][0]}\n    {message}", flush=True)
        if options.save:
            options.save.mkdir(parents=True, exist_ok=True)
            (options.save / f"{number}.onnx").write_bytes(models[number][1])
    print(f"{options.count} mutated models (seed {options.seed}), {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
