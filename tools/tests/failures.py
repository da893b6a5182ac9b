# SPDX-License-Identifier: Apache-2.0
"""Prints what tests that failed said last, and then ctest's own summary once more: behind thousands of lines of a run
both are found at its end.

    python3 tools/tests/failures.py BUILD_FOLDER [LINES]
"""

import pathlib
import re
import sys

LONGEST = 240  # of a line


def failed(logs):
    """Numbers and names of the tests that failed, as ctest keeps them for --rerun-failed."""
    path = logs / "LastTestsFailed.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(line.split(":", 1)) for line in lines if ":" in line]


def outputs(text):
    """{name: what the test printed}."""
    pattern = r"^\d+/\d+ Testing: (.*?)$.*?^Output:\n-+\n(.*?)^<end of output>$"
    return {name: output for name, output in re.findall(pattern, text, re.MULTILINE | re.DOTALL)}


def summary(folder, lines):
    """What to print, as a list of lines."""
    logs = pathlib.Path(folder) / "Testing" / "Temporary"
    printed = outputs((logs / "LastTest.log").read_text(errors="replace"))
    named = failed(logs)
    told = []
    for _, name in named:
        last = [line[:LONGEST] for line in printed.get(name, "it printed nothing").splitlines() if line.strip()]
        told += ["", f"{name} said last:", *(f"    {line}" for line in last[-lines:])]
    return [*told, "", "The following tests FAILED:", *(f"\t{number} - {name} (Failed)" for number, name in named)]


if __name__ == "__main__":
    print("\n".join(summary(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20)))
