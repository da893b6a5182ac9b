# SPDX-License-Identifier: Apache-2.0
"""Engines inside programs of torch.export, and their files."""

import os

import torch
from torch.utils import _pytree as pytree

from ..calibrating import report_of
from ..errors import Error, InvalidArgumentError, InvalidModelError, UnsupportedError
from .calibration import leaves_of
from .complex_numbers import BORDER
from .fx_graph import HostGraph, core_decompositions, simplify, source_of
from .inputs import Input, as_range, device_of
from .layouts import KEPT
from .report import described
from .run_plan import plan_of, run, signature_of
from .segments import Choices, divided, engines_for


PLAIN = (torch.Tensor, torch.nn.Parameter)
MOST_KINDS = 1024  # of calls that a program remembers


class Program(torch.nn.Module):
    """A model with engines for the parts that they can run; it is called like the original model.

    program  the torch.export.ExportedProgram: engines are calls of the operator graft::run_plan
    report   the engines, and the reason for each other part; empty for a loaded one
    engines  how many there are
    operators, operators_in_engines  number of operators of the model, and of those in engines; 0 for a loaded one
    """

    def __init__(self, program, report="", operators=0, operators_in_engines=0):
        super().__init__()
        self.program = program
        self.report = report
        self.operators = operators
        self.operators_in_engines = operators_in_engines
        self.engines = sum(node.target is torch.ops.graft.run_plan.default for node in program.graph.nodes)
        self.module = program.module()
        self.direct = direct(program, self.module)
        self.checked = set()  # kinds of calls that torch has checked against the program's ranges

    def forward(self, *args, **kwargs):
        """As the model's own. What torch checks of arguments, in Python, takes longer than a small engine, and is done
        once for tensors of the same sizes."""
        kind = None if kwargs else kind_of_call(args)
        if kind in self.checked:
            return self.direct(*args)
        results = self.module(*args, **kwargs)
        if kind is not None:
            if len(self.checked) >= MOST_KINDS:
                self.checked.clear()
            self.checked.add(kind)
        return results

    def _apply(self, *given, **named):
        """Moves or casts what the module has, as every module's."""
        super()._apply(*given, **named)
        self.checked.clear()
        self.direct = direct(self.program, self.module)
        return self


