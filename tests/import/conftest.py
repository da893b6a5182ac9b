# SPDX-License-Identifier: Apache-2.0
"""The tests speak to libgraft.so as `./dev conformance` does."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
