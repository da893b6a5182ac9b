# SPDX-License-Identifier: Apache-2.0
"""Commands that a test runs."""

import subprocess
import sys


def run(*command, **options):
    """Runs a command and returns what it prints; its failure is the test's."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-8000:]}{done.stderr[-8000:]}")
    return done.stdout
