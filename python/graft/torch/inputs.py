# SPDX-License-Identifier: Apache-2.0
"""What a model takes, as its caller describes it."""

import torch

from ..errors import InvalidArgumentError


class Input:
    """A tensor that a model takes. `shape`: numbers, and names of dimensions whose ranges are stated beside it."""

    def __init__(self, shape, dtype=torch.float32):
        self.shape = tuple(shape)
        self.dtype = dtype
        for size in self.shape:
            if not isinstance(size, (int, str)) or isinstance(size, bool):
                raise InvalidArgumentError(f"shape {self.shape!r}: {size!r} is neither a number nor a dimension's name")
        if not isinstance(dtype, torch.dtype):
            raise InvalidArgumentError(f"dtype {dtype!r} is no torch.dtype")

    def __repr__(self):
        return f"graft.torch.Input({self.shape!r}, {self.dtype})"


def as_input(given):
    """An Input, a tensor of the same type and sizes, or a shape of float32."""
    if isinstance(given, Input):
        return given
    if isinstance(given, torch.Tensor):
        return Input(given.shape, given.dtype)
    if isinstance(given, (list, tuple)):
        return Input(given)
    raise InvalidArgumentError(f"a {type(given).__name__} describes no input: give a tensor, a shape or a "
                               "graft.torch.Input")


def as_range(name, sizes):
    """(smallest, usual, largest)."""
    if isinstance(sizes, int):
        return (sizes, sizes, sizes)
    sizes = tuple(sizes)
    if len(sizes) != 3 or not all(isinstance(each, int) for each in sizes):
        raise InvalidArgumentError(f"dims['{name}'] is {sizes!r}: give a number, or (smallest, usual, largest)")
    return sizes


PARTITION = {"minimum_size": "minimum-size", "minimum_gain": "minimum-gain", "most_segments": "most-segments",
             "exclude_ops": "exclude-op", "exclude": "exclude", "only": "only"}


def split_choices(choices):
    """Choices by their Python names -> (how the model is divided, how engines are compiled), each as (key, value)."""
    partition, compiling = [], []
    for name, value in choices.items():
        target, key = (partition, PARTITION[name]) if name in PARTITION else (compiling, name.replace("_", "-"))
        values = value if isinstance(value, (list, tuple)) else [value]
        target += [(key, str(each)) for each in values]
    return partition, compiling
