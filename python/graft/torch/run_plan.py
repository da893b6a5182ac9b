# SPDX-License-Identifier: Apache-2.0
"""The operator graft::run_plan: an engine inside a graph of torch.export, its plan a tensor of bytes.

    graft::run_plan(Tensor[] inputs, Tensor plan, str signature) -> Tensor[]

`signature` is JSON: the shapes of the inputs, with names for dynamic dimensions, the types and shapes of the outputs by
these names, and how the plan is loaded. So the operator's results are known to torch where it traces without data.
"""

import ast
import json
import operator
import weakref

import torch

from .. import _graft, element_types
from ..engine import Engine
from ..errors import InvalidArgumentError, InvalidModelError

LIBRARY = torch.library.Library("graft", "FRAGMENT")
LIBRARY.define("run_plan(Tensor[] inputs, Tensor plan, str signature) -> Tensor[]",
               tags=(torch.Tag.pt2_compliant_tag,))
DTYPES = {number: getattr(torch, name) for number, name in element_types.NAMES.items() if hasattr(torch, name)}
to_dlpack = torch._C._to_dlpack  # a tensor's own __dlpack__ is written in Python, and takes longer than a small engine
current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_engines = {}  # id of a plan's tensor -> (weak reference to it, engine)


def plan_of(engine):
    """The engine's plan as a tensor of bytes."""
    return torch.frombuffer(bytearray(engine.to_bytes()), dtype=torch.uint8)


def signature_of(engine):
    """What torch has to know of an engine, as a text."""
    return json.dumps({"device": engine.device,
                       "inputs": [value.shape for value in engine.inputs],
                       "outputs": [[value.dtype, value.shape] for value in engine.outputs]}, sort_keys=True)


def engine_of(plan, signature):
    """The engine of a plan's tensor, which lives as long as the tensor and reads its weights there."""
    found = _engines.get(id(plan))
    if found is not None and found[0]() is plan:
        return found[1]
    device = json.loads(signature)["device"]
    bytes_of_plan = plan.detach().cpu().contiguous()
    if bytes_of_plan.data_ptr() % 64:
        bytes_of_plan = bytes_of_plan.clone()  # torch's allocator aligns
    engine = Engine(_graft.load_array(bytes_of_plan, [("device", device), ("threads", "0")]))
    key = id(plan)
    _engines[key] = (weakref.ref(plan, lambda _: _engines.pop(key, None)), engine)
    return engine


def call_engine(engine, tensors):
    """An engine's outputs for tensors of torch, at least one, as a list. torch hands out tensors of the current GPU
    alone: another one is made current for the call."""
    first = tensors[0]
    if first.is_cuda and first.device.index != torch.cuda.current_device():
        with torch.cuda.device(first.device):
            return call_engine(engine, tensors)

    def allocate(_, number, shape):
        made = first.new_empty(shape, dtype=DTYPES[number])
        return made, to_dlpack(made)

    # torch's streams live as long as the process; the legacy default stream is 0 to torch, and 1 to CUDA
    stream = (current_stream(first.device.index) or 1) if first.is_cuda else None
    return engine.run_for_framework([to_dlpack(plain(tensor)) for tensor in tensors], allocate, stream)


def plain(tensor):
    """A tensor that DLPack hands out: without gradients, with the elements that it shows, and on a GPU as engines want
    them there."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_cpu else tensor.contiguous()


def run(inputs, plan, signature):
    """The operator."""
    return call_engine(engine_of(plan, signature), inputs)


FUNCTIONS = {"floor_div": operator.floordiv, "mod": operator.mod, "min": torch.sym_min, "max": torch.sym_max}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def size_from(text, symbols):
    """A size such as `8*batch + 3` or `floor_div(length + 1, 2)`, of the sizes by name; None: data decide it."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return symbols[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            return FUNCTIONS[node.func.id](*map(value, node.args))
        raise InvalidModelError(f"'{text}' in the signature of an engine is no size")

    try:
        return value(ast.parse(text, mode="eval").body)
    except KeyError:
        return None
    except SyntaxError:
        raise InvalidModelError(f"'{text}' in the signature of an engine is no size") from None


def shapes_of_outputs(signature, inputs):
    """(type, sizes) of each output; a size is None where data decide it. Raises where inputs are not the engine's."""
    described = json.loads(signature)
    if len(described["inputs"]) != len(inputs):
        raise InvalidArgumentError(f"the engine takes {len(described['inputs'])} tensors, {len(inputs)} were given")
    symbols = {}
    for tensor, shape in zip(inputs, described["inputs"]):
        if len(shape) != tensor.dim():
            raise InvalidArgumentError(f"the engine takes a tensor of shape {shape}, {list(tensor.shape)} was given")
        for given, size in zip(tensor.shape, shape):
            if isinstance(size, str) and size.isidentifier():
                symbols.setdefault(size, given)
    return [(getattr(torch, dtype), [size if isinstance(size, int) else size_from(size, symbols) for size in shape])
            for dtype, shape in described["outputs"]]


def describe(inputs, plan, signature):
    """The results without data."""
    del plan
    made, like = [], inputs[0] if inputs else torch.empty(0)
    for dtype, sizes in shapes_of_outputs(signature, inputs):
        sizes = [torch.library.get_ctx().new_dynamic_size() if size is None else size for size in sizes]
        made.append(like.new_empty(sizes, dtype=dtype))
    return made


for place in ("CPU", "CUDA"):
    LIBRARY.impl("run_plan", run, place)
torch.library.register_fake("graft::run_plan", describe, lib=LIBRARY)
