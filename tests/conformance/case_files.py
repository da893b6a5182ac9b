# SPDX-License-Identifier: Apache-2.0
"""The node cases of the onnx package: collected, and written into one file that another machine reads.

The file is a zip: NAME/case.json with the tolerances and, for each data set, what its inputs and outputs are;
NAME/model.onnx; and NAME/SET_KIND_NUMBER.pb for each tensor. A sequence is a list of those, and None an empty optional.
"""

import dataclasses
import json
import warnings
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper


@dataclasses.dataclass(frozen=True)
class Case:
    """One case: `data_sets` are pairs (inputs, outputs) of TensorProtos, lists of them, and None."""

    name: str
    model: onnx.ModelProto
    data_sets: list
    rtol: float
    atol: float


def as_proto(value):
    """An input or expected output as TensorProtos."""
    if isinstance(value, onnx.TensorProto) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [as_proto(element) for element in value]
    array = np.asarray(value)
    return numpy_helper.from_array(array.astype(object) if array.dtype.kind in "US" else array)


def collect():
    """All node cases, by the onnx package's own collector."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    return [Case(case.name, case.model,
                 [tuple([as_proto(value) for value in part] for part in data) for data in case.data_sets or []],
                 case.rtol, case.atol) for case in collect_testcases(None)]


def write(cases, path):
    """Writes cases into a file; `read` gives them back."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for case in cases:
            layout = []
            for number, data in enumerate(case.data_sets):
                layout.append([[_write_value(file, f"{case.name}/{number}_{kind}_{place}.pb", value)
                                for place, value in enumerate(part)] for kind, part in zip("io", data)])
            file.writestr(_entry(f"{case.name}/model.onnx"), case.model.SerializeToString())
            facts = {"rtol": case.rtol, "atol": case.atol, "data_sets": layout, "onnx": onnx.__version__}
            file.writestr(_entry(f"{case.name}/case.json"), json.dumps(facts))


def _entry(name):
    """A file's entry with a fixed date, so that equal cases make equal files."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _write_value(file, name, value):
    """Writes tensors under names that begin with this one; gives the names."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_write_value(file, f"{name.removesuffix('.pb')}_{place}.pb", each) for place, each in enumerate(value)]
    file.writestr(_entry(name), value.SerializeToString())
    return name


def read(path):
    """The cases of a file, in the order in which they were written."""
    cases = []
    with zipfile.ZipFile(path) as file:
        for entry in file.namelist():
            if not entry.endswith("/case.json"):
                continue
            name, facts = entry.removesuffix("/case.json"), json.loads(file.read(entry))
            data_sets = [tuple([_read_value(file, value) for value in part] for part in data)
                         for data in facts["data_sets"]]
            model = onnx.ModelProto.FromString(file.read(f"{name}/model.onnx"))
            cases.append(Case(name, model, data_sets, facts["rtol"], facts["atol"]))
    return cases


def _read_value(file, value):
    if value is None:
        return None
    if isinstance(value, list):
        return [_read_value(file, each) for each in value]
    return onnx.TensorProto.FromString(file.read(value))
