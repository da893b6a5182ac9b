# SPDX-License-Identifier: Apache-2.0
"""Whole networks on an NVIDIA GPU beside torch: inputs on the device, replayed graphs, medians of turns.

    python bench/run.py cuda
    python bench/run.py cuda --cases 'resnet50' --precision tf32 --json rows.json
    python bench/run.py cuda --record                 # all peers of all cases, into bench/results
    python bench/run.py cuda --compile --cases 'resnet50'
    python bench/run.py cuda --set operators --precision fp32    # LSTM, NonMaxSuppression, RoiAlign
    python bench/run.py cuda --precision int8                    # quantized files, beside fp16: torch runs none
    python bench/run.py cuda --precision fp8                     # the same of e4m3

The peers' times come from bench/results where they were recorded for this GPU and version of torch, and cases without
such are measured. The fastest peer of three cases is measured again in every run: a drift over 3 % is printed, and the
run is repeated once. A ratio above 1 is faster than the fastest peer.
"""

import dataclasses
import functools
import math
import re
import statistics
import sys

import cases
import compile_times
import cuda_peers
import cuda_records
import gpu_options
import low_precision
import run as bench
import torch
from rows import errors, row_of

DTYPES = {"fp32": "float32", "tf32": "tf32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
          "fp8": "float8_e4m3fn"}
# Largest share of the output's range by which a result may differ from torch in strict fp32.
TOLERANCES = {"fp32": 1e-4, "tf32": 3e-2, "fp16": 5e-2, "bf16": 2e-1, "int8": 3e-1, "fp8": 3e-1}
CHECKED = ("bert_base/l128/b1", "mobilenet_v2/b32", "resnet50/b128")
MOST_DRIFT = 0.03


def parse_options(arguments):
    """Reads the command line after the bench's name."""
    parser = gpu_options.parser_of("cuda", __doc__.splitlines()[0], [peer.name for peer in cuda_peers.PEERS], "fast")
    parser.add_argument("--precision", default="fp16", choices=list(DTYPES), help="of all runners (fp16)")
    parser.add_argument("--set", default="named", choices=["named", "architectures", "operators"],
                        help="which networks: those that benches name, the architectures, or single operators (named)")
    parser.add_argument("--record", action="store_true", help="measure the peers of every case, and keep their times")
    parser.add_argument("--compile", action="store_true",
                        help="instead: how long compiling, loading and a first answer take, batch 1")
    return gpu_options.parse(parser, "cuda", arguments)


def reference_of(case, inputs):
    """The outputs in strict fp32 by torch."""
    cuda_peers.set_precision("fp32")
    _, results = cuda_peers.EagerPeer("fp32").prepare(case, inputs)
    return [result.float() if result.is_floating_point() else result for result in results]


def prepare(case, graft, peers, options):
    """Compares the runners with strict fp32; gives {name: run} of those that are right, and what failed."""
    inputs = {name: torch.from_numpy(array).cuda() for name, array in case.inputs().items()}
    try:
        reference = reference_of(case, inputs)
    except Exception as failure:  # torch cannot trace it: nothing to compare with
        print(f"  {case.label}: no reference: {' '.join(str(failure).split())[:600]}")
        return {}, [(case.label, "reference")]
    expected = [result.cpu().numpy() for result in reference]
    # What quantizing costs is the file's: Graft is compared with ONNX Runtime on the same file.
    is_file = options.precision in low_precision.FILES_FOR_GPU
    of_graft = low_precision.results_of(case, options.precision) if is_file else expected
    cuda_peers.set_precision(precision_of_peers(options))
    ready, failed, notes = {}, [], []
    for runner in [graft, *peers]:
        try:
            if isinstance(runner, cuda_peers.GraftRunner):
                run, results, seconds = runner.prepare(case, inputs, reference)
                notes.append(f"compiled in {seconds:.1f} s")
            else:
                run, results = runner.prepare(case, inputs)
            run()
            torch.cuda.synchronize()
            share_of = functools.partial(errors, of_graft if runner is graft else expected)
            _, share = share_of([result.float().cpu().numpy() for result in results])
        except Exception as failure:  # One runner's fault must not end the bench.
            print(f"  {case.label}: {runner.name} failed: {' '.join(str(failure).split())[:600]}")
            failed.append((case.label, runner.name))
            continue
        notes.append(f"{runner.name} {share:.1e}")
        precision = options.precision if runner is graft else precision_of_peers(options)
        if share > TOLERANCES[precision]:
            print(f"  {case.label}: {runner.name} is WRONG ({share:.1e} of the range), not timed")
            failed.append((case.label, runner.name))
            continue
        ready[runner.name] = run
    whose = "fp32 torch, of the file against ONNX Runtime," if is_file else "fp32 torch"
    print(f"  {case.label}: error against {whose} as a share of the range: {', '.join(notes)}", flush=True)
    return ready, failed


def precision_of_peers(options):
    """What torch runs beside Graft: the same, but for quantized files fp16."""
    return "fp16" if options.precision in low_precision.FILES_FOR_GPU else options.precision


