# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a process of its own and says how long it took and how much memory it held at most.

    python -S bench/child.py COMMAND [ARG...]     prints {"status", "seconds", "peak_bytes"} as JSON

A process starts with the peak of the one that made it, so this small program stands between a large
Python and the command. It imports nothing that is large.
"""

import json
import os
import subprocess
import sys
import time


def measure(words, environment=None):
    """Runs a command; returns its seconds and its peak resident bytes, or raises with its messages."""
    done = subprocess.run([sys.executable, "-S", "-E", os.path.abspath(__file__), *map(str, words)],
                          capture_output=True, text=True, env=environment, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    if result["status"]:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return result["seconds"], result["peak_bytes"]


def main():
    """Waits for the command, whose own output goes to standard error."""
    start = time.perf_counter()
    command = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ,
                              file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
    _, status, usage = os.wait4(command, 0)
    print(json.dumps({"status": os.waitstatus_to_exitcode(status),
                      "seconds": time.perf_counter() - start,
                      "peak_bytes": usage.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
