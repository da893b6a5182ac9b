# SPDX-License-Identifier: Apache-2.0
"""Engines inside TorchScript modules."""

import collections
import contextlib
import json
import warnings
from collections.abc import Mapping

import torch

from .. import _graft, logs, quantizing
from ..calibrating import Int8, batches_of
from ..errors import Error, InvalidArgumentError, UnsupportedError
from .inputs import as_range, device_of, flatten, split_choices
from .library import load_library
from .ptq import Calibrator, calibrator_choices, samples_of

Report = collections.namedtuple("Report", "engines fallbacks text warnings")
Difference = collections.namedtuple("Difference", "absolute relative fault")


def compile(module, inputs, dims=None, *, require_full=False, strict=False, method="forward", **choices):
    """A ScriptModule like `module`, with engines for the parts that they can run. It is called, saved and loaded like
    any other; a program that loads it first calls `graft.torch.load_library()`, or links libgraft_torch.so.

    module        a torch.jit.ScriptModule (of torch.jit.script or torch.jit.trace) in evaluation mode; its parameters
                  become constants, as torch.jit.freeze makes them
    inputs        inputs of the method, in order: tensors (their type and sizes), shapes, or
                  graft.torch.Input(("batch", 3, 224, 224), torch.float16); tuples, lists and dicts of these where it
                  takes such
    dims          ranges of the dimensions that shapes name: {"batch": (1, 8, 64)}, minimum, optimum, maximum
    require_full  an operator that stays with torch is an error, which names each with its source line
    strict        an engine that cannot be built, and inputs outside of its ranges, are errors; otherwise its
                  part runs in torch, which is counted and logged once
    method        the method to compile; others stay unchanged
    choices       partitioning: minimum_size (operators of an engine), most_segments, exclude_ops
                  ("aten::relu"), exclude and only (parts of the module by their path: "layer4");
                  compiling: precision, tune, threads ..., as for graft.compile; device has to be that of the module;
                  precision also by types: torch.int8, {torch.float, torch.half, torch.int8}; for int8 calibration
                  (samples as for graft.quantize, or a calibrator of graft.torch.ptq), calibration_file, method,
                  max_error

    Raises a subclass of graft.Error.
    """
    return compile_with_report(module, inputs, dims, require_full=require_full, strict=strict, method=method,
                               **choices)[0]


def compile_with_report(module, inputs, dims=None, *, require_full=False, strict=False, method="forward", **choices):
    """compile, and what became of the module: (module, Report)."""
    given = choices.get("calibration")
    with named_engines(module, inputs, dims, choices, method) as engines:
        made, *report = call("compile_module", module, inputs, dims, choices, require_full, strict, method,
                             behind=(engines,))
    if isinstance(given, Calibrator):
        given.done(int8_of(choices).options)
    return wrapped(made), reported(report)


def int8_of(choices):
    """The choices of int8."""
    chosen = Int8(calibrator_choices(choices))
    if chosen.learns_by_itself:
        raise InvalidArgumentError("calibration_iters: the engines of TorchScript modules do not change: give "
                                   "calibration=..., samples")
    return chosen


@contextlib.contextmanager
def named_engines(module, inputs, dims, choices, method):
    """Names of engines that have learned on the samples of the choices; none where there are no samples."""
    chosen, names = int8_of(choices), []
    try:
        if chosen.calibration is not None:
            made, names, learns = call("learn_module", module, inputs, dims, choices, method=method)
            if learns:
                run_on(chosen.calibration, getattr(wrapped(made), method), inputs)
        yield names
    finally:
        for name in names:
            _graft.withdraw_engine(name)


