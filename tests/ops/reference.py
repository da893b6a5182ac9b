# SPDX-License-Identifier: Apache-2.0
"""reference.py CASES.json EXPECTED.json: what ONNX Runtime, or onnx's reference evaluator where ONNX
Runtime does not take a case, gives for the samples of the operators' definitions.

CASES.json comes from the test binary: a list of one-node models with their inputs' bytes. For each
case EXPECTED.json gets {"outputs": [...], "by": ...} or {"error": ...}.
"""

import json
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import own_reference


def tensor(spec, name=""):
    """A TensorProto from {"type", "shape", "bytes"}."""
    return helper.make_tensor(name, spec["type"], spec["shape"], bytes.fromhex(spec["bytes"]), raw=True)


def attribute(value):
    """An attribute's value as onnx.helper takes it."""
    if isinstance(value, dict):
        return tensor(value["tensor"])
    return value


def make_model(case, opset):
    """The one-node model of a case; every input is a graph input."""
    names = [f"input_{i}" if spec else "" for i, spec in enumerate(case["inputs"])]
    outputs = [f"output_{i}" for i in range(case["outputs"])]
    attributes = {name: attribute(value) for name, value in case["attributes"].items()}
    node = helper.make_node(case["op"], names, outputs, domain=case["domain"], **attributes)
    inputs = [helper.make_tensor_value_info(name, spec["type"], spec["shape"])
              for name, spec in zip(names, case["inputs"]) if spec]
    graph = helper.make_graph([node], "sample", inputs,
                              [onnx.ValueInfoProto(name=name) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(case["domain"], opset)])
    model.ir_version = min(model.ir_version, 11)
    return model


def infer_outputs(model):
    """ONNX Runtime wants outputs with types: taken from shape inference."""
    inferred = onnx.shape_inference.infer_shapes(model)
    for output in inferred.graph.output:
        output.type.tensor_type.ClearField("shape")
    return inferred


def run_runtime(case, feeds, opset=None):
    """The outputs by ONNX Runtime, without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    opset = opset or (min(case["since"], 23) if case["since"] > 7 else 13)
    model = infer_outputs(make_model(case, opset))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return [in_type(output, declared.type.tensor_type.elem_type)
            for output, declared in zip(session.run(None, feeds), model.graph.output)]


def in_type(output, code):
    """ONNX Runtime hands float8 over as bytes."""
    wanted = np.dtype(helper.tensor_dtype_to_np_dtype(code)) if code else None
    if wanted is None or not isinstance(output, np.ndarray) or output.dtype == wanted:
        return output
    return output.view(wanted) if output.dtype == np.uint8 and wanted.itemsize == 1 else output


def run_older_runtime(case, feeds):
    """The outputs by ONNX Runtime of an operator whose newest version it lacks."""
    return run_runtime(case, feeds, 13)


def run_reference(case, feeds):
    """The outputs by onnx's reference evaluator."""
    return ReferenceEvaluator(make_model(case, 28)).run(None, feeds)


def run_cell(case, feeds):
    """One step of a recurrent layer: ONNX Runtime's layer over one position, whose weights are an identity. A
    sequence that has ended keeps its states and shows zeros."""
    given = [feeds.get(f"input_{i}") for i in range(7)]
    x, rows, bias, left, *states = given
    identity = np.eye(x.shape[1], dtype=x.dtype)
    whole = [None if value is None else value[None] for value in [x, identity, rows, bias, None, *states]]
    while whole[-1] is None:
        whole.pop()
    specs = [None if value is None else spec_of(value) for value in whole]
    same = dict(case, op=case["op"].removesuffix("Cell"), domain="", inputs=specs, since=14,
                attributes=dict(case["attributes"], hidden_size=rows.shape[1]))
    feeds = {f"input_{i}": value for i, value in enumerate(whole) if value is not None}
    outputs = [np.squeeze(output, axis=(0, 1) if k == 0 else 0)
               for k, output in enumerate(run_runtime(same, feeds))]
    if left is not None:
        ended = (left <= 0)[:, None]
        outputs = [np.where(ended, 0 if k == 0 else states[k - 1], output).astype(x.dtype)
                   for k, output in enumerate(outputs)]
    return outputs


def spec_of(value):
    """An array as {"type", "shape", "bytes"}."""
    proto = numpy_helper.from_array(value)
    return {"type": proto.data_type, "shape": list(proto.dims), "bytes": proto.raw_data.hex()}


def result(outputs, by):
    """Outputs as {"type", "shape", "bytes"}."""
    return {"by": by, "outputs": [spec_of(np.asarray(output)) for output in outputs]}


def solve(case):
    """By the first reference that takes the case."""
    feeds = {f"input_{i}": numpy_helper.to_array(tensor(spec))
             for i, spec in enumerate(case["inputs"]) if spec}
    runners = [("ONNX Runtime", run_runtime), ("onnx's reference evaluator", run_reference),
               ("ONNX Runtime at opset 13", run_older_runtime)]
    if case["domain"] == "graft":
        runners = [("ONNX Runtime's layer", run_cell)]
    if case["op"] in own_reference.REFERENCES:
        runners.insert(0, ("numpy", own_reference.REFERENCES[case["op"]]))
    errors = []
    for by, runner in runners:
        try:
            return result(runner(case, feeds), by)
        except Exception as error:  # each library has exceptions of its own
            errors.append(f"{by}: {type(error).__name__}: {str(error)[:300]}")
    return {"error": "; ".join(errors)}


def main():
    """Reads the cases, writes the results."""
    warnings.simplefilter("ignore")
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump({case["name"]: solve(case) for case in cases}, file)


if __name__ == "__main__":
    main()
