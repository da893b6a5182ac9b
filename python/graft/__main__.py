# SPDX-License-Identifier: Apache-2.0
"""The command `graft`, from inside of the package."""

import contextlib
import os
import pathlib
import subprocess
import sys


def main() -> None:
    """Becomes the command. Files of Keras are exported first, and the copies go when the command has ended."""
    program = pathlib.Path(__file__).parent / "bin" / "graft"
    if not program.exists():
        sys.exit(f"graft: {program} is missing: this package was installed without the command")
    words = sys.argv[1:]
    if not any(word.endswith(".keras") for word in words):
        os.execv(program, ["graft", *words])
    from .errors import Error
    from .keras_file import exported, is_keras
    with contextlib.ExitStack() as folders:
        try:
            words = [folders.enter_context(exported(word)) if is_keras(word) else word for word in words]
        except Error as error:
            sys.exit(f"graft: {error}")
        status = subprocess.run([program, *words], check=False).returncode
    sys.exit(status)


if __name__ == "__main__":
    main()
