# SPDX-License-Identifier: Apache-2.0
"""`python -m graft.tensorflow`: SavedModels with engines, as `saved_model_cli convert ... tensorrt` made them.

    python -m graft.tensorflow convert --dir resnet --output_dir resnet_graft --precision_mode FP16
    python -m graft.tensorflow convert --dir resnet --output_dir resnet_graft --build image:8x224x224x3
    python -m graft.tensorflow show --dir resnet
"""

import argparse
import sys

import numpy as np
import tensorflow

from ..errors import Error, InvalidArgumentError
from . import Converter
from .converter import DEFAULT_SIGNATURE
from .profiles import STRATEGIES


def parser():
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m graft.tensorflow", description=__doc__.splitlines()[0])
    commands = made.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="what would become engines, and why the rest would not")
    convert = commands.add_parser("convert", help="writes a SavedModel with engines")
    for each in (show, convert):
        each.add_argument("--dir", required=True, help="the folder of a SavedModel")
        each.add_argument("--tag_set", default="serve", metavar="TAG[,TAG]", help="its graph (serve)")
        each.add_argument("--signature_def", default=DEFAULT_SIGNATURE, help=f"what is converted ({DEFAULT_SIGNATURE})")
        each.add_argument("--minimum_segment_size", type=int, default=3, help="fewest operators of an engine (3)")
    convert.add_argument("--output_dir", required=True, help="where the new SavedModel goes")
    convert.add_argument("--precision_mode", default="FP32", help="FP32, FP16, or INT8 with "
                         "--calibration_file or for a model with FakeQuant nodes (FP32)")
    convert.add_argument("--calibration_file", help="the ranges of INT8, which Converter.convert() has written")
    convert.add_argument("--max_workspace_size_bytes", type=int, default=1 << 30, help="accepted, without a meaning")
    convert.add_argument("--convert_tf1_model", help="accepted, without a meaning: both kinds are read")
    convert.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 (cpu)")
    convert.add_argument("--tune", default="fast", choices=["off", "fast", "full"], help="how long is measured (fast)")
    convert.add_argument("--build", action="append", default=[], metavar="NAME:1x224x224x3[,NAME:...]",
                         help="engines for these shapes of the signature's inputs, too; several times")
    convert.add_argument("--profile_strategy", default=STRATEGIES[0], metavar="STRATEGY",
                         help=f"what engines --build makes: {', '.join(STRATEGIES)} ({STRATEGIES[0]})")
    return made


def example_of(text, signature):
    """Zeros of the shapes that `image:8x224x224x3` names, by the signature's inputs."""
    example = {}
    for part in text.split(","):
        name, _, sizes = part.partition(":")
        if name not in signature:
            raise InvalidArgumentError(f"--build {text}: the signature takes {', '.join(sorted(signature))}")
        try:
            shape = [int(size) for size in sizes.split("x") if size]
        except ValueError as error:
            raise InvalidArgumentError(f"--build {text}: '{sizes}' is no shape: give 8x224x224x3") from error
        example[name] = np.zeros(shape, signature[name].dtype.as_numpy_dtype)
    return example


def main(words=None):
    """Runs a command; an error is a line on standard error and the status 1."""
    chosen = parser().parse_args(words)
    given = {"input_saved_model_dir": chosen.dir, "input_saved_model_tags": chosen.tag_set.split(","),
             "input_saved_model_signature_key": chosen.signature_def,
             "minimum_segment_size": chosen.minimum_segment_size}
    try:
        if chosen.command == "show":
            converter = Converter(**given, tune="off")
            converter.convert()
            print(converter.report, end="")
            return 0
        converter = Converter(**given, precision_mode=chosen.precision_mode, device=chosen.device, tune=chosen.tune,
                              max_workspace_size_bytes=chosen.max_workspace_size_bytes,
                              calibration_file=chosen.calibration_file,
                              dynamic_shape_profile_strategy=chosen.profile_strategy)
        signature = converter.convert().structured_input_signature[1]
        if chosen.build:
            converter.build(lambda: [example_of(text, signature) for text in chosen.build])
        converter.save(chosen.output_dir)
        converter.summary(detailed=False)
    except (Error, OSError, tensorflow.errors.OpError) as error:
        print(f"graft: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
