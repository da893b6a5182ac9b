# SPDX-License-Identifier: Apache-2.0
"""The ways in which a network of PyTorch gets engines, each as a function of the model, its inputs and settings: strict
unless these say otherwise."""

import json
import pathlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import torch

import graft
import graft.torch
from graft.torch import script


class Refused(Exception):
    """Torch itself cannot take the model this way."""


@dataclass
class Grafted:
    """What a network became: `run` takes its inputs; how many engines there are, and operators, in them and at all."""

    run: Callable
    engines: int
    inside: int
    operators: int

    @property
    def whole(self):
        """Whether nothing stays with torch."""
        return self.engines == 1 and self.inside == self.operators


def asked_of_torch(function, *arguments, **named):
    """What torch makes of a model; whatever it raises is a refusal of its own."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        raise Refused(" ".join(str(error).split())) from error


def by_compile(model, inputs, **settings):
    """torch.compile(model, backend="graft")."""
    graphs = json.loads(graft.torch.dry_run(model, inputs, format="json"))
    torch._dynamo.reset()
    operators = sum(graph["operators"] for graph in graphs)
    return Grafted(torch.compile(model, backend="graft", options={"strict": True, **settings}),
                   sum(len(graph["segments"]) for graph in graphs),
                   operators - sum(len(graph["stays"]) for graph in graphs), operators)


def by_export(model, inputs, **settings):
    """graft.torch.compile, in this process."""
    exported = asked_of_torch(torch.export.export, model, inputs, strict=False)
    program = graft.torch.compile(exported, **{"strict": True, **settings})
    return Grafted(program, program.engines, program.operators_in_engines, program.operators)


def by_file(model, inputs, **settings):
    """A file of torch.export, which Graft reads without torch: one engine, or an error. A program that torch cannot
    save as it was traced is saved decomposed."""
    exported = asked_of_torch(torch.export.export, model, inputs, strict=False)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.pt2"
        try:
            asked_of_torch(torch.export.save, exported, path)
        except Refused:
            exported = asked_of_torch(exported.run_decompositions)
            asked_of_torch(torch.export.save, exported, path)
        settings.pop("strict", None)  # it is one engine or an error
        engine = graft.compile(str(path), **settings)
    operators = sum(isinstance(node.target, torch._ops.OpOverload) for node in exported.graph.nodes)
    return Grafted(lambda *given: list(map(torch.as_tensor, as_list(engine(*given)))), 1, operators, operators)


def as_list(results):
    """An engine's results, of which one is no tuple."""
    return results if isinstance(results, tuple) else [results]


def by_trace(model, inputs, **settings):
    """torch.jit.trace, then graft.torch.script."""
    traced = asked_of_torch(torch.jit.trace, model, inputs, check_trace=False, strict=False)  # dicts as results
    return grafted_script(traced, inputs, settings)


def by_script(model, inputs, **settings):
    """torch.jit.script, then graft.torch.script."""
    return grafted_script(asked_of_torch(torch.jit.script, model), inputs, settings)


def grafted_script(module, inputs, settings):
    """Engines inside a TorchScript module."""
    made, report = script.compile_with_report(module, list(inputs), **{"strict": True, **settings})
    inside = sum(int(count) for count in re.findall(r"^segment \d+: (\d+) operators", report.text, re.M))
    stays = len(re.findall(r"^stays: aten::\S+ \S+: \S", report.text, re.M))
    return Grafted(made, report.engines, inside, inside + stays)


DOORS = {"torch.compile": by_compile, "torch.export": by_export, ".pt2": by_file, "trace": by_trace,
         "script": by_script}
