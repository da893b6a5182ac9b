# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the instrumented copy: once without a fault, to see that all pass and which tests
reach which fault, and then for each fault those that reach it, the quickest first."""

import concurrent.futures
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from tree import KINDS

SHARDS = {"ops": 8, "gpu": 4}
FILTERS = {"gpu": "*GeneratedSample*"}
MEMORY = 8 << 30
CHUNK_SECONDS = (2, 20, float("inf"))  # a fault is first tried with seconds of tests, then with all


@dataclass
class Outcome:
    """What the tests said to one fault."""

    fault: object
    caught: bool
    how: str
    seconds: float


def limit_resources(cpu_seconds):
    """Runs in the child, before the test. A hang is told by the processor's time: a busy machine is none."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


class Suite:
    """The test binaries of a build."""

    def __init__(self, tree):
        self.tree = tree
        self.tests = {}  # kind -> [(name, seconds, reached faults)]

    def _environment(self, kind, folder, **more):
        cache = os.path.join(folder, "cache")
        os.makedirs(cache, mode=0o700, exist_ok=True)
        return {**os.environ, "TMPDIR": folder, "GRAFT_CACHE": cache, "GTEST_BRIEF": "1",
                "GRAFT_FAULT_REFERENCES": str(self.tree.work / "references"), **self.tree.variables(kind), **more}

    def _run(self, kind, environment, folder, cpu_seconds, arguments=()):
        """Gives (exit code or None when it took too long, output)."""
        command = [str(self.tree.build / "bin" / KINDS[kind]), *arguments]
        output_path = os.path.join(folder, "output.txt")
        with open(output_path, "wb") as output:
            child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment,
                                     start_new_session=True, preexec_fn=lambda: limit_resources(cpu_seconds))
            try:
                code = child.wait(timeout=60 + 20 * cpu_seconds)  # it waits for itself
                code = None if code == -signal.SIGXCPU or code == -signal.SIGKILL else code
            except subprocess.TimeoutExpired:
                code = None
            try:
                os.killpg(child.pid, signal.SIGKILL)  # what it left running, or itself
            except ProcessLookupError:
                pass
            child.wait()
        with open(output_path, encoding="utf-8", errors="replace") as output:
            return code, output.read()

    # --- once, without a fault ---

    def record(self, jobs):
        """Runs everything; raises SystemExit when a test fails without a fault."""
        parts = [(kind, shard) for kind in reversed(KINDS) for shard in range(SHARDS.get(kind, 1))]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            # The first part with references computes them for the others.
            results = [pool.submit(self._record_part, *parts[0]).result()]
            results += pool.map(lambda part: self._record_part(*part), parts[1:])
        for kind, rows in results:
            self.tests.setdefault(kind, []).extend(rows)
        (self.tree.work / "reach.json").write_text(json.dumps(self.tests))

    def _record_part(self, kind, shard):
        with tempfile.TemporaryDirectory(prefix="graft-mutate-") as folder:
            os.chmod(folder, 0o711)  # some tests are of what other users may do
            reach = os.path.join(folder, "reach")
            environment = self._environment(kind, folder, GRAFT_FAULT_REACH=reach, GTEST_SHARD_INDEX=str(shard),
                                            GTEST_TOTAL_SHARDS=str(SHARDS.get(kind, 1)))
            # A folder that others may write to is no cache: each test then generates its kernels itself.
            os.chmod(environment["GRAFT_CACHE"], 0o777)
            filters = [f"--gtest_filter={FILTERS[kind]}"] if kind in FILTERS else []
            code, output = self._run(kind, environment, folder, 3600, filters)
            if code != 0:
                failed = re.findall(r"^.*: Failure\n(?:.+\n)*|^\[  FAILED  \].*\n", output, re.MULTILINE)
                told = "".join(failed) or output[-4000:]
                raise SystemExit(f"mutate: {KINDS[kind]} fails without a fault ({code}):\n{told}")
            with open(reach + ".txt", encoding="utf-8") as file:
                lines = [line.split() for line in file]
        always = {int(number) for line in lines if line[0] == "*" for number in line[2:]}
        rows = [(line[0], int(line[1]) / 1000, sorted(always | {int(number) for number in line[2:]}))
                for line in lines if line[0] != "*"]
        return kind, rows

    # --- with a fault ---

    def chunks_for(self, fault):
        """Yields (kind, tests, seconds they take), the quickest of all kinds first."""
        waiting = {}
        for kind in KINDS:
            rows = [(seconds, name) for name, seconds, reached in self.tests.get(kind, []) if fault.number in reached]
            waiting[kind] = sorted(rows)
        for most in CHUNK_SECONDS:
            for kind, rows in waiting.items():
                total, taken = 0, 0
                while taken < len(rows) and (taken == 0 or total + rows[taken][0] <= most):
                    total += rows[taken][0]
                    taken += 1
                if taken:
                    yield kind, [name for _, name in rows[:taken]], total
                    del rows[:taken]

    def reaching(self, fault):
        """How many tests reach the fault."""
        return sum(fault.number in reached for rows in self.tests.values() for _, _, reached in rows)

    def try_fault(self, fault):
        """Runs the tests that reach the fault until one fails."""
        start = time.monotonic()
        folder = tempfile.mkdtemp(prefix="graft-mutate-")
        os.chmod(folder, 0o711)
        try:
            for kind, names, seconds in self.chunks_for(fault):
                how = self._try_chunk(fault, kind, names, seconds, folder)
                if how:
                    return Outcome(fault, True, how, time.monotonic() - start)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        count = self.reaching(fault)
        how = f"{count} tests reach it and pass" if count else "no test reaches it"
        return Outcome(fault, False, how, time.monotonic() - start)

    def _try_chunk(self, fault, kind, names, seconds, folder):
        """How the fault showed, or None."""
        flags = os.path.join(folder, "flags.txt")
        with open(flags, "w", encoding="utf-8") as file:
            file.write("--gtest_filter=" + ":".join(name.replace("-", "?") for name in names) + "\n")
        environment = self._environment(kind, folder, GRAFT_FAULT=str(fault.number), GTEST_FAIL_FAST="1")
        code, output = self._run(kind, environment, folder, int(20 + 10 * seconds), [f"--gtest_flagfile={flags}"])
        if code == 0:
            return None
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.MULTILINE)
        if code is None:
            return f"{kind}: took too long"
        if failed:
            return f"{kind}: {failed.group(1)}"
        return f"{kind}: signal {-code}" if code < 0 else f"{kind}: exit {code}"
