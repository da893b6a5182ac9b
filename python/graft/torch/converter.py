# SPDX-License-Identifier: Apache-2.0
"""Converters of one's own for operators of torch."""

import torch

from .. import converters
from ..errors import InvalidArgumentError


def converter(signature, *, priority=0):
    """Makes the decorated function convert an operator of torch in all later compilations: TorchScript, torch.compile,
    torch.export and .pt2 files alike. It is graft.converter (see there for arguments and results), and also takes
    a name alone, if torch knows the operator: "my::op", "aten::add.Tensor".
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
