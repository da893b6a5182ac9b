# SPDX-License-Identifier: Apache-2.0
"""The library that extends MXNet: the backend, and the operator that runs an engine."""

import ctypes
import functools
import pathlib

import mxnet

from .. import hosts
from ..errors import DeviceError

VERSIONS = "1.9"


@functools.cache
def load():
    """Makes MXNet know the backend; the library's functions."""
    here = f"MXNet {mxnet.__version__} in {pathlib.Path(mxnet.__file__).parent}"
    if not mxnet.__version__.startswith(VERSIONS + "."):
        raise DeviceError(f"engines run in MXNet {VERSIONS}, and this is {here}: install mxnet=={VERSIONS}.1")
    found = hosts.find("mxnet")
    if found is None:
        raise DeviceError(hosts.missing("mxnet", mxnet.__version__))
    try:
        mxnet.library.load(str(found), verbose=False)
        return ctypes.CDLL(str(found))
    except (OSError, mxnet.MXNetError) as error:
        raise DeviceError(f"{found} does not work with {here}: {error}") from error


def text(function):
    """What a function of the library returns."""
    function.restype = ctypes.c_char_p
    return function().decode()
