# SPDX-License-Identifier: Apache-2.0
"""`./dev conformance`: the node cases of the onnx package through libgraft.so.

Each case is compiled from the model's own bytes, run on the case's inputs and compared with the case's own
tolerances. In generated mode a numeric case with inputs fails when it met the interpreter. One that was folded
away, as its shapes tell all of it, has to pass once more with the sizes of its inputs open, where nothing can
be folded. One that draws at random is judged by what has to hold of its draws (draws.py). expected_passes.txt
lists the cases that must pass, one `mode name` per line; `--update` adds to it what passes now, and nothing is
ever taken out. On another device than the CPU the list is that of the CPU: what it holds has to pass there too.

`--write-cases FILE` writes the cases into a file instead; with `--cases FILE`, or where such a file cases.zip lies
beside this program, as in a bundle, it is read, and the onnx package may be of another version.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import re
import selectors
import signal
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import case_files
import draws
import library
import type_cells

STORED = pathlib.Path(__file__).with_name("cases.zip")
EXPECTED = pathlib.Path(__file__).with_name("expected_passes.txt")
SECONDS_PER_CASE = 120
WAYS = ("interpreter", "host", "library", "generated", "control", "folded", "none")


def compare(expected, actual, rtol, atol):
    """Why a result departs from what the case expects, or None."""
    if expected is None or actual is None:
        return None if expected is actual else "there is a value where nothing is expected, or nothing where one is"
    if isinstance(expected, list) or isinstance(actual, list):
        if not isinstance(expected, list) or not isinstance(actual, list) or len(expected) != len(actual):
            return f"{len(actual) if isinstance(actual, list) else 'no'} elements of a sequence, other than expected"
        faults = [compare(*pair, rtol, atol) for pair in zip(expected, actual)]
        return next((f"element {place}: {fault}" for place, fault in enumerate(faults) if fault), None)
    if expected.data_type != actual.data_type:
        names = onnx.TensorProto.DataType.Name
        return f"type {names(actual.data_type)}, expected {names(expected.data_type)}"
    if list(expected.dims) != list(actual.dims):
        return f"shape {list(actual.dims)}, expected {list(expected.dims)}"
    if expected.data_type == onnx.TensorProto.STRING:
        same = list(expected.string_data) == list(actual.string_data)
        return None if same else f"strings {list(actual.string_data)}, expected {list(expected.string_data)}"
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


def with_open_sizes(model):
    """The model with a symbol for each size of its inputs."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for number, value in enumerate(model.graph.input):
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"size_{number}_{axis}"
    del model.graph.value_info[:]
    return model


def check(graft, case, mode, device):
    """Runs one case; gives (way, why it failed or None)."""
    if not case.data_sets:
        return "none", "the case has no data"
    way, fault = check_model(graft, case, case.model, mode, device)
    if way == "folded" and not fault and mode == "generated" and case.model.graph.input:
        return check_model(graft, case, with_open_sizes(case.model), mode, device)
    return way, fault


def check_model(graft, case, model, mode, device):
    """The same for the case's data and one model."""
    graph = model.graph
    options = [("mode", mode), ("device", device)]
    with library.Engine(graft, model.SerializeToString(), options) as engine:
        way = way_of(engine.describe()["ways"])
        for inputs, outputs in case.data_sets:
            given = [(value.name, data) for value, data in zip(graph.input, inputs)]
            if draws.are_random(model):
                fault = draws.fault_of(graft, model, options, inputs, outputs)
                if fault:
                    return way, fault
                outputs = []
            results = engine.run(given, [value.name for value in graph.output])
            for value, expected, actual in zip(graph.output, outputs, results):
                fault = compare(expected, actual, case.rtol, case.atol)
                if fault:
                    return way, f"output {value.name}: {fault}"
            if mode == "generated" and given and way == "interpreter":
                return way, f"the result is right, but came from the {way} way"
    return way, None


def work(cases, judge, pipe):
    """In a process of its own: checks cases in order and writes one line of JSON for each."""
    graft = library.load()
    for case in cases:
        signal.alarm(SECONDS_PER_CASE)
        try:
            way, fault = judge(graft, case)
        except library.GraftError as error:
            way, fault = "none", str(error)
        except Exception as error:  # a fault of the case's data must not end the run
            way, fault = "none", f"{type(error).__name__}: {error}"
        signal.alarm(0)
        os.write(pipe, (json.dumps([case.name, way, fault]) + "\n").encode())


