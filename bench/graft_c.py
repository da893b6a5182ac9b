# SPDX-License-Identifier: Apache-2.0
"""The layout of include/graft/graft_c.h, for all of our Python that calls the C interface through ctypes: what changes
there changes here."""

import ctypes

CUDA = 2  # GRAFT_CUDA


class Error(ctypes.Structure):
    """graft_error: filled in by a call that fails."""

    _fields_ = [("status", ctypes.c_int32), ("message", ctypes.c_char * 2044)]

    @property
    def text(self):
        """The message, or the status where there is none."""
        return self.message.decode(errors="replace") or f"status {self.status}"


class Option(ctypes.Structure):
    """graft_option"""

    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Tensor(ctypes.Structure):
    """graft_tensor: borrowed memory with sizes and strides, the strides in elements."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64), ("device", ctypes.c_int32), ("value", ctypes.c_void_p)]


class Text(ctypes.Structure):
    """graft_text: an element of a tensor of strings."""

    _fields_ = [("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


def tensors_of(count):
    """An array of tensors, to be filled in."""
    return (Tensor * count)(*[Tensor(struct_size=ctypes.sizeof(Tensor)) for _ in range(count)])
