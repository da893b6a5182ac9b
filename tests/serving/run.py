# SPDX-License-Identifier: Apache-2.0
"""Graft in Triton's server: compiles the models of models.py, and runs the tests in the server's environment,
.deps/serving. Arguments go to pytest."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from framework import BUILD, environment_of, run_tests  # noqa: E402


def main():
    """Returns the exit status."""
    python = environment_of("serving")
    if python is None:
        return 0
    library = BUILD / "lib/triton/graft/libtriton_graft.so"
    if not library.is_file():
        print(f"SKIPPED: this build has no {library.name}")
        return 0
    # pylint: disable-next=import-outside-toplevel
    import models  # needs onnx, which is here and not in the server's environment
    models.prepare(BUILD)
    return run_tests("serving", python)


if __name__ == "__main__":
    sys.exit(main())
