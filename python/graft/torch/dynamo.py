# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="graft"): torch finds `backend` by the package's entry point."""

import collections
import copy
import operator
import threading
import typing

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from .. import _graft
from ..errors import InvalidArgumentError
from ..logs import LOGGER
from .attention import hide_attention, show_attention
from .fx_graph import HostGraph, core_decompositions, simplify
from .run_plan import call_engine
from .segments import Choices, engines_for, fall_back, flag

MOST_BUILDS = 8  # of one graph, with other parameters each time; then it runs in torch
address_of = torch.Tensor.data_ptr


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Compiles a graph of torch.compile.

    options: how it is divided (minimum_size, most_segments, exclude_ops, exclude, only), how engines are compiled
    (precision, tune, threads, device ..., as graft.compile has them), strict=True: what cannot become an engine
    although it was meant to is an error, and check=False: engines are not compared with torch, which otherwise happens
    once, with the tensors of the first call. freeze=True: parameters that were made under torch.inference_mode() are
    constants, too, although torch does not tell when they are written to. Dimensions that torch takes as dynamic stay
    dynamic. Parameters become constants of the engines; when they change, engines are built again. Where gradients are
    wanted the graph runs in torch, which is counted: call the model under torch.inference_mode() or torch.no_grad().
    """
    if mode not in (None, "default"):
        raise InvalidArgumentError(f"mode {mode!r} is inductor's: give options={{...}}")
    share_between_threads()
    with others_may_call():
        return compile_graph(graph_module, example_inputs, GraphChoices(options))


def share_between_threads():
    """Makes torch's calls of compiled functions safe between threads, for all functions of the process.

    torch moves the graph that it found for a call to the front of those of a function. Another thread that goes through
    them at that moment misses one, and traces what is there already, until torch traces no more (its recompile_limit).
    In an order that stays it misses none. That some thread traces torch notes in a variable of the process, by which
    calls in other threads take themselves for traced ones, and raise unless told otherwise (others_may_call, too)."""
    keep_order = getattr(torch._C._dynamo.eval_frame, "_set_lru_cache", None)
    if keep_order:
        keep_order(False)
    torch._dynamo.config.error_on_nested_fx_trace = False


def others_may_call():
    """While this thread traces, calls in others run what is compiled."""
    return torch._dynamo.config.patch(force_compile_during_fx_trace=True)


class GraphChoices(Choices):
    """Those of torch.compile's graphs, which have their parameters from the call."""

    def __init__(self, options, reports=None):
        options = dict(options or {})
        self.freeze = flag(options, "freeze", False)
        super().__init__(options, reports)


def compile_graph(graph_module, example_inputs, choices):
    """Brings the graph to core ATen through torch's own tracing, then divides it."""
    own = [*graph_module.parameters(), *graph_module.buffers()]
    given = [is_parameter(each) for each in [*own, *example_inputs]]
    fixed = [yes and (choices.freeze or not each.is_inference()) for each, yes in zip([*own, *example_inputs], given)]
    if given != fixed:
        LOGGER.warning("%d of %d parameters were made under torch.inference_mode(), where torch does not count writes, "
                       "so that they are inputs of the engines, which is slow: make the model outside of it, or, where "
                       "nothing writes to them, give the option \"freeze\": True",
                       given.count(True) - fixed.count(True), given.count(True))

    def inference(aten, _):
        show_attention(aten)
        placeholders = [node for node in aten.graph.nodes if node.op == "placeholder"]
        usable = fixed if len(fixed) == len(placeholders) else [False] * len(placeholders)
        return Grafted(aten, usable, choices)

    def training(aten, _):
        fall_back("a graph of torch.compile", "gradients are wanted: call the model under torch.inference_mode() or "
                  "torch.no_grad()", choices)
        return aten

    if not torch.is_grad_enabled():
        hide_attention(graph_module)
    compiler = aot_autograd(fw_compiler=boxed(training), bw_compiler=boxed(lambda aten, _: aten),
                            inference_compiler=boxed(inference),
                            decompositions=core_decompositions(core_aten_decompositions()))
    return compiler(graph_module, example_inputs)


def boxed(compiler):
    """With the calling convention of torch's tracing: arguments in one list, which the callee may empty."""
    from functorch.compile import make_boxed_func
    return lambda aten, inputs: make_boxed_func(compiler(aten, inputs))


def written_version(tensor):
    """How often a parameter was written to, as far as torch counts it."""
    return 0 if tensor.is_inference() else tensor._version


