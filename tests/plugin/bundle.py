# SPDX-License-Identifier: Apache-2.0
"""`bundle.py`: puts plugins, the harness and its cases into .plugin-bundle/, to be run on a machine with a GPU that has
nothing but its driver: `tests/plugin/run_on_gpu.sh` there runs them all; and operators of PyTorch, which
tests/plugin/torch_on_gpu.py builds and runs there, and those whose times tests/plugin/seed_on_gpu.py takes.
`matrix.py --bundle`, afterwards, adds every operator in every type.
GRAFT_BUILD says which build makes them."""

import json
import pathlib
import shutil
import tempfile

import models
import numpy as np
import onnx
import seed_models
import workshop

LATER = ["--target", "sm_80"]  # whose PTX a GPU of another generation compiles while loading
OWN = ["--target", "sm_80,sm_90a"]
SIZES = [{"batch": 2, "length": 3}, {"batch": 8, "length": 128}]
ROWS = [{"batch": 3}, {"batch": 130}]
REFUSED = [([(2, 3, 40), (768,), (768,)], [(2, 3, 40)])]

# name: model, nodes, versions of TensorRT, sizes, tolerance, refused sizes
PARTS = {
    "LayerNorm": (models.wide_layer_norm, ["--region", "y..x", *OWN], ["8.6.1", "10.16", "11.1"], SIZES, 1e-5, REFUSED),
    "LaterLayerNorm": (models.wide_layer_norm, ["--region", "y..x", *LATER], ["10.16"], SIZES[:1], 1e-5, ()),
    "HalfLayerNorm": (models.half_layer_norm, ["--nodes", "normalise", *OWN], ["10.16"], SIZES, 2e-3, ()),
    "Rows": (models.normal_rows, ["--region", "share..x", *OWN], ["8.6.1", "10.16"], ROWS, 1e-5, ()),
    "Flat": (models.normal_rows, ["--nodes", "flatten", *OWN], ["10.16"], ROWS, 0, ()),
    "Hot": (models.three_one_hots, ["--nodes", "first", *OWN], ["10.16"], ROWS, 0, ()),
}


def add_part(name, work, bundle, headers):
    """Makes the plugin for each version; gives the harness's arguments."""
    make, words, versions, sizes, tolerance, refused = PARTS[name]
    model = work / f"{name}.onnx"
    onnx.save(make(), model)
    runs = []
    for version in versions:
        folder = work / f"{name}-{version}"
        old = ["--tensorrt", "8.6"] if version.startswith("8.") else []
        [plugin] = workshop.generate(model, folder, *words, "--name", name, *old)["plugins"]
        assert all(target["compiled"] for target in plugin["targets"]), "NVRTC has to be there"
        library = f"lib{name}-{version}.so"
        shutil.copy(workshop.build_library(folder, headers[version]), bundle / library)
        cases = bundle / f"cases-{name}"
        if not cases.exists():
            workshop.write_cases(model, folder / "parts" / f"{name}.onnx", cases, sizes, tolerance, refused)
        runs.append(f"harness-{version} {library} {name} {cases.name}")
    return runs


# Operator of PyTorch: its nodes in the model of all, sizes, tolerance.
TORCH = {
    "PrimitiveNorm": (["wide_n_" + stem for stem in ("Mean", "Sub", "Pow", "Variance", "Epsilon", "Sqrt", "Div", "Mul",
                                                     "Add")], SIZES, 1e-5),
    "HalfNorm": (["half_normalise"], SIZES, 4e-3),
    "Rows": (["rows_sum", "rows_divide"], ROWS, 1e-5),  # two kernels and a workspace
    "Hot": (["hot_first"], ROWS, 0),
}


