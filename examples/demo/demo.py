# SPDX-License-Identifier: Apache-2.0
"""The main job, from weights to answers: a sentence encoder, compiled once for any batch and length.

    ./dev demo                 # a page of ours
    ./dev demo my_lines.txt    # one text a line

Makes all-MiniLM-L6-v2 into ONNX, compiles it, embeds the lines, prints the nearest pairs, and compares
embeddings and times with ONNX Runtime.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
THREADS = len(os.sched_getaffinity(0))
# Both runtimes get as many threads; the variable is read when OpenMP starts.
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "bench")]

import numpy as np  # noqa: E402

import graft_peer  # noqa: E402
import minilm  # noqa: E402
from wordpiece import WordPiece  # noqa: E402

BATCH = 16
PAIRS = 8
ROUNDS = 15
# Embeddings have length 1; two correct fp32 programs differ by a few units of the seventh digit.
TOLERANCE = 1e-4


def read_lines(path):
    """The texts of a file: its lines without the empty ones and comments."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"demo: cannot read {path}: {error}")
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) < 2:
        raise SystemExit(f"demo: {path} has {len(lines)} lines with text; it takes two to make a pair")
    return lines


def open_library():
    """The library that the demo was built for, or the whole of Graft where that is newer."""
    build = os.environ.get("GRAFT_BUILD") or str(ROOT / "build")
    found = [path for name in ("libgraft_demo.so", "libgraft.so") if (path := graft_peer.find_built(build, name))]
    if not found:
        raise SystemExit(f"demo: no libgraft_demo.so in {build}; run ./dev demo, which builds it")
    return graft_peer.Library(max(found, key=os.path.getmtime))


def compile_plan(library, model, plan):
    """Compiles the encoder for batches of 1 to 64 and lengths of 1 to 256."""
    start = time.perf_counter()
    try:
        engine = library.compile(model, [("threads", THREADS), ("dim", f"batch=1:{BATCH}:64"),
                                         ("dim", f"length=1:32:{minilm.MAX_LENGTH}")])
        library.save(engine, str(plan))
    except RuntimeError as error:
        raise SystemExit(f"demo: {error}")
    print(f"Compiled {os.path.relpath(model)} in {time.perf_counter() - start:.1f} s into {os.path.relpath(plan)}, "
          f"{plan.stat().st_size / 1e6:.0f} MB.")


def make_batches(lines):
    """Token arrays of up to BATCH lines each, the shortest lines first so that little is padding."""
    tokenizer = WordPiece.from_file(os.path.join(minilm.package_folder(), "vocab.txt"))
    order = sorted(range(len(lines)), key=lambda index: len(tokenizer.encode(lines[index])))
    groups = [order[start:start + BATCH] for start in range(0, len(order), BATCH)]
    names = ("input_ids", "attention_mask", "token_type_ids")
    return groups, [dict(zip(names, tokenizer.batch([lines[index] for index in group],
                                                    minilm.MAX_LENGTH))) for group in groups]


def graft_runner(library, plan, batches):
    """Gives a function that embeds all batches with Graft."""
    session = library.create_session(library.load(str(plan)))
    runs = []
    for batch in batches:
        output = np.empty((len(batch["input_ids"]), 384), np.float32)
        runs.append(library.runner(session, batch, {"sentence_embedding": output}))
    return lambda: [run()[0] for run in runs]


def onnxruntime_runner(model, batches):
    """Gives a function that embeds all batches with ONNX Runtime, at its best settings."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # Threads that spin on after a run would slow the other runtime, whose turn is next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: [session.run(None, batch)[0] for batch in batches], onnxruntime.__version__


def interleaved_medians(runners):
    """Median milliseconds of each runner, taking turns so that both see the same machine."""
    times = [[] for _ in runners]
    for _ in range(ROUNDS):
        for run, list_of_times in zip(runners, times):
            start = time.perf_counter()
            run()
            list_of_times.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(values) for values in times]


def print_pairs(lines, embeddings):
    """Prints the pairs of lines that are most alike, each line in one pair only."""
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -1)
    print(f"\nThe nearest pairs of {len(lines)} lines (cosine similarity):")
    for _ in range(min(PAIRS, len(lines) // 2)):
        first, second = sorted(np.unravel_index(np.argmax(similarity), similarity.shape))
        print(f"  {similarity[first, second]:.3f}  {lines[first]}\n         {lines[second]}")
        similarity[[first, second], :] = -1
        similarity[:, [first, second]] = -1


def gather(groups, results, count):
    """Embeddings in the order of the lines."""
    embeddings = np.empty((count, 384), np.float32)
    for group, rows in zip(groups, results):
        embeddings[group] = rows
    return embeddings


def main():
    """Runs the job; exits with 1 when the embeddings are not those of ONNX Runtime."""
    parser = argparse.ArgumentParser(prog="./dev demo", description="Embed lines, find the nearest pairs.")
    parser.add_argument("file", nargs="?", default=str(ROOT / "examples/demo/sentences.txt"),
                        help="one text a line (a page of ours)")
    lines = read_lines(parser.parse_args().file)
    library = open_library()
    model, plan = minilm.cached_path(), ROOT / ".cache/models/minilm.graft"
    compile_plan(library, model, plan)
    groups, batches = make_batches(lines)
    graft = graft_runner(library, plan, batches)
    onnxruntime, version = onnxruntime_runner(model, batches)
    embeddings, reference = (gather(groups, run(), len(lines)) for run in (graft, onnxruntime))
    print_pairs(lines, embeddings)
    error = float(np.abs(embeddings - reference).max())
    verdict = "agree" if error <= TOLERANCE else "DIFFER"
    ours, theirs = interleaved_medians([graft, onnxruntime])
    print(f"\nEmbeddings {verdict} with ONNX Runtime {version}: largest difference {error:.1e}.\n"
          f"All {len(lines)} lines, {THREADS} threads, median of {ROUNDS} turns: "
          f"Graft {ours:.1f} ms, ONNX Runtime {theirs:.1f} ms.")
    print("\nYour own model:\n"
          "  ./dev build\n"
          "  build/bin/graft check model.onnx\n"
          "  build/bin/graft compile model.onnx -o model.graft\n"
          "  build/bin/graft bench model.graft")
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
