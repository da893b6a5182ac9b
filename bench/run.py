# SPDX-License-Identifier: Apache-2.0
"""Times Graft beside its peers in one process: same inputs, results compared, runs interleaved.

    python bench/run.py cpu
    python bench/run.py cpu --cases 'minilm.*b1$' --rounds 50 --json results.json
    python bench/run.py cpu --only lengths,compile
    python bench/run.py cpu --only matmul
    python bench/run.py cuda --help            # networks on a GPU: see cuda_networks.py
    python bench/run.py ops --help             # operators that move memory, on a GPU: see ops.py
    python bench/run.py ops --device cpu       # single operators on a CPU: see cpu_ops.py
    python bench/run.py products --help        # products, convolutions, attention on a GPU: see products.py
    python bench/run.py losses --help          # regions that lose against their rooflines, by the cost model
    python bench/run.py tensorflow --help      # inside TensorFlow: see tensorflow_networks.py
    python bench/run.py cpu --set architectures   # networks that no bench was tuned on
    python bench/run.py cpu --set operators       # recurrent layers, NonMaxSuppression, RoiAlign, loops
    python bench/run.py cpu --precision int8      # or bf16: low_precision.py; int4: packed_weights.py

The parts are `peers`, `lengths` (one plan for all lengths against fixed ones), `targets` (plans made
for a lesser machine), `compile` (times and memory of compiling and loading) and `python` (what a call
from Python costs). In the table of peers a ratio of 1 is the speed of the fastest, above 1 is faster;
the other tables say what theirs is.
"""

import argparse
import functools
import json
import os
import platform
import re
import sys

from rows import TOLERANCE, errors, processor, row_of

# Before any runtime is loaded: OpenMP reads it once.
THREADS_VARIABLE = "OMP_NUM_THREADS"
NOISE_LIMIT = 0.1
PARTS = ("peers", "matmul", "lengths", "targets", "compile", "python")


def parse_options():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", nargs="?", default="cpu", choices=["cpu", "cuda", "ops", "products", "losses",
                                                                         "tensorflow"],
                        help="which bench to run (cpu); the others have options of their own")
    parser.add_argument("--only", default="", metavar="PARTS",
                        help="of " + ",".join(PARTS) + " (all; with --cases: peers)")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases that match")
    parser.add_argument("--set", default="named", choices=["named", "architectures", "operators"],
                        help="which networks the peers run: those that benches name, the architectures, or single "
                             "operators (named)")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "int8", "int4"],
                        help="bf16 and int8 have networks of their own, beside Graft in fp32 and peers that have it; "
                             "int4 are products of 4-bit weights (fp32)")
    parser.add_argument("--peers", default="", metavar="REGEX", help="only peers that match")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each runner (30)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each runner (2)")
    parser.add_argument("--build", default=os.environ.get("GRAFT_BUILD"),
                        help="Graft's build folder (GRAFT_BUILD, or build)")
    parser.add_argument("--tune", default="full", choices=["off", "fast", "full"],
                        help="how hard Graft tunes (full)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    parser.add_argument("--docs", action="store_true", help="write what `python` measures into docs/performance.md")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: at least 2")
    few = options.cases or options.set != "named" or options.precision != "fp32"
    everything = "peers" if few else ",".join(PARTS)
    options.only = (options.only or everything).split(",")
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    return options


def network_peers(options):
    """Lists the runtimes that whole networks are run in."""
    from peers import OnnxRuntimePeer, OpenVinoPeer, TorchCompilePeer
    return [kind(options.threads) for kind in (OnnxRuntimePeer, OpenVinoPeer, TorchCompilePeer)]


def choose_runners(options, peers, graft):
    """Returns Graft and the peers that can run here, saying why another cannot."""
    chosen = [peer for peer in peers if re.search(options.peers, peer.name)] + [graft]
    able = []
    for runner in chosen:
        reason = runner.unavailable()
        print(f"  {runner.name}: " + (f"left out, {reason}" if reason else runner.settings))
        if reason is None:
            able.append(runner)
    return able


