# SPDX-License-Identifier: Apache-2.0
"""A server under a mixed load for a long time: reloads, cancelled requests, clients that die, wrong requests. Every
right answer has the bits of the first one (products of a batch are within 1e-6 of it, as their last bits depend on how
many rows are joined), memory stays where it was, and nothing is left in /dev/shm.

    GRAFT_BUILD=$PWD/build .deps/serving/bin/python tests/serving/soak.py SECONDS    # behind ./dev test serving
"""

import argparse
import pathlib
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as grpc_client
from conftest import MODELS, Server, inputs_of
from tritonclient.utils import InferenceServerException

DELAY = "dynamic_batching { max_queue_delay_microseconds: 1000 }"
STATE = np.full((1, 64), 0.5, np.float32)
# A client that dies with requests on their way.
DYING = """
import os, sys, numpy as np, tritonclient.grpc as t
client = t.InferenceServerClient(sys.argv[1])
n, x = t.InferInput("n", [1], "INT64"), t.InferInput("x", [1, 64], "FP32")
n.set_data_from_numpy(np.array([10**9])), x.set_data_from_numpy(np.zeros((1, 64), np.float32))
client.async_infer("rounds", [n, x], lambda result, error: None)
import time; time.sleep(0.3); os._exit(9)
"""


def requests():
    """(model, arrays) of each kind of right request."""
    generator = np.random.default_rng(3)
    for rows in (1, 2, 5, 17):
        yield "dense", {"x": generator.standard_normal((rows, 8)).astype(np.float32)}
        yield "rows", {"i": generator.integers(0, 10, (rows, 3))}
    yield "texts", {"a": np.array([["a", "ä"]], dtype=object), "b": np.array([["", "€" * 50]], dtype=object)}
    yield "rounds", {"n": np.array([50]), "x": STATE}


class Soak:
    """The load, and what went wrong."""

    def __init__(self, server, seed):
        self.server = server
        self.address = f"127.0.0.1:{server.grpc_port}"
        self.cases = [(name, arrays, output) for name, arrays in requests()
                      for output in server.outputs(name)]
        self.first = [self.ask(server.grpc, case) for case in self.cases]
        self.seed = seed
        self.stop = threading.Event()
        self.faults = queue.Queue()
        self.answers = self.refusals = self.reloads = self.cancelled = 0

    @staticmethod
    def ask(client, case):
        """An answer."""
        name, arrays, output = case
        return client.infer(name, inputs_of(grpc_client, arrays)).as_numpy(output)

    def is_first(self, index, answer):
        """Whether an answer is the first one of its request."""
        first = self.first[index]
        if self.cases[index][0] == "dense":
            return answer.shape == first.shape and bool(np.all(np.abs(answer - first) < 1e-6))
        return np.array_equal(answer, first)

    def loop(self, action, seed):
        """Does something until the end; an exception is a fault."""
        choose = random.Random(seed)
        with grpc_client.InferenceServerClient(self.address) as client:
            while not self.stop.is_set():
                try:
                    action(client, choose)
                except Exception as failure:  # pylint: disable=broad-exception-caught
                    self.faults.put(f"{action.__name__}: {failure!r}")

    def right(self, client, choose):
        """A right request."""
        index = choose.randrange(len(self.cases))
        if not self.is_first(index, self.ask(client, self.cases[index])):
            self.faults.put(f"{self.cases[index][0]}: another answer than at first")
        self.answers += 1

    def wrong(self, client, choose):
        """One that has to be refused."""
        name, arrays = choose.choice([("dense", {"x": np.zeros((1, 9), np.float32)}),
                                      ("rows", {"i": np.full((2, 3), 99)}), ("absent", {"x": STATE})])
        try:
            client.infer(name, inputs_of(grpc_client, arrays))
            self.faults.put(f"{name}: a wrong request was answered")
        except InferenceServerException:
            self.refusals += 1
        time.sleep(0.02)

    def cancel(self, client, choose):
        """A long run that its client cancels."""
        done = threading.Event()
        call = client.async_infer("rounds", inputs_of(grpc_client, {"n": np.array([10**9]), "x": STATE}),
                                  lambda result, error: done.set())
        time.sleep(choose.uniform(0.0, 0.1))
        call.cancel()
        if not done.wait(60):
            self.faults.put("a cancelled request was not answered")
        self.cancelled += 1

    def reload(self, client, choose):
        """The same model again, as a new file."""
        name = choose.choice(["dense", "rows", "texts"])
        self.server.put(name, MODELS / f"{name}.graft", DELAY)
        client.load_model(name)
        self.reloads += 1
        time.sleep(0.3)

    def die(self, _, choose):
        """A client that ends with a request on its way."""
        subprocess.run([sys.executable, "-c", DYING, self.address], check=False)
        time.sleep(choose.uniform(1, 3))

    def run(self, seconds):
        """All of it at the same time."""
        actions = [self.right] * 4 + [self.wrong, self.cancel, self.reload, self.die]
        threads = [threading.Thread(target=self.loop, args=(action, self.seed + index))
                   for index, action in enumerate(actions)]
        for each in threads:
            each.start()
        self.stop.wait(seconds)
        self.stop.set()
        for each in threads:
            each.join()


def memory_of(process):
    """Resident bytes."""
    pages = pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def soak(server, seconds, seed=1):
    """Runs it; returns a line about what was done. Raises AssertionError."""
    for name in ("dense", "rows", "texts"):
        server.serve(name, name, DELAY)
    server.serve("rounds", "rounds", "instance_group { count: 2 kind: KIND_CPU }")
    shared = {path.name for path in pathlib.Path("/dev/shm").iterdir()}
    load = Soak(server, seed)
    load.run(max(seconds / 4, 3))
    before = memory_of(server.process)
    load.stop.clear()
    load.run(seconds)
    after = memory_of(server.process)
    faults = list(load.faults.queue)
    assert not faults, "\n".join(faults[:20])
    assert min(load.answers, load.refusals, load.reloads, load.cancelled) > 0, vars(load)
    assert after - before < 64 << 20, f"memory grew from {before} to {after} bytes"
    left = {path.name for path in pathlib.Path("/dev/shm").iterdir()} - shared
    assert not left, left
    return (f"seed {seed}: {load.answers} right answers, {load.refusals} refusals, {load.reloads} reloads, "
            f"{load.cancelled} cancelled, memory {before >> 20} to {after >> 20} MiB")


def main():
    """By itself, for as long as it is told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(pathlib.Path(scratch))
        try:
            print(soak(server, options.seconds, options.seed))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
