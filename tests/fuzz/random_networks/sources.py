# SPDX-License-Identifier: Apache-2.0
"""Where random networks come from: a source is a program that makes the network of a seed."""

import hashlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NNSMITH = ROOT / ".deps" / "nnsmith"


class Program:
    """A program that reads seeds and writes FOLDER/SEED.onnx, answering `made SEED` or `failed SEED WHY` to each; where
    its networks want inputs of their own, it writes FOLDER/SEED.npz, too.

    What it made stays in build-fuzz/networks, by a hash of the files that decide what it makes."""

    def __init__(self, name, command, decided_by):
        self.name, self.command, self.process = name, command, None
        state = hashlib.sha256(b"".join(path.read_bytes() for path in decided_by)).hexdigest()[:12]
        self.folder = ROOT / "build-fuzz" / "networks" / f"{name}-{state}"
        self.environment = {**os.environ, "PYTHONHASHSEED": "0"}

    def network(self, seed):
        """The network of the seed, or nothing when the source cannot make it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        made, failed = self.folder / f"{seed}.onnx", self.folder / f"{seed}.failed"
        if not made.exists() and not failed.exists():
            answer = self.ask(seed)
            if not answer.startswith("made "):
                failed.write_text(answer)
        return onnx.load(made) if made.exists() else None

    def inputs(self, seed):
        """The inputs that the network of the seed came with; nothing where any will do."""
        given = self.folder / f"{seed}.npz"
        if not given.exists():
            return None
        with np.load(given) as file:
            return {name.removeprefix("value "): file[name] for name in file.files}

    def ask(self, seed):
        if self.process is None:
            self.process = subprocess.Popen([*map(str, self.command), str(self.folder)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                            env=self.environment)
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name} ended: run `{' '.join(map(str, self.command))} FOLDER` and give it a seed")
        return answer

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def nnsmith():
    """NNSmith (Liu et al., ASPLOS 2023): graphs whose shapes a solver keeps valid, exported through torch."""
    return Program("nnsmith", [NNSMITH / "bin" / "python", HERE / "from_nnsmith.py"],
                   [HERE / "from_nnsmith.py", *(ROOT / "tools" / "deps" / f"environment-{name}.txt"
                                                for name in ("nnsmith", "torch"))])


def samples():
    """The node cases of the onnx package put together, with control flow, open sizes and tensors without elements."""
    return Program("samples", [sys.executable, HERE / "from_samples.py"],
                   [HERE / "from_samples.py", ROOT / "tools" / "deps" / "python-test.txt"])


SOURCES = {"nnsmith": nnsmith, "samples": samples}
