# SPDX-License-Identifier: Apache-2.0
"""What serving costs: Triton's server with the backend of Graft, side by side with a backend that only copies, and a
sentence encoder side by side with `graft bench`.

    ./dev bench serving [--seconds 5] [--rounds 5] [--json FILE]

The load comes from load.cpp on the same machine, over HTTP with binary tensors, and takes processor time from the
server. Both backends are asked by turns, and ratios are medians of the rounds.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
GRAFT = BUILD / "bin" / "graft"
sys.path.insert(0, str(ROOT / "models"))
WIDTH = 384
LENGTH = 64
CONCURRENCY = (1, 8, 16)
ROWS = 32
DELAY_US = 10000  # that a request waits for others to share its run with the sentence encoder
NAMES = ("stub", "nothing")  # of the models that are compared
SERVER = "lib/python3*/site-packages/pytriton/tritonserver/bin/tritonserver"


def run(*words):
    """Runs a program; what it prints."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def build(folder):
    """(the load generator, the folder of backends)"""
    load = folder / "load"
    run("c++", "-std=c++20", "-O2", "-pthread", HERE / "load.cpp", "-o", load)
    backends = folder / "backends"
    (backends / "stub").mkdir(parents=True)
    run("c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'src/host/triton'}", HERE / "stub_backend.cpp",
        "-o", backends / "stub" / "libtriton_stub.so")
    (backends / "graft").symlink_to((BUILD / "lib/triton/graft").resolve())
    return load, backends


def nothing_model(path):
    """A network that gives its input."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "nothing", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def write_repository(folder, threads):
    """The models `stub`, `nothing` and `minilm`."""
    tensor = f'data_type: TYPE_FP32 dims: [ {WIDTH} ]'
    configs = {"stub": 'backend: "stub" max_batch_size: 32 dynamic_batching { } instance_group { kind: KIND_CPU } '
                       f'input {{ name: "x" {tensor} }} output {{ name: "y" {tensor} }}',
               "nothing": 'backend: "graft"',
               "minilm": f'backend: "graft" dynamic_batching {{ max_queue_delay_microseconds: {DELAY_US} }} '
                         f'parameters {{ key: "threads" value {{ string_value: "{threads}" }} }}'}
    for name, config in configs.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(config)
    nothing_model(folder / "nothing.onnx")
    run(GRAFT, "compile", folder / "nothing.onnx", "-o", folder / "nothing/1/model.graft", "--dim", "batch=1:8:32",
        "--threads", "1")
    run(sys.executable, ROOT / "models/minilm.py", "--seeded", "-o", folder / "minilm.onnx")
    run(GRAFT, "compile", folder / "minilm.onnx", "-o", folder / "minilm/1/model.graft", "--dim",
        f"batch=1:{ROWS}:{ROWS}", "--dim", f"length={LENGTH}", "--threads", threads)


def request(model, **arrays):
    """An HTTP request with binary tensors, whole."""
    names = {"f": "FP32", "l": "INT64"}
    inputs = [{"name": name, "shape": array.shape, "datatype": names[array.dtype.char],
               "parameters": {"binary_data_size": array.nbytes}} for name, array in arrays.items()]
    text = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = text + b"".join(array.tobytes() for array in arrays.values())
    head = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: localhost", "Content-Type: application/octet-stream",
            f"Inference-Header-Content-Length: {len(text)}", f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


def requests_of(folder):
    """The files of requests, by model."""
    random = np.random.default_rng(1)
    values = random.standard_normal((1, WIDTH)).astype(np.float32)
    ids = random.integers(1000, 20000, (1, LENGTH))
    bodies = {"stub": request("stub", x=values), "nothing": request("nothing", x=values),
              "minilm": request("minilm", input_ids=ids, attention_mask=np.ones_like(ids),
                                token_type_ids=np.zeros_like(ids))}
    for name, data in bodies.items():
        (folder / f"{name}.request").write_bytes(data)
    return {name: folder / f"{name}.request" for name in bodies}


@contextlib.contextmanager
def server(program, repository, backends):
    """Triton's server; gives its HTTP port and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [program, "--model-repository", repository, "--backend-directory", backends, "--http-port", str(port),
             "--allow-grpc", "false", "--allow-metrics", "false", "--log-info", "false"]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1).close()
                    break
                if process.poll() is not None:
                    log.seek(0)
                    raise SystemExit(f"the server ended:\n{log.read()[-4000:]}")
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()


