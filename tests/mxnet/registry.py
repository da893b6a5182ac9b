# SPDX-License-Identifier: Apache-2.0
"""MXNet's own table of operators, as tools/docs has it: `python tests/mxnet/registry.py` in MXNet's environment
writes tools/docs/mxnet_operators.txt."""

import ctypes
import pathlib

from mxnet.base import _LIB, check_call, py_str

LISTED = pathlib.Path(__file__).resolve().parents[2] / "tools" / "docs" / "mxnet_operators.txt"
HEAD = """# The operators of MXNet 1.9.1, but for those of backward passes: tests/mxnet/registry.py writes this from its
# registry, and `./dev docs` makes docs/mxnet_operators.md of it. `name` or `other name = name`.
"""


def real_name(name):
    """What symbols call an operator that has several names."""
    handle, strings = ctypes.c_void_p(), [ctypes.c_char_p() for _ in range(4)]
    arrays = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    count = ctypes.c_uint()
    check_call(_LIB.NNGetOpHandle(ctypes.c_char_p(name.encode()), ctypes.byref(handle)))
    check_call(_LIB.NNGetOpInfo(handle, ctypes.byref(strings[0]), ctypes.byref(strings[1]), ctypes.byref(count),
                                *(ctypes.byref(each) for each in arrays), ctypes.byref(strings[2])))
    return py_str(strings[0].value)


def text():
    """The file's."""
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    lines = []
    for name in sorted(py_str(names[i]) for i in range(count.value)):
        if "backward" in name or name.startswith("_graft"):
            continue
        real = real_name(name)
        lines.append(name if real == name else f"{name} = {real}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    LISTED.write_text(text())