class Worker:
    """A process that checks its share of the cases; a crash costs one case, and a fresh process takes the rest."""

    def __init__(self, cases, judge):
        self.cases, self.judge = cases, judge
        self.done = 0
        self.start()

    def start(self):
        """Forks a process for the cases that are left."""
        self.pipe, write = os.pipe()
        self.unread = b""
        self.child = os.fork()
        if self.child == 0:
            os.close(self.pipe)
            work(self.cases[self.done:], self.judge, write)
            os._exit(0)
        os.close(write)

    def rows(self):
        """The rows [name, way, fault] that have come since; waits for some. None when the process has ended."""
        data = os.read(self.pipe, 1 << 16)
        if not data:
            return None
        *lines, self.unread = (self.unread + data).split(b"\n")
        self.done += len(lines)
        return [json.loads(line) for line in lines]

    def close(self):
        """After the end of the process: the row of the case that ended it, if one did."""
        os.close(self.pipe)
        status = os.waitpid(self.child, 0)[1]
        if self.done == len(self.cases):
            return []
        reason = "took too long" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM \
            else f"ended the process (status {status})"
        self.done += 1
        return [[self.cases[self.done - 1].name, "none", reason]]


def run_all(cases, judge, jobs):
    """Yields [name, way, fault] of each case, as judge(graft, case) gives them in `jobs` processes."""
    with selectors.DefaultSelector() as waiting:
        def wait_for(worker):
            waiting.register(worker.pipe, selectors.EVENT_READ, worker)

        for job in range(min(jobs, len(cases))):
            wait_for(Worker(cases[job::jobs], judge))
        while waiting.get_map():
            for key, _ in waiting.select():
                rows = key.data.rows()
                if rows is None:
                    waiting.unregister(key.fileobj)
                    rows = key.data.close()
                    if key.data.done < len(key.data.cases):
                        key.data.start()
                        wait_for(key.data)
                yield from rows


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
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="what runs the cases (cpu)")
    parser.add_argument("--mode", choices=["generated", "interpret"], default="generated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time (one per processor)")
    parser.add_argument("--filter", default="", help="only the cases whose name matches this expression")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only one case in N of those, from")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="this one on")
    parser.add_argument("--cases", metavar="FILE", type=pathlib.Path, help="read the cases from this zip")
    parser.add_argument("--json", help="write name, way and fault of each case here")
    parser.add_argument("--update", action="store_true", help="add what passes to expected_passes.txt")
    parser.add_argument("--types", action="store_true",
                        help="operator by element type, as the schemas allow; --update writes docs/operator_types.md")
    parser.add_argument("--quiet", action="store_true", help="do not print each failure")
    parser.add_argument("--write-cases", metavar="FILE", help="write the cases into a zip, and stop")
    options = parser.parse_args()
    if options.jobs < 1 or options.every < 1:
        parser.error("--jobs, --every: at least 1")
    if options.device != "cpu" and options.update:
        parser.error("--update: the list is that of the CPU")
    return options


def check_types(options, collected):
    """Operator by element type; the exit status."""
    known = type_cells.schemas()
    cells = [cell for name, schema in known.items() for cell in type_cells.cells_of(name, schema)
             if re.search(options.filter, name)]
    cases = type_cells.single_nodes(collected, known)

    def judge(graft, cell):
        return "none", type_cells.reason_of(graft, cell, known[cell.operator], cases[cell.operator], options.device)

    by_name = {cell.name: cell for cell in cells}
    rows = {by_name[name]: fault for name, _, fault in run_all(cells, judge, options.jobs)}
    before = type_cells.tested_in(type_cells.PAGE.read_text()) if type_cells.PAGE.exists() else set()
    lost = sorted(cell for cell, reason in rows.items() if reason and cell in before)
    for cell in lost:
        print(f"LOST {cell.name}: {rows[cell]}")
    if options.update and not options.filter:
        type_cells.PAGE.write_text(type_cells.page_of(rows))
    if options.json:
        reasons = {cell.name: reason for cell, reason in rows.items()}
        pathlib.Path(options.json).write_text(json.dumps(reasons, indent=1))
    tested = sum(1 for reason in rows.values() if not reason)
    print(f"{len(rows)} of {len(cells)} cells: {tested} tested, {len(rows) - tested} listed with the reason")
    return 1 if lost or len(rows) < len(cells) else 0


def main():
    """Runs, prints the failures, the ways and the count."""
    options = arguments()
    if options.write_cases:
        case_files.write(case_files.collect(), options.write_cases)
        return 0
    library.load()  # a missing library ends the run here, before the workers start
    stored = options.cases or STORED
    collected = case_files.read(stored) if options.cases or stored.exists() else case_files.collect()
    if options.types:
        return check_types(options, collected)
    cases = [case for case in collected if re.search(options.filter, case.name)][options.first::options.every]
    expected = read_expected()
    rows, lost = [], []
    judge = functools.partial(check, mode=options.mode, device=options.device)
    for name, way, fault in run_all(cases, judge, options.jobs):
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
    random = {case.name for case in cases if draws.are_random(case.model)}
    judged = sum(name in random for _, name in passed)
    print(f"{judged} of those that passed draw at random and were judged by what holds of all draws")
    print(f"{len(passed)} passed, {len(rows) - len(passed)} failed, {len(collected) - len(rows)} skipped")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
