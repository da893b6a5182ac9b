# SPDX-License-Identifier: Apache-2.0
"""The library that extends TensorFlow: the operator GraftEngine."""

import ctypes
import mmap
import re

import tensorflow

from .. import hosts
from ..errors import DeviceError, UnsupportedError

BUILT_FOR = re.compile(rb"graft_tensorflow built for TensorFlow ([0-9A-Za-z.+-]+)\0")
_loaded = []


def version_of(path):
    """The version of TensorFlow that a library was built for: asked before it is loaded, as another one lacks symbols
    that it needs."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as contents:
        found = BUILT_FOR.search(contents)
        return found[1].decode() if found else "none that it names"


def load_library(path=None):
    """Makes TensorFlow know engines. `path`: the library's file, where it is not beside the package. Loading it again
    does nothing. Raises graft.DeviceError where it is missing or was built for another version of TensorFlow."""
    if _loaded:
        return
    found = hosts.find("tensorflow", path)
    here = tensorflow.__version__
    if found is None:
        raise DeviceError(hosts.missing("tensorflow", here, path))
    try:
        version = version_of(found)
        if version != here:
            raise DeviceError(f"{found} was built for TensorFlow {version} and this is {here}: `graft-host "
                              "tensorflow` builds it for this version")
        tensorflow.load_op_library(str(found))
    except (OSError, ValueError, tensorflow.errors.OpError) as error:
        raise DeviceError(f"{found} does not work with this TensorFlow, {here}: {error}") from error
    _loaded.append(found)
    tensorflow.RegisterGradient("GraftEngine")(_refuse_gradient)


def _refuse_gradient(operation, *_):
    """Engines are for inference."""
    raise UnsupportedError(f"{operation.name}: a gradient was asked of an engine, and engines are for inference: train "
                           "the model as it was before it was converted, or keep the engine outside of the tape "
                           "(tf.stop_gradient, tape.stop_recording)")


def retry_failed_engines():
    """From now on plans that could not be loaded, and engines that could not be built, whose operators TensorFlow runs
    instead, are tried again, once."""
    load_library()
    ctypes.CDLL(str(_loaded[0])).graft_tensorflow_retry_failed_engines()


def build_count():
    """How many engines this process has built at run time, for shapes that came (is_dynamic_op=True)."""
    load_library()
    count = ctypes.CDLL(str(_loaded[0])).graft_tensorflow_build_count
    count.restype = ctypes.c_uint64
    return count()
