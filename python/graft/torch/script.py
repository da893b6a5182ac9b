# SPDX-License-Identifier: Apache-2.0
"""Engines inside TorchScript modules."""

import collections

import torch

from .. import logs
from ..errors import Error, InvalidArgumentError, UnsupportedError
from .inputs import as_input, as_range, split_choices
from .library import load_library

Report = collections.namedtuple("Report", "engines fallbacks text")


def compile(module, inputs, dims=None, *, require_full=False, strict=False, **choices):
    """A ScriptModule like `module` in which engines stand for what Graft can run. It is called, saved and loaded like
    any other; who loads it calls `graft.torch.load_library()` before, or links libgraft_torch.so.

    module        a torch.jit.ScriptModule (of torch.jit.script or torch.jit.trace) in evaluation mode; its parameters
                  become constants, as torch.jit.freeze makes them
    inputs        what `forward` takes, in order: tensors (their type and sizes), shapes of float32, or
                  graft.torch.Input(("batch", 3, 224, 224), torch.float16)
    dims          ranges of the dimensions that shapes name: {"batch": (1, 8, 64)}, with the usual size in the middle
    require_full  an operator that stays with torch is an error, which names each with its source line
    strict        an engine that cannot be built is an error; otherwise its part stays with torch, which is counted
    choices       how the module is divided: minimum_size (operators of an engine), most_segments, exclude_ops
                  ("aten::relu"), exclude and only (parts of the module by their path: "layer4");
                  how engines are compiled: precision, tune, threads, device ..., as graft.compile has them

    Raises graft.Error of the kind that fits.
    """
    return compile_with_report(module, inputs, dims, require_full=require_full, strict=strict, **choices)[0]


def compile_with_report(module, inputs, dims=None, *, require_full=False, strict=False, **choices):
    """compile, and what became of the module: (module, Report)."""
    made, *report = call("compile_module", module, inputs, dims, choices, require_full, strict)
    return torch.jit._recursive.wrap_cpp_module(made), Report(*report)


def dry_run(module, inputs, dims=None, **choices):
    """What compile would do, as a Report; no engine is built."""
    return Report(*call("dry_run_module", module, inputs, dims, choices, False, False))


def call(name, module, inputs, dims, choices, require_full, strict):
    """Hands a module to the library's operator of that name."""
    load_library()
    if not isinstance(module, torch.jit.ScriptModule):
        raise InvalidArgumentError(f"a {type(module).__name__} is no ScriptModule: hand in torch.jit.script(module) or "
                                   "torch.jit.trace(module, inputs), or use torch.compile(module, backend='graft')")
    described = [as_input(each) for each in inputs]
    shapes = [(str(each.dtype).removeprefix("torch."), [str(size) for size in each.shape]) for each in described]
    ranges = [(key, list(as_range(key, sizes))) for key, sizes in (dims or {}).items()]
    partition, compiling = split_choices(choices)
    logs.follow_level()
    try:
        return getattr(torch.ops.graft, name)(module, shapes, ranges, partition, compiling, require_full, strict)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except NotImplementedError as error:
        raise UnsupportedError(str(error)) from None
    except RuntimeError as error:
        raise Error(str(error)) from None
    finally:
        logs.pass_on()
