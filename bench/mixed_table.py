# SPDX-License-Identifier: Apache-2.0
"""ResNets in strict fp32, in tf32 and as models of mixed precision that `graft convert` makes, beside torch in tf32.

    python bench/mixed_table.py                          # on an NVIDIA GPU
    python bench/mixed_table.py --networks resnet50_v1 --batches 1,4 --folder rows    # goes on where it was stopped
    python bench/mixed_table.py --device cpu --networks tiny_cnn --tune off --duration 0.2    # its mechanics
    python bench/mixed_table.py --errors --device cpu --batches 1,4                           # no times: errors alone

Images per second, inputs on the device: `fp32` is the ONNX model as it is, `tf32` the same with --precision tf32,
`mixed` the ONNX model of --low that `graft convert` writes, `torch` a replayed graph of torch with TF32 allowed. The
error of a row is what `graft compare` prints of its output, the mixed plan beside that of the model it was made of: the
results alone, so that nothing is compiled for it. On a GPU
the exit status is 1 unless `mixed` is nowhere slower than `fp32`, and from batch 4 on at least 1.5 times as fast.
`--json bench/results/mixed-GPU.json` is what `./dev docs` makes the table of speed in docs/AMP.md of, and with --errors
`--json bench/results/mixed-error-DEVICE.json` that of errors.
"""

import argparse
import datetime
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "models"))

import network_builder  # noqa: E402
import resnet  # noqa: E402

NETWORKS = {"resnet50_v1": (resnet.resnet50_v1, 224), "resnet152_v1": (resnet.resnet152_v1, 224),
            "tiny_cnn": (resnet.tiny_cnn, 32)}
COLUMNS = ("fp32", "tf32", "mixed", "torch")
LEAST_GAIN, GAIN_FROM_BATCH = 1.5, 4
NOISE = 0.02  # what two measurements of one plan may differ by


