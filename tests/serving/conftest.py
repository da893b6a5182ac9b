# SPDX-License-Identifier: Apache-2.0
"""A server with a repository of its own, and clients of it."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

BUILD = pathlib.Path(os.environ["GRAFT_BUILD"])
MODELS = pathlib.Path(os.environ.get("GRAFT_SERVING_MODELS", BUILD / "serving" / "models"))
SERVER = pathlib.Path(sysconfig.get_path("purelib")) / "pytriton/tritonserver/bin/tritonserver"


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def weights(name, *shape):
    """The initializer of that name, see models.py."""
    values = np.random.default_rng(sum(map(ord, name))).standard_normal(shape) / np.sqrt(shape[0])
    return values.astype(np.float32)


def dense(x, name="dense"):
    """What the network `dense` gives."""
    return np.maximum(x @ weights(name, 8, 4), 0)


class Server:
    """Triton's server on the loopback, models loaded one by one."""

    def __init__(self, folder, *arguments, **environment):
        self.repository = folder / "models"
        self.repository.mkdir()
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.log_path = folder / "server.log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [SERVER, "--model-repository", self.repository, "--backend-directory", BUILD / "lib/triton",
                 "--model-control-mode", "explicit", "--http-address", "127.0.0.1", "--grpc-address", "127.0.0.1",
                 "--metrics-address", "127.0.0.1", "--http-port", str(self.http_port), "--grpc-port",
                 str(self.grpc_port), "--metrics-port", str(self.metrics_port), "--metrics-interval-ms", "100",
                 *arguments], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.http = http_client.InferenceServerClient(f"127.0.0.1:{self.http_port}", concurrency=4)
        deadline = time.monotonic() + 60
        while not self.is_live():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def is_live(self):
        """Whether it answers."""
        try:
            return self.grpc.is_server_live(client_timeout=1)
        except grpc_client.InferenceServerException:
            return False

    def log(self):
        """What it has said so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def put(self, name, source, config="", version=1, file="model.graft"):
        """Puts a model's file into the repository; `config` follows the backend's name in its config.pbtxt."""
        folder = self.repository / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / f".{file}")
        (folder / f".{file}").rename(folder / file)
        (self.repository / name / "config.pbtxt").write_text(f'backend: "graft"\n{config}', encoding="utf-8")

    def serve(self, name, plan, config=""):
        """Puts a plan of models.py there and loads it."""
        self.put(name, MODELS / f"{plan}.graft", config)
        self.grpc.load_model(name)

    def failure(self, name):
        """What the server says to a model that it cannot load."""
        with pytest.raises(grpc_client.InferenceServerException) as failure:
            self.grpc.load_model(name)
        return failure.value.message()

    def infer(self, name, outputs=None, client=None, **arrays):
        """Runs a model over gRPC, or with another client; the outputs by name."""
        module = http_client if client is self.http else grpc_client
        result = (client or self.grpc).infer(name, inputs_of(module, arrays), outputs=outputs)
        names = [each.name() for each in outputs] if outputs else self.outputs(name)
        return {each: result.as_numpy(each) for each in names}

    def outputs(self, name):
        """The names of a model's outputs."""
        return [each.name for each in self.grpc.get_model_metadata(name).outputs]

    def config(self, name):
        """The configuration as the server has it."""
        return self.grpc.get_model_config(name, as_json=True)["config"]

    def counts(self, name):
        """(requests, executions) so far."""
        stats, = self.grpc.get_inference_statistics(name, as_json=True)["model_stats"]
        return int(stats.get("inference_count", 0)), int(stats.get("execution_count", 0))

    def metric(self, name, model):
        """The value of a metric of a model, or, for None, of the process."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        labels = "" if model is None else rf'{{[^}}]*model="{re.escape(model)}"[^}}]*}}'
        found = re.search(rf'^{name}{labels} (\S+)$', text, re.M)
        assert found, f"no {name} of {model} in\n{text}"
        return float(found[1])

    def stop(self):
        """Ends it as a supervisor does; its exit status."""
        self.grpc.close()
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def inputs_of(module, arrays):
    """Arrays as inputs of one of tritonclient's modules."""
    types = {"f": "FP32", "l": "INT64", "O": "BYTES"}
    inputs = []
    for key, array in arrays.items():
        made = module.InferInput(key, list(array.shape), types[array.dtype.char])
        made.set_data_from_numpy(array)
        inputs.append(made)
    return inputs


@pytest.fixture(scope="session", name="server")
def fixture_server(tmp_path_factory):
    """One server for all tests that do not end it; it has to end cleanly behind them."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    assert server.stop() == 0, server.log()
