# SPDX-License-Identifier: Apache-2.0
"""A process of its own that runs networks: a crash, a hang or a hunger for memory ends it, and not the run.

`python worker.py graft|onnxruntime` answers one request per line of standard input, both JSON: the model's path, the
inputs' .npz and where the outputs' .npz goes. Worker is the other side.
"""

import contextlib
import json
import os
import pathlib
import resource
import select
import signal
import subprocess
import sys
import tempfile

import numpy as np

SECONDS = 60          # for one network of at most a few dozen nodes
MEMORY = 12 * 2**30   # of address space, most of it LLVM's and never touched


class Failure(Exception):
    """A network that was not run: `kind` is `crash`, `hang` or `error`."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Worker:
    """The process for one library, started when it is first needed and again after it died."""

    def __init__(self, library, memory=MEMORY):
        self.library, self.memory = library, memory
        self.process = None
        self.folder = tempfile.TemporaryDirectory()

    def run(self, model, inputs, **options):
        """The outputs by name, and what the library says about its engine. Throws Failure."""
        if self.process is None:
            self.start()
        request = {name: str(pathlib.Path(self.folder.name) / name) for name in ("model", "inputs", "outputs")}
        pathlib.Path(request["model"]).write_bytes(model.SerializeToString())
        with open(request["inputs"], "wb") as file:
            np.savez(file, **{f"value {name}": value for name, value in inputs.items()})
        with contextlib.suppress(BrokenPipeError):  # of a process that died meanwhile: it answers nothing
            self.process.stdin.write(json.dumps({**request, **options}) + "\n")
            self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            self.stop()
            raise Failure("hang", f"still running after {SECONDS} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.process = None
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise Failure("crash", name)
        reply = json.loads(line)
        if "error" in reply:
            raise Failure("error", reply["error"])
        with np.load(request["outputs"]) as file:
            return {name.removeprefix("value "): file[name] for name in file.files}, reply["engine"]

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory)))

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def graft_runner():
    """request, inputs -> outputs and engine, through the C interface."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "conformance"))
    import library as graft
    import onnx
    from onnx import numpy_helper
    library = graft.load()

    def run(request, inputs):
        model = pathlib.Path(request["model"]).read_bytes()
        names = [output.name for output in onnx.load_from_string(model).graph.output]
        device = request.get("device", "cpu")
        options = [("threads", "1"), ("mode", request["mode"]), ("device", device)]
        options += [("target", request["target"])] if device == "cpu" else []
        options += [("disable", ",".join(request["disable"]))] if request["disable"] else []
        with graft.Engine(library, model, options) as engine:
            protos = engine.run([(name, numpy_helper.from_array(value)) for name, value in inputs.items()], names)
            return dict(zip(names, map(numpy_helper.to_array, protos))), engine.describe()
    return run


def onnxruntime_runner():
    """request, inputs -> outputs and nothing, through ONNX Runtime."""
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    levels = onnxruntime.GraphOptimizationLevel

    def run(request, inputs):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if request["optimise"] else levels.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs))), None
    return run


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = {"graft": graft_runner, "onnxruntime": onnxruntime_runner}[sys.argv[1]]()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            with np.load(request["inputs"]) as file:
                inputs = {name.removeprefix("value "): file[name] for name in file.files}
            outputs, engine = run(request, inputs)
            with open(request["outputs"], "wb") as file:
                np.savez(file, **{f"value {name}": np.asarray(value) for name, value in outputs.items()})
            reply = {"engine": engine}
        except Exception as error:
            reply = {"error": f"{error}"[:3000] or type(error).__name__}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
