# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="graft"): torch finds `backend` by the package's entry point."""

import collections
import contextlib
import copy
import threading
import typing
import weakref

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from ..errors import InvalidArgumentError
from ..logs import LOGGER
from . import parameter_states
from .attention import hide_attention, show_attention
from .calibration import NO_INPUTS, inputs_of_frame
from .fx_graph import HostGraph, core_decompositions, simplify
from .layouts import ask_for_orders, mentions_storage, orders_of_results
from .parameter_states import Parameter, StateReader, most_changes, picker
from .run_plan import call_engine
from .segments import Choices, divided, engines_for, fall_back, flag


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Compiles a graph of torch.compile.

    options: how it is divided (minimum_size, most_segments, exclude_ops, exclude, only), how engines are compiled
    (precision, tune, threads, device ..., as graft.compile has them), strict=True: what cannot become an engine
    although it was meant to is an error, and check=False: engines are not compared with torch, which otherwise happens
    once, with the tensors of the first call. Dimensions that torch takes as dynamic stay dynamic. Parameters become
    constants of the engines; when they change, engines are built again, and those that keep changing become inputs.
    precision="int8" takes calibration=..., samples of the model's inputs as for graft.quantize, on which torch runs the
    graph when its engines are built; or calibration_iters=16: calls after which engines change over to int8, and which
    calibrate them; or calibration_file="ranges.json"; and method, max_error as for graft.quantize.
    freeze=True: of changes only those are seen that torch counts; parameters that were made under
    torch.inference_mode(), where it counts none, are constants, too. Where gradients are wanted the graph runs in
    torch, which is counted: call the model under torch.inference_mode() or torch.no_grad().
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
    set_for_all_threads("error_on_nested_fx_trace", False)


def set_for_all_threads(name, value):
    """Sets what a setting of torch._dynamo is where nobody has set it: from torch 2.12 on, one that is set is a
    thread's. Versions without the setting are left alone."""
    setting = torch._dynamo.config._config.get(name)
    if setting is not None:
        setting.default = value


@contextlib.contextmanager
def others_may_call():
    """While threads trace, calls in others run what is compiled; before torch 2.11 such a call runs as written."""
    with _tracing.lock:
        _tracing.threads += 1
        set_for_all_threads("force_compile_during_fx_trace", True)
    try:
        yield
    finally:
        with _tracing.lock:
            _tracing.threads -= 1
            set_for_all_threads("force_compile_during_fx_trace", _tracing.threads > 0)


class Tracing:
    """How many threads trace at the moment."""

    def __init__(self):
        self.lock = threading.Lock()
        self.threads = 0


_tracing = Tracing()


class GraphChoices(Choices):
    """Those of torch.compile's graphs, which have their parameters from the call."""

    def __init__(self, options, reports=None):
        options = dict(options or {})
        self.freeze = flag(options, "freeze", False)
        super().__init__(options, reports)


def compile_graph(graph_module, example_inputs, choices):
    """Brings the graph to core ATen through torch's own tracing, then divides it."""
    kinds = [kind_of(each) for each in [*graph_module.parameters(), *graph_module.buffers(), *example_inputs]]
    uncounted = [kind for kind in kinds if kind is not None and kind.is_inference and not choices.freeze]
    if uncounted:
        LOGGER.warning("%d of %d parameters were made under torch.inference_mode(), where torch does not count writes, "
                       "so that they are inputs of the engines, which is slow: make the model outside of it, or, where "
                       "nothing writes to them, give the option \"freeze\": True",
                       len(uncounted), sum(kind is not None for kind in kinds))

    orders = orders_of_results(graph_module.graph)
    inputs = inputs_of_frame(sources_of(graph_module, kinds)) if choices.int8.asked else NO_INPUTS

    def inference(aten, _):
        show_attention(aten)
        ask_for_orders(aten.graph, orders, written_results())
        return Grafted(aten, constants_of(aten, kinds, choices), choices, inputs)

    def training(aten, _):
        fall_back("a graph of torch.compile", "gradients are wanted: call the model under torch.inference_mode() or "
                  "torch.no_grad()", choices)
        return aten

    if not torch.is_grad_enabled():
        hide_attention(graph_module)
    table = {} if mentions_storage(graph_module.graph) else core_decompositions(core_aten_decompositions())
    compiler = aot_autograd(fw_compiler=boxed(training), bw_compiler=boxed(lambda aten, _: aten),
                            inference_compiler=boxed(inference), decompositions=table)
    return compiler(graph_module, example_inputs)


