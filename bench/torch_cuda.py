# SPDX-License-Identifier: Apache-2.0
"""Graft inside PyTorch on a GPU beside eager mode and torch.compile, in its default mode and with reduce-overhead.

    ./dev bench torch --device cuda                               # fp16, batch 8, twenty networks
    ./dev bench torch --device cuda --precision fp32,tf32 --cases resnet --rows rows.json --seconds 500

Each row, a network in a precision, has a process of its own. Some prepare at the same time, which is mostly compiling
(graft, which measures candidates, in one after the other); then each is measured with the others asleep, all runners in
turns by the device's clock. Rows are kept in a file as they are made: a run that is called again, or stopped, goes on
behind them. A ratio above 1: graft is the fastest.
"""

import argparse
import contextlib
import fcntl
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import gpu_options
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "torch"))

import networks  # noqa: E402
from networks import image, timm_model, tokens, transformer, vision  # noqa: E402

PRECISIONS = ("fp16", "fp32", "tf32")
MOST_ERROR = {"fp32": 1e-3, "tf32": 3e-2, "fp16": 5e-2}  # of the largest element, against strict fp32
PREPARING_SECONDS = 400  # the most that a row may take until it can be measured
ROWS = pathlib.Path("torch_cuda.json")  # where rows are kept
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
PICTURES = {**BASE, "image_size": 224, "patch_size": 16}

NETWORKS = {
    "resnet18": (vision("resnet18"), image),
    "resnet50": (vision("resnet50"), image),
    "resnext50_32x4d": (vision("resnext50_32x4d"), image),
    "wide_resnet50_2": (vision("wide_resnet50_2"), image),
    "vgg16": (vision("vgg16"), image),
    "densenet121": (vision("densenet121"), image),
    "squeezenet1_1": (vision("squeezenet1_1"), image),
    "mobilenet_v2": (vision("mobilenet_v2"), image),
    "mobilenet_v3_large": (vision("mobilenet_v3_large"), image),
    "efficientnet_b0": (vision("efficientnet_b0"), image),
    "regnet_y_400mf": (vision("regnet_y_400mf"), image),
    "shufflenet_v2_x1_0": (vision("shufflenet_v2_x1_0"), image),
    "convnext_tiny": (vision("convnext_tiny"), image),
    "swin_t": (vision("swin_t"), image),
    "vit_b_16": (vision("vit_b_16"), image),
    "timm mixer_b16_224": (timm_model("mixer_b16_224"), image),
    "BERT base": (transformer("BertModel", "BertConfig", **BASE, vocab_size=30522), tokens),
    "RoBERTa base": (transformer("RobertaModel", "RobertaConfig", **BASE, vocab_size=50265), tokens),
    "GPT-2": (transformer("GPT2LMHeadModel", "GPT2Config", use_cache=False), tokens),
    "CLIP's pictures": (transformer("CLIPVisionModel", "CLIPVisionConfig", **PICTURES), image),
}


def add_options(parser):
    """Of a GPU alone."""
    parser.add_argument("--precision", default="fp16", help=f"some of {','.join(PRECISIONS)} (fp16)")
    parser.add_argument("--batch", type=int, help="of every network (8; --hosts: 32); words are 128 each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no row later")
    parser.add_argument("--together", type=int, default=4, help="rows that are prepared at the same time (4)")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # a child's: the network, and where it meets its parent
    parser.add_argument("--meet", type=pathlib.Path, help=argparse.SUPPRESS)


# ---- A row, in a process of its own


def set_precision(precision):
    """What torch's own kernels compute fp32 in."""
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def model_of(options):
    """(model, inputs, results in strict fp32) on the GPU."""
    build, make = NETWORKS[options.row]
    inputs = make(224, options.batch)() if make is image else make(128, options.batch)()
    model, inputs = networks.varied(build()).cuda(), [each.cuda() for each in inputs]
    set_precision("fp32")
    with torch.inference_mode():
        expected = [each.clone() for each in networks.flat(model(*inputs))]
    if options.precision == "fp16":
        model, inputs = model.half(), [each.half() if each.is_floating_point() else each for each in inputs]
    set_precision(options.precision)
    return model, inputs, expected


def runners_of(model, options):
    """{name: the model as it is called}."""
    settings = {"tune": options.tune, "precision": "tf32" if options.precision == "tf32" else "fp32"}
    return {"graft": torch.compile(model, backend="graft", options=settings), "eager": model,
            "compile": torch.compile(model), "reduce-overhead": torch.compile(model, mode="reduce-overhead")}