def print_machine(threads, measured):
    """Prints what the figures are taken on."""
    load = os.getloadavg()[0]
    print(f"machine: {processor()}, {os.cpu_count()} processors, load {load:.2f}, "
          f"Python {platform.python_version()}")
    print_peaks(threads, measured)
    if load > 0.5:
        print(f"warning: other work is running (load {load:.2f}); the figures will be noisy")


def print_peaks(threads, measured):
    """Prints what the machine's arithmetic and memory reach."""
    print(f"measured peaks, {threads} threads: {measured['fp32_gflops']:.0f} GFLOP/s fp32, "
          f"copy {measured['copy_gb_per_s']:.1f} GB/s (read + write), read {measured['read_gb_per_s']:.1f} GB/s")


def measure_again(threads, before):
    """Measures the peaks once more and keeps the higher ones, in case other work lowered them."""
    import peaks
    after = peaks.measure(threads)
    if abs(after["fp32_gflops"] / before["fp32_gflops"] - 1) > NOISE_LIMIT:
        print(f"warning: the fp32 peak went from {before['fp32_gflops']:.0f} to "
              f"{after['fp32_gflops']:.0f} GFLOP/s; the machine was not quiet")
    return {name: max(value, after[name]) for name, value in before.items()}


def prepare_runners(case, runners, tolerance=TOLERANCE):
    """Returns {name: run} of those whose results agree with the first's, and all failures."""
    inputs = case.inputs()
    ready, failed, reference = {}, [], None
    for runner in runners:
        try:
            run = runner.prepare(case, inputs, reference)
            results = [result.copy() for result in run()]
            if reference is None:
                reference = results
            error, share = errors(reference, results)
        except Exception as failure:  # One runner's fault must not end the bench.
            print(f"  {case.label}: {runner.name} failed: {failure}")
            failed.append(runner.name)
            continue
        if runner is not runners[0]:
            print(f"  {case.label}: {runner.name} against {runners[0].name}: max error "
                  f"{error:.2e}, {share:.1e} of the range")
        if share > tolerance:
            print(f"  {case.label}: {runner.name} is WRONG (over {tolerance:.0e}), not timed")
            failed.append(runner.name)
            continue
        ready[runner.name] = run
    return ready, failed


def run_case(case, runners, options):
    """Compares and times one case; returns its row, what else the table shows, and failures."""
    import timing
    from low_precision import TOLERANCES
    ready, failed = prepare_runners(case, runners, TOLERANCES.get(options.precision, TOLERANCE))
    samples = timing.interleaved(ready, options.rounds)
    summaries = {name: timing.summary(seconds) for name, seconds in samples.items()}
    medians = {name: values["median_ms"] for name, values in summaries.items()}
    graft = medians.pop("graft", None)
    dtype = {"fp32": "float32", "bf16": "bfloat16"}.get(options.precision, options.precision)
    return row_of(options, case.name, case.batch, graft, medians, dtype=dtype), summaries, failed


def print_table(cases, rows, all_summaries, names, peak):
    """Prints the medians, the ratio, and the share of the machine's peak of the fastest."""
    print("\nmedian ms (~: quartiles more than 10 % apart)")
    print(f"{'case':18}" + "".join(f"{name:>15}" for name in names)
          + f"{'ratio':>8}{'best % of peak':>16}")
    for case, row, summaries in zip(cases, rows, all_summaries):
        line = f"{case.label:18}"
        for name in names:
            line += f"{_cell(summaries.get(name)):>15}"
        best = min((values["median_ms"] for values in summaries.values()), default=None)
        line += f"{row['ratio']:8.2f}" if row["ratio"] else f"{'-':>8}"
        line += f"{case.gflop / best * 1e3 / peak:16.0%}" if best and case.gflop else f"{'-':>16}"
        print(line)


