# SPDX-License-Identifier: Apache-2.0
"""Engines for the parts of a graph: built, compared with torch, counted where they are not."""

import collections

import torch

from .. import _graft, logs
from ..calibrating import Int8
from ..engine import Engine
from ..errors import InvalidArgumentError
from .agreement import disagreements
from .calibration import NO_INPUTS, calibrate
from .inputs import split_choices
from .layouts import state_layouts
from .report import described
from .ptq import Calibrator, calibrator_choices
from .run_plan import call_engine

Part = collections.namedtuple("Part", "number segment engine")


class Choices:
    """The options, split by who reads them."""

    def __init__(self, options, reports=None):
        options = dict(options or {})
        self.strict = flag(options, "strict", False)
        self.check = flag(options, "check", True)
        self.int8 = Int8(calibrator_choices(options))
        self.partition, self.compiling = split_choices(self.int8.options)
        # Before anything is decided: what runs in torch after all would never ask for them. What names nodes waits for
        # the graph that has them.
        _graft.check_options(self.compiling)
        of_nodes = ("exclude-op", "exclude", "only")
        _graft.HostGraph("aten").partition([choice for choice in self.partition if choice[0] not in of_nodes])
        self.reports = reports  # a list: (data, text) of each graph go there, and nothing is built

    def refuses(self, what, reason):
        """Whether an engine is left out for a reason; counted, and in strict mode an error."""
        if reason:
            fall_back(what, reason, self)
        return bool(reason)

    def for_device_of(self, tensors):
        """The choices for compiling, with the GPU where a tensor lies unless a device was chosen."""
        if "device" in dict(self.compiling):
            return self.compiling
        on_gpu = next((each.device for each in tensors if isinstance(each, torch.Tensor) and each.is_cuda), "cpu")
        return [*self.compiling, ("device", str(on_gpu))]


def flag(options, name, default):
    """Takes a truth value out of the options."""
    value = options.pop(name, default)
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} is {value!r}: give True or False")
    return value


def fall_back(what, reason, choices):
    """Counts what runs in torch; in strict mode an error."""
    if choices.strict:
        raise InvalidArgumentError(f"{what}: {reason}")
    _graft.count_fallback(what, reason)
    logs.pass_on()


def divided(read, choices):
    """(a graph as `read` reads it, its partition): segments give what crosses their borders as it lies in torch."""
    host = read()
    partition = host.handle.partition(choices.partition)
    if state_layouts(host, partition):
        host = read()
        partition = host.handle.partition(choices.partition)
    return host, partition


def engines_for(host, partition, choices, graph_module, arguments, inputs=NO_INPUTS):
    """A Part for each segment of the graph that has become an engine. `arguments`: of a call of the graph, by which
    engines are compared with torch. `inputs`: which of them samples stand for, where engines are calibrated."""
    if choices.reports is not None:
        choices.reports.append((described(host, partition), partition.report()))
        return []
    parts = []
    logs.follow_level()
    for number, segment in enumerate(partition.segments()):
        own = host.tensors_of(segment)
        compiling = choices.for_device_of([*own, *arguments])
        devices = {each.device for each in own if each.is_cuda}
        if len(devices) > 1:
            fall_back(f"segment {number}", f"it reaches over {' and '.join(sorted(map(str, devices)))}", choices)
            continue
        try:
            engine = Engine(partition.compile(number, compiling))
        except InvalidArgumentError:
            raise
        except Exception as error:  # of whatever kind: it costs the segment, never the model
            if choices.strict or choices.int8.asked:
                raise
            fall_back(f"segment {number}", str(error), choices)
            continue
        finally:
            logs.pass_on()
        parts.append(Part(number, segment, engine))
    if choices.int8.asked:
        parts = calibrate(parts, host, graph_module, arguments, choices, inputs)
        if isinstance(choices.int8.calibration, Calibrator):
            choices.int8.calibration.done(choices.int8.options)
        return parts
    return agreeing(host, parts, choices, graph_module, arguments) if choices.check else parts


def agreeing(host, parts, choices, graph_module, arguments):
    """Those whose engines compute what torch does."""
    def call_of(engine):
        return lambda tensors: call_engine(engine, tensors)

    compared = [((part.number, part.segment), call_of(part.engine)) for part in parts]
    wrong = disagreements(graph_module, host, compared, arguments, choices.compiling)
    for number, reason in wrong.items():
        fall_back(f"segment {number}", reason, choices)
    return [part for part in parts if part.number not in wrong]