def processor_seconds(process):
    """What a process has used so far."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(load, served, concurrency, seconds, file):
    """What load.cpp prints, and the processor time of the server for a request in microseconds, which other programs on
    the machine change least."""
    port, process = served
    before = processor_seconds(process)
    told = json.loads(run(load, port, concurrency, min(1, seconds / 4), seconds, file))
    return {**told, "processor_us": (processor_seconds(process) - before) / told["sent"] * 1e6}


def compare_with_stub(load, served, files, options):
    """Rows of (concurrency, figures of the stub, of the empty network, ratio of requests, difference of p99)."""
    for concurrency in CONCURRENCY:
        pairs = []
        for _ in range(options.rounds):
            pairs.append([measure(load, served, concurrency, options.seconds, files[name]) for name in NAMES])
        middle = {name: {key: statistics.median(pair[index][key] for pair in pairs)
                         for key in ("per_second", "p50", "p99", "processor_us")} for index, name in enumerate(NAMES)}
        ratio = statistics.median(pair[1]["per_second"] / pair[0]["per_second"] for pair in pairs)
        yield {"concurrency": concurrency, **middle, "ratio": ratio,
               "p99_more": statistics.median(pair[1]["p99"] - pair[0]["p99"] for pair in pairs)}


def bench_rows(plan):
    """Rows in a second of the plan by itself, and the milliseconds of a batch."""
    told, = json.loads(run(GRAFT, "bench", plan, "--size", f"batch={ROWS}", "--json", "-"))
    return told["per_second"], told["mean_ms"]


def compare_minilm(load, served, plan, file, options):
    """The sentence encoder with as many clients as a batch has rows, beside `graft bench`, by turns."""
    rounds = []
    for _ in range(options.rounds):
        alone, batch = bench_rows(plan)
        told = measure(load, served, ROWS, options.seconds, file)
        rounds.append({"served": told["per_second"], "bench": alone, "ratio": told["per_second"] / alone,
                       "p99_ms": told["p99"] / 1000, "batch_ms": batch})
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def print_tables(stub, minilm):
    """As docs/SERVING.md has them."""
    print("| clients | stub, requests/s | empty plan | of the stub | stub p50, p99 us | empty plan | "
          "stub, processor us a request | empty plan |")
    print("|---|---|---|---|---|---|---|---|")
    for row in stub:
        print(f"| {row['concurrency']} | {row['stub']['per_second']:,.0f} | {row['nothing']['per_second']:,.0f} | "
              f"{row['ratio']:.2f} | {row['stub']['p50']:.0f}, {row['stub']['p99']:.0f} | "
              f"{row['nothing']['p50']:.0f}, {row['nothing']['p99']:.0f} | {row['stub']['processor_us']:.1f} | "
              f"{row['nothing']['processor_us']:.1f} |")
    print()
    print(f"MiniLM, length {LENGTH}, {ROWS} clients of one row, delay {DELAY_US // 1000} ms: {minilm['served']:.0f} "
          f"rows/s; `graft bench` with a batch of {ROWS}: {minilm['bench']:.0f} rows/s; ratio {minilm['ratio']:.2f}; "
          f"p99 {minilm['p99_ms']:.0f} ms, a batch alone {minilm['batch_ms']:.0f} ms")


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, by turns")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the sentence encoder")
    parser.add_argument("--server", help="the program tritonserver (of .deps/serving)")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    program = options.server or next((ROOT / ".deps/serving").glob(SERVER), None) or shutil.which("tritonserver")
    if not program:
        raise SystemExit("bench: there is no tritonserver: ./dev bench serving installs it")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        load, backends = build(folder)
        repository = folder / "models"
        write_repository(repository, options.threads)
        files = requests_of(folder)
        for file in repository.glob("*.onnx"):
            file.unlink()
        with server(program, repository, backends) as served:
            stub = list(compare_with_stub(load, served, files, options))
            minilm = compare_minilm(load, served, repository / "minilm/1/model.graft", files["minilm"], options)
    print_tables(stub, minilm)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"stub": stub, "minilm": minilm}, indent=1))


if __name__ == "__main__":
    main()