def kind_of_call(args):
    """What of the arguments torch checks, where they are plain tensors and nobody traces; else None."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() or torch._C._len_torch_dispatch_stack():
        return None
    if any(type(each) not in PLAIN for each in args):
        return None
    return tuple([(each.shape, each.dtype, each.device) for each in args])


def direct(program, module):
    """What calls engines without torch's dispatcher, and leaves arguments unchecked; parameters are the module's."""
    graph = program.module(check_guards=False).graph
    for node in graph.nodes:
        if node.target is torch.ops.graft.run_plan.default:
            node.target = run
    return torch.fx.GraphModule(module, graph).forward


def compile(model, inputs=None, dims=None, *, kwargs=None, require_full=False, **choices):
    """A Program: `model` with engines for the parts that they can run. It is called like the model, takes only the
    stated sizes, and keeps no weights that engines hold.

    model         a torch.nn.Module in evaluation mode, or a torch.export.ExportedProgram
    inputs        inputs of the model, in order: tensors, on which engines are compared with torch, and
                  graft.torch.Input(("batch", 3, 224, 224)), also inside of tuples, lists and dicts; `kwargs`: by name
    dims          ranges of the dimensions that an Input names: {"batch": (1, 8, 64)}, minimum, optimum, maximum
    require_full  an operator that stays with torch is an error, which names each with its source line
    choices       as the options of torch.compile(model, backend="graft", options={...}): precision, tune, threads,
                  device, minimum_size, most_segments, exclude_ops, exclude, only, strict, check; for precision="int8"
                  calibration (samples), calibration_file, method, max_error

    Raises a subclass of graft.Error.
    """
    split = Choices(choices)
    if split.int8.learns_by_itself:
        raise InvalidArgumentError("calibration_iters: the engines of a program do not change: give calibration=..., "
                                   "samples")
    program = exported(model, inputs, dims, kwargs)
    arguments, named = program.example_inputs
    graph_module = program.module(check_guards=False)
    simplify(graph_module)
    host, partition = divided(lambda: HostGraph(graph_module, {}, program.range_constraints), split)
    if require_full:
        refuse_rest(host, partition)
    report, data = partition.report(), described(host, partition)
    flat = [each for each in pytree.tree_leaves((arguments, named)) if isinstance(each, (torch.Tensor, int, float))]
    parts = engines_for(host, partition, split, graph_module, flat, leaves_of(program))
    write(host, graph_module, parts)
    with torch.no_grad():
        made = torch.export.export(graph_module, arguments, named, dynamic_shapes=dynamic_shapes_of(program),
                                   strict=False)
    quantized = [f"segment {part.number} is of int8:\n{found}\n" for part in parts
                 if (found := report_of(part.engine)) is not None]
    return Program(made, report + "".join(quantized), data["operators"], sum(part.segment[3] for part in parts))


def write(host, graph_module, parts):
    """Puts calls of graft::run_plan in place of segments, and drops the parameters that nobody takes any more."""
    def call_of(number, engine):
        name = f"graft_plan_{number}"
        graph_module.register_buffer(name, plan_of(engine))

        def call(graph, inputs):
            plan = graph.get_attr(name)
            return graph.call_function(torch.ops.graft.run_plan.default, (inputs, plan, signature_of(engine)))
        return call

    host.write_engines([(part.segment, call_of(part.number, part.engine)) for part in parts])
    graph_module.delete_all_unused_submodules()
    used = {node.target for node in graph_module.graph.nodes if node.op == "get_attr"}
    for name, module in list(graph_module.named_modules()):
        for kind in (module._parameters, module._buffers):
            for each in [each for each in kind if f"{name}.{each}".lstrip(".") not in used]:
                del kind[each]


def exported(model, inputs, dims, kwargs):
    """The model as a program of core ATen operators."""
    if isinstance(model, torch.export.ExportedProgram):
        if inputs is not None or dims or kwargs:
            raise InvalidArgumentError("an ExportedProgram has its inputs and dims already: give it alone")
        if model.example_inputs is None:
            raise InvalidArgumentError("the ExportedProgram has no example inputs: export the model with some")
        return decomposed(model)
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgumentError(f"a {type(model).__name__} is neither a torch.nn.Module nor an ExportedProgram")
    if any(module.training for module in model.modules()):
        raise InvalidArgumentError("the model is in training mode: call model.eval() before, as dropout and batch "
                                   "normalisation compute something else in training")
    if inputs is None:
        raise InvalidArgumentError("inputs are missing: give what the model takes, tensors or graft.torch.Input")
    ranges = {name: as_range(name, sizes) for name, sizes in (dims or {}).items()}
    given = (tuple(inputs), dict(kwargs or {}))
    unknown = set(ranges) - {size for each in pytree.tree_leaves(given) if isinstance(each, Input)
                             for size in each.shape if isinstance(size, str)}
    if unknown:
        raise InvalidArgumentError(f"dims has {', '.join(sorted(unknown))}, which no graft.torch.Input names")
    made = {name: torch.export.Dim(name, min=low, max=high) for name, (low, _, high) in ranges.items() if low != high}
    device = device_of(model) or torch.device("cpu")
    samples = pytree.tree_map(lambda each: sample(each, ranges, device), given)
    shapes = pytree.tree_map(lambda each: shape_of(each, made), given)
    shapes = (*shapes[0], *shapes[1].values()) if made else None
    with torch.no_grad():
        try:
            program = torch.export.export(model, *samples, dynamic_shapes=shapes, strict=False)
        except Error:
            raise
        except Exception as error:  # of any kind: torch.export has no class of its own for what it cannot trace
            raise UnsupportedError(f"torch.export cannot take the model: {error}. torch.compile(model, "
                                   "backend='graft') runs what it cannot trace in torch") from error
        return decomposed(program)


def decomposed(program):
    """In core ATen operators."""
    simplify(program.graph_module, is_whole=False)
    return program.run_decompositions(core_decompositions(torch.export.default_decompositions()))


def size_in(size, ranges):
    """The size that an example has: the usual one, but 1 only where nothing else is allowed, as torch would keep it."""
    if isinstance(size, int):
        return size
    if size not in ranges:
        raise InvalidArgumentError(f"the dimension '{size}' has no range: give dims={{'{size}': (1, 8, 64)}}")
    _, usual, high = ranges[size]
    return min(max(usual, 2), high)


def sample(given, ranges, device):
    """A tensor for an Input, where the model lies: of random numbers, or of zeros and ones where they are integers."""
    if not isinstance(given, Input):
        return given
    shape = [size_in(size, ranges) for size in given.shape]
    generator = torch.Generator().manual_seed(0)
    if given.dtype.is_floating_point or given.dtype.is_complex:
        return torch.randn(shape, generator=generator).to(device, given.dtype)
    return torch.randint(0, 2, shape, generator=generator).to(device, given.dtype)


def shape_of(given, made):
    """What of an input varies, as torch.export has it."""
    if not isinstance(given, Input):
        return None
    return {axis: made[size] for axis, size in enumerate(given.shape) if size in made}


def dynamic_shapes_of(program):
    """How the sizes of a program's inputs vary, for exporting it again."""
    ranges = {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}
    dims = {}

    def dim_of(size):
        text = str(size.node.expr)
        if not text.isidentifier() or text not in ranges:
            return torch.export.Dim.AUTO
        if text not in dims:
            low, high = ranges[text].lower, ranges[text].upper
            dims[text] = torch.export.Dim(text, min=int(low), max=int(high) if high.is_Integer else None)
        return dims[text]

    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    flat = []
    for name in program.graph_signature.user_inputs:
        value = values.get(name) if isinstance(name, str) else None
        flat.append({axis: dim_of(size) for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}
                    if isinstance(value, torch.Tensor) else None)
    arguments, named = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return (*arguments, *named.values()) if any(flat) else None


def refuse_rest(host, partition):
    """Raises where an operator stays with torch."""
    left = [(host.nodes[index], reason) for index, reason in enumerate(partition.reasons())
            if reason and host.nodes[index] is not None and not {KEPT, BORDER} & set(host.nodes[index].meta)]
    if left:
        raise UnsupportedError("these stay with torch: " + "; ".join(
            f"{node.target} ({reason}) at {source_of(node) or node.name}" for node, reason in left))


def save(program, path):
    """Writes a Program to a .pt2 file, which torch.export.load reads, too, where graft.torch has been imported."""
    if not isinstance(program, Program):
        raise InvalidArgumentError(f"a {type(program).__name__} is no Program, as graft.torch.compile makes one")
    torch.export.save(program.program, os.fspath(path))


def load(path):
    """The Program of a file. Raises graft.InvalidModelError where it is none, or of another version of torch."""
    try:
        return Program(torch.export.load(os.fspath(path)))
    except FileNotFoundError:
        raise
    except Error:
        raise
    except Exception as error:  # torch has no class of its own for files that it cannot read
        raise InvalidModelError(f"{path} is no exported program that torch {torch.__version__} reads: "
                                f"{error}") from error
