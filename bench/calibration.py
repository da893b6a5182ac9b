# SPDX-License-Identifier: Apache-2.0
"""How long quantising takes: calibration beside inference of the same samples, and the searches.

    ./dev bench calibration                              # ResNet-50 and BERT-base, 100 samples
    ./dev bench calibration --networks mobilenet_v2 --samples 50

Seconds of the processor, but for those of whole calls, which are the clock's. `calibrating` is the one pass that finds
the ranges, `inference` the same samples through the network in fp32. `int8` is graft.quantize with its defaults: it
also measures the network on all samples, and finds the layers that have to stay fp32. `within a bound` is the search
for the fastest network within --max-error.
"""

import argparse
import functools
import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import networks  # noqa: E402
from rows import processor  # noqa: E402

import graft  # noqa: E402


def processor_seconds():
    """What this process has taken, on all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Stages:
    """Processor seconds by what a call reports of its progress."""

    def __init__(self):
        self.seconds = {}
        self._what, self._since = None, 0.0

    def __call__(self, stage, what, *_):
        now = processor_seconds()
        if self._what:
            self.seconds[self._what] = self.seconds.get(self._what, 0) + now - self._since
        self._what, self._since = what, now
        return True


def inference_seconds(path, samples, options):
    """Of all samples, one at a time, after those that prepare memory."""
    engine = graft.compile(path, threads=options.threads, tune="off")
    for sample in samples[:3]:
        engine.run(sample)
    before = processor_seconds()
    for sample in samples:
        engine.run(sample)
    return processor_seconds() - before


def measure(name, options):
    """Prints a line for a network."""
    path = networks.cached_path(name)
    find = networks.find(name)
    samples = [find.inputs(1, seed) for seed in range(options.samples)]
    quantize = functools.partial(graft.quantize, path, samples, threads=options.threads, tune="off")
    inference = [inference_seconds(path, samples, options)]
    stages = Stages()
    quantize(min_snr=0, progress=stages)
    inference.append(inference_seconds(path, samples, options))
    begin = time.monotonic()
    quantize()
    default = time.monotonic() - begin
    begin = time.monotonic()
    try:
        quantize(max_error=options.max_error)
    except graft.Error as error:  # whatever it finds, it has taken its time
        print(f"  {name}: {str(error).splitlines()[0]}")
    bounded = time.monotonic() - begin
    fp32, calibrating = sum(inference) / 2, stages.seconds["calibrating"]
    print(f"{name:18}{fp32:12.1f}{calibrating:14.1f}{calibrating / fp32:8.2f}{default:10.0f}{bounded:17.0f}",
          flush=True)


def main():
    """Measures the networks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", default="resnet50,bert_base", help="names of models/networks.py")
    parser.add_argument("--samples", type=int, default=100, help="how many, one in a batch (100)")
    parser.add_argument("--threads", type=int, default=2, help="of each run (2)")
    parser.add_argument("--max-error", type=float, default=0.05, help="the bound of the search (0.05)")
    options = parser.parse_args()
    print(f"machine: {processor()}, load {os.getloadavg()[0]:.2f}")
    print(f"{options.samples} samples, {options.threads} threads, --max-error {options.max_error}")
    print(f"{'network':18}{'inference s':>12}{'calibrating s':>14}{'ratio':>8}{'int8 s':>10}{'within a bound s':>17}")
    for name in options.networks.split(","):
        measure(name, options)


if __name__ == "__main__":
    main()
