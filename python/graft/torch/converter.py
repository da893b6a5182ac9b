# SPDX-License-Identifier: Apache-2.0
"""Converters of one's own for operators of torch."""

import torch

from .. import converters
from ..errors import InvalidArgumentError


def converter(signature, *, priority=0):
    """Makes the decorated function convert an operator of torch from now on: in TorchScript, torch.compile,
    torch.export and .pt2 files alike. It is graft.converter (which says what the function gets and returns), and takes
    a name alone, too, where torch knows the operator: "my::op", "aten::add.Tensor".
    """
    return converters.converter(signature if "(" in signature else schema_of(signature), priority=priority)


def schema_of(name):
    """torch's own signature of an operator."""
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        return str(getattr(getattr(getattr(torch.ops, space), packet), overload or "default")._schema)
    except AttributeError:
        raise InvalidArgumentError(f"torch has no operator {name}: define it before, or give the whole signature, "
                                   f"'{name}(Tensor self) -> Tensor'") from None
