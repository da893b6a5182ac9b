# SPDX-License-Identifier: Apache-2.0
"""Who runs a network on the GPU in `./dev bench cuda`: Graft, and torch in each of its ways.

A runner's `prepare(case, inputs)` gives a function that queues one run on the current stream and the list of tensors
that it fills. Inputs are tensors on the GPU. The torch peers run the network with attention, linear layers, GELU and
layer normalisation as single calls, batch normalisation folded, and convolutions in channels_last.
"""

import dataclasses
import functools
import os
import tempfile

import torch

import cases
import graft_peer
import networks
import torch_graph

FLOATS = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def set_precision(precision):
    """Lets torch's fp32 products and convolutions use TF32, or not."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


def best_form(case):
    """The path of the case's network as a model written for torch would state it."""
    name = case.name.split("/")[0]
    if name == "minilm":
        return cases.network_builder.cached("minilm-seeded-fused", functools.partial(cases.minilm.seeded, fused=True))
    if name not in networks.NETWORKS and name not in networks.ARCHITECTURES:
        return case.model()  # a single operator has one form
    return networks.cached_path(name, **{option: True for option in networks.find(name).options})


def module_of(case, inputs, precision):
    """The network as a traced module, and its inputs in the type and layout that suit it."""
    dtype = FLOATS[precision]
    images = next(iter(inputs.values())).ndim == 4

    def fitted(tensor):
        if not tensor.is_floating_point():
            return tensor
        tensor = tensor.to(dtype)
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    tensors = [fitted(tensor) for tensor in inputs.values()]
    if case.name.startswith("lstm"):
        return torch_graph.LstmLayer(case.model(), tensors[0].device, dtype), tensors
    return torch_graph.traced(best_form(case), list(inputs), tensors, dtype, channels_last=images), tensors


class EagerPeer:
    """The module as it is, each operator launched from Python."""

    name = "eager"

    def __init__(self, precision):
        self.precision = precision

    def prepare(self, case, inputs):
        module, tensors = module_of(case, inputs, self.precision)
        results = []

        def run():
            with torch.inference_mode():
                results[:] = module(*tensors)

        run()
        return run, results


class GraphPeer(EagerPeer):
    """The same, captured once as a CUDA graph and replayed."""

    name = "eager+graph"

    def prepare(self, case, inputs):
        run, results = super().prepare(case, inputs)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            run()
            run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()

        def replay(_held=run):  # the graph reads the weights and inputs of the module, which must stay where they are
            graph.replay()

        return replay, results


class CompilePeer(EagerPeer):
    """torch.compile with frozen weights, in the mode that replays CUDA graphs."""

    name = "compile"

    def prepare(self, case, inputs):
        module, tensors = module_of(case, inputs, self.precision)
        torch._dynamo.reset()
        compiled = torch_graph.compiled(module, mode="reduce-overhead")
        results = []

        def run():
            with torch.inference_mode():
                results[:] = compiled(*tensors)

        for _ in range(4):  # warm-up, recording, and two replays
            run()
        return run, results


PEERS = (EagerPeer, GraphPeer, CompilePeer)


class GraftRunner:
    """Graft: a plan for the case's sizes, inputs and outputs on the device, replayed."""

    name = "graft"

    def __init__(self, options):
        self.options = options
        arguments = ["--device", "cuda"]
        if options.precision != "fp32":  # strict fp32 is what Graft does unless told otherwise
            arguments += ["--precision", "fp16" if options.precision in ("int8", "fp8") else options.precision]
        self.peer = graft_peer.GraftPeer(0, options.build, tune=options.tune, arguments=arguments)
        self.folder = tempfile.TemporaryDirectory(prefix="graft-bench-")

    def unavailable(self):
        """Why it cannot run, or None."""
        return self.peer.unavailable()

    @property
    def settings(self):
        """One line."""
        return self.peer.settings.replace("one plan per model for all sizes", "a plan per case, replayed CUDA graphs")

    def prepare(self, case, inputs, outputs):
        """The same as a peer's; `outputs` are tensors like its outputs. Also gives the seconds of compiling."""
        plan = os.path.join(self.folder.name, case.label.replace("/", "-"))
        seconds, _ = self.peer.compile(case.model(), case.dims, plan)
        library = self.peer.open_library()
        session = library.create_session(library.load(plan, "cuda"))
        os.unlink(plan)
        library.set_stream(session, torch.cuda.current_stream().cuda_stream)
        names = graft_peer.output_names(case.model())
        results = [torch.full_like(output, float("nan") if output.is_floating_point() else -1,
                                   memory_format=torch.contiguous_format) for output in outputs]
        run = library.device_runner(session, inputs, dict(zip(names, results)))
        for _ in range(3):  # the second run records, later ones replay
            run()
        library.wait(session)
        return run, results, seconds


class GraftHalf(GraftRunner):
    """Graft in fp16 on the network before it was quantized."""

    name = "graft fp16"

    def prepare(self, case, inputs, outputs):
        model = functools.partial(networks.cached_path, case.name.split("/")[0])
        return super().prepare(dataclasses.replace(case, model=model), inputs, outputs)