@contextlib.contextmanager
def alone(path):
    """One process at a time, of those that give this file."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def error_of(results, expected):
    """The greatest difference, relative to the largest element of each result."""
    pairs = list(zip(networks.flat(results), expected, strict=True))
    return max(float((got.float() - want).abs().max() / want.abs().max()) for got, want in pairs)


def prepare(model, inputs, expected, options):
    """(row without times, {name: run}) of the runners that are right."""
    import graft.torch
    row = {"network": options.row, "batch": options.batch, "precision": options.precision, "tune": options.tune,
           "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "errors": {}, "compiling_s": {},
           "failed": {}}
    ready = {}
    for name, runner in runners_of(model, options).items():
        turn = alone(options.meet.with_name("tuning")) if name == "graft" else contextlib.nullcontext()
        try:
            with turn:
                start = time.perf_counter()
                for _ in range(3):
                    error = error_of(runner(*inputs), expected)
                torch.cuda.synchronize()
        except Exception as failure:  # one runner's fault must not end the row
            row["failed"][name] = " ".join(str(failure).split())[:300]
            continue
        row["compiling_s"][name] = round(time.perf_counter() - start, 2)
        row["errors"][name] = float(f"{error:.3g}")
        if not error <= MOST_ERROR[options.precision]:
            row["failed"][name] = f"its results are off by {error:.2g}"
            continue
        ready[name] = lambda runner=runner: runner(*inputs)
    row["fallbacks"] = graft.torch.fallback_count()
    return row, ready


def child(options):
    """Prepares, says so, waits for its turn, measures, and writes the row."""
    model = model_of(options)  # outside of inference_mode, in which torch counts no writes to parameters
    with torch.inference_mode():
        row, ready = prepare(*model, options)
        options.meet.with_suffix(".ready").touch()
        while not options.meet.with_suffix(".go").exists():
            time.sleep(0.02)
        row["ms"] = {name: round(ms, 5) for name, ms in gpu_options.interleaved(ready, options.rounds).items()}
    partial = options.meet.with_suffix(".partial")
    partial.write_text(json.dumps(row))
    os.replace(partial, options.meet.with_suffix(".json"))


# ---- All rows


def key_of(row):
    """What makes a row another one."""
    return row["network"], row["batch"], row["precision"], row["tune"]


def keep(path, rows):
    """Writes them, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    os.replace(partial, path)


class Row:
    """A child at work."""

    def __init__(self, folder, number, name, precision, options):
        self.name, self.precision, self.options = name, precision, options
        self.meet = folder / f"row-{number}"
        words = [sys.executable, str(pathlib.Path(__file__).with_name("torch_networks.py")), "--device", "cuda",
                 "--row", name, "--meet", str(self.meet), "--precision", precision, "--batch", str(options.batch),
                 "--rounds", str(options.rounds), "--tune", options.tune]
        threads = str(max(1, (os.cpu_count() or 4) // options.together))
        self.log = open(self.meet.with_suffix(".log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(words, env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": threads},
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def wait(self, suffix, end):
        """Whether the child has written that file before it ended, and in time."""
        while not self.meet.with_suffix(suffix).exists():
            if self.process.poll() is not None or time.monotonic() > end:
                return self.meet.with_suffix(suffix).exists()
            time.sleep(0.05)
        return True

    def measured(self):
        """The row; with the end of what the child said where it failed."""
        self.meet.with_suffix(".go").touch()
        done = self.wait(".json", time.monotonic() + 120)
        self.end()
        if done:
            return json.loads(self.meet.with_suffix(".json").read_text())
        said = " ".join(self.meet.with_suffix(".log").read_text().split())[-600:]
        return {"network": self.name, "batch": self.options.batch, "precision": self.precision,
                "tune": self.options.tune, "ms": {}, "failed": {"row": said or "it took too long"}}

    def end(self):
        """Nothing of it stays."""
        if self.process.poll() is None and not self.meet.with_suffix(".json").exists():
            self.process.kill()
        self.process.wait()
        self.log.close()


def ratio_of(row):
    """How much faster graft is than the fastest other way; None where that is not known."""
    others = [ms for name, ms in row["ms"].items() if name != "graft"]
    return min(others) / row["ms"]["graft"] if "graft" in row["ms"] and others else None


def line_of(row):
    """Of the table."""
    cells = [f"{row['ms'][name]:.3f}" if name in row["ms"] else "-"
             for name in ("graft", "eager", "compile", "reduce-overhead")]
    ratio = ratio_of(row)
    notes = "; ".join(f"{name}: {reason}" for name, reason in row["failed"].items())
    return (f"| {row['network']} | {row['precision']} | {' | '.join(cells)} | {f'{ratio:.2f}' if ratio else '-'} |"
            f"{' ' + notes if notes else ''}")


def summary(rows, precision):
    """The geometric mean of a precision."""
    ratios = [ratio for row in rows if row["precision"] == precision and (ratio := ratio_of(row))]
    if not ratios:
        return f"{precision}: nothing was measured"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{precision}: geometric mean {mean:.2f} over {len(ratios)} networks, lowest {min(ratios):.2f}"


def main(options):
    """Measures what the file does not hold yet; 1 where a row or a runner failed."""
    if not torch.cuda.is_available():
        raise SystemExit("bench torch: torch sees no GPU here")
    options.batch = options.batch or 8
    if options.row:
        return child(options)
    precisions = options.precision.split(",")
    if unknown := set(precisions) - set(PRECISIONS):
        raise SystemExit(f"--precision: {', '.join(sorted(unknown))} is none of {', '.join(PRECISIONS)}")
    path = options.rows or ROWS
    rows = json.loads(path.read_text()) if path.exists() else []
    rows = [row for row in rows if "row" not in row["failed"]]  # those of which nothing is known are tried again
    known, begin = {key_of(row) for row in rows}, time.monotonic()
    todo = [(name, precision) for precision in precisions for name in NETWORKS
            if re.search(options.cases, name) and (name, options.batch, precision, options.tune) not in known]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, batch {options.batch}, ms\n"
          "| network | precision | graft | eager | compile | reduce-overhead | ratio |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, len(todo), options.together):
            if time.monotonic() - begin > options.seconds:
                break
            group = [Row(pathlib.Path(folder), first + number, *each, options)
                     for number, each in enumerate(todo[first:first + options.together])]
            end = time.monotonic() + PREPARING_SECONDS
            for row in group:
                row.wait(".ready", end)
            for row in group:
                rows.append(row.measured())
                keep(path, rows)
                print(line_of(rows[-1]), flush=True)
    for precision in precisions:
        print(summary(rows, precision))
    left = len(todo) - sum(key_of(row) not in known for row in rows)
    print(f"{left} rows are left: call it again with the same --rows" if left else "all rows are there")
    return 1 if any(row["failed"] for row in rows) else 0
