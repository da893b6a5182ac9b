# SPDX-License-Identifier: Apache-2.0
"""The quantisers of bench/accuracy.py's peers: ONNX Runtime's and NNCF's, run by ONNX Runtime and OpenVINO."""

import contextlib
import logging
import os

import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

UNSIGNED = quantization.QuantType.QUInt8
LEAST_OPSET = 13  # the first whose DequantizeLinear has an axis, which scales per channel need


class Reader(quantization.CalibrationDataReader):
    """The samples, as ONNX Runtime asks for them."""

    def __init__(self, batches):
        self.batches = iter(batches)

    def get_next(self):
        return next(self.batches, None)


def prepared(path, target):
    """The model as ONNX Runtime's own preprocessing leaves it, of an opset that can be quantised per channel."""
    model = onnx.load(path)
    opset = next(entry for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset.version < LEAST_OPSET:
        path = f"{target}.converted.onnx"
        onnx.save(onnx.version_converter.convert_version(model, LEAST_OPSET), path)
    try:
        quant_pre_process(path, target)
    except Exception:  # symbolic shape inference does not know every network
        quant_pre_process(path, target, skip_symbolic_shape=True)
    return target


def session_of(path):
    """A model in ONNX Runtime, as a function from inputs to the list of outputs."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # times are not asked for
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def by_onnxruntime(path, calibration, folder, **choices):
    """Quantised by ONNX Runtime, static activations."""
    target = os.path.join(folder, "ort.onnx")
    with quiet(), contextlib.chdir(folder):  # it leaves files where it runs
        quantization.quantize_static(prepared(path, os.path.join(folder, "prepared.onnx")), target,
                                     Reader(calibration), **choices)
    return session_of(target)


def by_nncf(path, calibration, **choices):
    """Quantised by NNCF with its defaults, in OpenVINO."""
    import nncf
    import openvino

    with quiet():
        nncf.set_log_level(logging.ERROR)
        core = openvino.Core()
        model = core.read_model(path)
        made = nncf.quantize(model, nncf.Dataset(calibration), subset_size=len(calibration), **choices)
        compiled = core.compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda feeds: [np.array(array) for array in compiled(feeds).values()]


@contextlib.contextmanager
def quiet():
    """Without what quantisers write for people who wait for them."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere), \
            contextlib.redirect_stderr(nowhere):
        yield