def parse_options(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (cuda)")
    parser.add_argument("--networks", default="resnet50_v1,resnet152_v1", help="of " + ", ".join(NETWORKS))
    parser.add_argument("--batches", default="1,2,4,8,16", help="with commas between (1,2,4,8,16)")
    parser.add_argument("--low", default="fp16", choices=["fp16", "bf16"], help="of the mixed model (fp16)")
    parser.add_argument("--tune", default="fast", choices=["off", "fast", "full"], help="of graft compile (fast)")
    parser.add_argument("--duration", type=float, default=1, help="seconds of each measurement (1)")
    parser.add_argument("--errors", action="store_true", help="compare the models, and measure no times")
    parser.add_argument("--no-torch", action="store_true", help="leave the peer out")
    parser.add_argument("--folder", help="write each row here as NETWORK-BATCH.json; rows that are there are not "
                        "measured again")
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    options = parser.parse_args(arguments)
    options.no_torch = options.no_torch or options.errors
    options.networks = options.networks.split(",")
    if unknown := set(options.networks) - set(NETWORKS):
        parser.error(f"--networks {','.join(sorted(unknown))}: there are {', '.join(NETWORKS)}")
    if not options.no_torch and importlib.util.find_spec("torch") is None:
        print("torch is left out: this Python has none")
        options.no_torch = True
    options.batches = [int(batch) for batch in options.batches.split(",")]
    return options


def command():
    """The command graft: of the build folder, or of the bundle that this script is in."""
    folders = [os.environ.get("GRAFT_BUILD", ""), ROOT, os.path.join(ROOT, "build")]
    for folder in folders:
        path = os.path.join(folder, "bin", "graft")
        if folder and os.path.isfile(path):
            return path
    raise SystemExit("mixed_table: there is no bin/graft in GRAFT_BUILD, here or in build")


def graft(*arguments, fails=False):
    """What the command prints; with `fails` its exit status may say that something differs."""
    done = subprocess.run([command(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode and not (fails and done.returncode == 1):
        raise SystemExit(f"graft {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def graft_rate(model, batch, precision, options, plan):
    """Images per second of a plan for this batch, by the median of its runs; the plan stays."""
    graft("compile", model, "-o", plan, "--device", options.device, "--dim", f"batch={batch}", "--tune", options.tune,
          "--precision", precision, "--error-limit", 0)
    (row,) = json.loads(graft("bench", plan, "--device", options.device, "--duration", options.duration, "--json", "-"))
    return batch / (row["graft_ms"] / 1000)


def error_of(files, options, *more):
    """The line of `graft compare` about the network's output, of plans or of models."""
    compared = graft("compare", files["fp32"], files["mixed"], "--device", options.device, "--results", *more,
                     fails=True).splitlines()
    return next(" ".join(line.split()).removeprefix("-> ") for line in compared
                if "output" in line.replace("->", " ").split()[:1])


def torch_rate(model, batch, image, options):
    """Images per second of torch: a traced module of the same ONNX file, in TF32 where there is a GPU."""
    import torch
    import torch_graph
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    images = torch.randn(batch, 3, image, image, device=device).contiguous(memory_format=torch.channels_last)
    module = torch_graph.traced(model, ["input"], [images], channels_last=True)

    def run():
        with torch.inference_mode():
            return module(images)

    if device.type == "cpu":
        return batch / median_seconds(run, options.duration)
    import gpu_options
    with torch.cuda.stream(torch.cuda.Stream()):
        replay, _held = gpu_options.replayed(run)
        return batch / (gpu_options.interleaved({"torch": replay}, 20)["torch"] / 1000)


def median_seconds(run, duration):
    """Of one run."""
    run()
    samples, end = [], time.perf_counter() + duration
    while not samples or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 2]


def measure_row(name, batch, models, options, folder):
    """One row: rates by column, what `graft compare` says of the mixed model, and how long all that took."""
    start = time.perf_counter()
    plans = {column: os.path.join(folder, f"{column}.graft") for column in ("fp32", "tf32", "mixed")}
    rates = {"fp32": graft_rate(models["fp32"], batch, "fp32", options, plans["fp32"])}
    if options.device != "cpu":  # no CPU has units for it
        rates["tf32"] = graft_rate(models["fp32"], batch, "tf32", options, plans["tf32"])
    rates["mixed"] = graft_rate(models["mixed"], batch, "fp32", options, plans["mixed"])
    error = error_of(plans, options)
    if not options.no_torch:
        rates["torch"] = torch_rate(models["fp32"], batch, NETWORKS[name][1], options)
    return {"network": name, "batch": batch, "images_per_second": rates, "error": error,
            "seconds": round(time.perf_counter() - start, 1), "choices": choices(options)}


def error_row(name, batch, models, options):
    """One row of --errors."""
    start = time.perf_counter()
    error = error_of(models, options, "--size", f"batch={batch}")
    return {"network": name, "batch": batch, "images_per_second": {}, "error": error,
            "seconds": round(time.perf_counter() - start, 1), "choices": choices(options)}


def choices(options):
    """What a row depends on, beside its network and batch."""
    return {key: getattr(options, key) for key in ("device", "low", "tune", "duration", "no_torch", "errors")}


def kept_row(name, batch, options):
    """A row of an earlier run with the same choices, or None."""
    path = row_path(name, batch, options)
    if not path or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        row = json.load(file)
    return row if row["choices"] == choices(options) else None


def row_path(name, batch, options):
    """Where a row is kept, or None."""
    return options.folder and os.path.join(options.folder, f"{name}-{batch}.json")


def keep_row(row, options):
    """Writes a row: whole, or not at all."""
    path = row_path(row["network"], row["batch"], options)
    if not path:
        return
    os.makedirs(options.folder, exist_ok=True)
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(row, file, indent=1)
    os.replace(path + ".part", path)


def measure(name, options, folder):
    """The rows of one network, by batch."""
    rows, models = [], None
    for batch in options.batches:
        row = kept_row(name, batch, options)
        if row is None:
            models = models or models_of(name, options, folder)
            row = (error_row(name, batch, models, options) if options.errors else
                   measure_row(name, batch, models, options, folder))
            keep_row(row, options)
        rows.append(row)
        print(f"{said(row)} {row['seconds']} s: {row['error']}", flush=True)
    return rows


def models_of(name, options, folder):
    """The network as an ONNX file, and as one of mixed precision."""
    model = network_builder.cached(name, functools.partial(NETWORKS[name][0]))
    mixed = os.path.join(folder, f"{name}-mixed.onnx")
    print(graft("convert", model, "--precision", options.low, "-o", mixed).strip(), flush=True)
    return {"fp32": model, "mixed": mixed}


def said(row):
    """What begins the line of a row while measuring."""
    return table_line(row) if row["images_per_second"] else f"{row['network']}, batch {row['batch']}:"


def table_line(row):
    """`| network | batch | fp32 | ... |`, with how much faster mixed is."""
    rates = row["images_per_second"]
    cells = [f"{rates[column]:.0f}" if column in rates else "-" for column in COLUMNS]
    return f"| {row['network']} | {row['batch']} | {' | '.join(cells)} | {rates['mixed'] / rates['fp32']:.2f} |"


def machine(options):
    """The GPU and the peer, as the table in docs/AMP.md names them."""
    if importlib.util.find_spec("torch") is None or options.device == "cpu":
        return {"gpu": options.device, "torch": ""}
    import torch
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


def faults(rows):
    """What the promise of mixed precision is not kept in."""
    for row in rows:
        gain = row["images_per_second"]["mixed"] / row["images_per_second"]["fp32"]
        least = LEAST_GAIN if row["batch"] >= GAIN_FROM_BATCH else 1
        if gain < least * (1 - NOISE):
            yield f"{row['network']}, batch {row['batch']}: mixed is {gain:.2f} times as fast as fp32, at least {least}"


def write(options, rows):
    """The file that `./dev docs` reads."""
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({**machine(options), "date": datetime.date.today().isoformat(), "low": options.low,
                   "tune": options.tune, "rows": rows}, file, indent=1)


def main(arguments):
    """Measures and prints; exits with 1 where mixed precision does not pay on a GPU."""
    options = parse_options(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-mixed-") as folder:
        rows = [row for name in options.networks for row in measure(name, options, folder)]
    if options.json:
        write(options, rows)
    if options.errors:
        return 0
    print(f"\nimages per second on {options.device}, mixed = {options.low}\n| network | batch | "
          f"{' | '.join(COLUMNS)} | mixed / fp32 |\n| --- | ---: | {' | '.join(['---:'] * len(COLUMNS))} | ---: |")
    for row in rows:
        print(table_line(row))
    missed = list(faults(rows)) if options.device != "cpu" else []
    for fault in missed:
        print(f"MISSED {fault}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
