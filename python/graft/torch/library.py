# SPDX-License-Identifier: Apache-2.0
"""The library that extends torch: the class of engines, and what works on TorchScript."""

import pathlib

import torch

from ..errors import DeviceError

NAME = "libgraft_torch.so"
_loaded = []


def places():
    """Where the library can be: beside the package's own, and beside those of a build tree."""
    import graft
    package = pathlib.Path(graft.__file__).parent
    return [package / "lib" / NAME, package.parent.parent / "lib" / NAME]


def load_library(path=None):
    """Makes torch know graft's engines, for loading modules that have some. `path`: the library's file, where it is
    not beside the package. Loading it again does nothing. Raises graft.DeviceError where it is missing or was built for
    another version of torch."""
    if _loaded:
        return
    candidates = [pathlib.Path(path)] if path else places()
    found = next((each for each in candidates if each.is_file()), None)
    if found is None:
        raise DeviceError(f"{NAME} is in none of {', '.join(map(str, candidates))}: build it for this torch, "
                          f"{torch.__version__}, as docs/PYTORCH.md says")
    try:
        torch.ops.load_library(str(found))
        torch.ops.graft.check_torch_version()
    except (OSError, RuntimeError) as error:
        raise DeviceError(f"{found} does not work with this torch, {torch.__version__}: {error}") from error
    _loaded.append(found)
