# SPDX-License-Identifier: Apache-2.0
"""Single operators that move or select elements, on a CPU beside ONNX Runtime and OpenVINO.

    python bench/run.py ops --device cpu
    python bench/run.py ops --device cpu --cases 'resize|transpose' --threads 1 --json rows.json

Each case is an ONNX graph of one operator of bench/shapes/cpu_ops.json, at a size that networks have. The ratio is the
time of the fastest peer over Graft's, above 1 is faster; what falls below 0.95 is marked.
"""

import argparse
import dataclasses
import json
import os
import re
import tempfile

import numpy as np

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes", "cpu_ops.json")
LEAST_RATIO = 0.95
TOLERANCE = 1e-4  # of the output's range


@dataclasses.dataclass
class CpuOp:
    """One case as peers.py wants it."""

    entry: dict
    folder: str
    dims: tuple = ()
    sizes: tuple = ()

    @property
    def label(self):
        """The name that --cases matches."""
        return self.entry["name"]

    def inputs(self):
        """Seeded arrays by name."""
        generator = np.random.default_rng(1)
        kind = np.dtype(self.entry.get("type", "float32"))
        shape = self.entry["shape"]
        if kind == np.bool_:
            x = generator.integers(0, 2, shape).astype(kind)
        elif kind.kind in "iu":
            x = generator.integers(0, 100, shape).astype(kind)
        else:
            x = generator.standard_normal(shape, np.float32).astype(kind)
        if "grid" not in self.entry:
            return {"x": x}
        height, width = self.entry["grid"]
        rows, columns = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
        grid = np.stack([columns, rows], -1)[None].repeat(shape[0], 0)
        noise = generator.uniform(-0.1, 0.1, grid.shape)  # as a flow moves an image
        return {"x": x, "g": (grid + noise).astype(np.float32)}

    def model(self):
        """The path of the ONNX file, written once."""
        import onnx
        from onnx import helper, numpy_helper
        path = os.path.join(self.folder, self.label + ".onnx")
        if os.path.exists(path):
            return path
        made = {name: np.array(value["values"], value["type"])
                for name, value in self.entry.get("constants", {}).items()}
        if "weights" in self.entry:
            made["w"] = np.random.default_rng(2).standard_normal(self.entry["weights"], np.float32)
        outputs = ["y", "i"] if self.entry["op"] == "TopK" else ["y"]
        names = self.entry.get("inputs", ["x"])
        node = helper.make_node(self.entry["op"], names, outputs, **self.entry.get("attributes", {}))
        given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in self.inputs().items()]
        kinds = [given[0].type.tensor_type.elem_type, onnx.TensorProto.INT64]
        graph = helper.make_graph([node], self.label, given,
                                  [helper.make_tensor_value_info(name, kind, None)
                                   for name, kind in zip(outputs, kinds)],
                                  [numpy_helper.from_array(array, name) for name, array in made.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.save(onnx.shape_inference.infer_shapes(model, data_prop=True), path)
        return path


def cpu_ops(folder):
    """Lists the cases of cpu_ops.json."""
    with open(SHAPES, encoding="utf-8") as file:
        return [CpuOp(entry, folder) for entry in json.load(file)["cases"]]


def parse_options(arguments):
    """Reads the command line after the bench's name."""
    parser = argparse.ArgumentParser(prog="./dev bench ops --device cpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu"])
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases that match")
    parser.add_argument("--peers", default="", metavar="REGEX", help="only peers that match")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each runner (20)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each runner (1)")
    parser.add_argument("--build", default=os.environ.get("GRAFT_BUILD"),
                        help="Graft's build folder (GRAFT_BUILD, or build)")
    parser.add_argument("--tune", default="off", choices=["off", "fast", "full"], help="how hard Graft tunes (off)")
    parser.add_argument("--json", metavar="FILE", help="also write the rows here")
    options = parser.parse_args(arguments)
    options.bench = "cpu_ops"
    if options.rounds < 2:
        parser.error("--rounds: at least 2")
    return options


def measure(case, runners, rounds):
    """The medians in ms by name, and who failed or was wrong."""
    import timing
    from rows import errors
    inputs, ready, failed, reference = case.inputs(), {}, [], None
    for runner in runners:
        try:
            run = runner.prepare(case, inputs, reference)
            results = [np.array(result) for result in run()]
            reference = reference or results
            share = errors(reference[:1], results[:1])[1]  # of equal keys a sort may give any place
        except Exception as failure:  # One runner's fault must not end the bench.
            print(f"  {case.label}: {runner.name} failed: {' '.join(str(failure).split())[:200]}")
            failed.append((case.label, runner.name))
            continue
        if share > TOLERANCE:
            print(f"  {case.label}: {runner.name} is WRONG ({share:.1e} of the range), not timed")
            failed.append((case.label, runner.name))
            continue
        ready[runner.name] = run
    samples = timing.interleaved(ready, rounds)
    return {name: timing.summary(seconds)["median_ms"] for name, seconds in samples.items()}, failed


def main(arguments):
    """Measures; exits with 1 when Graft failed or was wrong."""
    options = parse_options(arguments)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before any runtime is loaded
    from graft_peer import GraftPeer
    from peers import OnnxRuntimePeer, OpenVinoPeer
    from rows import row_of
    peers = [kind(options.threads) for kind in (OnnxRuntimePeer, OpenVinoPeer)]
    peers = [peer for peer in peers if re.search(options.peers, peer.name) and not peer.unavailable()]
    graft = GraftPeer(options.threads, options.build, tune=options.tune)
    if graft.unavailable():
        raise SystemExit(f"bench ops: {graft.unavailable()}")
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="graft-bench-") as folder:
        chosen = [case for case in cpu_ops(folder) if re.search(options.cases, case.label)]
        if not chosen:
            raise SystemExit(f"--cases {options.cases!r} matches none of "
                             + ", ".join(case.label for case in cpu_ops(folder)))
        names = [peer.name for peer in peers]
        print(f"ms, {options.threads} threads\n{'case':34}{'graft':>10}"
              + "".join(f"{name:>14}" for name in names) + f"{'ratio':>8}")
        for case in chosen:
            medians, failures = measure(case, [*peers, graft], options.rounds)
            failed += failures
            mine = medians.pop("graft", None)
            row = row_of(options, case.label, 1, mine, medians)
            rows.append(row)
            cells = [f"{medians[name]:14.3f}" if name in medians else f"{'-':>14}" for name in names]
            print(f"{case.label:34}" + (f"{mine:10.3f}" if mine else f"{'-':>10}") + "".join(cells)
                  + (f"{row['ratio']:8.2f}" if row["ratio"] else f"{'-':>8}")
                  + ("  below" if row["ratio"] and row["ratio"] < LEAST_RATIO else ""), flush=True)
    if options.json:
        import run as bench
        bench.write_json(options.json, rows)
    return 1 if any(name == "graft" for _, name in failed) else 0
