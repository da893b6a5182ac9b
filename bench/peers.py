# SPDX-License-Identifier: Apache-2.0
"""The runtimes that Graft is measured against, each with the settings that serve it best.

A peer has a `name`, a line of `settings`, and `prepare(case, inputs, outputs)`, which returns a
function () -> [arrays] that runs the case once; `outputs` are arrays of the right shapes, or None.
`unavailable()` gives the reason why a peer cannot take part, or None.
"""

import importlib.util


class OnnxRuntimePeer:
    """ONNX Runtime with all graph optimizations and the sizes fixed to the case's."""

    name = "onnxruntime"

    def __init__(self, threads):
        self.threads_ = threads

    def unavailable(self):
        return _missing("onnxruntime")

    @property
    def settings(self):
        import onnxruntime
        return (f"{onnxruntime.__version__}, CPUExecutionProvider, intra_op {self.threads_}, "
                "ORT_ENABLE_ALL, sizes fixed, threads stop spinning after each run")

    def prepare(self, case, inputs, outputs):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads_
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # Threads that spin on after a run would slow the peer whose turn is next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        for symbol, size in case.sizes:
            options.add_free_dimension_override_by_name(symbol, size)
        session = onnxruntime.InferenceSession(case.model(), options,
                                               providers=["CPUExecutionProvider"])
        return lambda: session.run(None, inputs)


class OpenVinoPeer:
    """OpenVINO in fp32 with the latency hint and the sizes fixed to the case's."""

    name = "openvino"
    precision = "f32"

    def __init__(self, threads):
        self.threads_ = threads

    def unavailable(self):
        return _missing("openvino")

    @property
    def settings(self):
        import openvino
        return (f"{openvino.__version__.split('-')[0]}, CPU, INFERENCE_PRECISION_HINT={self.precision}, "
                f"PERFORMANCE_HINT=LATENCY, INFERENCE_NUM_THREADS={self.threads_}, sizes fixed")

    def prepare(self, case, inputs, outputs):
        import openvino
        core = openvino.Core()
        model = core.read_model(case.model())
        model.reshape({name: list(array.shape) for name, array in inputs.items()})
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_PRECISION_HINT": self.precision, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads_})
        request = compiled.create_infer_request()

        def run():
            results = request.infer(inputs, share_inputs=True, share_outputs=True)
            return [results[index] for index in range(len(compiled.outputs))]

        return run


class TorchCompilePeer:
    """torch.compile over the same graph, with its weights frozen; traced at the case's sizes."""

    name = "torch.compile"

    def __init__(self, threads):
        self.threads_ = threads

    def unavailable(self):
        return _missing("torch")

    @property
    def settings(self):
        import torch
        return f"{torch.__version__}, inductor, freezing, {self.threads_} threads, sizes fixed"

    def prepare(self, case, inputs, outputs):
        import torch
        import torch_graph
        torch.set_num_threads(self.threads_)
        compiled = torch_graph.compile_model(case.model(), inputs)
        tensors = [torch.from_numpy(array) for array in inputs.values()]

        def run():
            with torch.inference_mode():
                return [result.numpy() for result in compiled(*tensors)]

        return run


def _missing(module):
    if importlib.util.find_spec(module) is None:
        return f"the Python module {module} is not installed"
    return None