def _cell(values):
    if values is None:
        return "-"
    return ("~" if values["spread"] > NOISE_LIMIT else "") + f"{values['median_ms']:.3f}"


def write_json(path, rows):
    """Writes the rows whole or not at all."""
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")
    os.replace(partial, path)


def measure_cases(options, all_cases, runners, measured, table):
    """Runs the chosen cases in all runners; gives the rows and what failed or was wrong."""
    if not runners:
        raise SystemExit("nothing to run: every runner was left out")
    cases = [case for case in all_cases if re.search(options.cases, case.label)]
    if not cases:
        raise SystemExit(f"--cases {options.cases!r} matches none of "
                         + ", ".join(case.label for case in all_cases))
    print(f"results before timing; then {options.rounds} rounds, runners in turns:")
    rows, summaries, failed = [], [], []
    for case in cases:
        row, summary, failures = run_case(case, runners, options)
        rows.append(row)
        summaries.append(summary)
        failed += failures
    measured = measure_again(options.threads, measured)
    table(cases, rows, summaries, [runner.name for runner in runners], measured["fp32_gflops"])
    return rows, failed


def measure_peers(options, graft, measured):
    """Whole networks beside other runtimes."""
    import cases
    if options.precision == "int4":
        import packed_weights
        runners = choose_runners(options, *packed_weights.runners(options))
        return measure_cases(options, packed_weights.packed_cases(), runners, measured,
                             functools.partial(packed_weights.print_table, measured["read_gb_per_s"]))
    if options.precision != "fp32":
        import low_precision
        runners = choose_runners(options, *low_precision.runners(options))
        return measure_cases(options, low_precision.low_precision_cases(options.precision), runners, measured,
                             print_table)
    runners = choose_runners(options, network_peers(options), graft)
    return measure_cases(options, cases.cpu_cases(options.set), runners, measured, print_table)


def measure_matmul(options, measured):
    """Matrix products beside oneDNN."""
    import matmul
    runners = choose_runners(options, [matmul.OneDnnPeer(options.threads)], matmul.generated_only(options))
    return measure_cases(options, matmul.matmul_cases(), runners, measured, matmul.print_table)


def main():
    """Runs the chosen parts; exits with 1 when a runner failed or was wrong."""
    if sys.argv[1:2] == ["cuda"]:
        import cuda_networks
        return cuda_networks.main(sys.argv[2:])
    if sys.argv[1:2] == ["ops"]:
        if "cpu" in sys.argv[2:] or "--device=cpu" in sys.argv[2:]:
            import cpu_ops
            return cpu_ops.main(sys.argv[2:])
        import ops
        return ops.main(sys.argv[2:])
    if sys.argv[1:2] == ["losses"]:
        import losses
        return losses.main(sys.argv[2:])
    if sys.argv[1:2] == ["products"]:
        import products
        return products.main(sys.argv[2:])
    if sys.argv[1:2] == ["tensorflow"]:
        import tensorflow_networks
        return tensorflow_networks.launch(sys.argv[2:])
    options = parse_options()
    os.environ[THREADS_VARIABLE] = str(options.threads)
    import compile_times
    import graft_peer
    import lengths
    import peaks
    import python_call
    import targets
    measured = peaks.measure(options.threads)
    print_machine(options.threads, measured)
    graft = graft_peer.GraftPeer(options.threads, options.build, tune=options.tune)
    rows, failed = measure_peers(options, graft, measured) if "peers" in options.only else ([], [])
    if "matmul" in options.only:
        more_rows, more_failed = measure_matmul(options, measured)
        rows, failed = rows + more_rows, failed + more_failed
    own = {"lengths": lengths, "targets": targets, "compile": compile_times, "python": python_call}
    for name, part in own.items():
        if name not in options.only:
            continue
        if graft.unavailable():
            raise SystemExit(f"{name}: {graft.unavailable()}")
        rows += part.measure(options, graft)
    if options.json:
        write_json(options.json, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
