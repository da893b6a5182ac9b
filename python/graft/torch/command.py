# SPDX-License-Identifier: Apache-2.0
"""The command graft-torch: engines into TorchScript files.

    graft-torch net.pt grafted.pt '(1,3,224,224)@f32%contiguous'
    graft-torch net.pt grafted.pt '[(1,3,224,224);(8,3,224,224);(32,3,224,224)]@f16' -p bf16
    graft-torch net.pt --check-method-support=forward '(1,3,224,224)'
"""

import argparse
import pathlib
import re
import sys

import torch

from ..errors import Error, InvalidArgumentError
from . import script
from .inputs import Input
from .library import load_library

TYPES = {"float": torch.float32, "float32": torch.float32, "f32": torch.float32, "fp32": torch.float32,
         "half": torch.float16, "float16": torch.float16, "f16": torch.float16, "fp16": torch.float16,
         "bfloat16": torch.bfloat16, "bf16": torch.bfloat16, "double": torch.float64, "float64": torch.float64,
         "f64": torch.float64, "char": torch.int8, "int8": torch.int8, "i8": torch.int8, "int": torch.int32,
         "int32": torch.int32, "i32": torch.int32, "long": torch.int64, "int64": torch.int64, "i64": torch.int64,
         "bool": torch.bool, "b": torch.bool}
FORMATS = {"contiguous": torch.contiguous_format, "nchw": torch.contiguous_format, "chw": torch.contiguous_format,
           "channels_last": torch.channels_last, "nhwc": torch.channels_last, "hwc": torch.channels_last}
PRECISIONS = {"float": "fp32", "float32": "fp32", "f32": "fp32", "half": "fp16", "float16": "fp16", "f16": "fp16",
              "bfloat16": "bf16", "int8": "int8", "i8": "int8", "char": "int8"}
# largest difference over largest element that the check lets pass; fp32 differs by the order of sums alone
DEFAULT_RTOL = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 5e-2}
AFTER_WORK, FAULT, DIFFERS = 0, 1, 3


def shape_of(text):
    """`(1,3,224,224)` -> (1, 3, 224, 224)."""
    if not re.fullmatch(r"\(\s*(\d+\s*(,\s*\d+\s*)*,?)?\s*\)", text.strip()):
        raise InvalidArgumentError(f"'{text}' is no shape: write (N,C,H,W)")
    return tuple(int(number) for number in re.findall(r"\d+", text))


def input_of(text):
    """`(1,3,8,8)@f16%channels_last` or `[(min);(opt);(max)]@f16` -> Input."""
    sizes, _, rest = text.partition("@")
    name, _, layout = rest.partition("%")
    if not rest:
        sizes, _, layout = text.partition("%")
    if name and name not in TYPES:
        raise InvalidArgumentError(f"input '{text}': '{name}' is none of {', '.join(TYPES)}")
    if layout and layout not in FORMATS:
        raise InvalidArgumentError(f"input '{text}': '{layout}' is none of {', '.join(FORMATS)}")
    described = {"dtype": TYPES.get(name), "memory_format": FORMATS.get(layout, torch.contiguous_format)}
    sizes = sizes.strip()
    if not sizes.startswith("["):
        return Input(shape_of(sizes), **described)
    ends = sizes.strip("[]").split(";")
    if len(ends) != 3:
        raise InvalidArgumentError(f"input '{text}': a range is [(smallest);(usual);(largest)]")
    smallest, usual, largest = map(shape_of, ends)
    return Input(min_shape=smallest, opt_shape=usual, max_shape=largest, **described)