def boxed(compiler):
    """With the calling convention of torch's tracing: arguments in one list, which the callee may empty."""
    from functorch.compile import make_boxed_func
    return lambda aten, inputs: make_boxed_func(compiler(aten, inputs))


class Kind(typing.NamedTuple):
    """What a parameter or buffer is, which only an assignment or a write changes."""

    is_buffer: bool
    is_inference: bool
    bytes: int


def kind_of(tensor):
    """The Kind of a parameter; None for what is none."""
    if not isinstance(tensor, torch.Tensor):
        return None
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    if not is_parameter and getattr(tensor, "_dynamo_static_input_type", None) is None:
        return None
    return Kind(not is_parameter, tensor.is_inference(), tensor.numel() * tensor.element_size())


def sources_of(graph_module, kinds):
    """{place: what torch calls it} of the tensors among a graph's arguments that are no parameters."""
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    before = len(kinds) - len(placeholders)
    found = {}
    for place, node in enumerate(placeholders, before):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if kinds[place] is None and isinstance(node.meta.get("example_value"), torch.Tensor):
            name = getattr(source, "name", node.name)
            found[place] = name if isinstance(name, str) else name()  # a method before torch 2.10
    return found


def constants_of(aten, kinds, choices):
    """The parameters of a traced graph that engines can have as constants: those that the graph does not write to."""
    placeholders = aten.graph.find_nodes(op="placeholder")
    if len(kinds) != len(placeholders):
        return []
    written = written_inputs()
    return [Parameter(place, kind.is_buffer, kind.bytes) for place, kind in enumerate(kinds)
            if kind is not None and place not in written and (choices.freeze or not kind.is_inference)]


def written_inputs():
    """The places of the inputs that the graph that is being traced writes to, as torch found out."""
    return {place for place, info in enumerate(getattr(traced_metadata(), "input_info", ()))
            if info.mutates_data or info.mutates_metadata}


def written_results():
    """How many of the results of the graph that is being traced are new contents of inputs, which come first."""
    return getattr(traced_metadata(), "num_mutated_inp_runtime_indices", 0)


def traced_metadata():
    """What torch found out of the graph that is being traced."""
    context = torch._guards.TracingContext.try_get()
    return context.fw_metadata if context else None


class ParameterSet:
    """The parameters of one model among those that share a graph, and what was built of them."""

    def __init__(self, parameters, forget):
        self.references = [weakref.ref(each, forget) for each in parameters]
        self.changes = collections.Counter()  # place -> how often it was found changed
        self.built = []                       # the latest Built last


