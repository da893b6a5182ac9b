# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions and attention on an NVIDIA GPU: generated kernels beside cuBLASLt and cuDNN, and torch.

    python bench/run.py products
    python bench/run.py products --cases 'bert.*b32' --json rows.json

All in fp16, as replayed CUDA graphs. `generated` is what the cost model chooses without measuring, `best` what the
tuner finds among generated kernels, `all` with libraries. torch is cuBLASLt or cuDNN, for attention the fastest of its
backends. The ratio is torch's time over `best`, above 1 is faster; what falls below the bar of 0.70 is marked.
"""

import re

import gpu_options
import ops
import product_cases
import torch
from graft_cases import GraftCases
from rows import row_of

LEAST_RATIO = 0.70
TOLERANCE = 5e-3  # of the output's range, beside fp32
UNCHECKED = ["--error-limit", "0"]  # results are compared here
GENERATED = ["--disable", "cublaslt,cudnn"]
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")


def parse_options(arguments):
    """Reads the command line after the bench's name."""
    parser = gpu_options.parser_of("products", __doc__.splitlines()[0], ("torch",), "full")
    return gpu_options.parse(parser, "products", arguments)


def torch_runners(case, inputs):
    """Each way in which torch does the case, by name."""
    def run():
        return case.torch(torch, *inputs.values())

    if case.kind != "attention":
        return {"torch": lambda: gpu_options.replayed(run)}

    def with_backend(name):
        def prepare():
            with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, name)):
                return gpu_options.replayed(run)
        return prepare

    return {name: with_backend(name) for name in BACKENDS}


def expected_of(case, inputs):
    """The first copy's result in fp32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return case.reference(torch, *[tensor.float() for tensor in list(inputs.values())[:len(inputs) // case.copies]])


def measure(case, ways, options):
    """The medians in ms by name, and what failed or was wrong."""
    inputs = ops.tensors_of(case)
    expected = expected_of(case, inputs)
    runs, failed = {}, []
    runners = {name: (lambda way=way: way.prepare(case, inputs)) for name, way in ways.items()}
    runners.update(torch_runners(case, inputs))
    for name, prepare in runners.items():
        try:
            run, results = prepare()
            run()
            torch.cuda.synchronize()
            share = ops.difference([expected], results[:1])
            again = results[0].clone()
            run()
            torch.cuda.synchronize()
            same = torch.equal(again, results[0])
        except Exception as failure:  # One runner's fault must not end the bench.
            if name not in BACKENDS:
                print(f"  {case.label}: {name} failed: {' '.join(str(failure).split())[:300]}")
                failed.append((case.label, name))
            continue
        if share > TOLERANCE or (name in ways and not same):
            print(f"  {case.label}: {name} is WRONG ({share:.1e} of the range"
                  f"{'' if same else ', two runs differ'}), not timed")
            failed.append((case.label, name))
            continue
        runs[name] = run
    medians = gpu_options.interleaved(runs, options.rounds)
    return {name: median / case.copies for name, median in medians.items()}, failed


def line_of(case, medians):
    """The case's line of the table."""
    peers = [median for name, median in medians.items() if name in ("torch", *BACKENDS)]
    peer, best = min(peers, default=None), medians.get("best")
    times = [medians.get("generated"), best, medians.get("all"), peer]
    cells = [f"{1e3 * value:10.1f}" if value else "         -" for value in times]
    ratio = peer / best if peer and best else None
    rate = f"{case.operations / best / 1e9:8.0f}" if best else "       -"
    return (f"{case.name:36}{''.join(cells)}{rate}{f'{ratio:8.2f}' if ratio else '       -'}"
            + ("" if ratio and ratio >= LEAST_RATIO else "  below"))


def main(arguments):
    """Measures; exits with 1 when a runner failed or was wrong."""
    options = parse_options(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("bench products: torch sees no GPU here")
    all_cases = product_cases.product_cases()
    chosen = [case for case in all_cases if re.search(options.cases, case.label)]
    if not chosen:
        raise SystemExit(f"--cases {options.cases!r} matches none of " + ", ".join(c.label for c in all_cases))
    ways = {"generated": GraftCases(options, "off", [*UNCHECKED, *GENERATED]),
            "best": GraftCases(options, options.tune, [*UNCHECKED, *GENERATED]),
            "all": GraftCases(options, options.tune, UNCHECKED)}
    if reason := ways["all"].peer.unavailable():
        raise SystemExit(f"bench products: {reason}")
    device, rows, failed = torch.cuda.get_device_name(), [], []
    torch.backends.cudnn.benchmark = True
    print(f"{device}, torch {torch.__version__}, fp16; microseconds\n"
          f"{'case':36}{'generated':>10}{'best':>10}{'all':>10}{'torch':>10}{'TFLOP/s':>8}{'ratio':>8}")
    with torch.cuda.stream(torch.cuda.Stream()):
        for case in chosen:
            medians, failures = measure(case, ways, options)
            failed += failures
            print(line_of(case, medians), flush=True)
            mine = medians.pop("best", None)
            rows.append(row_of(options, case.name, 1, mine, medians, device, "float16"))
            torch.cuda.empty_cache()
    if options.json:
        import run as bench
        bench.write_json(options.json, rows)
    return 1 if failed else 0
