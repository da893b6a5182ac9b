# SPDX-License-Identifier: Apache-2.0
"""Frameworks that parts of the package work inside, where they are not there: one sentence in place of a traceback."""

import importlib
import sys
from typing import NoReturn


def need(framework: str, package: str, part: str) -> None:
    """Raises ImportError where a framework cannot be imported, naming the interpreter and the remedy; for
    `python -m PART`, which would show where in Python that happened, it ends the process with that sentence."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        message = (f"{part} works inside {framework}, which {sys.executable} does not have ({error}): "
                   f"pip install {package} beside graft, or use the interpreter that has it")
        if sys.argv[:1] == ["-m"]:  # Python looks for the module that it was asked to run
            sys.exit(message)
        raise ImportError(message, name=package) from error


def torch_command() -> NoReturn:
    """The console script graft-torch."""
    try:
        command = importlib.import_module(".torch.command", __package__)
    except ImportError as error:
        sys.exit(f"graft-torch: {error}")
    sys.exit(command.main())
