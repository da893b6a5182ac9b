# SPDX-License-Identifier: Apache-2.0
"""Engines on Ray: compiles the models of tests/serving, and runs the tests in Ray's environment, .deps/ray. Arguments
go to pytest."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "serving")]
from framework import BUILD, environment_of, run_tests  # noqa: E402


def main():
    """Returns the exit status."""
    python = environment_of("ray")
    if python is None:
        return 0
    # pylint: disable-next=import-outside-toplevel
    import models  # needs onnx, which is here and not in Ray's environment
    models.prepare(BUILD)
    return run_tests("ray", python)


if __name__ == "__main__":
    sys.exit(main())