def parser():
    """Of the command line."""
    made = argparse.ArgumentParser("graft-torch", description="Puts engines into a TorchScript file.", epilog=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("input", help="a file of torch.jit.save; with --embed-engine a plan file")
    made.add_argument("output", nargs="?", help="where the result goes; not needed by checks and --dry-run")
    made.add_argument("inputs", nargs="*", help="what the method takes: (N,C,H,W) or [(min);(opt);(max)], then "
                                                "@dtype and %%format")
    made.add_argument("-p", "--enable-precision", default="fp32", help="fp32 (default), tf32, fp16, bf16, int8 with "
                                                                            "--calibration-cache-file")
    made.add_argument("--calibration-cache-file", metavar="FILE", help="the ranges of int8: a calibration file, or a "
                                                                       "cache of TensorRT")
    made.add_argument("-d", "--device", default="cpu", help="cpu (default), cuda, cuda:1")
    made.add_argument("--method", default="forward", help="the method that is compiled")
    made.add_argument("--threads", type=int, help="of an engine; default: by the machine")
    made.add_argument("--tune", help="off, quick or full, as graft compile has it")
    made.add_argument("--require-full-compilation", action="store_true", help="an operator that stays is an error")
    made.add_argument("--strict", action="store_true", help="a part that cannot be built, or inputs outside of its "
                                                            "ranges, are errors")
    made.add_argument("--teo", "--torch-executed-op", action="append", default=[], help="an operator that stays")
    made.add_argument("--tem", "--torch-executed-mod", action="append", default=[],
                      help="a part of the module that stays, by its path: layer4")
    made.add_argument("--only", action="append", default=[], help="a part outside of which everything stays")
    made.add_argument("--mbs", "--min-block-size", type=int, default=1, help="fewest operators of an engine")
    made.add_argument("--dry-run", action="store_true", help="say what would become engines, and build none")
    made.add_argument("--check-method-support", metavar="METHOD", help="say what no engine can do of a method")
    made.add_argument("--save-engine", action="store_true", help="write a plan file instead of a module")
    made.add_argument("--embed-engine", action="store_true", help="make a module of a plan file")
    made.add_argument("--custom-torch-ops", action="append", default=[], help="a library with operators of torch")
    made.add_argument("--library", help="libgraft_torch.so, where it is not beside the package")
    made.add_argument("--atol", type=float, default=1e-8, help="of the numeric check")
    made.add_argument("--rtol", type=float, help="of the numeric check, over the largest element of a result")
    made.add_argument("--no-threshold-check", action="store_true", help="do not compare with what the module gave")
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    return made


def choices_of(arguments):
    """What script.compile takes beside inputs."""
    precision = PRECISIONS.get(arguments.enable_precision, arguments.enable_precision)
    chosen = {"precision": precision, "device": arguments.device, "threads": arguments.threads, "tune": arguments.tune,
              "exclude_ops": arguments.teo, "exclude": arguments.tem, "only": arguments.only,
              "minimum_size": arguments.mbs, "calibration_file": arguments.calibration_cache_file}
    return {name: value for name, value in chosen.items() if value not in (None, [])}


def check(arguments, module, made, inputs):
    """Whether both give the same, and a line that says so."""
    precision = PRECISIONS.get(arguments.enable_precision, arguments.enable_precision)
    if precision == "int8" and arguments.rtol is None:
        return True, "not compared: random inputs leave the ranges that were calibrated (--rtol compares)"
    rtol = arguments.rtol if arguments.rtol is not None else DEFAULT_RTOL.get(precision, 1e-2)
    found = script.compare(module, made, inputs, method=arguments.method, device=arguments.device)
    if found.fault:
        return False, f"they cannot be compared: {found.fault}"
    line = f"largest difference {found.absolute:.3g}, {found.relative:.3g} of the largest element"
    agrees = found.absolute <= arguments.atol or found.relative <= rtol
    return agrees, line if agrees else f"{line}: more than --rtol {rtol:g} and --atol {arguments.atol:g} let pass"


def convert(arguments, say):
    """What the command does; its exit status."""
    for library in arguments.custom_torch_ops:
        torch.ops.load_library(library)
    path = pathlib.Path(arguments.input)
    if not path.is_file():
        raise InvalidArgumentError(f"there is no file '{path}'")
    needs_output = not (arguments.dry_run or arguments.check_method_support)
    if not needs_output and arguments.output:  # then there is none
        arguments.inputs.insert(0, arguments.output)
    if needs_output and not arguments.output:
        raise InvalidArgumentError("OUTPUT is missing: graft-torch INPUT OUTPUT '(1,3,224,224)'")
    if arguments.embed_engine:
        torch.jit.save(script.embed_plan(path.read_bytes(), arguments.device), arguments.output)
        return AFTER_WORK
    module = torch.jit.load(str(path), map_location=arguments.device).eval()
    inputs = [input_of(text) for text in arguments.inputs]
    chosen = choices_of(arguments)
    if arguments.check_method_support:
        lines = script.check_operator_support(module, inputs, method=arguments.check_method_support, **chosen)
        print("\n".join(lines) if lines else "every operator is supported")
        return FAULT if lines else AFTER_WORK
    if arguments.dry_run:
        print(script.dry_run(module, inputs, method=arguments.method, **chosen).text, end="")
        return AFTER_WORK
    if arguments.save_engine:
        pathlib.Path(arguments.output).write_bytes(script.convert_to_plan(module, inputs, method=arguments.method,
                                                                          **chosen))
        return AFTER_WORK
    made, report = script.compile_with_report(module, inputs, method=arguments.method, strict=arguments.strict,
                                              require_full=arguments.require_full_compilation, **chosen)
    say(f"{report.engines} engines, {report.fallbacks} parts that could not be built")
    if not arguments.no_threshold_check:
        agrees, line = check(arguments, module, made, inputs)
        if not agrees:
            print(f"graft-torch: {line}; nothing was written (--no-threshold-check writes it)", file=sys.stderr)
            return DIFFERS
        say(line)
    torch.jit.save(made, arguments.output)
    return AFTER_WORK


def main(words=None):
    """The command. Exit status: 0; 1 for errors; 3 where the numeric check fails, and nothing is written."""
    arguments = parser().parse_intermixed_args(words)
    try:
        load_library(arguments.library)
        return convert(arguments, print if not arguments.quiet else lambda *_: None)
    except (Error, RuntimeError, OSError) as error:
        print(f"graft-torch: {error}", file=sys.stderr)
        return FAULT


if __name__ == "__main__":
    sys.exit(main())
