# SPDX-License-Identifier: Apache-2.0
"""`bundle.py`: puts plugins, the harness and its cases into .plugin-bundle/, to be run on a machine with a GPU that has
nothing but its driver: `tests/plugin/run_on_gpu.sh` there runs them all. GRAFT_BUILD says which build makes them."""

import pathlib
import shutil
import tempfile

import models
import onnx
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


def main():
    bundle = workshop.ROOT / ".plugin-bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.mkdir()
    headers = workshop.header_folders()
    runs = []
    with tempfile.TemporaryDirectory() as work:
        for name in PARTS:
            runs += add_part(name, pathlib.Path(work), bundle, headers)
    for version in sorted({run.split()[0].removeprefix("harness-") for run in runs}):
        workshop.build_harness(headers[version], bundle / f"harness-{version}")
    (bundle / "runs.txt").write_text("\n".join(runs) + "\n")
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    print(f"{bundle}: {len(runs)} runs, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
