# SPDX-License-Identifier: Apache-2.0
"""What a model takes, as its caller describes it."""

import itertools

import torch

from .. import arguments
from ..errors import InvalidArgumentError


class Input:
    """A tensor that a model takes.

    shape          numbers, and names of dimensions whose ranges are stated beside it
    dtype          None: float32; graft.torch.script takes that of the first weights that it meets instead
    min_shape, opt_shape, max_shape
                   instead of shape: sizes that may change, independent of each other
    memory_format  torch.contiguous_format or torch.channels_last: what samples of it are like
    tensor_domain  (low, high): samples of it have elements in [low, high)
    """

    def __init__(self, shape=None, dtype=None, *, min_shape=None, opt_shape=None, max_shape=None,
                 memory_format=torch.contiguous_format, tensor_domain=(0, 2)):
        ranges = (min_shape, opt_shape, max_shape)
        if (shape is None) == any(each is None for each in ranges):
            raise InvalidArgumentError("an Input has a shape, or min_shape, opt_shape and max_shape")
        if shape is None:
            if len({len(each) for each in ranges}) != 1:
                raise InvalidArgumentError(f"min_shape, opt_shape and max_shape are {ranges}: of different lengths")
            shape = [sizes[0] if len(set(sizes)) == 1 else sizes for sizes in zip(*ranges)]
        self.shape = tuple(shape)
        self.dtype = dtype or torch.float32
        self.dtype_given = dtype is not None
        self.memory_format = memory_format
        self.tensor_domain = tuple(tensor_domain)
        for size in self.shape:
            if not isinstance(size, (int, str, tuple)) or isinstance(size, bool):
                raise InvalidArgumentError(f"shape {self.shape!r}: {size!r} is neither a number nor a dimension's name")
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise InvalidArgumentError(f"dtype {dtype!r} is no torch.dtype")
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise InvalidArgumentError(f"memory_format {memory_format!r} is neither torch.contiguous_format nor "
                                       "torch.channels_last")
        if len(self.tensor_domain) != 2 or not self.tensor_domain[0] < self.tensor_domain[1]:
            raise InvalidArgumentError(f"tensor_domain {tensor_domain!r} is no (low, high) with low below high")

    def __repr__(self):
        return f"graft.torch.Input({self.shape!r}, {self.dtype})"


def as_input(given):
    """An Input, a tensor of the same type and sizes, or a shape."""
    if isinstance(given, Input):
        return given
    if isinstance(given, torch.Tensor):
        return Input(given.shape, given.dtype)
    if isinstance(given, (list, tuple)):
        return Input(given)
    raise InvalidArgumentError(f"a {type(given).__name__} describes no input: give a tensor, a shape or a "
                               "graft.torch.Input")


def device_of(model):
    """Where a model's parameters and buffers lie: that of the first one; None where it has none."""
    return next((each.device for each in itertools.chain(model.parameters(), model.buffers())), None)


def is_shape(given):
    """Whether a list or tuple is a shape rather than several inputs."""
    return all(isinstance(each, (int, str)) for each in given)


def flatten(given, tensors, keys):
    """Appends the tensors of an input, and the keys of its dicts. Returns its structure: `*` is a tensor, `(..)` a
    tuple, `[..]` a list, `{..}` a dict."""
    if isinstance(given, dict):
        inner = ""
        for key, each in given.items():
            keys.append(key)
            inner += flatten(each, tensors, keys)
        return "{" + inner + "}"
    if isinstance(given, (list, tuple)) and not isinstance(given, torch.Size) and not is_shape(given):
        inner = "".join(flatten(each, tensors, keys) for each in given)
        return f"({inner})" if isinstance(given, tuple) else f"[{inner}]"
    tensors.append(as_input(given))
    return "*"


def as_range(name, sizes):
    """(smallest, usual, largest)."""
    if isinstance(sizes, int):
        return (sizes, sizes, sizes)
    sizes = tuple(sizes)
    if len(sizes) != 3 or not all(isinstance(each, int) for each in sizes):
        raise InvalidArgumentError(f"dims['{name}'] is {sizes!r}: give a number, or (smallest, usual, largest)")
    return sizes


PARTITION = {"minimum_size": "minimum-size", "minimum_gain": "minimum-gain", "most_segments": "most-segments",
             "exclude_ops": "exclude-op", "exclude": "exclude", "only": "only", "converters": "converters"}


PRECISIONS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8"}


def precisions_of(value):
    """The names of a precision, as name or type, or of those of a set: int8, and the narrowest of the others."""
    named = [PRECISIONS.get(each, each) for each in (value if isinstance(value, (set, frozenset)) else [value])]
    others = sorted((name for name in named if name != "int8"), key=lambda name: str(name) == "fp32")
    return (["int8"] if "int8" in named else []) + others[:1]


def split_choices(choices):
    """Choices by their Python names -> (how the model is divided, how engines are compiled), each as (key, value)."""
    arguments.of_graft(choices)
    partition, compiling = [], []
    for name, value in choices.items():
        if name == "precision":
            value = precisions_of(value)
        target, key = (partition, PARTITION[name]) if name in PARTITION else (compiling, name.replace("_", "-"))
        values = value if isinstance(value, (list, tuple)) else [value]
        target += [(key, str(each)) for each in values]
    return partition, compiling
