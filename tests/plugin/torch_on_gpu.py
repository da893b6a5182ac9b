# SPDX-License-Identifier: Apache-2.0
"""`torch_on_gpu.py [BUNDLE]`: builds the operators of PyTorch in .plugin-bundle/torch_operators against this machine's
torch, and runs each as it is, inside torch.compile, in a package of AOTInductor and in a CUDA graph, at several sizes,
against the interpreter's results. `bundle.py` packs the folder. Needs torch with a GPU, CMake, a C++ compiler and
cuda.h."""

import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

DEFAULT = pathlib.Path(__file__).resolve().parents[2] / ".plugin-bundle"


def build(folder):
    """The operators, from their folder as a package."""
    for words in (["cmake", "-S", folder, "-B", folder / "build", "-D", f"TORCH={torch.__path__[0]}"],
                  ["cmake", "--build", folder / "build", "-j", "8"]):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"FAILED: {done.stdout}\n{done.stderr}")
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(folder.name)


class Call(torch.nn.Module):
    """An operator between two of torch's own, so that a compiler has something to do around it."""

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, *arguments):
        """The results doubled: exact in every floating type."""
        results = self.operator(*arguments)
        return [2 * each for each in (results if isinstance(results, (list, tuple)) else [results])]


def in_graph(call, arguments):
    """A captured run, replayed twice on other contents of the results' memory."""
    for _ in range(2):  # loads the kernels, and what the allocator keeps
        call(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call(*arguments)
    for _ in range(2):
        for result in results:
            result.zero_()
        graph.replay()
    torch.cuda.synchronize()
    return results


def in_package(call, arguments):
    """What a package of AOTInductor gives, loaded from its file."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(call, arguments)
        path = torch._inductor.aoti_compile_and_package(program, package_path=f"{folder}/package.pt2")
        return torch._inductor.aoti_load_package(path)(*arguments)


PLAIN_PACKAGE = """
import torch
call, arguments = torch.nn.ReLU().cuda(), (torch.ones(8, device="cuda"),)
path = torch._inductor.aoti_compile_and_package(torch.export.export(call, arguments), package_path="plain.pt2")
assert torch._inductor.aoti_load_package(path)(*arguments).sum() == 8
"""


def loads_packages():
    """Whether this torch loads a package without an operator of ours; there are machines where it ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", PLAIN_PACKAGE], cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def on_stream(call, arguments):
    """In a stream of one's own, which has to wait for nothing else."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        results = call(*arguments)
    stream.synchronize()
    return results


def microseconds(call, arguments, repetitions=200):
    """The time of a run in a graph of 20."""
    for _ in range(3):
        call(*arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            call(*arguments)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    start.record()
    for _ in range(repetitions // 20):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / repetitions


def difference(results, expected, tolerance):
    """Why results depart from what is expected, or nothing."""
    if len(results) != len(expected):
        return f"{len(results)} results"
    for index, (given, wanted) in enumerate(zip(results, expected)):
        try:
            torch.testing.assert_close(given.cpu(), 2 * wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            return f"result {index}: {' '.join(str(error).split())[:300]}"
    return None


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    operators = build(folder / "torch_operators")
    failed, has_packages = 0, loads_packages()
    if not has_packages:
        print("AOTInductor: skipped, this torch does not load a package of its own")
    for case in json.loads((folder / "torch_cases" / "cases.json").read_text()):
        with np.load(folder / "torch_cases" / case["arrays"]) as arrays:
            arguments = tuple(torch.from_numpy(arrays[f"input_{k}"]).cuda() for k in range(case["inputs"]))
            expected = [torch.from_numpy(arrays[f"output_{k}"]) for k in range(case["outputs"])]
        operator = getattr(operators, case["operator"])
        call = Call(operator).cuda()
        ways = {"eager": lambda call=call, arguments=arguments: call(*arguments),
                "stream": lambda call=call, arguments=arguments: on_stream(call, arguments),
                "strided": lambda call=call, arguments=arguments: call(
                    *[each.transpose(-1, -2).contiguous().transpose(-1, -2) if each.dim() > 1 else each
                      for each in arguments]),
                "compiled": lambda call=call, arguments=arguments: torch.compile(call, fullgraph=True)(*arguments),
                "dynamic": lambda call=call, arguments=arguments: torch.compile(call, fullgraph=True,
                                                                                dynamic=True)(*arguments),
                "reduced overhead": lambda call=call, arguments=arguments: [
                    each.clone() for each in torch.compile(call, fullgraph=True, mode="reduce-overhead")(*arguments)],
                "graph": lambda call=call, arguments=arguments: in_graph(call, arguments)}
        if case["package"] and has_packages:
            ways["AOTInductor"] = lambda call=call, arguments=arguments: in_package(call, arguments)
        for way, run in ways.items():
            torch.compiler.reset()
            try:
                with torch.no_grad():
                    why = difference(run(), expected, case["tolerance"])
            except Exception as error:  # what one way raises says nothing of the others
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
            failed += why is not None
            print(f"{case['operator']} {case['sizes']}, {way}: {why or 'agrees'}", flush=True)
        print(f"{case['operator']} {case['sizes']}: {microseconds(operator, arguments):.2f} us", flush=True)
    print(f"torch operators on {torch.cuda.get_device_name()}, torch {torch.__version__}: {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
