# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX graphs node by node, named and shaped as PyTorch's exporter leaves them."""

import contextlib
import os
import tempfile
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

DEFAULT_OPSET = 20


class NetworkBuilder:
    """Collects nodes and weights of one network; names are paths of the scopes they are made in.

        net = NetworkBuilder("tiny")
        x = net.input("x", np.float32, ["batch", 4])
        net.output("y", net.op("Relu", x), np.float32, ["batch", 4])
        save_model(net.model(), "tiny.onnx")
    """

    def __init__(self, name, opset=DEFAULT_OPSET, seed=0):
        self.name_ = name
        self.opset_ = opset
        self.seed_ = seed
        self.scopes_ = []
        self.nodes_ = []
        self.weights_ = {}
        self.inputs_ = []
        self.outputs_ = []
        self.name_uses_ = {}

    @contextlib.contextmanager
    def scope(self, name):
        """Prefixes the names of everything built inside, as a module's name does in an export."""
        self.scopes_.append(name)
        try:
            yield
        finally:
            self.scopes_.pop()

    def path(self, name, separator="."):
        """Gives the full name of a weight (dots) or a node (slashes) of the current scope."""
        return separator.join([*self.scopes_, name])

    def input(self, name, dtype, shape):
        """Declares a graph input; a string in `shape` is a symbolic size."""
        self.inputs_.append(_value_info(name, dtype, shape))
        return name

    def output(self, name, value, dtype, shape):
        """Declares a graph output and gives it the name by which users ask for it."""
        self.nodes_.append(helper.make_node("Identity", [value], [name], name=f"/{name}"))
        self.outputs_.append(_value_info(name, dtype, shape))

    def op(self, op_type, *inputs, outputs=1, **attributes):
        """Adds a node and returns the name of its result (a tuple where it has several)."""
        name = self._unique("/" + self.path(op_type, "/"))
        results = [f"{name}_output_{index}" for index in range(outputs)]
        node = helper.make_node(op_type, list(inputs), results, name=name, **attributes)
        self.nodes_.append(node)
        return results[0] if outputs == 1 else tuple(results)

    def constant(self, value, dtype=np.float32):
        """Adds a Constant node for a scalar, or for a list of sizes or axes."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype=dtype))
        return self.op("Constant", value=tensor)

    def weight(self, name, array):
        """Adds an initializer under the current scope; asking for a name again shares it."""
        full_name = self.path(name)
        self.weights_.setdefault(full_name, array)
        return full_name

    def random(self, full_name):
        """Gives the random stream that belongs to one weight, independent of building order."""
        return np.random.default_rng([self.seed_, zlib.crc32(full_name.encode())])

    def size(self, value, axis):
        """Reads one run-time size of a value: Shape -> Gather."""
        return self.op("Gather", self.op("Shape", value), self.constant(axis, np.int64), axis=0)

    def reshape(self, value, sizes):
        """Reshapes to a mix of fixed sizes and sizes read at run time (given by their names)."""
        if all(isinstance(size, int) for size in sizes):
            return self.op("Reshape", value, self.constant(sizes, np.int64))
        axis = self.constant([0], np.int64)
        parts = [
            self.constant([size], np.int64) if isinstance(size, int)
            else self.op("Unsqueeze", size, axis)
            for size in sizes
        ]
        return self.op("Reshape", value, self.op("Concat", *parts, axis=0))

    def model(self):
        """Closes the graph into a model proto."""
        graph = helper.make_graph(
            self.nodes_, self.name_, self.inputs_, self.outputs_,
            [numpy_helper.from_array(np.ascontiguousarray(array), name)
             for name, array in self.weights_.items()])
        opsets = [helper.make_opsetid("", self.opset_)]
        return helper.make_model(graph, opset_imports=opsets, producer_name="graft-models",
                                 ir_version=helper.find_min_ir_version_for(opsets))

    def _unique(self, name):
        uses = self.name_uses_.get(name, 0)
        self.name_uses_[name] = uses + 1
        return f"{name}_{uses}" if uses else name


def _value_info(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)),
                                         shape)


def save_model(model, path):
    """Checks a model and writes it whole or not at all: a killed run leaves no half file."""
    data = model.SerializeToString()
    onnx.checker.check_model(data)
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=folder, prefix=".partial-", suffix=".onnx")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def cache_folder():
    """Names the folder for generated models: beside the sources, ignored by git."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                        ".cache", "models")


def cached(name, build, sources=()):
    """Returns the path of a generated model, building it when it is older than what makes it."""
    path = os.path.join(cache_folder(), name + ".onnx")
    here = os.path.dirname(os.path.abspath(__file__))
    makers = [os.path.join(here, file) for file in os.listdir(here)
              if file.endswith(".py") and not file.startswith("test_")]
    newest = max(os.path.getmtime(file) for file in [*makers, *sources])
    if not os.path.exists(path) or os.path.getmtime(path) < newest:
        save_model(build(), path)
    return path
