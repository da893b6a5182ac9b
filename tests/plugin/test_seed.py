# SPDX-License-Identifier: Apache-2.0
"""The operators of TPAT's tables at small sizes, as one library: each runs in the harness on an emulated GPU and agrees
with the interpreter. tests/torch/test_plugin.py holds what they are timed against to the same."""

import json
import sys

import bundle
import numpy as np
import onnx
import pytest
import seed_models
import workshop
from models import combined

sys.path.insert(0, str(workshop.ROOT / "tools" / "docs"))
import tables  # noqa: E402

SMALL = seed_models.small_cases()


@pytest.fixture(scope="module", name="library")
def fixture_library(headers, harness, tmp_path_factory):
    """(the folder of all, its library)"""
    work = tmp_path_factory.mktemp("seed")
    bundle.add_seed(work, SMALL, emulated=True)
    folder = work / "seed_operators"
    return folder, workshop.build_library(folder, headers["10.16"])


@pytest.mark.parametrize("name", SMALL)
def test_an_operator_of_the_tables_agrees(harness, library, tmp_path, name):
    folder, built = library
    case = SMALL[name]
    model = combined({name: case.model})
    given = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    given |= {f"{name}_{key}": array for key, array in seed_models.random_arrays(case).items()}
    workshop.write_case(folder / "parts" / f"{name}.onnx", tmp_path / "cases", given, {"float32": 1e-5})
    said = workshop.checked([harness("10.16"), built, name, tmp_path / "cases"],
                            env=workshop.preloaded("libcuda.so.1"))
    assert "all good" in said, said


def test_the_bundle_has_an_operator_of_torch_for_each(tmp_path):
    made = bundle.add_seed(tmp_path, SMALL, "--for", "torch")
    assert [plugin["name"] for plugin in made["plugins"]] == list(seed_models.cases())
    cases = json.loads((tmp_path / "seed_cases.json").read_text())
    assert cases["OneHotDeep"] == {"says": "OneHot of 5, depth 11", "traffic": 260,
                                   "inputs": {"indices": {"extents": [5], "whole": True, "limits": 11}}}
    assert (tmp_path / "seed_operators" / "torch_ops.cpp").exists()
    again = workshop.generate(tmp_path / "seed_model" / "seed.onnx", tmp_path / "again",
                              *json.loads((tmp_path / "seed_model" / "words.json").read_text()), "--names",
                              tmp_path / "seed_model" / "names.json")
    assert again == made


def test_the_bundle_has_results_to_hold_torch_to(tmp_path):
    bundle.add_seed_results(tmp_path, {"ReduceMaxMiddle": SMALL["ReduceMaxMiddle"]})
    with np.load(tmp_path / "seed_results" / "ReduceMaxMiddle.npz") as arrays:
        assert np.array_equal(arrays["arr_0"].max(1), arrays["result"])
    assert [path.name for path in (tmp_path / "seed_results").iterdir()] == ["ReduceMaxMiddle.npz"]


def test_times_become_a_table():
    rows = {"Hot": {"says": "OneHot of 2, depth 8", "graft": 2.0, "torch": 4.0, "compiled": 3.0, "traffic": 4_000_000},
            "Cold": {"says": "OneHot of 3, depth 8", "graft": 4.0, "torch": 4.0, "compiled": 6.0, "traffic": 1_000_000},
            "Bad": {"says": "OneHot of 4, depth 8", "failed": "RuntimeError: out of memory", "traffic": 1}}
    text = tables.speed_table({"gpu": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-23", "copy_bandwidth": 4e12,
                               "kernels": "the cost model's", "rows": rows})
    assert "NVIDIA H200, torch 2.11.0, 2026-11-23; kernels: the cost model's; a copy of 1 GiB moves 4.00 TB/s" in text
    assert "| OneHot of 2, depth 8 | 2.0 | 4.0 | 3.0 | 2.00 | 1.50 | 50 % |" in text
    assert "| OneHot of 4, depth 8 | RuntimeError |" in text
    assert "| geometric mean |  |  |  | 1.41 | 1.50 |  |" in text
