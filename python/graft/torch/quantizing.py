# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch that run on 8-bit units."""

import inspect
import itertools
import os
import tempfile
from collections.abc import Mapping

import torch
from torch.utils import _pytree as pytree

from .. import quantizing
from ..errors import InvalidArgumentError, UnsupportedError
from .exported import decomposed, exported
from .ptq import Calibrator


class QuantizedModule(torch.nn.Module):
    """A model computed by one int8 engine; it is called like the original model, without gradients.

    quantized  the graft.Quantized: report, engine, plan, model (ONNX) and save()
    """

    def __init__(self, quantized, program):
        super().__init__()
        self.quantized = quantized
        self.inputs, self.outputs = program.call_spec.in_spec, program.call_spec.out_spec
        if len(quantized.engine.outputs) != self.outputs.num_leaves:
            raise UnsupportedError("the model writes to its buffers, or gives what is no tensor: quantize what "
                                   "does not")

    @property
    def report(self):
        """What became of each layer, and the error."""
        return self.quantized.report

    def forward(self, *args, **kwargs):
        """As the model's own."""
        flat, structure = pytree.tree_flatten((args, kwargs))
        if structure != self.inputs:
            raise InvalidArgumentError(f"the arguments are {structure}, and the model was exported with {self.inputs}")
        results = self.quantized.engine(*[each.detach().contiguous() for each in flat])
        return pytree.tree_unflatten(list(results) if isinstance(results, tuple) else [results], self.outputs)


def quantize(model, data=None, inputs=None, dims=None, *, kwargs=None, **choices):
    """A QuantizedModule: the model with int8 products, calibrated on samples of its inputs, with the measured error.

    model    a torch.nn.Module in evaluation mode, or a torch.export.ExportedProgram
    data     samples, as for graft.quantize: a DataLoader, a list of tensors ...; or a calibrator of graft.torch.ptq
    inputs, dims, kwargs
             as for graft.torch.compile; None: the tensors of the first batch, with a dynamic first axis
    choices  as for graft.quantize: method, max_error, metric, max_drop, calibration_file, output, threads ...

    Raises as graft.quantize does, and UnsupportedError if torch.export refuses the model.
    """
    calibrator = data if isinstance(data, Calibrator) else None
    if calibrator:
        data, choices = calibrator.data, {**calibrator.choices(), **choices}
    if inputs is None and not isinstance(model, torch.export.ExportedProgram):
        first, data = first_batch(data)
        program = exported_for(model, first)
    else:
        program = exported(model, inputs, dims, kwargs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt2")
        torch.export.save(program, path)
        made = quantizing.quantize(path, data, **choices)
        if calibrator:
            calibrator.done(choices)
        return QuantizedModule(made, program)


def first_batch(data):
    """(the first batch, the data with it)."""
    if data is None:
        raise InvalidArgumentError("inputs are missing: without samples, give what the model takes, tensors or "
                                   "graft.torch.Input")
    if isinstance(data, (torch.Tensor, Mapping)):
        return data, data
    iterator = iter(data() if callable(data) and not hasattr(data, "__iter__") else data)
    try:
        first = next(iterator)
    except StopIteration:
        raise InvalidArgumentError("there are no samples to calibrate with") from None
    return first, itertools.chain([first], iterator) if iterator is data else data


def exported_for(model, batch):
    """The model as a program for batches like this one, of any number of samples."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgumentError(f"a {type(model).__name__} is neither a torch.nn.Module nor an ExportedProgram")
    if isinstance(batch, (tuple, list)) and batch and quantizing.holds_inputs(batch[0]):
        batch = batch[0]  # (inputs, labels)
    names = list(inspect.signature(model.forward).parameters.values())
    if isinstance(batch, Mapping):
        given = (), {each.name: batch[each.name] for each in names if each.name in batch}
    elif isinstance(batch, (tuple, list)):
        taken = [each for each in names if each.default is each.empty and each.kind <= each.POSITIONAL_OR_KEYWORD]
        given = tuple(batch[:len(taken)]), {}
    else:
        given = (batch,), {}
    args, named = pytree.tree_map(example, given)
    if any(module.training for module in model.modules()):
        raise InvalidArgumentError("the model is in training mode: call model.eval() before, as dropout and batch "
                                   "normalisation compute something else in training")
    # One name for the first axes of all; else as torch finds them, perhaps fixed.
    for axis in (torch.export.Dim("samples", min=1), torch.export.Dim.AUTO):
        shapes = {name: {0: axis} for name in named} if named else [{0: axis}] * len(args)
        try:
            with torch.no_grad():
                return decomposed(torch.export.export(model, args, named, dynamic_shapes=shapes, strict=False))
        except Exception as error:  # of any kind: torch.export has no class of its own for what it cannot trace
            refused = error
    raise UnsupportedError(f"torch.export cannot take the model: {refused}. Give `inputs` and `dims`, or export it "
                           "yourself") from refused


def example(given):
    """A tensor of at least two samples, as torch keeps an axis of one as it is."""
    tensor = torch.as_tensor(given)
    return torch.cat([tensor, tensor]) if tensor.dim() and len(tensor) == 1 else tensor
