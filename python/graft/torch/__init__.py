# SPDX-License-Identifier: Apache-2.0
"""Engines inside PyTorch.

    fast = torch.compile(model, backend="graft")                  # nothing to import
    with torch.inference_mode():
        y = fast(x)

    scripted = graft.torch.script.compile(torch.jit.script(model), [x])   # a ScriptModule, with engines
    torch.jit.save(scripted, "fast.pt")

    program = graft.torch.compile(model, [x])                     # an exported program, with engines
    graft.torch.save(program, "fast.pt2")                         # graft.torch.load reads it

    low = graft.torch.quantize(model, loader)                     # in 8 bits, with the error in low.report

    print(graft.torch.dry_run(model, [x]))                        # engines, and the reasons for other parts
"""

import importlib

from ..frameworks import need

need("PyTorch", "torch", "graft.torch")

import torch  # noqa: E402  isort: skip

from .. import _graft  # noqa: E402
from ..errors import InvalidArgumentError  # noqa: E402
from . import ptq, run_plan, script  # noqa: E402, F401  its operator is there for torch.export.load
from .converter import converter  # noqa: E402
from .inputs import Input  # noqa: E402
from .library import load_library  # noqa: E402

__all__ = ["Input", "Program", "QuantizedModule", "compile", "converter", "dry_run", "dynamo", "fallback_count", "load",
           "load_library", "ptq", "quantize", "save", "script"]

OF_PROGRAMS = ("Program", "compile", "load", "save")


def __getattr__(name):
    """What needs torch's tracing, which takes 90 MB, is imported when it is used: not where modules only run."""
    if name in OF_PROGRAMS:
        return getattr(importlib.import_module(".exported", __name__), name)
    if name in ("QuantizedModule", "quantize"):
        return getattr(importlib.import_module(".quantizing", __name__), name)
    if name in ("dynamo", "exported", "report"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dry_run(model, inputs, dims=None, format="text", **choices):
    """A report of partitioning: each part that becomes an engine with its operators and borders, and each
    operator that stays with torch with the reason and its source line. No engine is built.

    For a ScriptModule, the arguments are those of graft.torch.script.compile; another model is called once with the
    tensors `inputs`, with the options of `torch.compile(model, backend="graft", options={...})`. It may be traced in
    several graphs. `format` is text, json, dot (Graphviz) or html.
    """
    if isinstance(model, torch.jit.ScriptModule):
        if format != "text":
            raise InvalidArgumentError(f"a ScriptModule's dry run is a text, not {format!r}")
        return script.dry_run(model, inputs, dims, **choices).text
    from . import dynamo, report
    graphs = dynamo.dry_run(model, inputs, choices)
    return report.written([data for data, _ in graphs], [text for _, text in graphs], format)


def fallback_count():
    """How many parts ran in torch instead of an engine, in this process; each one is in the log."""
    return _graft.fallback_count()
