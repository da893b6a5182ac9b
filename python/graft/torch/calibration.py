# SPDX-License-Identifier: Apache-2.0
"""int8 engines of graphs: torch runs a graph on samples, and the engines that learn get what crosses their borders."""

import sys
import typing

import torch

from .. import quantizing
from ..calibrating import batches_of, finished, is_learning, report_of
from ..errors import Error, InvalidArgumentError, UnsupportedError
from ..logs import LOGGER
from .agreement import Borders, disagreement, strict_fp32
from .ptq import samples_of
from .run_plan import call_engine


class Inputs(typing.NamedTuple):
    """What of a graph's arguments samples stand for, by their places. `names`: of these arguments. `taken`: names of
    what a model takes by position, of which samples that are tuples have the first ones. `reason`: why samples of the
    model are none of this graph; empty where they are."""

    names: dict
    taken: list
    reason: str = ""


NO_INPUTS = Inputs({}, [], "nothing is known of what it takes")


def inputs_of_frame(sources):
    """Inputs of a graph that torch.compile traces. `sources`: {place: what torch calls the argument}."""
    code = traced_code()
    if code is None:
        return Inputs({}, [], "this version of torch does not tell which function it traces")
    if "resume_in" in code.co_name:
        return Inputs({}, [], "the graph continues a model that torch has traced in parts (its graph broke)")
    names = {place: source.removeprefix("L['").removesuffix("']") for place, source in sources.items()}
    return Inputs(names, list(code.co_varnames[:code.co_argcount]))


def traced_code():
    """The code that torch traces in this thread, as its compiler has it."""
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_locals.get("code") if frame.f_code.co_name == "_compile" else None
        if hasattr(code, "co_varnames"):
            return code
        frame = frame.f_back
    return None


def given_by(batch, inputs, number):
    """{place: tensor} of a batch: a tensor, a tuple of tensors in the model's order (further ones, such as labels, are
    left out), or a dictionary by the model's names."""
    where = f"batch {number} of calibration"
    if isinstance(batch, (tuple, list)) and batch and quantizing.holds_inputs(batch[0]):
        batch = batch[0]  # (inputs, labels)
    if not isinstance(batch, typing.Mapping):
        listed = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        order = [name for name in inputs.taken if name in inputs.names.values()] or list(inputs.names.values())
        if len(listed) < len(inputs.names):
            raise InvalidArgumentError(f"{where} has {len(listed)} of {len(inputs.names)} inputs: the graph takes "
                                       f"{', '.join(inputs.names.values())}")
        batch = dict(zip(order, listed))
    missing = [name for name in inputs.names.values() if name not in batch]
    if missing:
        raise InvalidArgumentError(f"{where} has no '{missing[0]}', which the graph takes; it has "
                                   f"{', '.join(map(str, batch))}")
    return {place: tensor_of(batch[name], f"'{name}' of {where}") for place, name in inputs.names.items()}


def tensor_of(given, where):
    """A tensor without gradients."""
    try:
        return torch.as_tensor(given).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(f"{where} is no tensor: {error}") from None


def check_fits(tensor, like, where):
    """Refuses what a graph does not take; `like`: its argument as torch traced it."""
    if tensor.dtype != like.dtype:
        raise InvalidArgumentError(f"{where} is of {tensor.dtype}, and the graph takes {like.dtype}")
    sizes = [size if isinstance(size, int) else -1 for size in like.shape]
    if len(sizes) != tensor.dim() or any(-1 != size != given for size, given in zip(sizes, tensor.shape)):
        raise InvalidArgumentError(f"{where} has the shape {list(tensor.shape)}, and the graph takes "
                                   f"{[str(size) for size in like.shape]}")


PIECE = 8  # samples, where any number within bounds does


def fixed_batch(host, likes):
    """The samples that a graph gets at a time; None where it takes any number, or the inputs have none in common. torch
    may have bounded a batch, by what it has found in the model."""
    if not likes or any(like.dim() == 0 for like in likes.values()):
        return None
    sizes = [like.shape[0] for like in likes.values()]
    if len({str(size) for size in sizes}) > 1:
        return None
    if isinstance(sizes[0], int):
        return sizes[0] if sizes[0] > 0 else None
    low, high = host.bounds_of(sizes[0])
    return None if low <= 2 and high == 0 else min(max(low, PIECE), high or max(low, PIECE))