def peers_for(case, known, options):
    """The peers to measure: all that are asked for when recording or unknown, the fastest of a checked case."""
    chosen = [kind for kind in cuda_peers.PEERS if re.search(options.peers, kind.name)]
    if known and not options.record:
        # Some recorded ways take minutes to prepare and are not run again.
        fastest = min((kind.name for kind in cuda_peers.PEERS if kind.name in known), key=known.get, default=None)
        chosen = [kind for kind in chosen if kind.name == fastest and case.label in CHECKED]
    peers = [kind(precision_of_peers(options)) for kind in chosen]
    if options.precision in low_precision.FILES_FOR_GPU and re.search(options.peers, cuda_peers.GraftHalf.name):
        peers.append(cuda_peers.GraftHalf(options))
    return peers


def measure(all_cases, graft, records, options):
    """Runs the cases; gives the rows, what failed, and the drifts."""
    device, dtype = torch.cuda.get_device_name(), DTYPES[options.precision]
    peers_dtype = DTYPES[precision_of_peers(options)]
    rows, failed, drifted = [], [], []
    for case in all_cases:
        known = records.peers(case.name, case.batch, peers_dtype)
        ready, failures = prepare(case, graft, peers_for(case, known, options), options)
        failed += failures
        medians = gpu_options.interleaved(ready, options.rounds)
        mine = medians.pop(graft.name, None)
        if not options.record:
            drifted += [(case.label, *drift) for drift in cuda_records.drifts(known, medians, MOST_DRIFT)]
        rows.append(row_of(options, case.name, case.batch, mine, {**known, **medians}, device, dtype))
        print(f"  {table_line(rows[-1])}", flush=True)  # a run of many networks may be ended before its table
        if medians and (options.record or not known):
            of_torch = {name: value for name, value in medians.items() if not name.startswith("graft")}
            records.keep(row_of(options, case.name, case.batch, None, of_torch, device, peers_dtype))
        torch.cuda.empty_cache()
    return rows, failed, drifted


def table_line(row):
    """A case's median, its fastest peer and the ratio."""
    best = min(row["peers"], key=row["peers"].get, default=None)
    mine = f"{row['graft_ms']:.3f}" if row["graft_ms"] else "-"
    peer = f"{row['peers'][best]:.3f} {best}" if best else "-"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    return f"{row['case']:22}{row['batch']:6}{mine:>10}{peer:>26}{ratio:>8}"


def print_table(rows):
    """Prints the medians, the fastest peer and the ratio."""
    print(f"\nmedian ms\n{'case':22}{'batch':>6}{'graft':>10}{'fastest peer':>26}{'ratio':>8}")
    for row in rows:
        print(table_line(row))
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"geometric mean of the ratios {mean:.2f} over {len(ratios)} of {len(rows)} cases, "
              f"lowest {min(ratios):.2f}")


def main(arguments):
    """Measures; exits with 1 when a runner failed or was wrong."""
    options = parse_options(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("bench cuda: torch sees no GPU here")
    chosen = [case for case in cases.cuda_cases(options.set) if re.search(options.cases, case.label)]
    if not chosen:
        raise SystemExit(f"--cases {options.cases!r} matches none of "
                         + ", ".join(case.label for case in cases.cuda_cases(options.set)))
    if options.precision in low_precision.FILES_FOR_GPU:
        quantized = functools.partial(low_precision.FILES_FOR_GPU[options.precision], options)
        chosen = [dataclasses.replace(case, model=functools.partial(quantized, case)) for case in chosen]
    graft = cuda_peers.GraftRunner(options)
    if graft.unavailable():
        raise SystemExit(f"bench cuda: {graft.unavailable()}")
    if options.compile:
        # Plans of other processes: this one only starts them.
        rows = compile_times.measure(options, graft.peer, "cuda", [case for case in chosen if case.batch == 1])
        if options.json:
            bench.write_json(options.json, rows)
        return 0
    records = cuda_records.Records(torch.cuda.get_device_name(), torch.__version__)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.precision}; inputs on the device, "
          f"{options.rounds} turns each\n  graft: {graft.settings}\n  peers recorded in {records.path}: "
          f"{len(records.rows)} cases")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        rows, failed, drifted = measure(chosen, graft, records, options)
        if drifted:
            print_drifts(drifted)
            print("the run is repeated")
            rows, failed, drifted = measure(chosen, graft, records, options)
            print_drifts(drifted)
    print_table(rows)
    if records.changed:
        records.write()
        print(f"the peers' times are in {records.path}")
    if options.json:
        bench.write_json(options.json, rows)
    for label, name in failed:
        print(f"FAILED {label}: {name}")
    return 1 if failed else 0


def print_drifts(drifted):
    """Prints which recorded times do not hold now."""
    for label, name, recorded, measured in drifted:
        print(f"drift: {label} {name}: {measured:.3f} ms, recorded {recorded:.3f} ({measured / recorded - 1:+.1%})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
