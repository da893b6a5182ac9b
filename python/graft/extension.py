# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module. A process can hold another protobuf: TensorFlow shows its own to everybody who is loaded
later, and calls of Graft's libraries into theirs would end there. Where one is seen, Graft's libraries look among
themselves first; loaded before it, they are bound already."""

import ctypes
import os
import sys

PROTOBUF = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"

_flags = sys.getdlopenflags()
try:
    sys.setdlopenflags(os.RTLD_NOW | (os.RTLD_DEEPBIND if hasattr(ctypes.CDLL(None), PROTOBUF) else 0))
    from . import _graft  # noqa: F401
finally:
    sys.setdlopenflags(_flags)
