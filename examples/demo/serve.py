# SPDX-License-Identifier: Apache-2.0
"""The demo's job through a server: `graft serve` on the encoder's plan, and a client that sends each line by itself.

    ./dev demo --serve               # a page of ours
    ./dev demo --serve my_lines.txt  # one text a line

Prints the nearest pairs, how many lines shared a run, and compares the embeddings with those of a session.
"""

import contextlib
import os
import pathlib
import queue
import socket
import subprocess
import sys
import time

import demo
import numpy as np

ROOT = demo.ROOT
# Where ./dev has installed the server and its client; its packages come behind our own.
PACKAGES = next((ROOT / ".deps/serving/lib").glob("python3*/site-packages"), None)
if PACKAGES:
    sys.path.append(str(PACKAGES))


def free_ports():
    """Three ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def serving(plan):
    """`graft serve`; gives the port of gRPC once it answers."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
    http, grpc, metrics = free_ports()
    words = [build / "bin/graft", "serve", plan, "--http-port", http, "--grpc-port", grpc, "--metrics-port", metrics]
    if PACKAGES:
        words += ["--server", PACKAGES / "pytriton/tritonserver/bin/tritonserver"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if "Ctrl-C" in line:
                    break
                print(line, end="")
            else:
                raise SystemExit("demo: the server did not start; what it said is above")
            yield grpc
        finally:
            process.terminate()


def tokens_of(lines):
    """The inputs of the encoder for each line by itself."""
    tokenizer = demo.WordPiece.from_file(os.path.join(demo.minilm.package_folder(), "vocab.txt"))
    longest = max(len(tokenizer.encode(line)) for line in lines)
    names = ("input_ids", "attention_mask", "token_type_ids")
    arrays = dict(zip(names, tokenizer.batch(lines, min(longest, demo.minilm.MAX_LENGTH))))
    return [{name: array[index:index + 1] for name, array in arrays.items()} for index in range(len(lines))]


def embed(port, requests):
    """Sends all at once; (embeddings, runs that it took)."""
    import tritonclient.grpc as triton

    def inputs_of(arrays):
        for name, array in arrays.items():
            made = triton.InferInput(name, array.shape, "INT64")
            made.set_data_from_numpy(np.ascontiguousarray(array, np.int64))
            yield made

    answers = queue.Queue()
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        for index, arrays in enumerate(requests):
            client.async_infer("minilm", list(inputs_of(arrays)),
                               lambda result, error, index=index: answers.put((index, result, error)))
        embeddings = np.empty((len(requests), 384), np.float32)
        for _ in requests:
            index, result, error = answers.get(timeout=120)
            if error:
                raise SystemExit(f"demo: {error}")
            embeddings[index] = result.as_numpy("sentence_embedding")
        stats, = client.get_inference_statistics("minilm", as_json=True)["model_stats"]
    return embeddings, int(stats["execution_count"])


def main():
    """Runs the job; exits with 1 when the embeddings are not those of a session."""
    lines = demo.read_lines(sys.argv[1] if len(sys.argv) > 1 else ROOT / "examples/demo/sentences.txt")
    library = demo.open_library()
    plan = ROOT / ".cache/models/minilm.graft"
    demo.compile_plan(library, demo.minilm.cached_path(), plan)
    requests = tokens_of(lines)
    with serving(plan) as port:
        start = time.perf_counter()
        embeddings, runs = embed(port, requests)
        seconds = time.perf_counter() - start
    demo.print_pairs(lines, embeddings)
    groups, batches = demo.make_batches(lines)
    local = demo.gather(groups, demo.graft_runner(library, plan, batches)(), len(lines))
    error = float(np.abs(embeddings - local).max())
    verdict = "agree" if error <= demo.TOLERANCE else "DIFFER"
    print(f"\n{len(lines)} lines, one a request, came back after {seconds * 1e3:.0f} ms in {runs} runs. The embeddings "
          f"{verdict} with those of a session: largest difference {error:.1e}.\n"
          "\nYour own model:\n  build/bin/graft serve model.graft    # docs/SERVING.md")
    return 0 if error <= demo.TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
