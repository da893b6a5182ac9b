# SPDX-License-Identifier: Apache-2.0
"""What bf16 and int8 cost in accuracy: small networks, trained here on scikit-learn's digits, on pictures that neither
training nor calibration has seen.

    ./dev bench accuracy                                   # the table
    ./dev bench accuracy --json bench/results/accuracy-cpu.json && ./dev docs    # into docs/PRECISION.md
    ./dev bench accuracy --networks ViT --json bench/results/accuracy-cpu.json   # this row again
    ./dev bench accuracy --networks ViT --seeds 1 --methods entropy,percentile,minmax

Each network is trained from several seeds. int8 is graft.quantize with its defaults. dynamic is int8 without samples,
int4 has weights of 4 bits, rounded by the samples: both quantise products of matrices alone. Beside them are ONNX
Runtime's static quantiser with its defaults, and with a scale per channel and u8 activations, run by ONNX Runtime. All
calibrate with the same pictures of the training set. The test pictures are the held-out ones, and copies of them that
are moved by a pixel and have noise, so that half a point is many pictures. The exit status is 1 where int8 or dynamic
loses more than half a point against fp32, int4 more than 1, or bf16 more than 0.1.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from accuracy_networks import NETWORKS
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from sklearn.datasets import load_digits

import graft

TRAINED, CALIBRATED, COPIES, NOISE = 900, 128, 6, 0.15
EPOCHS, BATCH, RATE = {"ViT": 120, "LSTM": 100}, 50, 2e-3  # of the others 40
MOST_LOST = {"bf16": 0.1, "int8": 0.5, "dynamic": 0.5, "int4": 1}  # points
ORT = {"ORT int8": {}, "ORT int8 per channel": {"per_channel": True,
                                                "activation_type": quantization.QuantType.QUInt8}}


def moved(pictures, random):
    """Moved by up to a pixel each way, with noise."""
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    made = np.empty_like(pictures)
    for n, (y, x) in enumerate(random.integers(0, 3, (len(pictures), 2))):
        made[n] = padded[n, :, y:y + 8, x:x + 8]
    return (made + NOISE * random.standard_normal(made.shape)).astype(np.float32)


def pictures_of(random):
    """((pictures, digits) to train with, the same to test with)."""
    digits = load_digits()
    pictures = (digits.images[:, None] / 16).astype(np.float32)
    order = random.permutation(len(pictures))
    pictures, labels = pictures[order], digits.target[order]
    held_out, wanted = pictures[TRAINED:], labels[TRAINED:]
    tested = np.concatenate([held_out, *(moved(held_out, random) for _ in range(COPIES))])
    return (pictures[:TRAINED], labels[:TRAINED]), (tested, np.tile(wanted, COPIES + 1))


def train(model, pictures, labels, random, epochs):
    """Trains on pictures that are moved anew in each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = epochs * (len(pictures) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    model.train()
    for _ in range(epochs):
        seen, order = moved(pictures, random), random.permutation(len(pictures))
        for first in range(0, len(order), BATCH):
            chosen = order[first:first + BATCH]
            loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(seen[chosen])),
                                                     torch.from_numpy(labels[chosen]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def export(model, path):
    """Writes it as ONNX, with a batch of any size."""
    torch.onnx.export(model, (torch.zeros(2, 1, 8, 8),), path, dynamo=False, opset_version=17, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})


class Reader(quantization.CalibrationDataReader):
    """The calibration's pictures, as ONNX Runtime asks for them."""

    def __init__(self, pictures):
        self.batches = iter([{"x": pictures[first:first + 8]} for first in range(0, len(pictures), 8)])

    def get_next(self):
        return next(self.batches, None)


def in_onnxruntime(path, pictures):
    """What ONNX Runtime computes."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": pictures})[0]


def outputs_of(path, calibrated, tested, methods):
    """The outputs of each form of a network: name -> array."""
    found = {"fp32": graft.compile(path, tune="off")(tested),
             "bf16": graft.compile(path, precision="bf16", tune="off")(tested)}
    for method in methods:
        made = graft.quantize(path, calibrated, method=method, tune="off")
        found["int8" if method is None else method] = made.engine(tested)
    found["dynamic"] = graft.quantize(path, activations="dynamic", tune="off").engine(tested)
    found["int4"] = graft.quantize(path, calibrated, weights="int4", tune="off").engine(tested)
    prepared = f"{path}.prepared.onnx"
    quant_pre_process(path, prepared)
    for name, choices in ORT.items():
        target = f"{path}.ort.onnx"
        quantization.quantize_static(prepared, target, Reader(calibrated), **choices)
        found[name] = in_onnxruntime(target, tested)
    return found


def measure(name, seed, options, folder):
    """The share of test pictures, in percent, that each form of a network gets right."""
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    (pictures, labels), (tested, wanted) = pictures_of(random)
    model = train(NETWORKS[name](), pictures, labels, random, options.epochs or EPOCHS.get(name, 40))
    path = os.path.join(folder, f"{name}-{seed}.onnx")
    export(model, path)
    onnx.checker.check_model(path)
    calibrated = moved(pictures[:CALIBRATED], random)
    right = {form: 100 * float((output.argmax(1) == wanted).mean())
             for form, output in outputs_of(path, calibrated, tested, [None, *options.methods]).items()}
    print(f"{name}, seed {seed}: " + ", ".join(f"{form} {share:.2f}" for form, share in right.items()), flush=True)
    return right


def with_others(rows, path):
    """The rows with those of other networks that the file has, in the order of the networks."""
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    every = {row["network"]: row for row in [*known, *rows]}
    return [every[name] for name in NETWORKS if name in every]


def parse_options(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default=",".join(NETWORKS), help="with commas between (all)")
    parser.add_argument("--seeds", type=int, default=3, help="networks trained of each kind (3)")
    parser.add_argument("--epochs", type=int, help="of training (40; ViT 120, LSTM 100)")
    parser.add_argument("--methods", default="", help="of graft.quantize, as columns of their own: mse,entropy")
    parser.add_argument("--json", metavar="FILE", help="also write the table here; rows of other networks stay")
    options = parser.parse_args(arguments)
    options.networks = options.networks.split(",")
    options.methods = [method for method in options.methods.split(",") if method]
    if unknown := set(options.networks) - set(NETWORKS):
        parser.error(f"--networks {','.join(sorted(unknown))}: there are {', '.join(NETWORKS)}")
    return options


def main(arguments):
    """Trains, measures and judges."""
    options, rows, lost = parse_options(arguments), [], []
    torch.set_num_threads(1)  # the networks are small: more would wait for each other
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            seeds = [measure(name, seed, options, folder) for seed in range(options.seeds)]
            mean = {form: statistics.mean(right[form] for right in seeds) for form in seeds[0]}
            rows.append({"network": name, "right": mean})
            lost += [f"{name}: {form} loses {mean['fp32'] - mean[form]:.2f} points"
                     for form, most in MOST_LOST.items() if mean["fp32"] - mean[form] > most]
    for row in rows:
        print(f"{row['network']:10}" + "".join(f"  {form} {share:.2f}" for form, share in row["right"].items()))
    if options.json:
        rows = with_others(rows, pathlib.Path(options.json))
        unit = next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                     if line.startswith("model name")), "a CPU")
        facts = {"gpu": unit, "date": datetime.date.today().isoformat(), "seeds": options.seeds,
                 "onnxruntime": onnxruntime.__version__, "rows": rows}
        pathlib.Path(options.json).write_text(json.dumps(facts, indent=1) + "\n")
    print("\n".join(lost))
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