def run_on(calibration, method, inputs):
    """Runs a method on samples: tensors, tuples of what it takes in order (further elements, such as labels, are left
    out), or dictionaries by its names."""
    names = [argument.name for argument in method.schema.arguments[1:]][:len(inputs)]
    for number, batch in enumerate(batches_of(samples_of(calibration))):
        where = f"batch {number} of calibration"
        if isinstance(batch, (tuple, list)) and batch and quantizing.holds_inputs(batch[0]):
            batch = batch[0]  # (inputs, labels)
        nested = len(inputs) == 1 and isinstance(inputs[0], dict)
        if isinstance(batch, Mapping) and not nested:
            if missing := [name for name in names if name not in batch]:
                raise InvalidArgumentError(f"{where} has no '{missing[0]}', which {method.name} takes")
            batch = [batch[name] for name in names]
        given = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        if len(given) < len(names):
            raise InvalidArgumentError(f"{where} has {len(given)} of {len(names)} inputs: {method.name} takes "
                                       f"{', '.join(names)}")
        try:
            given = [each if isinstance(each, (tuple, list, dict)) else torch.as_tensor(each) for each in given]
            with torch.no_grad():
                guarded(lambda: method(*given[:len(names)]))  # pylint: disable=cell-var-from-loop
        except (Error, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{where} does not fit the module: {error}") from None


def convert(module, inputs, dims=None, *, precision="fp16", method="forward", **lists):
    """A ScriptModule like `module` that computes partly in fp16 or bf16, with unchanged types of arguments and
    results (docs/AMP.md). Loading it needs only torch.

    lists         lists of operators by type, as for graft.amp.convert_model: target_dtype_ops, fp32_ops,
                  conditional_fp32_ops, widest_dtype_ops (`aten::linear`), excluded_sym_names (values of the graph), and
                  cast_optional_params=False, which casts parameters at every run

    The rest is as of compile: `module` is in evaluation mode, and its parameters become constants.
    """
    request = json.dumps({"target_dtype": precision, **lists})
    made, _casts = call("mix_module", module, inputs, dims, {}, method=method, behind=(request,))
    return wrapped(made)


def dry_run(module, inputs, dims=None, *, method="forward", **choices):
    """What compile would do, as a Report; no engine is built."""
    return reported(call("dry_run_module", module, inputs, dims, choices, method=method))


def check_operator_support(module, inputs, dims=None, *, method="forward", **choices):
    """Unsupported operators of a method: for each one a text with its name, the reason, and its source line. An
    empty list means that all are supported."""
    return call("check_module", module, inputs, dims, choices, method=method)


def lowering_steps(module, inputs, dims=None, *, method="forward"):
    """The method's graph as it is frozen and after each pass that lowers it: [(name, text)]."""
    return call("lower_module", module, inputs, dims, {}, method=method)


def convert_to_plan(module, inputs, dims=None, *, method="forward", **choices):
    """The bytes of a plan for the whole method, for graft.load without torch. Its inputs have the names
    of the method's arguments. Raises UnsupportedError naming each unsupported operator."""
    if int8_of(choices).calibration is not None:
        raise InvalidArgumentError("calibration: a plan takes the ranges of a calibration_file; graft.torch.quantize "
                                   "makes plans by samples")
    return call("convert_module", module, inputs, dims, choices, method=method).numpy().tobytes()


def embed_plan(plan, device="cpu", inputs=()):
    """A ScriptModule that runs a plan (its bytes) of any origin. It takes the plan's inputs in their order,
    or that of `inputs` (their names), and returns its output, or a tuple of its outputs."""
    load_library()
    return wrapped(guarded(lambda: torch.ops.graft.embed_plan(torch.frombuffer(bytearray(plan), dtype=torch.uint8),
                                                              str(device), list(inputs))))


def compare(first, second, inputs, dims=None, *, method="forward", device="cpu"):
    """The difference of two modules on the same random inputs of the optimum sizes: a Difference, whose fault names
    results that cannot be compared."""
    return Difference(*call("compare_modules", first, inputs, dims, {"device": device}, method=method, more=(second,)))


def get_build_info():
    """Versions of Graft and torch, and of the format of engines in modules."""
    load_library()
    return torch.ops.graft.build_info()


def reported(given):
    """A Report, whose warnings are Python's."""
    report = Report(*given)
    for each in report.warnings:
        warnings.warn(each, UserWarning, stacklevel=4)
    return report


def wrapped(made):
    """A module of the library as Python has them."""
    return torch.jit._recursive.wrap_cpp_module(made)


def on_device(choices, module, inputs):
    """The choices with the device on which the module lies, or its inputs where it has no parameters."""
    tensors = (each for each in torch.utils._pytree.tree_leaves(list(inputs)) if isinstance(each, torch.Tensor))
    lies = device_of(module) or next((each.device for each in tensors), torch.device("cpu"))
    asked = str(choices.get("device", lies))
    if asked.partition(":")[0] != lies.type and asked.partition(":")[0] in ("cpu", "cuda"):
        raise InvalidArgumentError(f"device={asked!r}, and the module lies on {lies}, where what stays with torch "
                                   f"runs: hand in module.to({asked!r})")
    return {**choices, "device": asked}


def call(name, module, inputs, dims, choices, require_full=False, strict=False, method="forward", more=(), behind=()):
    """Hands modules to the library's operator of that name."""
    load_library()
    for each in (module, *more):
        if not isinstance(each, torch.jit.ScriptModule):
            raise InvalidArgumentError(f"a {type(each).__name__} is no ScriptModule: hand in torch.jit.script(module) "
                                       "or torch.jit.trace(module, inputs), or use "
                                       "torch.compile(module, backend='graft')")
    choices = int8_of(choices).options
    if not more:
        choices = on_device(choices, module, inputs)
    tensors, keys = [], []
    structure = "".join(flatten(each, tensors, keys) for each in inputs)
    described = [(str(each.dtype).removeprefix("torch.") if each.dtype_given else "",
                  [axis(size) for size in each.shape], each.memory_format == torch.channels_last,
                  *map(float, each.tensor_domain)) for each in tensors]
    ranges = [(key, list(as_range(key, sizes))) for key, sizes in (dims or {}).items()]
    partition, compiling = split_choices(choices)
    given = [each._c for each in (module, *more)]  # torch never lets go of one that an operator took as Python has it
    return guarded(lambda: getattr(torch.ops.graft, name)(*given, method, described, structure, keys, ranges, partition,
                                                          compiling, require_full, strict, *behind))


def axis(size):
    """An axis as the library reads it: `8`, `batch`, `1:8:64`."""
    return ":".join(map(str, size)) if isinstance(size, tuple) else str(size)


def guarded(function):
    """Its result; torch's errors as graft's."""
    logs.follow_level()
    try:
        return function()
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    except NotImplementedError as error:
        raise UnsupportedError(str(error)) from None
    except (RuntimeError, torch.jit.Error) as error:
        raise Error(str(error)) from None
    finally:
        logs.pass_on()
