# SPDX-License-Identifier: Apache-2.0
"""From models to engines."""

import os

from . import _graft, logs
from .engine import Engine
from .errors import InvalidArgumentError
from .progress import Bar


def compile(model, *, dims=None, shapes=None, device="cpu", precision="fp32", tune="fast", threads=0, target=None,
            disable=(), record=None, progress=None, directory=None, **options):
    """Compiles an ONNX model for this machine.

    model      a path, the file's bytes, or an onnx.ModelProto
    dims       sizes of the model's named dimensions: {"batch": 8} fixes one, {"batch": (1, 8, 64)} is a range with the
               usual size in the middle, and one engine serves all of it
    shapes     shapes of inputs: {"x": (1, 3, 224, 224)}, or three of them (smallest, usual, largest)
    device     "cpu", "cuda" or "cuda:1": what runs the engine
    precision  "fp32", "tf32" (GPUs), "fp16", "bf16": inputs and outputs keep the model's types
    tune       "off", "fast", "full": how long candidates are measured on the device
    threads    of the processor; 0: all that this process may use
    target     another machine to compile for: "x86-64-v3", "sm_90a" ...
    disable    passes and candidates to leave out
    record     a file with choices made before
    progress   True draws a bar; or a function of (stage, step, done, total), which stops with False
    directory  where a model in memory has its external data; without it external data is refused

    Ctrl-C stops it. Raises graft.Error of the kind that fits, naming the node, the cause and the remedy.
    """
    choices = [("device", device), ("precision", precision), ("tune", tune), ("threads", str(int(threads)))]
    choices += [("dim", f"{name}={range_text(name, size)}") for name, size in (dims or {}).items()]
    for name, shape in (shapes or {}).items():
        choices += shape_choices(name, shape)
    names = [disable] if isinstance(disable, str) else list(disable)
    if names:
        choices.append(("disable", ",".join(names)))
    if target:
        choices.append(("target", target))
    if record:
        choices.append(("record", os.fspath(record)))
    choices += [(key.replace("_", "-"), str(value)) for key, value in options.items()]
    bar = Bar() if progress is True else None
    logs.follow_level()
    try:
        handle = start(model, directory, choices, bar or progress or None)
    finally:
        if bar:
            bar.close()
        logs.pass_on()
    return Engine(handle, device)


def start(model, directory, choices, progress):
    """Hands the model to the extension in the form that it comes in."""
    if isinstance(model, (str, os.PathLike)):
        return _graft.compile_file(os.fspath(model), choices, progress)
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _graft.compile_bytes(bytes(model), None if directory is None else os.fspath(directory), choices,
                                    progress)
    raise InvalidArgumentError(f"a {type(model).__name__} is no model: give a path, bytes or an onnx.ModelProto")


def range_text(name, size):
    """`8`, or `1:8:64`."""
    if isinstance(size, int):
        return str(size)
    sizes = tuple(size)
    if len(sizes) != 3 or not all(isinstance(each, int) for each in sizes):
        raise InvalidArgumentError(f"dims['{name}'] is {size!r}: give a number, or (smallest, usual, largest)")
    return ":".join(map(str, sizes))


def shape_choices(name, shape):
    """The options for one input's shape."""
    shape = tuple(shape)
    if all(isinstance(size, int) for size in shape):
        return [("shape", f"{name}:{'x'.join(map(str, shape))}")]
    if len(shape) != 3:
        raise InvalidArgumentError(f"shapes['{name}'] is {shape!r}: give one, or three (smallest, usual, largest)")
    return [(key, f"{name}:{'x'.join(map(str, each))}") for key, each in
            zip(("min-shape", "opt-shape", "max-shape"), shape)]


def load(path, device="cpu"):
    """Loads a plan; nothing is compiled where the kernel cache has its kernels."""
    logs.follow_level()
    try:
        return Engine(_graft.load(os.fspath(path), device), device)
    finally:
        logs.pass_on()
