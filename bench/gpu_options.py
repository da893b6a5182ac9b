# SPDX-License-Identifier: Apache-2.0
"""The command line that the benches on a GPU have in common, and how their runners are timed."""

import argparse
import math
import os
import statistics

TURN_MS = 4.0
TUNING = ["off", "fast", "full"]


def parser_of(bench, description, peers, tune):
    """A parser with the options of every bench; a bench adds its own."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {bench}", description=description)
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases that match")
    parser.add_argument("--peers", default="", metavar="REGEX", help="only peers that match, of " + ", ".join(peers))
    parser.add_argument("--rounds", type=int, default=20, help="turns of each runner (20)")
    parser.add_argument("--build", default=os.environ.get("GRAFT_BUILD"),
                        help="Graft's build folder (GRAFT_BUILD, or build)")
    parser.add_argument("--tune", default=tune, choices=TUNING, help=f"how hard Graft tunes ({tune})")
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    return parser


def parse(parser, bench, arguments):
    """Reads the command line after the bench's name."""
    options = parser.parse_args(arguments)
    options.bench = bench
    if options.rounds < 2:
        parser.error("--rounds: at least 2")
    return options


def milliseconds(run, times):
    """The time of one of several runs that are queued together, by the device's own clock."""
    import torch
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / times


def interleaved(runners, rounds):
    """Runs A, B, C, A, B, C ...; gives the median milliseconds by name."""
    repeats, samples = {}, {name: [] for name in runners}
    for name, run in runners.items():
        milliseconds(run, 2)
        repeats[name] = max(2, min(50, math.ceil(TURN_MS / milliseconds(run, 2))))
    for _ in range(rounds):
        for name, run in runners.items():
            run()  # brings its weights back into the cache
            samples[name].append(milliseconds(run, repeats[name]))
    return {name: statistics.median(values) for name, values in samples.items()}


def replayed(run):
    """The function captured as a CUDA graph; gives its replay and what it fills."""
    import torch
    run()
    results = []
    torch.cuda.current_stream().synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = run()
        results += made if isinstance(made, (tuple, list)) else (made,)
    return graph.replay, results
