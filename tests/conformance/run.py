# SPDX-License-Identifier: Apache-2.0
"""`./dev conformance`: the node cases of the onnx package through libgraft.so.

Each case is compiled from the model's own bytes, run on the case's inputs and compared with the
case's own tolerances. In generated mode a numeric case with inputs fails when it met the interpreter
or was folded away. expected_passes.txt lists the cases that must pass, one `mode name` per line;
`--update` adds to it what passes now, and nothing is ever taken out.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import sys
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

import library

EXPECTED = pathlib.Path(__file__).with_name("expected_passes.txt")
SECONDS_PER_CASE = 120
WAYS = ("interpreter", "host", "library", "generated", "folded", "none")


def collect():
    """All node cases, by the onnx package's own collector."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    return collect_testcases(None)


def as_proto(value):
    """An input or expected output as a TensorProto; what is no tensor raises."""
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, (list, tuple, dict)) or value is None:
        raise library.GraftError("sequences, maps and optionals cannot be handed over")
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind in "US":
        raise library.GraftError("strings cannot be handed over")
    return numpy_helper.from_array(array)


def compare(expected, actual, rtol, atol):
    """Why a result departs from what the case expects, or None."""
    expected = as_proto(expected)
    if expected.data_type != actual.data_type:
        names = onnx.TensorProto.DataType.Name
        return f"type {names(actual.data_type)}, expected {names(expected.data_type)}"
    if list(expected.dims) != list(actual.dims):
        return f"shape {list(actual.dims)}, expected {list(expected.dims)}"
    wanted, got = numpy_helper.to_array(expected), numpy_helper.to_array(actual)
    if wanted.dtype.kind not in "biufc":
        wanted, got = wanted.astype(np.float32), got.astype(np.float32)
    try:
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)
    except AssertionError as difference:
        return " ".join(str(difference).split())[:200]
    return None


def way_of(ways):
    """The one word for how a case ran: the slowest way that it met."""
    return next((way for way in WAYS if ways.get(way)), "none")


def check(graft, case, mode):
    """Runs one case; gives (way, why it failed or None)."""
    if not case.data_sets:
        return "none", "the case has no data"
    graph = case.model.graph
    with library.Engine(graft, case.model.SerializeToString(), [("mode", mode)]) as engine:
        way = way_of(engine.describe()["ways"])
        for inputs, outputs in case.data_sets:
            given = [(value.name, as_proto(data)) for value, data in zip(graph.input, inputs)]
            results = engine.run(given, [value.name for value in graph.output])
            for value, expected, actual in zip(graph.output, outputs, results):
                fault = compare(expected, actual, case.rtol, case.atol)
                if fault:
                    return way, f"output {value.name}: {fault}"
            if mode == "generated" and given and way in ("interpreter", "folded"):
                return way, f"the result is right, but came from the {way} way"
    return way, None


def work(cases, mode, pipe):
    """A worker: checks cases in order and writes one line of JSON for each."""
    graft = library.load()
    for case in cases:
        signal.alarm(SECONDS_PER_CASE)
        try:
            way, fault = check(graft, case, mode)
        except library.GraftError as error:
            way, fault = "none", str(error)
        except Exception as error:  # a fault of the case's data must not end the run
            way, fault = "none", f"{type(error).__name__}: {error}"
        signal.alarm(0)
        os.write(pipe, (json.dumps([case.name, way, fault]) + "\n").encode())


def run_all(cases, mode):
    """Yields [name, way, fault]; a crash costs its case and a fresh worker takes the rest."""
    next_case = 0
    while next_case < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            work(cases[next_case:], mode, write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
                next_case += 1
        status = os.waitpid(child, 0)[1]
        if next_case < len(cases):
            reason = "took too long" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM \
                else f"ended the process (status {status})"
            yield [cases[next_case].name, "none", reason]
            next_case += 1


def read_expected():
    """The pairs (mode, name) that must pass."""
    if not EXPECTED.exists():
        return set()
    lines = EXPECTED.read_text().splitlines()
    return {tuple(line.split()) for line in lines if line and not line.startswith("#")}


def write_expected(pairs):
    """Writes the list, sorted."""
    header = "# Cases that must pass, `mode name` each. Grows by `./dev conformance --update`; never shrinks.\n"
    EXPECTED.write_text(header + "".join(f"{mode} {name}\n" for mode, name in sorted(pairs)))


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev conformance", description=__doc__)
    parser.add_argument("--device", choices=["cpu"], default="cpu")
    parser.add_argument("--mode", choices=["generated", "interpret"], default="generated")
    parser.add_argument("--filter", default="", help="only the cases whose name matches this expression")
    parser.add_argument("--json", help="write name, way and fault of each case here")
    parser.add_argument("--update", action="store_true", help="add what passes to expected_passes.txt")
    parser.add_argument("--quiet", action="store_true", help="do not print each failure")
    return parser.parse_args()


def main():
    """Runs, prints the failures, the ways and the count."""
    options = arguments()
    library.load()  # a missing library ends the run here, before the workers start
    collected = collect()
    cases = [case for case in collected if re.search(options.filter, case.name)]
    expected = read_expected()
    rows, lost = [], []
    for name, way, fault in run_all(cases, options.mode):
        rows.append({"name": name, "way": way, "fault": fault})
        if fault and not options.quiet:
            print(f"FAILED {name}: {fault}", flush=True)
        if fault and (options.mode, name) in expected:
            lost.append(name)
    passed = {(options.mode, row["name"]) for row in rows if not row["fault"]}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    if options.update:
        write_expected(expected | passed)
    ways = collections.Counter(row["way"] for row in rows if not row["fault"])
    print("passed by way: " + (", ".join(f"{way} {count}" for way, count in ways.most_common()) or "none"))
    for name in lost:
        print(f"LOST {name}: it is in expected_passes.txt")
    print(f"{len(passed)} passed, {len(rows) - len(passed)} failed, {len(collected) - len(rows)} skipped")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
