# SPDX-License-Identifier: Apache-2.0
"""The library that extends torch: the class of engines, and what works on TorchScript."""

import torch

from .. import hosts
from ..errors import DeviceError

_loaded = []


def load_library(path=None):
    """Makes torch know graft's engines, for loading modules that have some. `path`: the library's file, where it is
    not beside the package. Loading it again does nothing. Raises graft.DeviceError where it is missing or was built for
    another version of torch."""
    if _loaded:
        return
    found = hosts.find("torch", path, torch.__version__)
    if found is None:
        raise DeviceError(hosts.missing("torch", torch.__version__, path))
    try:
        torch.ops.load_library(str(found))
        torch.ops.graft.check_torch_version()
    except (OSError, RuntimeError) as error:
        raise DeviceError(f"{found} does not work with this torch, {torch.__version__}: {error}") from error
    _loaded.append(found)
