# SPDX-License-Identifier: Apache-2.0
"""Engines in model files of frameworks, without the framework."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Unpack

from . import _graft, arguments, logs
from .compiling import CommonOptions, Precision, Tune, choices_of
from .errors import InvalidArgumentError


class Embedded(NamedTuple):
    """A rewritten model: its bytes, how many engines it has, and a text of what became engines and why the rest not."""

    model: bytes
    engines: int
    report: str


def embed(model: Any, outputs: Iterable[str], *, minimum_size: int = 1, minimum_gain: int | None = None,
          most_segments: int = 0,
          exclude_ops: Iterable[str] = (), exclude: Iterable[str] = (), only: Iterable[str] = (), strict: bool = False,
          dims: Mapping[str, int | Sequence[int]] | None = None, usual: Mapping[str, int] | None = None,
          shapes: Mapping[str, Sequence[Any]] | None = None,
          device: str = "cpu", precision: Precision = "fp32", tune: Tune = "fast", threads: int = 0,
          format: Literal["tensorflow"] = "tensorflow", build: bool = True,
          **options: Unpack[CommonOptions]) -> Embedded:
    """Replaces the parts of a model that engines can run by engines, as `graft embed` does.

    model    a path, bytes, or a GraphDef; it is not changed
    outputs  outputs of the model: nodes or tensors
    dims     ranges of dynamic dimensions, named after their input and axis: {"image_0": (1, 8, 64)}
    usual    optimum of dynamic dimensions without a range: {"image_0": 8}
    shapes   of the graph's inputs
    strict   an engine that cannot be built is an error; otherwise its part stays, which is logged and counted
    build    False: engines are built at the first run, by graft.tensorflow.create_inference_graph(is_dynamic_op=True)

    minimum_size, minimum_gain (microseconds a run, by estimate), most_segments, exclude_ops, exclude, only: options of
    partitioning; the other arguments are those of compile().
    """
    if isinstance(model, (str, os.PathLike)):
        with open(arguments.path("model", model), "rb") as file:
            model = file.read()
    elif hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"a {type(model).__name__} is no model: give a path, bytes or a GraphDef")
    choices = choices_of(dims, shapes, device, precision, tune, threads, None, (), None, options)
    choices += [("minimum-size", str(arguments.whole("minimum_size", minimum_size))),
                ("most-segments", str(arguments.whole("most_segments", most_segments))),
                ("strict", "true" if strict else "false"), ("build", "true" if build else "false")]
    if minimum_gain is not None:
        choices.append(("minimum-gain", str(arguments.whole("minimum_gain", minimum_gain))))
    choices += [("usual", f"{name}={arguments.whole(name, size)}")
                for name, size in arguments.named("usual", usual).items()]
    for key, names in (("exclude-op", exclude_ops), ("exclude", exclude), ("only", only)):
        choices += [(key, name) for name in arguments.names(key, names)]
    logs.follow_level()
    try:
        return Embedded(*_graft.embed(format, bytes(model), arguments.names("outputs", outputs), choices))
    finally:
        logs.pass_on()
