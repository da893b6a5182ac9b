# SPDX-License-Identifier: Apache-2.0
"""What low precision costs in accuracy: trained networks that come with packages (bench/trained), and small ones
trained here on scikit-learn's digits, on data that neither training nor calibration has seen.

    ./dev bench accuracy                                   # the table
    ./dev bench accuracy --json bench/results/accuracy-cpu.json && ./dev docs    # into docs/PRECISION.md
    ./dev bench accuracy --networks ViT --json bench/results/accuracy-cpu.json   # this row again
    ./dev bench accuracy --networks MiniLM --forms int8,NNCF --methods entropy,percentile,minmax

int8 is graft.quantize with its defaults. dynamic is int8 without samples, int4 has weights of 4 bits, rounded by the
samples: both quantise products of matrices alone. Beside them are ONNX Runtime's static quantiser with its defaults,
and with a scale per channel and u8 activations, run by ONNX Runtime; and NNCF's with its defaults, and with
ModelType.TRANSFORMER (mixed ranges, SmoothQuant), run by OpenVINO. All calibrate with the same samples. "within bound"
is graft.quantize with --max-error: the error that it reports, or that it refuses. Digits are trained from several
seeds; their test pictures are the held-out ones and copies of them that are moved by a pixel and have noise. The exit
status is 1 where int8 or dynamic loses more than half a point against fp32, int4 more than 1, bf16 or fp16 more than
0.1, or where a bound is broken without a word.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import accuracy_peers as peers
import nncf
import numpy as np
import onnx
import onnxruntime
import torch
from accuracy_networks import NETWORKS
from sklearn.datasets import load_digits
from trained.case import Case, grouped
from trained.cases import CASES

import graft

TRAINED, CALIBRATED, COPIES, NOISE, PER_RUN = 900, 128, 6, 0.15, 8
EPOCHS, BATCH, RATE = {"ViT": 120, "LSTM": 100}, 50, 2e-3  # of the others 40
MOST_LOST = {"bf16": 0.1, "fp16": 0.1, "int8": 0.5, "dynamic": 0.5, "int4": 1}  # points
BOUND, LIMIT = 0.1, 60  # --max-error, and seconds of its search
COMPILED = ("fp32", "bf16", "fp16")
QUANTISED = {"int8": {}, "dynamic": {"activations": "dynamic"}, "int4": {"weights": "int4"}}
ORT = {"ORT int8": {}, "ORT int8 per channel": {"per_channel": True, "activation_type": peers.UNSIGNED}}
NNCF = {"NNCF int8": {}, "NNCF int8 transformer": {"model_type": nncf.ModelType.TRANSFORMER}}
FORMS = (*COMPILED, *QUANTISED, *ORT, *NNCF, "within bound")


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


def digits_case(name, seed, folder, epochs):
    """A network that is trained here."""
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    (pictures, labels), (tested, wanted) = pictures_of(random)
    model = train(NETWORKS[name](), pictures, labels, random, epochs or EPOCHS.get(name, 40))
    path = os.path.join(folder, f"{name}-{seed}.onnx")
    export(model, path)
    onnx.checker.check_model(path)
    calibrated = moved(pictures[:CALIBRATED], random)
    return Case(path, [{"x": group} for group in grouped(calibrated, PER_RUN)], [{"x": tested}],
                lambda results: 100 * float((results[0][0].argmax(1) == wanted).mean()), f"of {len(wanted)} pictures")


def as_function(engine):
    """An engine as a function from inputs by name to the list of outputs."""
    def run(feeds):
        results = engine(*(feeds[value.name] for value in engine.inputs))
        return list(results) if isinstance(results, tuple) else [results]
    return run


def made(form, case, folder):
    """A form of the network, as a function; None where it has nothing that this form quantises."""
    if form in COMPILED:
        return as_function(graft.compile(case.path, precision=form, tune="off"))
    if form in ORT:
        return peers.by_onnxruntime(case.path, case.calibration, folder, **ORT[form])
    if form in NNCF:
        return peers.by_nncf(case.path, case.calibration, **NNCF[form])
    samples = None if form == "dynamic" else case.calibration
    chosen = QUANTISED.get(form, {"method": form})
    try:
        return as_function(graft.quantize(case.path, samples, tune="off", **chosen).engine)
    except graft.UnsupportedError:
        return None


def within_bound(case):
    """(the error that a bound leaves, or None where it is refused; layers that are quantised, and all)."""
    try:
        report = graft.quantize(case.path, case.calibration, tune="off", max_error=BOUND, search_limit=LIMIT).report
    except graft.UnsupportedError:
        return None, 0, 0
    return report.error, sum(layer.precision == "int8" for layer in report.layers), len(report.layers)


def measure(title, case, forms, folder):
    """What each form of a network gets right, in percent; None where it cannot be made."""
    right = {}
    for form in forms:
        start = time.monotonic()
        if form == "within bound":
            right[form] = within_bound(case)
        else:
            try:
                run = made(form, case, folder)
            except Exception as error:  # a peer's quantiser that does not know the network is a result, too
                if form not in ORT and form not in NNCF:
                    raise
                print(f"{title}: {form} fails: {str(error).splitlines()[0][:150]}", flush=True)
                run = None
            right[form] = run and case.score([run(feeds) for feeds in case.tests])
        shown = right[form] if not isinstance(right[form], float) else f"{right[form]:.2f}"
        print(f"{title}: {form} {shown} ({time.monotonic() - start:.0f} s)", flush=True)
    return right


def mean_of(seeds):
    """The mean of each form over networks of one kind; None where one has none."""
    return {form: None if any(right[form] is None for right in seeds)
            else statistics.mean(right[form] for right in seeds) for form in seeds[0]}


def row_of(name, options, folder):
    """The row of a network."""
    if name in CASES:
        case = CASES[name](folder)
        right = measure(name, case, options.forms, folder)
    else:
        forms, seeds = [form for form in options.forms if form != "within bound"], []
        for seed in range(options.seeds):
            case = digits_case(name, seed, folder, options.epochs)
            seeds.append(measure(f"{name}, seed {seed}", case, forms, folder))
        right = mean_of(seeds)
        if "within bound" in options.forms:
            right["within bound"] = measure(name, case, ["within bound"], folder)["within bound"]
    row = {"network": name, "judged": case.judged, "right": right}
    if "within bound" in right:
        error, layers, of = right.pop("within bound")
        row |= {"error": error, "layers": layers, "of": of}
    return row


def faults_of(row):
    """Where a row loses more than it may."""
    right = row["right"]
    found = [f"{row['network']}: {form} loses {right['fp32'] - right[form]:.2f} points"
             for form, most in MOST_LOST.items()
             if right.get(form) is not None and "fp32" in right and right["fp32"] - right[form] > most]
    if (row.get("error") or 0) > BOUND:
        found.append(f"{row['network']}: --max-error {BOUND} leaves {row['error']:.3g}")
    return found


def with_others(rows, path):
    """The rows with those of other networks that the file has, in the order of the networks."""
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    every = {row["network"]: row for row in [*known, *rows]}
    return [every[name] for name in (*CASES, *NETWORKS) if name in every]


def parse_options(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = (*CASES, *NETWORKS)
    parser.add_argument("--networks", default=",".join(names), help="with commas between (all)")
    parser.add_argument("--forms", default=",".join(FORMS), help="with commas between (all)")
    parser.add_argument("--seeds", type=int, default=3, help="networks trained of each kind (3)")
    parser.add_argument("--epochs", type=int, help="of training (40; ViT 120, LSTM 100)")
    parser.add_argument("--methods", default="", help="of graft.quantize, as columns of their own: mse,entropy")
    parser.add_argument("--json", metavar="FILE", help="also write the table here; rows of other networks stay")
    options = parser.parse_args(arguments)
    options.networks, options.forms = options.networks.split(","), options.forms.split(",")
    options.forms += [method for method in options.methods.split(",") if method]
    if unknown := set(options.networks) - set(names):
        parser.error(f"--networks {','.join(sorted(unknown))}: there are {', '.join(names)}")
    return options


def write(path, rows, seeds):
    """Writes the table, with what it was measured by."""
    unit = next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")), "a CPU")
    facts = {"gpu": unit, "date": datetime.date.today().isoformat(), "seeds": seeds, "bound": BOUND,
             "onnxruntime": onnxruntime.__version__, "nncf": nncf.__version__,
             "rows": with_others(rows, pathlib.Path(path))}
    pathlib.Path(path).write_text(json.dumps(facts, indent=1) + "\n")


def main(arguments):
    """Trains, measures and judges."""
    options, rows, lost = parse_options(arguments), [], []
    torch.set_num_threads(1)  # the networks are small: more would wait for each other
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            rows.append(row_of(name, options, folder))
            lost += faults_of(rows[-1])
            if options.json:
                write(options.json, rows, options.seeds)
    for row in rows:
        print(f"{row['network']:22}" + "".join(f"  {form} {'-' if share is None else f'{share:.2f}'}"
                                               for form, share in row["right"].items()))
    print("\n".join(lost))
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
