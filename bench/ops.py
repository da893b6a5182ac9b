# SPDX-License-Identifier: Apache-2.0
"""Operators that move memory, on an NVIDIA GPU beside torch.compile and eager torch, as replayed CUDA graphs.

    python bench/run.py ops
    python bench/run.py ops --cases 'softmax|layer_norm' --json rows.json

Each case is a small ONNX graph of bench/shapes/ops.json. The table gives the bytes that must move over the median
time, as a share of what copying a large tensor reaches in the same run, and the ratio to torch.compile (above 1 is
faster), whose times come from bench/results where they were recorded for this GPU and version of torch. What falls
below its bar is marked: 85 % of copying for what only moves elements, 80 % for the others, and 0.95 of torch.compile
for all.
"""

import re

import cuda_records
import gpu_options
import op_cases
import torch
from graft_cases import GraftCases
from rows import row_of

BARS = {"mover": 0.85, "other": 0.80}
LEAST_RATIO = 0.95
# Largest share of the output's range by which a result may differ from torch's.
TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2}
DTYPES = {"fp32": "float32", "fp16": "float16"}


def parse_options(arguments):
    """Reads the command line after the bench's name."""
    parser = gpu_options.parser_of("ops", __doc__.splitlines()[0], list(PEERS), "off")
    parser.add_argument("--record", action="store_true", help="measure the peers of every case, and keep their times")
    return gpu_options.parse(parser, "ops", arguments)


def tensors_of(case, seed=1):
    """Seeded inputs on the device."""
    generator = torch.Generator("cuda")
    generator.manual_seed(seed)
    made = {}
    for name, spec in case.inputs.items():
        if isinstance(spec[0], tuple):
            made[name] = torch.randint(0, spec[1], spec[0], device="cuda", generator=generator)
        else:
            dtype = getattr(torch, DTYPES[case.dtype])
            made[name] = torch.randn(spec, device="cuda", generator=generator).to(dtype)
    return made


def eager(case, inputs):
    """torch's own kernels."""
    return gpu_options.replayed(lambda: case.torch(torch, *inputs.values()))


def compiled(case, inputs):
    """What torch.compile makes of the function for these sizes."""
    torch._dynamo.reset()
    function = torch.compile(case.torch, dynamic=False)
    return gpu_options.replayed(lambda: function(torch, *inputs.values()))


PEERS = {"compile": compiled, "eager": eager}


def difference(expected, got):
    """The largest error as a share of the range; of indices, the share that differs."""
    worst = 0.0
    for want, have in zip(expected, got, strict=True):
        if want.dtype == torch.int64:
            # Equal keys may come from several places: their order is not torch's to say.
            continue
        largest = want.abs().max().item() or 1.0
        for low in range(0, want.numel(), 1 << 26):
            part = slice(low, low + (1 << 26))
            error = (want.reshape(-1)[part].float() - have.reshape(-1)[part].float()).abs().max().item()
            worst = max(worst, error / largest if error == error else float("inf"))
    return worst


def measure(case, graft, known, options):
    """The medians in ms by name, and what failed or was wrong; peers whose time is known are not run."""
    inputs = tensors_of(case)
    runs, failed = {}, []
    peers = {name: prepare for name, prepare in PEERS.items()
             if re.search(options.peers, name) and (options.record or name not in known)}
    reference = case.torch(torch, *inputs.values())
    expected = reference if isinstance(reference, tuple) else (reference,)
    for name, prepare in {"graft": graft.prepare, **peers}.items():
        try:
            run, results = prepare(case, inputs)
            run()
            torch.cuda.synchronize()
            share = difference(expected, results)
        except Exception as failure:  # One runner's fault must not end the bench.
            print(f"  {case.label}: {name} failed: {' '.join(str(failure).split())[:300]}")
            failed.append((case.label, name))
            continue
        if share > TOLERANCES[case.dtype]:
            print(f"  {case.label}: {name} is WRONG ({share:.1e} of the range), not timed")
            failed.append((case.label, name))
            continue
        runs[name] = run
    return gpu_options.interleaved(runs, options.rounds), failed


def copy_bandwidth(rounds):
    """GB/s of reading and writing a gigabyte each."""
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    replay, _ = gpu_options.replayed(lambda: torch.mul(source, 1, out=target))
    return 2 * source.numel() * 4 / gpu_options.interleaved({"copy": replay}, rounds)["copy"] / 1e6


def line_of(case, medians, copy):
    """The case's line of the table."""
    def rate(name):
        return case.bytes_moved / medians[name] / 1e6 if name in medians else None
    mine, peer = rate("graft"), rate("compile")
    share, ratio = mine / copy if mine else None, mine / peer if mine and peer else None
    missed = (share is None or share < BARS[case.kind]) or (ratio is not None and ratio < LEAST_RATIO)
    cells = [f"{value:8.0f}" if value else "       -" for value in (mine, peer, rate("eager"))]
    return (f"{case.label:32}{case.bytes_moved / 1e6:7.0f}{''.join(cells)}"
            f"{f'{share:8.0%}' if share else '       -'}{f'{ratio:8.2f}' if ratio else '       -'}"
            + ("  below" if missed else ""))


def main(arguments):
    """Measures; exits with 1 when a runner failed or was wrong."""
    options = parse_options(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("bench ops: torch sees no GPU here")
    all_cases = op_cases.op_cases()
    chosen = [case for case in all_cases if re.search(options.cases, case.label)]
    if not chosen:
        raise SystemExit(f"--cases {options.cases!r} matches none of " + ", ".join(c.label for c in all_cases))
    graft = GraftCases(options, options.tune)
    if graft.peer.unavailable():
        raise SystemExit(f"bench ops: {graft.peer.unavailable()}")
    device = torch.cuda.get_device_name()
    records = cuda_records.Records(device, torch.__version__)
    rows, failed = [], []
    with torch.cuda.stream(torch.cuda.Stream()):
        copy = copy_bandwidth(options.rounds)
        print(f"{device}, torch {torch.__version__}; copying reaches {copy:.0f} GB/s (read + write)\n"
              f"{'case':32}{'MB':>7}{'graft':>8}{'compile':>8}{'eager':>8}{'of copy':>8}{'ratio':>8}")
        for case in chosen:
            dtype = DTYPES[case.dtype]
            known = records.peers(case.name, 1, dtype)
            medians, failures = measure(case, graft, known, options)
            failed += failures
            print(line_of(case, {**known, **medians}, copy), flush=True)
            mine = medians.pop("graft", None)
            rows.append(row_of(options, case.name, 1, mine, {**known, **medians}, device, dtype))
            if medians:
                records.keep(row_of(options, case.name, 1, None, medians, device, dtype))
            torch.cuda.empty_cache()
    if records.changed:
        records.write()
        print(f"the peers' times are in {records.path}")
    if options.json:
        import run as bench
        bench.write_json(options.json, rows)
    return 1 if failed else 0
