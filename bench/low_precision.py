# SPDX-License-Identifier: Apache-2.0
"""Networks in bf16 and int8 on a CPU: what `./dev bench cpu --precision` runs.

bf16 is Graft's --precision and OpenVINO's hint for one fp32 model. int8 is one file for all, which ONNX Runtime's
quantiser wrote: QDQ, per channel, for images; weights alone, products of integers made at run time, for tokens."""

import dataclasses
import functools
import os
import subprocess
import tempfile

import cases
import graft_peer
import networks
import numpy as np
import onnx
from graft_peer import GraftPeer
from peers import OnnxRuntimePeer, OpenVinoPeer

# Shares of an output's range. Seeded weights keep no margin between classes: a step of quantisation that rounds the
# other way reaches every later layer, and ONNX Runtime differs from itself, with and without optimisations, by 0.2.
TOLERANCES = {"bf16": 0.1, "int8": 0.3, "int4": 0.05}
IMAGES = ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b16", "convnext_t", "swin_t")


def low_precision_cases(precision):
    """Lists the networks at batch 1 and 8, each on a plan for its own sizes."""
    chosen = [_image_case(name, batch) for name in IMAGES for batch in (1, 8)]
    chosen += [_token_case(batch) for batch in (1, 8)]
    if precision != "int8":
        return chosen
    return [dataclasses.replace(case, model=functools.partial(quantized, case)) for case in chosen]


def _image_case(name, batch):
    network = networks.find(name)
    return cases.Case(name, batch, functools.partial(networks.cached_path, name),
                      functools.partial(network.inputs, batch, 1), (("batch", batch),), (("batch", batch),), None)


def _token_case(batch):
    sizes = (("batch", batch), ("length", 128))
    return cases.Case("bert_base", batch, functools.partial(networks.cached_path, "bert_base"),
                      functools.partial(networks.token_inputs, 30522, batch, 1, 128, full=True), sizes, sizes, None)


def int8_for_gpu(options, case):
    """The path of the network as TensorRT takes it, from ONNX Runtime's quantiser: s8 without zero points, before the
    products and convolutions of weights alone; their results and products of activations stay as they are."""
    from onnxruntime import quantization
    del options
    name = case.name.split("/")[0]
    model = networks.cached_path(name)
    path = f"{os.path.splitext(model)[0]}-int8-gpu.onnx"
    if os.path.exists(path):
        return path
    prepared, partial = f"{path}.prepared", f"{path}.partial"
    quantization.shape_inference.quant_pre_process(model, prepared, skip_symbolic_shape=True)
    graph = onnx.load(prepared).graph
    constants = {tensor.name for tensor in graph.initializer}
    weighted = [node for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    rest = [node.name for node in weighted if node.input[1] not in constants]
    kinds = ["Conv", "Gemm", "MatMul"]
    extra = {"ActivationSymmetric": True, "OpTypesToExcludeOutputQuantization": kinds}
    if not any(node.op_type == "MatMul" for node in weighted):  # what joins convolutions runs on integers too
        kinds, extra = None, {"ActivationSymmetric": True}
    quantization.quantize_static(prepared, partial, _Batches(name), per_channel=True, op_types_to_quantize=kinds,
                                 quant_format=quantization.QuantFormat.QDQ, nodes_to_exclude=rest,
                                 activation_type=quantization.QuantType.QInt8,
                                 weight_type=quantization.QuantType.QInt8, extra_options=extra)
    os.remove(prepared)
    os.replace(partial, path)
    return path


def fp8_for_gpu(options, case):
    """The path of the network as `graft convert --precision fp8` writes it, by four seeded batches of one, all
    layers in fp8."""
    name = case.name.split("/")[0]
    model = networks.cached_path(name)
    path = f"{os.path.splitext(model)[0]}-fp8.onnx"
    if not os.path.exists(path):
        command = graft_peer.find_built(options.build or os.path.join(graft_peer.ROOT, "build"), "graft")
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(4):
                np.savez(os.path.join(folder, f"{seed}.npz"), **networks.find(name).inputs(1, seed))
            subprocess.run([command, "convert", model, "--precision", "fp8", "--calibrate", folder, "--min-snr", "0",
                            "-o", path], check=True)
    return path


FILES_FOR_GPU = {"int8": int8_for_gpu, "fp8": fp8_for_gpu}


def results_of(case, precision):
    """What ONNX Runtime computes of a case's file; its optimisations take products of fp8 for integer ones."""
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    if precision == "fp8":
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model(), settings, providers=["CPUExecutionProvider"])
    return session.run(None, case.inputs())


def quantized(case):
    """The path of the network as ONNX Runtime's quantiser writes it, beside the network."""
    from onnxruntime import quantization
    model = networks.cached_path(case.name)
    path = f"{os.path.splitext(model)[0]}-int8.onnx"
    if os.path.exists(path):
        return path
    partial = f"{path}.partial"
    if any(np.issubdtype(array.dtype, np.integer) for array in case.inputs().values()):
        quantization.quantize_dynamic(model, partial, weight_type=quantization.QuantType.QInt8)
    else:
        prepared = f"{path}.prepared"
        quantization.shape_inference.quant_pre_process(model, prepared, skip_symbolic_shape=True)
        quantization.quantize_static(prepared, partial, _Batches(case.name), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ,
                                     activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)
        os.remove(prepared)
    os.replace(partial, path)
    return path


class _Batches:
    """Four seeded batches of one, as a quantiser takes them."""

    def __init__(self, name):
        self.left_ = [networks.find(name).inputs(1, seed) for seed in range(4)]

    def get_next(self):
        """The next batch, or None."""
        return self.left_.pop() if self.left_ else None


class OpenVinoLow(OpenVinoPeer):
    """OpenVINO with bf16 where the processor has it."""

    precision = "bf16"


class FullPrecision(GraftPeer):
    """Graft in fp32, on the fp32 model."""

    name = "graft fp32"

    def prepare(self, case, inputs, outputs):
        del outputs
        model = functools.partial(networks.cached_path, case.name)
        return self.runner(dataclasses.replace(case, model=model), inputs)


def runners(options):
    """The peers, Graft in fp32, and Graft."""
    common = {"build": options.build, "tune": options.tune}
    full = FullPrecision(options.threads, **common)
    if options.precision == "bf16":
        return [OpenVinoLow(options.threads), full], GraftPeer(options.threads, arguments=("--precision", "bf16"),
                                                               **common)
    return [OnnxRuntimePeer(options.threads), OpenVinoPeer(options.threads), full], GraftPeer(options.threads, **common)