def add_torch(work, bundle):
    """The operators' folder, and their cases: what the interpreter makes of their parts."""
    model = models.combined({"wide": models.wide_layer_norm(), "half": models.half_layer_norm(),
                             "rows": models.normal_rows(), "hot": models.three_one_hots()})
    onnx.save(model, work / "all.onnx")
    (work / "names.json").write_text(json.dumps({nodes[-1]: name for name, (nodes, _, _) in TORCH.items()}))
    words = [word for nodes, _, _ in TORCH.values() for word in ("--nodes", ",".join(nodes))]
    workshop.generate(work / "all.onnx", bundle / "torch_operators", *words, "--names", work / "names.json", *OWN,
                      "--for", "torch")
    (bundle / "torch_operators.json").unlink()
    (bundle / "torch_cases").mkdir()
    cases = []
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    random = np.random.default_rng(12)
    for name, (_, runs, tolerance) in TORCH.items():
        part = bundle / "torch_operators" / "parts" / f"{name}.onnx"
        graph = onnx.load(part).graph
        for number, sizes in enumerate(runs):
            arrays = {value.name: workshop.random_input(value, sizes, random, weights) for value in graph.input}
            results = workshop.reference(part, arrays)
            file = f"{name}_{number}.npz"
            np.savez(bundle / "torch_cases" / file,
                     **{f"input_{k}": array for k, array in enumerate(arrays.values())},
                     **{f"output_{k}": results[value.name] for k, value in enumerate(graph.output)})
            cases.append({"operator": name, "sizes": sizes, "arrays": file, "inputs": len(arrays),
                          "outputs": len(graph.output), "tolerance": tolerance, "package": number == 0})
    (bundle / "torch_cases" / "cases.json").write_text(json.dumps(cases, indent=1))


def add_seed(bundle, found, *more, emulated=False):
    """The operators whose times are taken, with the model and the command that make them, and what seed_on_gpu.py has
    to know of them; `more`: for whom they are."""
    folder = bundle / "seed_model"
    folder.mkdir()
    onnx.save(models.combined({name: case.model for name, case in found.items()}), folder / "seed.onnx")
    names, words = {}, []
    for name, case in found.items():
        nodes = [f"{name}_{node.name}" for node in case.model.graph.node]
        names[nodes[-1]] = name
        words += ["--nodes", ",".join(nodes)]
    (folder / "names.json").write_text(json.dumps(names))
    words += ["--target", "sm_90a", *more]
    (folder / "words.json").write_text(json.dumps(words))
    made = workshop.generate(folder / "seed.onnx", bundle / "seed_operators", *words, "--names", folder / "names.json",
                             emulated=emulated)
    (bundle / "seed_operators.json").unlink()
    (bundle / "seed_cases.json").write_text(json.dumps(seed_models.described(found), indent=1))
    return made


def add_seed_results(bundle, found):
    """What the interpreter makes of cases, against which seed_on_gpu.py holds torch's part of each."""
    folder = bundle / "seed_results"
    folder.mkdir()
    for name, case in found.items():
        onnx.save(case.model, folder / f"{name}.onnx")
        arrays = seed_models.random_arrays(case)
        results = workshop.reference(folder / f"{name}.onnx", arrays)
        np.savez(folder / f"{name}.npz", *arrays.values(), result=results["y"])
        (folder / f"{name}.onnx").unlink()
    for name in ("in.npz", "out.npz"):
        (folder / name).unlink()


def main():
    bundle = workshop.ROOT / ".plugin-bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.mkdir()
    headers = workshop.header_folders()
    runs = []
    with tempfile.TemporaryDirectory() as work:
        for name in PARTS:
            runs += add_part(name, pathlib.Path(work), bundle, headers)
        add_torch(pathlib.Path(work), bundle)
        add_seed(bundle, seed_models.cases(), "--for", "torch")
    add_seed_results(bundle, seed_models.small_cases())
    for version in sorted({run.split()[0].removeprefix("harness-") for run in runs}):
        workshop.build_harness(headers[version], bundle / f"harness-{version}")
    (bundle / "runs.txt").write_text("\n".join(runs) + "\n")
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    print(f"{bundle}: {len(runs)} runs, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
