# SPDX-License-Identifier: Apache-2.0
"""Graft inside PyTorch beside eager mode and torch.compile with inductor: same inputs, results compared, runs
interleaved in one process.

    ./dev bench torch                          # times; a ratio above 1 means that graft is faster than both
    ./dev bench torch --cases 'BERT|resnet18' --rounds 50
    ./dev bench torch --table                  # each network by each door, what is missing; into docs/PYTORCH.md
    ./dev bench torch --table --cases ViT      # these rows again
    ./dev bench torch --call                   # what a call of an engine costs over the engine itself
    ./dev bench torch --hosts                  # ResNet-50 at batch 32: eager, TorchScript, engines: see torch_hosts.py
    ./dev bench torch --device cuda            # on a GPU, full-size networks: see torch_cuda.py; --call, --hosts

The networks are those of tests/torch/networks.py. What cannot be compiled is a row that says why.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import door_table
import timing
import torch
import torch_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "torch"))

import networks  # noqa: E402
import torch_cuda  # noqa: E402
import torch_hosts  # noqa: E402

import graft.torch  # noqa: E402


def parse_options():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench torch", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", metavar="REGEX", help="only networks that match")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each runner (20)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each runner")
    parser.add_argument("--tune", default="off", choices=["off", "fast", "full"], help="how hard graft tunes (off)")
    parser.add_argument("--table", action="store_true", help="write docs/PYTORCH.md's table of networks and doors")
    door_table.add_options(parser)
    parser.add_argument("--rows", type=pathlib.Path, metavar="PATH",
                        help="where rows are kept as JSON: a folder with --table, a file with --device cuda")
    parser.add_argument("--call", action="store_true", help="measure what one call costs")
    parser.add_argument("--hosts", action="store_true", help="measure ResNet-50 at batch 32 as TorchScript runs it")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where (cpu)")
    torch_cuda.add_options(parser.add_argument_group("with --device cuda"))
    return parser.parse_args()


def chosen(options):
    """(network, model, inputs, torch's own results) of each that was asked for."""
    for network in networks.NETWORKS:
        if re.search(options.cases, network.name):
            torch._dynamo.reset()
            model, inputs = networks.varied(network.build()), network.inputs()
            with torch.inference_mode():
                yield network, model, inputs, model(*inputs)


def measure_times(options):
    """Times of graft, eager and inductor."""
    print("| network | graft | eager | inductor | ratio |\n|---|---|---|---|---|")
    for network, model, inputs, expected in chosen(options):
        runners = {"eager": model,
                   "graft": torch.compile(model, backend="graft", options={"tune": options.tune,
                                                                           "threads": options.threads}),
                   "inductor": torch.compile(model)}
        ready, notes = {}, []
        with torch.inference_mode():
            for name, run in runners.items():
                try:
                    error = networks.error_of(run(*inputs), expected)
                    if error > 1e-3:
                        raise RuntimeError(f"its results are off by {error:.2g}")
                    ready[name] = lambda run=run: run(*inputs)
                except Exception as failure:
                    notes.append(f"{name}: {' '.join(str(failure).split())[:100]}")
            times = {name: timing.summary(found)["median_ms"]
                     for name, found in timing.interleaved(ready, options.rounds).items()}
        cells = [f"{times[name]:.3f} ms" if name in times else "-" for name in ("graft", "eager", "inductor")]
        others = [times[name] for name in ("eager", "inductor") if name in times]
        ratio = f"{min(others) / times['graft']:.2f}" if "graft" in times and others else "-"
        print(f"| {network.name} | {' | '.join(cells)} | {ratio} |" + "".join(f" {note}" for note in notes), flush=True)


def measure_call(options):
    """What a call costs whose engine does next to nothing: over `graft bench` of the same plan, and of each door. On a
    GPU until its results are there."""
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval(), torch.randn(1, 16)
    model, x = model.to(options.device), x.to(options.device)
    kept = []
    original = graft.engine.Engine.__init__
    graft.engine.Engine.__init__ = lambda self, *given: (kept.append(self), original(self, *given))[1]
    try:
        fast = torch.compile(model, backend="graft", options={"tune": "off", "strict": True, "threads": 1})
        with torch.inference_mode():
            fast(x)
    finally:
        graft.engine.Engine.__init__ = original
    settings = {"tune": "off", "strict": True, "threads": 1}
    calls = {"engine, torch": kept[0], "torch.compile, graft": fast, "torch eager": model,
             "torch.compile, aot_eager": torch.compile(model, backend="aot_eager"),
             "torch.export, graft": graft.torch.compile(model, [x], **settings)}
    try:
        calls["TorchScript, graft"] = graft.torch.script.compile(torch.jit.trace(model, x), [x], **settings)
    except graft.DeviceError as missing:
        print(f"TorchScript: {missing}")
    wait = torch.cuda.current_stream().synchronize if options.device == "cuda" else lambda: None
    runs = {name: lambda call=call: (call(x), wait()) for name, call in calls.items()}
    if options.device == "cpu":
        array = x.numpy()
        runs["engine, numpy"] = lambda: kept[0](array)
    with torch.inference_mode():
        found = timing.interleaved(runs, 10 * options.rounds)
    alone = microseconds_alone(kept[0], options.device)
    print(f"{'graft bench':28} {alone:7.1f} us")
    for name, seconds in found.items():
        taken = timing.summary(seconds)["median_ms"] * 1e3
        print(f"{name:28} {taken:7.1f} us, {taken - alone:+.1f}")


def microseconds_alone(engine, device):
    """The median of `graft bench` for the engine's plan."""
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder) / "engine.graft"
        engine.save(plan)
        words = [pathlib.Path(os.environ["GRAFT_BUILD"]) / "bin" / "graft", "bench", plan, "--device", device,
                 "--threads", "1", "--duration", "1", "--json", "-"]
        said = subprocess.run(words, capture_output=True, text=True, check=True)
    row, = json.loads(said.stdout)
    return row["graft_ms"] * 1e3


def main():
    """Runs what was asked for."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    if options.hosts:
        return torch_hosts.run_rows(options)
    if options.device == "cuda" and not options.call:
        sys.exit(torch_cuda.main(options))
    if options.call:
        measure_call(options)
    elif options.table:
        torch_table.run_rows(options)
    else:
        measure_times(options)


if __name__ == "__main__":
    main()
