# SPDX-License-Identifier: Apache-2.0
"""Graft inside PyTorch: the host, programs in C++, and the tests in torch's environment. Arguments go to pytest."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from framework import test_framework  # noqa: E402

if __name__ == "__main__":
    sys.exit(test_framework("torch", ["program", "calibrating_program"]))
