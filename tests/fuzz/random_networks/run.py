# SPDX-License-Identifier: Apache-2.0
"""Random networks: generated kernels, the interpreter and ONNX Runtime compared; `./dev fuzz SECONDS nnsmith|samples`.

Exits with 1 when anything is found: a crash, a hang, an internal error, a node without a kernel, a valid network that
is refused, or different results. What failed stays in build-fuzz/crashes, made small, with the line that runs it again.
"""

import argparse
import itertools
import os
import pathlib
import secrets
import sys
import time

sys.dont_write_bytecode = True

import numpy as np  # noqa: E402
import onnx  # noqa: E402

import networks  # noqa: E402
import sources  # noqa: E402
from check import TARGETS, Checker  # noqa: E402
from minimise import minimise  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", sources.ROOT / "build"))
CRASHES = sources.ROOT / "build-fuzz" / "crashes"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="how long (120)")
    parser.add_argument("--source", choices=sources.SOURCES, default="nnsmith", help="who makes the networks")
    parser.add_argument("--seeds", default=os.environ.get("GRAFT_SEED", "1"),
                        help="FIRST, FIRST..LAST, or `random` for a new first one (GRAFT_SEED, else 1)")
    parser.add_argument("--model", help="check this network instead, with the inputs of the .npz beside it")
    parser.add_argument("--target", default="any", choices=("any", *TARGETS),
                        help="of the generated kernels; `any`: by the seed")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the generated kernels (cpu)")
    options = parser.parse_args()
    if options.device != "cpu":
        options.target = "native"
    return options


def keep(checker, name, model, inputs, target, finding):
    """Writes a failing network and what it becomes when made small; returns the line that runs it again."""
    CRASHES.mkdir(parents=True, exist_ok=True)
    path = CRASHES / f"{name}-{finding.kind.replace(' ', '-')}.onnx"
    onnx.save(model, path.with_suffix(".whole.onnx"))
    small, given = minimise(checker, model, inputs, target, finding.kind)
    onnx.save(small, path)
    np.savez(path.with_suffix(".npz"), **given)
    runner = pathlib.Path(__file__).relative_to(sources.ROOT)
    return f".deps/venv/bin/python {runner} --target {target} --model {path.relative_to(sources.ROOT)}"


def check_file(checker, path, target):
    model, beside = onnx.load(path), pathlib.Path(path).with_suffix(".npz")
    inputs = dict(np.load(beside)) if beside.exists() else networks.random_inputs(model, 1)
    print(onnx.printer.to_text(model.graph))
    findings = checker.check(model, inputs, target)
    for finding in findings:
        print(f"{finding.kind}: {finding.text}")
    return findings


def check_source(checker, options):
    source = sources.SOURCES[options.source]()
    first, _, last = str(secrets.randbelow(2**31) if options.seeds == "random" else options.seeds).partition("..")
    print(f"networks of {source.name} from GRAFT_SEED={first}", flush=True)
    end, checked, missing, found = time.monotonic() + options.seconds, 0, 0, []
    for seed in range(int(first), int(last) + 1) if last else itertools.count(int(first)):
        if time.monotonic() > end:
            break
        model = source.network(seed)
        if model is None:
            missing += 1
        else:
            inputs = source.inputs(seed) or networks.random_inputs(model, seed)
            target = TARGETS[seed % len(TARGETS)] if options.target == "any" else options.target
            findings = checker.check(model, inputs, target)
            checked += 1
            for finding in {finding.kind: finding for finding in findings}.values():
                found.append(finding)
                print(f"seed {seed}: {finding.kind}: {finding.text}", flush=True)
                print(f"  again: {keep(checker, f'{source.name}-{seed}', model, inputs, target, finding)}", flush=True)
        if (checked + missing) % 100 == 0:
            print(f"{checked} networks, {len(found)} findings", flush=True)
    source.stop()
    for text, count in sorted(checker.notes.items()):
        print(f"{count:6} x {text}")
    print(f"{checked} networks, {missing} that {source.name} could not make, {len(found)} findings")
    return found or not checked


def main():
    options = arguments()
    os.environ["GRAFT_CACHE"] = "/dev/null"  # kernels are generated, and not kept
    checker = Checker(BUILD / "bin" / "graft", options.device)
    try:
        if options.model:
            failed = check_file(checker, options.model, TARGETS[0] if options.target == "any" else options.target)
        else:
            failed = check_source(checker, options)
    finally:
        checker.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
