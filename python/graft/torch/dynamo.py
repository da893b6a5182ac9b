# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="graft"): torch finds `backend` by the package's entry point."""

import collections
import copy
import threading

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from .. import _graft, logs
from ..engine import Engine
from ..errors import Error, InvalidArgumentError
from .fx_graph import HostGraph
from .inputs import split_choices

MOST_BUILDS = 8  # of one graph, with other parameters each time; then it runs in torch


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Compiles a graph of torch.compile.

    options: how it is divided (minimum_size, most_segments, exclude_ops, exclude, only), how engines are compiled
    (precision, tune, threads, device ..., as graft.compile has them), and strict=True: what cannot become an engine
    although it was meant to is an error. Dimensions that torch takes as dynamic stay dynamic. Parameters become
    constants of the engines; when they change, engines are built again. Where gradients are wanted the graph runs in
    torch, which is counted: call the model under torch.inference_mode() or torch.no_grad().
    """
    if mode not in (None, "default"):
        raise InvalidArgumentError(f"mode {mode!r} is inductor's: give options={{...}}")
    return compile_graph(graph_module, example_inputs, Choices(options))


class Choices:
    """The options, split by who reads them."""

    def __init__(self, options, reports=None):
        options = dict(options or {})
        self.strict = bool(options.pop("strict", False))
        self.partition, self.compiling = split_choices(options)
        self.device = dict(self.compiling).get("device", "cpu")
        self.reports = reports  # a list: what would become engines is written there, and nothing is built


def compile_graph(graph_module, example_inputs, choices):
    """Brings the graph to core ATen through torch's own tracing, then divides it."""
    own = [*graph_module.parameters(), *graph_module.buffers()]
    fixed = [is_fixed(each) for each in [*own, *example_inputs]]

    def inference(aten, _):
        placeholders = [node for node in aten.graph.nodes if node.op == "placeholder"]
        usable = fixed if len(fixed) == len(placeholders) else [False] * len(placeholders)
        return Grafted(aten, usable, choices)

    def training(aten, _):
        fall_back("a graph of torch.compile", "gradients are wanted: call the model under torch.inference_mode() or "
                  "torch.no_grad()", choices)
        return aten

    compiler = aot_autograd(fw_compiler=boxed(training), bw_compiler=boxed(lambda aten, _: aten),
                            inference_compiler=boxed(inference), decompositions=core_aten_decompositions())
    return compiler(graph_module, example_inputs)


def boxed(compiler):
    """With the calling convention of torch's tracing: arguments in one list, which the callee may empty."""
    from functorch.compile import make_boxed_func
    return lambda aten, inputs: make_boxed_func(compiler(aten, inputs))


def is_fixed(tensor):
    """Whether it is a parameter or buffer, which only an assignment or a write changes, and a write shows."""
    if not isinstance(tensor, torch.Tensor) or tensor.is_inference():
        return False
    return isinstance(tensor, torch.nn.Parameter) or getattr(tensor, "_dynamo_static_input_type", None) is not None


def fall_back(what, reason, choices):
    """Counts what runs in torch; in strict mode an error."""
    if choices.strict:
        raise InvalidArgumentError(f"{what}: {reason}")
    _graft.count_fallback(what, reason)
    logs.pass_on()


class EngineCall(torch.nn.Module):
    """An engine as a module that takes and gives tensors."""

    def __init__(self, engine):
        super().__init__()
        self.engine = engine

    def forward(self, *tensors):
        """The engine's outputs, as a tuple."""
        with torch.no_grad():
            given = [tensor.detach().resolve_conj().resolve_neg() for tensor in tensors]
            results = self.engine(*given)
        return results if isinstance(results, tuple) else (results,)


class Grafted:
    """A graph in which engines stand for what Graft can run. They are built at the first call, from the parameters of
    that call, and again for others: the model may be trained on, or another model of the same code may come by."""

    def __init__(self, aten, fixed, choices):
        self.aten = aten
        self.fixed = [index for index, is_constant in enumerate(fixed) if is_constant]
        self.choices = choices
        self.built = collections.OrderedDict()  # state of the parameters -> (graph with engines, the parameters)
        self.builds = 0
        self.lock = threading.Lock()

    def __call__(self, *arguments):
        parameters = [arguments[index] for index in self.fixed]
        state = tuple((each.data_ptr(), each._version, each.shape) for each in parameters)
        found = self.built.get(state)
        if found is None:
            found = self.build(state, parameters)
        return found[0](*arguments)

    def build(self, state, parameters):
        """Of calls at the same time one builds, the others wait."""
        with self.lock:
            if state in self.built:
                return self.built[state]
            if self.builds == MOST_BUILDS:
                fall_back("a graph of torch.compile", f"its parameters have changed {MOST_BUILDS} times", self.choices)
                self.built[state] = (self.aten, parameters)
                return self.built[state]
            self.builds += 1
            graph_module = torch.fx.GraphModule(self.aten, copy.deepcopy(self.aten.graph))
            graph_module = with_engines(graph_module, dict(zip(self.fixed, parameters)), self.choices)
            while len(self.built) >= 2:  # the parameters of before may come back once, seldom older ones
                self.built.popitem(last=False)
            self.built[state] = (graph_module, parameters)
            return self.built[state]


def with_engines(graph_module, parameters, choices):
    """The graph with engines for its segments. `parameters`: {position of a placeholder: tensor}."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    host = HostGraph(graph_module, {placeholders[index]: tensor for index, tensor in parameters.items()})
    partition = host.handle.partition(choices.partition)
    if choices.reports is not None:
        choices.reports.append(partition.report())
        return graph_module
    parts = []
    logs.follow_level()
    for number, segment in enumerate(partition.segments()):
        try:
            engine = Engine(partition.compile(number, choices.compiling), choices.device)
        except InvalidArgumentError:
            raise
        except Error as error:
            if choices.strict:
                raise
            fall_back(f"segment {number}", str(error), choices)
            continue
        finally:
            logs.pass_on()
        parts.append((segment, EngineCall(engine)))
    host.write_engines(parts)
    return graph_module


def dry_run(model, inputs, options):
    """The reports of the graphs that a call of the model traces."""
    reports = []
    choices = Choices(options, reports)
    compiled = torch.compile(model, backend=lambda graph, examples: compile_graph(graph, examples, choices))
    with torch.no_grad():
        compiled(*inputs)
    return "\n".join(reports)
