# SPDX-License-Identifier: Apache-2.0
"""The command `graft`, from inside of the package."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the command."""
    program = pathlib.Path(__file__).parent / "bin" / "graft"
    if not program.exists():
        sys.exit(f"graft: {program} is missing: this package was installed without the command")
    os.execv(program, ["graft", *sys.argv[1:]])


if __name__ == "__main__":
    main()
