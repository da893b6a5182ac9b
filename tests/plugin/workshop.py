# SPDX-License-Identifier: Apache-2.0
"""Plugins made, built and run: the command, TensorRT's headers, the CUDA toolkit, the harness and its cases."""

import functools
import json
import os
import pathlib
import subprocess

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
COMMAND = BUILD / "bin" / "graft"
HARNESS = pathlib.Path(__file__).resolve().parent / "harness"
SHARED = ROOT.parent / "shared"
TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int32": "i32", "int64": "i64",
         "bool": "boolean"}


def header_folders():
    """TensorRT's public headers by version: of GRAFT_TENSORRT_HEADERS, or beside the checkout."""
    root = pathlib.Path(os.environ.get("GRAFT_TENSORRT_HEADERS", SHARED / "third_party"))
    return {folder.name.removeprefix("tensorrt-"): folder / "include" for folder in sorted(root.glob("tensorrt-*"))
            if (folder / "include" / "NvInferRuntime.h").exists()}


@functools.cache
def toolkit():
    """The folder of a CUDA toolkit, or None."""
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if folder and (pathlib.Path(folder) / "include" / "cuda_runtime_api.h").exists():
            return pathlib.Path(folder)
    return None


def emulator():
    """The folder of the emulated GPU's libraries, or None where this build has none."""
    folder = BUILD / "emulator"
    return folder if (folder / "libcuda.so.1").exists() and (folder / "libnvrtc.so.13").exists() else None


def preloaded(*libraries):
    """The environment of a process that finds the emulated GPU in place of a real one."""
    return {**os.environ, "LD_PRELOAD": ":".join(str(emulator() / library) for library in libraries),
            "GRAFT_EMULATED_GPU": "sm_90a", "GRAFT_CACHE": "/dev/null"}


def checked(words, **options):
    """Runs a program that has to succeed; gives its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def generate(model, folder, *words, emulated=False):
    """What `graft plugin` says of the folder that it made, as JSON."""
    report = folder.with_suffix(".json")
    if emulated and "--tune" not in words:
        words = [*words, "--tune", "off"]  # measuring takes an emulated GPU long
    checked([COMMAND, "plugin", model, *words, "-o", folder, "--json", report],
            env=preloaded("libcuda.so.1", "libnvrtc.so.13") if emulated else None)
    return json.loads(report.read_text())


def build_library(folder, headers):
    """The library of a folder's plugins, by its own CMake project and without a warning."""
    build = folder.with_suffix(".build")
    checked(["cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DTENSORRT_INCLUDE={headers}",
             f"-DCUDA_INCLUDE={toolkit() / 'include'}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
    checked(["cmake", "--build", build])
    return build / "libgraft_plugins.so"


def build_harness(headers, at):
    """The program that plays TensorRT's part, for one version of it."""
    stubs = [f"-L{toolkit() / folder}" for folder in ("lib64/stubs", "lib/stubs") if (toolkit() / folder).exists()]
    checked([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-isystem", headers,
             "-isystem", toolkit() / "include", *sorted(HARNESS.glob("*.cpp")), "-o", at, *stubs, "-lcuda", "-ldl",
             "-static-libstdc++", "-static-libgcc", "-s"])
    return at


def reference(part, inputs, *words):
    """What the interpreter makes of a part of a model, with more words for `graft run`."""
    folder = part.parent
    np.savez(folder / "in.npz", **inputs)
    checked([COMMAND, "run", part, "--mode", "interpret", "--input", folder / "in.npz", "--output",
             folder / "out.npz", *words])
    with np.load(folder / "out.npz") as results:
        return {name: results[name] for name in results.files}


def random_input(value, sizes, random, weights):
    """An array for an input of a part: the model's own weight of that name, or seeded numbers."""
    if value.name in weights:
        return weights[value.name]
    shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
    kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if kind == np.bool_:
        return random.integers(0, 2, shape).astype(kind)
    if np.issubdtype(kind, np.integer):
        return random.integers(0, 5, shape).astype(kind)
    return random.standard_normal(shape).astype(kind)


def write_array(folder, kind, array, name, *facts):
    """Writes an array of a case; gives the line that names it."""
    array.tofile(folder / name)
    return " ".join(map(str, [kind, TYPES[array.dtype.name], name, *facts, *array.shape]))


def counts_of(part, graph, results):
    """What a plugin gives beside the results of its part: the sizes that only a run knows, as `graft plugin --json`
    told them to generate()."""
    report = part.parent.parent.with_suffix(".json")
    made = json.loads(report.read_text())["plugins"] if report.exists() else []
    counted = next((plugin["counted"] for plugin in made if plugin["name"] == part.stem), [])
    sizes = {each["told_by"]: results[graph.output[each["output"]].name].shape[each["axis"]] for each in counted}
    return [np.array(sizes[output], np.int32) for output in sorted(sizes)]


def write_case(part, folder, given, tolerances):
    """One case of these arrays by name; tolerances are by the type of a result, none for one that has to be equal."""
    folder.mkdir(parents=True)
    graph = onnx.load(part).graph

    def array_of(value):
        """In the type that the plugin takes, which is another one where TensorRT lacks the model's."""
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        return np.ascontiguousarray(given[value.name].astype(kind)).reshape(given[value.name].shape)

    arrays = {value.name: array_of(value) for value in graph.input}
    results = reference(part, arrays)
    lines = ["case the_onnx_package_s"]
    for index, (name, array) in enumerate(arrays.items()):
        lines.append(write_array(folder, "input", array, f"input_{index}.bin"))
    for index, value in enumerate(graph.output):
        array, kind = results[value.name], onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        array = array.view(kind) if array.dtype.kind == "V" else array  # bf16, which npz files have no word for
        lines.append(write_array(folder, "output", array, f"output_{index}.bin", tolerances.get(array.dtype.name, 0)))
    for index, count in enumerate(counts_of(part, graph, results)):
        lines.append(write_array(folder, "output", count, f"count_{index}.bin", 0))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


def write_cases(model, part, folder, runs, tolerance=1e-5, refused=(), words=()):
    """Cases for the harness: `runs` are sizes by name, `refused` lists of the extents of all inputs and outputs."""
    folder.mkdir(parents=True)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
    inputs = list(onnx.load(part).graph.input)
    graph = onnx.load(part).graph
    outputs = [value.name for value in graph.output]
    random, lines = np.random.default_rng(11), []

    def add(kind, array, name, *facts):
        lines.append(write_array(folder, kind, array, name, *facts))

    for number, sizes in enumerate(runs):
        arrays = {value.name: random_input(value, sizes, random, weights) for value in inputs}
        results = reference(part, arrays, *words)
        lines.append("case " + ",".join(f"{name}={size}" for name, size in sizes.items()))
        for index, value in enumerate(inputs):
            add("input", arrays[value.name], f"{number}_input_{index}.bin")
        for index, name in enumerate(outputs):
            add("output", results[name], f"{number}_output_{index}.bin", tolerance)
        for index, count in enumerate(counts_of(part, graph, results)):
            add("output", count, f"{number}_count_{index}.bin", 0)
    for number, (given, made) in enumerate(refused):
        lines.append(f"case refused_{number}")
        lines += [" ".join(map(str, ["input f32 -", *extents])) for extents in given]
        lines += [" ".join(map(str, ["output f32 - 0", *extents])) for extents in made]
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")
    return folder