def is_parameter(tensor):
    """Whether it is a parameter or buffer, which only an assignment or a write changes."""
    if not isinstance(tensor, torch.Tensor):
        return False
    return isinstance(tensor, torch.nn.Parameter) or getattr(tensor, "_dynamo_static_input_type", None) is not None


class Grafted:
    """A graph in which engines stand for what Graft can run. They are built at the first call, from the parameters of
    that call, and again for others: the model may be trained on, or another model of the same code may come by."""

    def __init__(self, aten, fixed, choices):
        self.aten = aten
        self.fixed = [index for index, is_constant in enumerate(fixed) if is_constant]
        self.parameters_of = picker(self.fixed)
        self.choices = choices
        self.state_of = self.state_reader()
        self.built = collections.OrderedDict()  # state of the parameters -> Built
        self.latest = None
        self.builds = 0
        self.lock = threading.Lock()

    def __call__(self, *arguments):
        state, latest = self.state_of(arguments), self.latest
        if latest is None or state != latest.state:
            latest = self.latest = self.built.get(state) or self.build(state, arguments)
        return latest.run(*latest.used(arguments))

    def state_reader(self):
        """What tells, by the arguments of a call, where each parameter lies and how often it was written to."""
        exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if exchange is not None and not self.choices.freeze:
            try:
                return _graft.TensorStates(exchange, torch._C.TensorBase._version, self.fixed)
            except ValueError:  # another torch
                pass
        version_of = written_version if self.choices.freeze else operator.attrgetter("_version")

        def state_of(arguments):
            parameters = self.parameters_of(arguments)
            return (*map(address_of, parameters), *map(version_of, parameters))
        return state_of

    def build(self, state, arguments):
        """Of calls at the same time one builds, the others wait."""
        parameters = self.parameters_of(arguments)
        with self.lock:
            if state in self.built:
                return self.built[state]
            if self.builds == MOST_BUILDS:
                fall_back("a graph of torch.compile", f"its parameters have changed {MOST_BUILDS} times", self.choices)
                return Built(self.aten.forward, tuple, parameters, state)
            self.builds += 1
            graph_module = torch.fx.GraphModule(self.aten, copy.deepcopy(self.aten.graph))
            graph_module = with_engines(graph_module, dict(zip(self.fixed, parameters)), arguments, self.choices)
            used = picker(drop_unused(graph_module))
            while len(self.built) >= 2:  # the parameters of before may come back once, seldom older ones
                self.built.popitem(last=False)
            self.built[state] = Built(graph_module.forward, used, parameters, state)
            return self.built[state]


class Built(typing.NamedTuple):
    """What runs for parameters in one state."""

    run: typing.Callable  # takes what `used` picks of the arguments of a call: engines hold most parameters
    used: typing.Callable
    parameters: tuple  # kept, so that none of others comes to lie at its address
    state: object  # in which the parameters were, as Grafted reads it


def drop_unused(graph_module):
    """Takes the inputs out of a graph that nothing in it reads, and gives the places of those that stay."""
    placeholders = list(enumerate(graph_module.graph.find_nodes(op="placeholder")))
    for _, node in placeholders:
        if not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return [index for index, node in placeholders if node.users]


def picker(indices):
    """A function that gives the elements of a tuple at these places, as a tuple."""
    if not indices:
        return lambda arguments: ()
    if len(indices) == 1:
        return lambda arguments, index=indices[0]: (arguments[index],)
    return operator.itemgetter(*indices)


def with_engines(graph_module, parameters, arguments, choices):
    """The graph with engines for its segments. `parameters`: {position of a placeholder: tensor}."""
    simplify(graph_module)
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    host = HostGraph(graph_module, {placeholders[index]: tensor for index, tensor in parameters.items()})
    parts = engines_for(host, choices, graph_module, arguments)
    host.write_engines([(part.segment, call_of(part)) for part in parts])
    return graph_module


def call_of(part):
    """Writes the call of an engine into a graph that stays in this process."""
    engine = part.engine

    def graft_engine(*tensors):
        return call_engine(engine, tensors)

    return lambda graph, inputs: graph.call_function(graft_engine, tuple(inputs))


def dry_run(model, inputs, options):
    """(data, text) of the graphs that a call of the model traces."""
    reports = []
    choices = GraphChoices(options, reports)
    compiled = torch.compile(model, backend=lambda graph, examples: compile_graph(graph, examples, choices))
    with torch.no_grad():
        compiled(*inputs)
    return reports