class Grafted:
    """A graph in which engines stand for what Graft can run. They are built at the first call, from the parameters of
    that call. Models of the same code share the graph: each living set of parameters has its engines. Parameters that
    forward writes to are inputs of the engines, and so become those that keep changing: then nothing is built again."""

    def __init__(self, aten, parameters, choices, inputs=NO_INPUTS):
        self.aten = aten
        self.choices = choices
        self.inputs = inputs
        self.lock = threading.RLock()
        self.replaced = collections.Counter()  # place -> how often a tensor that has gone made way for another
        self.take_as_constants(parameters)

    def take_as_constants(self, parameters):
        """These are constants of engines from now on; engines with others are dropped."""
        self.parameters = parameters
        self.reader = StateReader(parameters, self.choices.freeze)
        self.state_of = self.reader.read
        self.parameters_of = picker(self.reader.places)
        self.sets = {}    # ids of a model's parameters -> ParameterSet
        self.built = {}   # state of the parameters -> Built
        self.latest = None
        self.latest_set = None

    def __call__(self, *arguments):
        latest, state = self.latest, self.state_of(arguments)
        if latest is None or state != latest.state:
            latest = self.latest = self.built.get(state) or self.built_for(arguments)
        return latest.run(*latest.used(arguments))

    def built_for(self, arguments):
        """Of calls at the same time one builds, the others wait."""
        with self.lock:
            return self.built.get(self.state_of(arguments)) or self.build(arguments)

    def build(self, arguments):
        """Engines for the parameters of a call."""
        changing = self.changing(arguments)
        if changing:
            LOGGER.info("%d of %d parameters of a graph keep changing: they are inputs of its engines from now on",
                        len(changing), len(self.parameters))
            self.take_as_constants([each for each in self.parameters if each.place not in changing])
        parameters, state = self.parameters_of(arguments), self.state_of(arguments)
        graph_module = torch.fx.GraphModule(self.aten, copy.deepcopy(self.aten.graph))
        graph_module = with_engines(graph_module, dict(zip(self.reader.places, parameters)), arguments, self.choices,
                                    self.inputs)
        used = picker(drop_unused(graph_module))
        made = Built(graph_module.forward, used, tuple([each.detach() for each in parameters]), state)
        self.keep(made, parameters)
        return made

    def changing(self, arguments):
        """The places of parameters that changed once too often, by writes or by others in their place."""
        parameters = self.parameters_of(arguments)
        own = self.sets.get(ids_of(parameters))
        counts = self.replaced
        if own is not None:
            counts = own.changes
            counts.update(self.reader.changed(own.built[-1].state, self.state_of(arguments)))
        elif self.latest_set is not None:
            counts.update(place for place, each in zip(self.reader.places, self.latest_set.references)
                          if each() is None)
        if own is None and len(self.sets) >= parameter_states.MOST_SETS:
            return set(self.reader.places)
        return {each.place for each in self.parameters if counts[each.place] >= most_changes(each)}

    def keep(self, made, parameters):
        """Remembers what was built as long as the parameters live, also for those of before: they may come back once,
        seldom older ones."""
        key = ids_of(parameters)
        if key not in self.sets:
            itself = weakref.ref(self)

            def forget(_):
                grafted = itself()
                if grafted is not None:
                    grafted.forget(key)
            self.sets[key] = ParameterSet(parameters, forget)
        own = self.latest_set = self.sets[key]
        own.built.append(made)
        self.built[made.state] = made
        for old in own.built[:-2]:
            self.built.pop(old.state, None)
        del own.built[:-2]

    def forget(self, key):
        """A parameter has gone: no call can have this set again."""
        gone = self.sets.pop(key, None)
        for each in gone.built if gone else ():
            if self.built.get(each.state) is each:
                self.built.pop(each.state)
            if self.latest is each:
                self.latest = None


class Built(typing.NamedTuple):
    """What runs for parameters in one state."""

    run: typing.Callable  # takes what `used` picks of the arguments of a call: engines hold most parameters
    used: typing.Callable
    memory: tuple  # of the parameters, kept so that none of others comes to lie at its address
    state: object  # in which the parameters were, as Grafted reads it


def ids_of(parameters):
    """What tells the parameters of one model from those of another."""
    return tuple(map(id, parameters))


def drop_unused(graph_module):
    """Takes the inputs out of a graph that nothing in it reads, and gives the places of those that stay."""
    placeholders = list(enumerate(graph_module.graph.find_nodes(op="placeholder")))
    for _, node in placeholders:
        if not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return [index for index, node in placeholders if node.users]


def with_engines(graph_module, parameters, arguments, choices, inputs):
    """The graph with engines for its segments. `parameters`: {position of a placeholder: tensor}. `inputs`: what
    samples stand for."""
    simplify(graph_module)
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    constants = {placeholders[index]: tensor for index, tensor in parameters.items()}
    try:
        host, partition = divided(lambda: HostGraph(graph_module, constants), choices)
    except InvalidArgumentError:
        raise
    except Exception as error:  # of whatever kind: it costs engines, never the model
        fall_back("a graph of torch.compile", f"it cannot be described: {type(error).__name__}: {error}", choices)
        return graph_module
    parts = engines_for(host, partition, choices, graph_module, arguments, inputs)
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
