# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs over one of the C interface: the same tiny network, on the same memory, in turns, in
time of the one processor that it takes, so that other work on the machine does not count."""

import ctypes
import datetime
import os
import pathlib
import re
import sys
import tempfile
import time

import numpy as np

import graft_peer
import native
from rows import row_of

CALLS, TURNS = 2000, 30
MOST_US = 10.0
PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "performance.md"
SECTION = re.compile(r"(## A call from Python\n\n).*?(?=\n## )", re.S)


def model_of(inputs):
    """y = the sum of the inputs, f32[8, 4] each."""
    from onnx import TensorProto, helper
    names = [f"x{number}" for number in range(inputs)]
    graph = helper.make_graph([helper.make_node("Sum", names, ["y"])], "sum",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in names],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def c_call(library, plan, feeds, output):
    """Gives a function that tells the seconds of a call of graft_session_run."""
    session = library.create_session(library.load(plan), 1)
    function = native.load("call_cost").seconds_of_run
    function.restype = ctypes.c_double
    run = library.runner(session, feeds, {"y": output})
    given, wanted = graft_peer.tensor_array(feeds), graft_peer.tensor_array({"y": output})
    address = ctypes.cast(library.library_.graft_session_run, ctypes.c_void_p)

    def seconds():
        return function(address, session, given[0], ctypes.c_size_t(len(feeds)), wanted[0], ctypes.c_size_t(1), CALLS)
    run()
    return seconds


def python_call(call):
    """Gives a function that tells the seconds of a call."""
    def seconds():
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        return (time.thread_time() - start) / CALLS
    call()
    return seconds


def with_table(page, table, day):
    """The page of results with this table in its section."""
    text = (f"What `./dev bench cpu --only python --docs` wrote on {day}: a network of one step on the same memory; at "
            f"most {MOST_US:.0f} us\nover C are allowed.\n\n```\n{table}\n```\n")
    changed, count = SECTION.subn(lambda section: section[1] + text, page)
    if count != 1:
        raise SystemExit(f"{PAGE} has no section 'A call from Python'")
    return changed


def measure(options, peer):
    """Prints a table, gives the rows; with --docs the table is written into the page of results, too."""
    folder = options.build or os.environ.get("GRAFT_BUILD") or os.path.join(graft_peer.ROOT, "build")
    sys.path.insert(0, os.path.join(folder, "python"))
    try:
        import graft
    except ImportError:
        print("\npython: left out, ./dev build makes the Python package")
        return []
    lines = []

    def show(line):
        lines.append(line)
        print(line)
    print()
    show(f"a call of a network of one step from Python, and what it costs over graft_session_run from C++: "
         f"processor time of one thread, best of {TURNS} turns of {CALLS} calls")
    show(f"{'call':34}{'us':>8}{'C us':>8}{'over C':>8}")
    rows = []
    for inputs in (1, 4):
        feeds = {f"x{number}": np.ones((8, 4), np.float32) for number in range(inputs)}
        output = np.empty((8, 4), np.float32)
        engine = graft.compile(model_of(inputs), dims={"batch": (1, 8, 64)}, tune="off", threads=1)
        with tempfile.TemporaryDirectory() as scratch:
            plan = os.path.join(scratch, "sum.graft")
            engine.save(plan)
            in_c = c_call(peer.open_library(), plan, feeds, output)
            arrays, target = list(feeds.values()), {"y": output}
            ways = {f"engine(x...), {inputs} inputs": python_call(lambda: engine(*arrays)),
                    f"engine.run(dict, dict), {inputs} inputs": python_call(lambda: engine.run(feeds, target))}
            best = {name: 1.0 for name in ("c", *ways)}
            for _ in range(TURNS):
                for name, seconds in (("c", in_c), *ways.items()):
                    best[name] = min(best[name], seconds())
        for name in ways:
            over = (best[name] - best["c"]) * 1e6
            show(f"{name:34}{best[name] * 1e6:8.2f}{best['c'] * 1e6:8.2f}{over:8.2f}"
                 + ("" if over <= MOST_US else f"  more than the {MOST_US:.0f} us that it may be"))
            rows.append(row_of(options, f"python/{name.split('(')[0]}/{inputs}", 8, best[name] * 1e3,
                               {"graft_session_run": best["c"] * 1e3}))
    if options.docs:
        PAGE.write_text(with_table(PAGE.read_text(), "\n".join(lines), datetime.date.today().isoformat()))
    return rows
