# SPDX-License-Identifier: Apache-2.0
"""Keras' networks as frozen graphs: Graft inside TensorFlow and by itself, beside TensorFlow and XLA, in one process.

    ./dev bench tensorflow                                   all networks; --docs writes docs/TENSORFLOW.md's table
    ./dev bench tensorflow --cases 'ResNet50|encoder' --rounds 10
    ./dev bench tensorflow --cases ResNet50 --latency-bound 100,250   batches, and images per second within these ms
    ./dev bench tensorflow --table                           each network by each door, right or wrong; into the page
    ./dev bench tensorflow --table --cases SSD               these rows again

Runs in TensorFlow's environment, which ./dev makes. Beside times it prints how long conversion took, and how much
memory a process holds that runs the graph as it is, and with engines.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import child
import door_table
import tensorflow_table
import timing
from keras_networks import CASES, Case
from rows import TOLERANCE, errors, processor

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "tensorflow"))
PAGE = ROOT / "docs" / "TENSORFLOW.md"
BEFORE = "## A graph, without TensorFlow\n"
SECTION = re.compile(r"## Speed\n\n.*?(?=\n## )", re.S)
BOUNDS, END_OF_BOUNDS = "<!-- throughput: ./dev bench tensorflow --latency-bound -->\n", "<!-- end of throughput -->\n"
BATCHES = (1, 2, 4, 8, 16, 32)
MEMORY_RUNS = 10


def session_run(graph_def, case, threads):
    """A function (x) -> result in a tf.Session, which Grappler optimises."""
    import tensorflow as tf
    v1 = tf.compat.v1
    settings = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    with v1.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    session = v1.Session(graph=graph, config=settings)
    run = session.make_callable(f"{case.output}:0", [f"{case.input}:0"])
    return run


def xla_run(case):
    """The graph compiled by XLA for each shape that comes."""
    import tensorflow as tf
    body = tf.compat.v1.GraphDef(versions=case.graph.versions, library=case.graph.library)
    body.node.extend(node for node in case.graph.node if node.op != "Placeholder")  # XLA has none

    @tf.function(jit_compile=True, autograph=False)
    def call(x):
        return tf.graph_util.import_graph_def(body, {case.input: x}, [f"{case.output}:0"], name="")[0]
    return lambda x: call(tf.constant(x)).numpy()


def converted(case, options, batch=1):
    """The graph with engines for batches that are mostly of this size, and how long that took."""
    import graft.tensorflow
    start = time.perf_counter()
    made = graft.tensorflow.create_inference_graph(case.graph, [case.output], batch, strict=True,
                                                   tune=options.tune, threads=options.threads)
    return made, time.perf_counter() - start


def engine_run(case, made, options):
    """The engine of the converted graph without TensorFlow, what `graft bench` runs: the same plan, as another
    measurement of ways might choose others."""
    import graft
    engines = [node for node in made.node if node.op == "GraftEngine"]
    if len(engines) != 1:
        raise SystemExit(f"{case.name}: {len(engines)} engines: there is none that does what the graph does")
    engine = graft.load(engines[0].attr["plan"].s)
    session = graft.Session(engine, threads=options.threads)
    given = engine.inputs[0].name
    return lambda x: next(iter(session.run({given: x}).values()))


def empty_call(options):
    """How long a session takes that runs next to nothing, in milliseconds: what TensorFlow adds to any engine."""
    import numpy as np
    import tensorflow as tf
    with tf.compat.v1.Graph().as_default() as graph:
        given = tf.compat.v1.placeholder(tf.float32, [], name="given")
        tf.add(given, 1, name="more")
    empty = argparse.Namespace(input="given", output="more")
    run = session_run(graph.as_graph_def(), empty, options.threads)
    samples = timing.interleaved({"empty": lambda: run(np.float32(1))}, options.rounds)
    return timing.summary(samples["empty"])["median_ms"]


def measure(case, options, batches):
    """Rows of one network."""
    native = {"tensorflow": session_run(case.graph, case, options.threads), "xla": xla_run(case)}
    rows = []
    for batch in batches:
        made, seconds = converted(case, options, batch)
        runs = {"embedded": session_run(made, case, options.threads), "graft": engine_run(case, made, options),
                **native}
        x = case.given(batch)
        expected = runs["tensorflow"](x)
        for name, run in runs.items():
            _, share = errors([expected], [run(x)])
            if share > TOLERANCE:
                raise SystemExit(f"{case.name}, batch {batch}: {name} is wrong, by {share:.1e} of the range")
        samples = timing.interleaved({name: (lambda run=run: run(x)) for name, run in runs.items()}, options.rounds)
        times = {name: timing.summary(each)["median_ms"] for name, each in samples.items()}
        rows.append({"bench": "tensorflow", "case": case.name, "batch": batch, "device": processor(), **times,
                     "ratio": min(times["tensorflow"], times["xla"]) / times["embedded"],
                     "overhead": times["embedded"] / times["graft"] - 1, "conversion_s": seconds})
        print(f"{case.name:16}{batch:6}" + "".join(f"{times[name]:12.3f}" for name in runs)
              + f"{rows[-1]['ratio']:8.2f}{rows[-1]['overhead']:10.1%}{seconds:10.1f} s", flush=True)
        if options.latency_bound and min(times.values()) > max(options.latency_bound):
            break
    return rows


def write_graphs(name, options):
    """Files for hold(): the graph as it is, and with engines."""
    case = Case(name)
    folder = pathlib.Path(options.graphs)
    (folder / "tensorflow.pb").write_bytes(case.graph.SerializeToString())
    (folder / "embedded.pb").write_bytes(converted(case, options)[0].SerializeToString())
    (folder / "case.json").write_text(json.dumps({"input": case.input, "output": case.output,
                                                  "given": case.given(1).tolist(), "dtype": case.taken.dtype.name}))


def hold(way, name, options):
    """Runs a graph some times, for its memory alone: as it is, with engines, or converted before."""
    import numpy as np
    import tensorflow as tf
    import graft.tensorflow
    if way == "write":
        return write_graphs(name, options)
    graft.tensorflow.load_library()
    folder = pathlib.Path(options.graphs)
    written = json.loads((folder / "case.json").read_text())
    path = folder / ("embedded.pb" if way == "embedded" else "tensorflow.pb")
    case = argparse.Namespace(graph=tf.compat.v1.GraphDef.FromString(path.read_bytes()), **written)
    x = np.array(written["given"], written["dtype"])
    if way == "converting":
        case.graph = converted(case, options)[0]
    run = session_run(case.graph, case, options.threads)
    del case.graph
    for _ in range(MEMORY_RUNS):
        run(x)


WAYS = {"tensorflow": "as it is", "embedded": "with engines", "converting": "converted in the process"}


def memory(name, options):
    """How much more memory a process takes at most that runs the graph with engines, and that converts it, too."""
    with tempfile.TemporaryDirectory() as folder:
        def call(way):
            return child.measure([sys.executable, __file__, "--hold", way, "--cases", name, "--graphs", folder,
                                  "--threads", options.threads, "--tune", options.tune], dict(os.environ))[1]
        call("write")
        peaks = {way: call(way) for way in WAYS}
    more = {way: peak / peaks["tensorflow"] - 1 for way, peak in peaks.items()}
    print(f"{name}, peak memory: " + ", ".join(f"{text} {peaks[way] / 1e6:.0f} MB ({more[way]:+.1%})"
                                               for way, text in WAYS.items()), flush=True)
    return {"bench": "tensorflow-memory", "case": name, **peaks, "more": more}


def throughput_table(rows, bounds):
    """Lines: images per second of the batch that does most within each bound."""
    ways = ("tensorflow", "xla", "embedded")
    lines = [f"| network | within | {' | '.join(ways)} | embedded / better one |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["case"] for row in rows):
        for bound in bounds:
            best = {way: max((row["batch"] / row[way] * 1e3 for row in rows
                              if row["case"] == name and row[way] <= bound), default=0) for way in ways}
            native = max(best["tensorflow"], best["xla"])
            gain = f"{best['embedded'] / native:.2f}" if native else ""
            cells = [f"{best[way]:.1f}" if best[way] else "no batch" for way in ways]
            lines.append(f"| {name} | {bound:g} ms | {' | '.join(cells)} | {gain} |")
    return lines


def geometric_mean(values):
    import math
    return math.exp(sum(map(math.log, values)) / len(values))


def write_page(rows, memories, empty, options):
    """The table of docs/TENSORFLOW.md."""
    lines = ["## Speed", "", f"Written by `./dev bench tensorflow --docs` on {processor()}, {options.threads} threads, "
             f"`tune={options.tune}`: medians in milliseconds, a batch of 1, in one process in turns.", "",
             "| network | embedded | engine alone | TensorFlow | XLA | better one / embedded | conversion | memory |",
             "|---|---|---|---|---|---|---|---|"]
    more = {row["case"]: row["more"] for row in memories}
    for row in rows:
        if row["batch"] != 1:
            continue
        held = " / ".join(f"{more[row['case']][way]:+.1%}" for way in ("embedded", "converting")) if row[
            "case"] in more else ""
        lines.append(f"| {row['case']} | {row['embedded']:.2f} | {row['graft']:.2f} | {row['tensorflow']:.2f} | "
                     f"{row['xla']:.2f} | {row['ratio']:.2f} | {row['conversion_s']:.1f} s | {held} |")
    mean = geometric_mean([row["ratio"] for row in rows if row["batch"] == 1])
    lines += ["", f"Geometric mean: {mean:.2f}. A session that runs nothing takes {empty:.3f} ms. `memory`: the peak "
              "of a process with engines, and of one that converts, too, against one without.", ""]
    page, section = PAGE.read_text(encoding="utf-8"), "\n".join(lines)
    if SECTION.search(page):
        page = SECTION.sub(lambda _: section, page)
    else:
        page = page.replace(BEFORE, f"{section}\n{BEFORE}")
    PAGE.write_text(page, encoding="utf-8")


def write_throughput(rows, options):
    """The other table of that page."""
    said = (f"Images per second where no batch takes longer than a bound, of batches of {', '.join(map(str, BATCHES))} "
            f"until none is within, on {processor()}, {options.threads} threads, `tune={options.tune}`:")
    before, rest = PAGE.read_text(encoding="utf-8").split(BOUNDS)
    after = rest.split(END_OF_BOUNDS)[1]
    lines = [said, "", *throughput_table(rows, options.latency_bound), ""]
    PAGE.write_text(before + BOUNDS + "\n".join(lines) + END_OF_BOUNDS + after, encoding="utf-8")


def bounds_of(text):
    """`7,25` -> milliseconds."""
    return [float(each) for each in text.split(",")]


def parse_options(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", metavar="REGEX", help="only networks that match")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each runner (20)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each runner (2)")
    parser.add_argument("--tune", choices=["off", "fast", "full"],
                        help="how hard Graft tunes (full; off with --table)")
    parser.add_argument("--latency-bound", type=bounds_of, metavar="MS[,MS...]",
                        help="also batches, and how many images in a second where none waits longer")
    parser.add_argument("--memory", default="ResNet50", metavar="REGEX",
                        help="networks whose memory is measured (ResNet50; none with --latency-bound)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    parser.add_argument("--docs", action="store_true",
                        help="write the page's table of times, or with --latency-bound that of throughput")
    parser.add_argument("--table", action="store_true", help="write the page's table of networks and doors")
    parser.add_argument("--rows", metavar="FOLDER", help="with --table: where rows are kept")
    door_table.add_options(parser)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    parser.add_argument("--graphs", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.tune = options.tune or ("off" if options.table else "full")
    return options


def main(arguments):
    """Measures; exits with an error where results differ."""
    options = parse_options(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if options.hold:
        return hold(options.hold, options.cases, options)
    if options.table:
        return tensorflow_table.table_of(options.rows).run(options, [options.tune, options.threads])
    names = [name for name in CASES if re.search(options.cases, name)]
    if not names:
        raise SystemExit(f"--cases {options.cases!r} matches none of {', '.join(CASES)}")
    print(f"machine: {processor()}, load {os.getloadavg()[0]:.2f}; medians in ms")
    columns = "".join(f"{name:>12}" for name in ("embedded", "graft", "tensorflow", "xla"))
    print(f"{'network':16}{'batch':>6}{columns}{'ratio':>8}{'overhead':>10}{'conversion':>12}")
    batches = BATCHES if options.latency_bound else (1,)
    rows = [row for name in names for row in measure(Case(name), options, batches)]
    empty = empty_call(options)
    print(f"a session that runs nothing: {empty:.3f} ms")
    print(f"geometric mean of ratios: {geometric_mean([row['ratio'] for row in rows]):.2f}")
    if options.latency_bound:
        print("images per second:", *throughput_table(rows, options.latency_bound), sep="\n")
    measured = [name for name in names if options.memory and re.search(options.memory, name)]
    memories = [memory(name, options) for name in measured if not options.latency_bound]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows + memories, indent=1) + "\n", encoding="utf-8")
    if options.docs and options.latency_bound:
        write_throughput(rows, options)
    elif options.docs:
        write_page(rows, memories, empty, options)
    return 0


def launch(arguments):
    """Builds the host and runs this file in TensorFlow's environment."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support import framework
    environment = pathlib.Path(os.environ.get("GRAFT_TENSORFLOW_ENVIRONMENT", ROOT / ".deps" / "tensorflow"))
    python = environment / "bin" / "python"
    if not python.is_file():
        raise SystemExit(f"there is no TensorFlow in {environment}: ./dev test tensorflow installs it")
    package = next(environment.glob("lib/python*/site-packages/tensorflow"))
    framework.build_host("tensorflow", f"-DGRAFT_TENSORFLOW={package}", ())
    variables = {**os.environ, "PYTHONPATH": str(framework.BUILD / "python"), "GRAFT_BUILD": str(framework.BUILD)}
    return subprocess.run([python, __file__, *arguments], env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
