# SPDX-License-Identifier: Apache-2.0
"""`graft serve`: a plan becomes an endpoint, and goes away again."""

import pathlib
import shutil
import signal
import subprocess
import tempfile

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from conftest import BUILD, MODELS, SERVER, dense, free_ports, inputs_of

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


class Serving:
    """The command, until it has said that it serves."""

    def __init__(self, *words, folder):
        self.ports = free_ports(3)
        http, self.grpc, metrics = map(str, self.ports)
        self.errors = folder / "errors"
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [BUILD / "bin" / "graft", "serve", *words, "--server", SERVER, "--http-port", http, "--grpc-port",
                 self.grpc, "--metrics-port", metrics], stdout=subprocess.PIPE, stderr=errors, text=True,
                env={"TMPDIR": str(folder), "GRAFT_CACHE": str(folder / "cache"), "PATH": "/usr/bin:/bin"})

    def lines_until(self, words):
        """What it says, up to a line that has these words."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if words in line:
                return "".join(lines)
        raise AssertionError("".join(lines) + self.errors.read_text())

    def end(self):
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def test_plan_and_onnx_file_are_served_until_ctrl_c(tmp_path):
    shutil.copy(MODELS / "dense.onnx", tmp_path / "fresh.onnx")
    serving = Serving(MODELS / "dense.graft", tmp_path / "fresh.onnx", "--instances", "2", "--threads", "1",
                      "--batch-delay", "100", folder=tmp_path)
    said = serving.lines_until("Ctrl-C")
    assert "/v2/models/dense\n" in said and "/v2/models/fresh\n" in said
    with grpc_client.InferenceServerClient(f"127.0.0.1:{serving.grpc}") as client:
        for name in ("dense", "fresh"):
            y = client.infer(name, inputs_of(grpc_client, {"x": X})).as_numpy("y")
            np.testing.assert_allclose(y, dense(X), rtol=1e-5, atol=1e-6)
        config = client.get_model_config("dense", as_json=True)["config"]
    assert config["instance_group"][0]["count"] == 2
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == "100"
    assert serving.end() == 0
    assert not list(tmp_path.glob("graft-*")), "the repository is left behind"


def test_server_that_cannot_load_the_model_says_why(tmp_path):
    (tmp_path / "broken.graft").write_bytes(b"no plan")
    serving = Serving(tmp_path / "broken.graft", folder=tmp_path)
    assert serving.process.wait(60) == 1
    said = serving.errors.read_text()
    assert "model.graft" in said and "graft serve: the server ended with status" in said, said


def test_port_that_is_taken_is_named(tmp_path, server):
    done = subprocess.run([BUILD / "bin" / "graft", "serve", MODELS / "dense.graft", "--server", SERVER, "--http-port",
                           str(server.http_port)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"port {server.http_port}" in done.stderr


@pytest.mark.parametrize(("words", "said"), [
    (["absent.graft"], "there is no such file"),
    ([MODELS / "dense.graft", MODELS / "dense.graft"], "two models"),
    ([MODELS / "dense.graft", "--device", "tpu"], "--device tpu"),
    ([MODELS / "dense.graft", "--http-port", "70000"], "70000"),
    ([], "MODEL"),
])
def test_wrong_words_are_told(words, said):
    ports = [word for port, name in zip(free_ports(3), ("http", "grpc", "metrics")) for word in
             (f"--{name}-port", str(port)) if f"--{name}-port" not in words]
    done = subprocess.run([BUILD / "bin" / "graft", "serve", *words, "--server", SERVER, *ports], capture_output=True,
                          text=True, check=False)
    assert done.returncode in (1, 2)
    assert said in done.stderr, done.stderr


def test_without_a_server_it_says_what_to_install():
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([BUILD / "bin" / "graft", "serve", MODELS / "dense.graft"], capture_output=True,
                              text=True, check=False, env={"PATH": empty})
    if pathlib.Path("/opt/tritonserver/bin/tritonserver").exists():
        pytest.skip("a server is installed here")
    assert done.returncode == 1
    assert "nvidia-pytriton" in done.stderr and "--server" in done.stderr
