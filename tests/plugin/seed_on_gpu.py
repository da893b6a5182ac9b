# SPDX-License-Identifier: Apache-2.0
"""`seed_on_gpu.py [BUNDLE] [--json FILE]`: times the operators and shapes of TPAT's tables: the generated kernels, as
operators of PyTorch, beside what torch has for the same, eager and through torch.compile. Each is run in a CUDA graph,
so that the work of the GPU is timed and not the calls; the three take turns, and medians are told. `bundle.py` packs
the operators, which are built here; with `--graft COMMAND` that command makes them anew and measures its candidates on
this GPU. Needs torch with a GPU, CMake, a C++ compiler and cuda.h."""

import argparse
import datetime
import json
import math
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import torch
from torch.nn import functional

ROUNDS, ROUNDS_MS = 31, 1000.0  # fewer, but three, where a call takes longer than this for all of its own
MOST_RUNS, GRAPH_MS = 200, 1.0  # of a graph: as many runs as take this long


def gather_nd(data, indices):
    return data[tuple(indices.unbind(-1))]


def scatter_nd(data, indices, updates):
    return data.index_put(tuple(indices.unbind(-1)), updates)


def scatter_nd_add(data, indices, updates):
    return data.index_put(tuple(indices.unbind(-1)), updates, accumulate=True)


def one_hot(depth):
    """Zeros and a scatter: functional.one_hot makes int64, which takes twice the memory and a conversion."""
    def hot(indices):
        rows = torch.zeros(*indices.shape, depth, device=indices.device)
        return rows.scatter_(-1, indices.unsqueeze(-1), 1.0)
    return hot