def in_batches_of(size, batches):
    """Samples divided anew into batches of one size; those at the end that fill none are left out."""
    kept, seen = {}, 0
    for batch in batches:
        seen += min(len(tensor) for tensor in batch.values())
        if kept:
            batch = {place: torch.cat([kept[place], tensor]) for place, tensor in batch.items()}
        count = min(len(tensor) for tensor in batch.values())
        whole = count - count % size
        for first in range(0, whole, size):
            yield {place: tensor[first:first + size] for place, tensor in batch.items()}
        kept = {place: tensor[whole:] for place, tensor in batch.items()} if count > whole else {}
    if 0 < seen < size:
        raise InvalidArgumentError(f"calibration has {seen} samples, and the graph takes {size} at a time: give more, "
                                   "or begin with a smaller batch")


def checked(batches, likes, inputs, size):
    """Batches that fit the graph, in their first axis too unless samples are divided anew."""
    for number, batch in enumerate(batches):
        given = given_by(batch, inputs, number)
        for place, tensor in given.items():
            name, like = inputs.names[place], likes[place]
            if tensor.dim() + 1 == like.dim():
                given[place] = tensor = tensor[None]  # one sample
            shown = tensor
            if size is not None and tensor.dim() and tensor.dim() == like.dim():
                shown = tensor.new_empty((size, *tensor.shape[1:]), device="meta")
            check_fits(shown, like, f"'{name}' of batch {number} of calibration")
        yield {place: tensor.to(likes[place].device) for place, tensor in given.items()}


def sizes_bound(placeholders, arguments, given):
    """The arguments of a graph for samples: symbolic sizes among them follow from the tensors."""
    bound, values = {}, list(arguments)
    for place, tensor in given.items():
        values[place] = tensor
        for size, found in zip(placeholders[place].meta["val"].shape, tensor.shape):
            if isinstance(size, torch.SymInt):
                bound[str(size.node.expr)] = found
    for place, node in enumerate(placeholders):
        like = node.meta.get("val")
        if isinstance(like, torch.SymInt) and str(like.node.expr) in bound:
            values[place] = bound[str(like.node.expr)]
    return values


def calibrate(parts, host, graph_module, arguments, choices, inputs):
    """The parts with engines of int8, after torch has run the graph on the samples of the choices; without the engines
    that do not compute what torch does, which are compared on the first batch."""
    learning = [part for part in parts if is_learning(part.engine)]
    if not learning or choices.int8.learns_by_itself:
        return parts
    if inputs.reason:
        raise UnsupportedError(f"calibration: {inputs.reason}, so that samples of the model are not its inputs: give "
                               "calibration_iters=16 instead, runs that calibrate, or trace the model as a whole "
                               "(fullgraph=True, graft.torch.compile)")
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    likes = {place: placeholders[place].meta["val"] for place in inputs.names}
    size = fixed_batch(host, likes)
    batches = checked(batches_of(samples_of(choices.int8.calibration)), likes, inputs, size)
    wrong = {}
    for number, given in enumerate(batches if size is None else in_batches_of(size, batches)):
        try:
            run = borders(graph_module, host, learning, sizes_bound(placeholders, arguments, given))
            results = [call_engine(part.engine, [run.of(index) for index in part.segment[1]]) for part in learning]
        except (Error, RuntimeError) as error:
            raise InvalidArgumentError(f"batch {number} of calibration does not fit the graph: {error}") from None
        if number == 0 and choices.check:
            wrong = {part.number: disagreement(host, part.segment, result, run.of, run, [])
                     for part, result in zip(learning, results) if not takes_nan(part, run)}
    return [changed_over(part) for part in parts if not choices.refuses(f"segment {part.number}",
                                                                        wrong.get(part.number))]


def borders(graph_module, host, parts, arguments):
    """A run of the graph in torch that keeps what crosses the borders of parts."""
    nodes = {host.source_node(index)[0] for part in parts for index in [*part.segment[1], *part.segment[2]]}
    run = Borders(graph_module, nodes)

    def of(index):
        node, item = host.source_node(index)
        return run.kept[node] if item is None else run.kept[node][item]

    run.of = of
    with torch.no_grad(), strict_fp32():
        run.run(*arguments)
    return run


def takes_nan(part, run):
    """Whether an input of the part has elements that are NaN: such samples are refused by name when it changes over,
    and ReLU of a library's convolution may make zero of them."""
    return any(run.of(index).isnan().any() for index in part.segment[1])


def changed_over(part):
    """A part with its engine of int8."""
    if not is_learning(part.engine):
        return part
    try:
        part = part._replace(engine=finished(part.engine))
    except Error as error:
        raise type(error)(f"segment {part.number}: {error}") from None
    LOGGER.info("segment %d is of int8:\n%s", part.number, report_of(part.engine))
    return part


def leaves_of(program):
    """Inputs of an exported program: its user's inputs, flattened."""
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    return Inputs(dict(enumerate(names)), names)

