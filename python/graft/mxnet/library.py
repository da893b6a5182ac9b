# SPDX-License-Identifier: Apache-2.0
"""The library that extends MXNet: the backend, and the operator that runs an engine."""

import ctypes
import functools
import pathlib

import mxnet

from ..errors import DeviceError

NAME = "libgraft_mxnet.so"
VERSIONS = "1.9"


def places():
    """Where the library can be: beside the package's own, and beside those of a build tree."""
    import graft
    package = pathlib.Path(graft.__file__).parent
    return [package / "lib" / NAME, package.parent.parent / "lib" / NAME]


@functools.cache
def load():
    """Makes MXNet know the backend; the library's functions."""
    here = f"MXNet {mxnet.__version__} in {pathlib.Path(mxnet.__file__).parent}"
    if not mxnet.__version__.startswith(VERSIONS + "."):
        raise DeviceError(f"engines run in MXNet {VERSIONS}, and this is {here}: install mxnet=={VERSIONS}.1")
    found = next((each for each in places() if each.is_file()), None)
    if found is None:
        raise DeviceError(f"{NAME} is in none of {', '.join(map(str, places()))}: build it for {here}, and put it "
                          "there, as docs/MXNET.md says")
    try:
        mxnet.library.load(str(found), verbose=False)
        return ctypes.CDLL(str(found))
    except (OSError, mxnet.MXNetError) as error:
        raise DeviceError(f"{found} does not work with {here}: {error}") from error


def text(function):
    """What a function of the library returns."""
    function.restype = ctypes.c_char_p
    return function().decode()