def one_hot_chain(width):
    """Of floats [batch, length] into [batch, width]."""
    return lambda places: one_hot(width // places.shape[1])(places.long()).reshape(-1, width)


def resize(mode):
    def resized(height, width):
        return lambda x: functional.interpolate(x, size=(height, width), mode=mode)
    return resized


def reduce_max(x):
    return x.amax(1)


def layer_norm(x, scale, bias):
    return functional.layer_norm(x, x.shape[-1:], scale, bias)


def peer(name, extents):
    """What torch has for a plugin, whose result has these extents."""
    if name.startswith("GatherND"):
        return gather_nd
    if name.startswith("ScatterND"):
        return scatter_nd_add if name.endswith("Add") else scatter_nd
    if name.startswith("Resize"):
        return resize("nearest" if "Nearest" in name else "bilinear")(*extents[-2:])
    if name.startswith("LayerNorm"):
        return layer_norm
    if name == "OneHotChain":
        return one_hot_chain(extents[-1])
    return reduce_max if name == "ReduceMaxMiddle" else one_hot(extents[-1])


def random_inputs(case, device):
    """Seeded tensors; indices are within their limits, and no two tuples of them are the same."""
    random = torch.Generator().manual_seed(19)
    tensors = []
    for facts in case["inputs"].values():
        extents, limits = facts["extents"], facts["limits"]
        if limits is None:
            tensor = torch.randn(*extents, generator=random)
        elif isinstance(limits, int):
            tensor = torch.randint(0, limits, extents, generator=random)
        else:
            chosen = torch.randperm(math.prod(limits), generator=random)[:math.prod(extents[:-1])]
            tensor = torch.stack(torch.unravel_index(chosen, tuple(limits)), -1).reshape(extents)
        tensors.append(tensor.to(device, torch.int64 if facts["whole"] else torch.float32))
    return tensors


def check_peers(folder, device):
    """Raises where torch's part of a case is not what the interpreter made of it."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            expected = torch.from_numpy(arrays["result"])
            arguments = [torch.from_numpy(arrays[f"arr_{k}"]).to(device) for k in range(len(arrays.files) - 1)]
        result = peer(path.stem, expected.shape)(*arguments).cpu()
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5, msg=lambda said: f"{path.stem}: {said}")


def captured(call, arguments, runs):
    """The runs as a graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            call(*arguments)
    return graph


def milliseconds(graph):
    """Of one replay."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def microseconds(calls, arguments):
    """By name, the median time of a run; the calls take turns."""
    graphs, slowest = {}, 0.0
    for name, call in calls.items():
        for _ in range(3):
            call(*arguments)
        torch.cuda.synchronize()
        probe = captured(call, arguments, 1)
        milliseconds(probe)
        single = max(milliseconds(probe), 1e-3)
        slowest = max(slowest, single)
        runs = max(1, min(MOST_RUNS, round(GRAPH_MS / single)))
        graphs[name] = (captured(call, arguments, runs) if runs > 1 else probe), runs
    times = {name: [] for name in calls}
    for _ in range(max(3, min(ROUNDS, round(ROUNDS_MS / slowest)))):
        for name, (graph, runs) in graphs.items():
            times[name].append(milliseconds(graph) * 1e3 / runs)
    return {name: round(statistics.median(each), 3) for name, each in times.items()}


def copy_bandwidth():
    """Bytes a second, read and written, of a copy of 1 GiB: what work that only moves data can reach."""
    source = torch.empty(1 << 28, device="cuda")
    target = torch.empty_like(source)
    time = microseconds({"copy": lambda: target.copy_(source)}, ())["copy"]
    return 2 * source.nbytes / (time * 1e-6)


def timed(operator, name, case):
    """A row of the results; raises where the results differ."""
    arguments = random_inputs(case, "cuda")
    given = operator(*arguments)
    given = given[0] if isinstance(given, (list, tuple)) else given
    eager = peer(name, given.shape)
    torch.testing.assert_close(given, eager(*arguments), rtol=1e-4, atol=1e-4)
    del given
    torch.compiler.reset()
    compiled = torch.compile(eager, fullgraph=True, dynamic=False)
    with torch.no_grad():
        return microseconds({"graft": operator, "torch": eager, "compiled": compiled}, arguments)


def measured(bundle, operators, chosen):
    """All rows; one that fails says why in place of times."""
    rows = {}
    for name, case in json.loads((bundle / "seed_cases.json").read_text()).items():
        if chosen and name not in chosen:
            continue
        try:
            rows[name] = timed(getattr(operators, name), name, case)
        except Exception as error:  # what one raises says nothing of the others
            rows[name] = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"}
        rows[name] |= {"says": case["says"], "traffic": case["traffic"]}
        print(name, {key: value for key, value in rows[name].items() if key != "says"}, flush=True)
        torch.cuda.empty_cache()
    return rows


def tuned(bundle, command):
    """The folder of operators that the command makes here."""
    model, folder = bundle / "seed_model", bundle / "seed_tuned"
    done = subprocess.run([command, "plugin", model / "seed.onnx", *json.loads((model / "words.json").read_text()),
                           "--names", model / "names.json", "--tune", "full", "-o", folder], check=False)
    if done.returncode != 0:
        raise SystemExit("FAILED: the operators cannot be made here")
    return folder


def main():
    from torch_on_gpu import DEFAULT, build  # noqa: PLC0415  # a file beside this one, wherever both lie
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("bundle", nargs="?", type=pathlib.Path, default=DEFAULT)
    parser.add_argument("--json", type=pathlib.Path, help="write the results there")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="these alone")
    parser.add_argument("--graft", type=pathlib.Path, metavar="COMMAND", help="make the operators anew, measured here")
    options = parser.parse_args()
    check_peers(options.bundle / "seed_results", "cuda")
    operators = build(tuned(options.bundle, options.graft) if options.graft else options.bundle / "seed_operators")
    results = {"kernels": "measured there" if options.graft else "the cost model's",
               "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
               "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
               "copy_bandwidth": copy_bandwidth(), "rows": measured(options.bundle, operators, options.only)}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    failed = sum("failed" in row for row in results["rows"].values())
    good = [row for row in results["rows"].values() if "failed" not in row]
    for other in ("torch", "compiled"):
        if good:
            mean = statistics.geometric_mean(row[other] / row["graft"] for row in good)
            print(f"geometric mean of {len(good)}: {mean:.2f} times {other}")
    print(f"{len(good)} timed, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
