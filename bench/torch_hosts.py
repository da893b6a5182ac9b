# SPDX-License-Identifier: Apache-2.0
"""A network in the ways in which PyTorch runs it alone, and with engines in a TorchScript module, at one batch size.

    ./dev bench torch --hosts                          # ResNet-50 at batch 32 and 224 x 224 on the CPU
    ./dev bench torch --hosts --device cuda --tune fast
    ./dev bench torch --hosts --cases resnet18 --batch 8

Results are compared with eager mode's in strict fp32 before anything is measured; all run in turns.
"""

import copy

import gpu_options
import networks
import timing
import torch

import graft.torch

MOST_ERROR = {"fp32": 1e-3, "fp16": 5e-2}  # of the largest element
DEFAULT, BATCH = "resnet50", 32


def engines(model, x, options, precision):
    """The traced module with engines, nothing left to torch."""
    settings = {"tune": options.tune, "precision": precision}
    if options.device == "cpu":
        settings["threads"] = options.threads
    return graft.torch.script.compile(torch.jit.trace(model, x), [x], strict=True, require_full=True, **settings)


def runners_of(model, x, options):
    """{name: (how it is made, what it takes, the precision of its results)}. On a CPU torch's half precision is bf16's
    emulation or slower than fp32, so that it stands on a GPU alone."""
    half = copy.deepcopy(model).half() if options.device == "cuda" else None
    rows = {"torch eager, fp32": (lambda: model, x, "fp32"),
            "torch JIT, fp32": (lambda: torch.jit.freeze(torch.jit.trace(model, x)), x, "fp32"),
            "graft, fp32": (lambda: engines(model, x, options, "fp32"), x, "fp32")}
    if half is not None:
        rows |= {"torch eager, fp16": (lambda: half, x.half(), "fp16"),
                 "torch JIT, fp16": (lambda: torch.jit.freeze(torch.jit.trace(half, x.half())), x.half(), "fp16")}
    return rows | {"graft, fp16": (lambda: engines(model, x, options, "fp16"), x, "fp16")}


def run_rows(options):
    """Prints the table: milliseconds of a batch, images a second, and how many times as fast as eager mode in fp32."""
    name, batch = options.cases or DEFAULT, options.batch or BATCH
    torch.backends.cudnn.allow_tf32 = False
    model = networks.varied(networks.vision(name)()).to(options.device)
    x = networks.image(224, batch)()[0].to(options.device)
    with torch.inference_mode():
        expected = model(x)
    ready, notes = {}, []
    with torch.no_grad():
        for label, (make, given, precision) in runners_of(model, x, options).items():
            try:
                run = make()
                error = networks.error_of([run(given).float()], [expected])
                if error > MOST_ERROR[precision]:
                    raise RuntimeError(f"its results are off by {error:.2g}")
                ready[label] = lambda run=run, given=given: run(given)
            except Exception as failure:  # one runner's fault must not end the table
                notes.append(f"{label}: {' '.join(str(failure).split())[:200]}")
        if options.device == "cuda":
            times = gpu_options.interleaved(ready, options.rounds)
        else:
            times = {label: timing.summary(seconds)["median_ms"]
                     for label, seconds in timing.interleaved(ready, options.rounds).items()}
    place = torch.cuda.get_device_name() if options.device == "cuda" else f"{options.threads} threads"
    print(f"{name}, batch {batch}, 224 x 224, {place}, torch {torch.__version__}, tune {options.tune}\n"
          "| runner | ms | images/s | speed |\n|---|---|---|---|")
    for label, ms in times.items():
        print(f"| {label} | {ms:.2f} | {batch / ms * 1e3:.1f} | {times['torch eager, fp32'] / ms:.2f} |")
    print("\n".join(notes), end="\n" if notes else "")
