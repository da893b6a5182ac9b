# SPDX-License-Identifier: Apache-2.0
"""Writes networks made of the node cases of the onnx package, one per seed: FOLDER/SEED.onnx with its inputs in
FOLDER/SEED.npz, and `made SEED` on standard output; see sources.py. Seeds come on standard input, one per line.

A network grows by nodes of cases, with their attributes, whose inputs are the case's own or values that earlier nodes
made, of any shape that onnx's reference evaluator takes; some tensors have no elements. Stretches of nodes then go into
the branches of an If or the body of a Loop, and sizes of inputs become open.
"""

import collections
import os
import pathlib
import random
import signal
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "conformance"))

import case_files  # noqa: E402
import networks  # noqa: E402

SMALLEST, LARGEST = 3, 10         # nodes of a network, before control flow
LARGEST_TENSOR = 16384            # elements: the interpreter runs every network several times
LARGEST_NUMBER = 1e4
SECONDS = 60                      # of the reference evaluator: far from what it takes, so that no seed depends on it
ATTEMPTS = 200                    # nodes that are tried for a network
IR_VERSION = 10
OF_PEERS = 24                     # the newest opset that ONNX Runtime has, too
SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 17]
DRAWN = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
         "RandomUniformLike"}     # results that follow from nothing in the model
BODIES = {"If", "Loop", "Scan", "SequenceMap"}
# Operators whose results roundings move by more than can be estimated without the values between: near a pole from
# round to round, and bits that stand for something else.
STEEP = {"Tan", "BitCast"}
ELEMENTS = ["float32"] * 6 + ["float16", "float64", "int32", "int64", "bool", "uint8", "int8"]


class Sample:
    """A node of a case, and the case's arrays for it; an array is None where the node leaves an input out. Types that
    numpy has not of itself (bf16, float8, int4 ...) are cast inside: from float32 where `narrow` names an input, and to
    it where it names an output."""

    def __init__(self, node, since, arrays, narrow):
        self.node, self.since, self.arrays, self.narrow = node, since, arrays, narrow
        names = [parameter.name for parameter in onnx.defs.get_schema(node.op_type, since, "").inputs]
        self.takes_axes = names.index("axes") if "axes" in names else None


def is_complex(proto):
    return proto.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


def is_plain(proto):
    return networks.is_native(proto.data_type)


def samples():
    """operator -> its samples: cases of one node with plain tensors and no draws."""
    found = collections.defaultdict(list)
    for case in case_files.collect():
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].domain or nodes[0].op_type in DRAWN | BODIES or not case.data_sets:
            continue
        node, (given, results) = nodes[0], case.data_sets[0]
        values = dict(zip([value.name for value in [*case.model.graph.input, *case.model.graph.output]],
                          [*given, *results]))
        if not all(isinstance(proto, TensorProto) and proto.data_type != TensorProto.STRING and not is_complex(proto)
                   for proto in values.values()):
            continue
        narrow = {name: proto.data_type for name, proto in values.items() if not is_plain(proto)}
        arrays = {value.name: numpy_helper.to_array(values[value.name]) for value in case.model.graph.input}
        arrays = {name: array.astype(np.float32) if name in narrow else array for name, array in arrays.items()}
        if any(name and name not in arrays for name in node.input):
            continue
        version = max(opset.version for opset in case.model.opset_import if not opset.domain)
        schema = onnx.defs.get_schema(node.op_type, version, "")
        latest = onnx.defs.get_schema(node.op_type, onnx.defs.onnx_opset_version(), "")
        if schema.since_version != latest.since_version or schema.deprecated:
            continue
        given = [arrays.get(name) for name in node.input]
        found[node.op_type].append(Sample(node, latest.since_version, given, narrow))
    return dict(sorted(found.items()))


# What evaluators take though ONNX does not: arrays in the order of the node's inputs -> whether ONNX does, too.
ALLOWS = {
    "CenterCropPad": lambda node, x, shape: shape.size == next(
        (len(a.ints) for a in node.attribute if a.name == "axes"), x.ndim),
    "GroupNormalization": lambda node, x, scale, bias: scale.shape == bias.shape == x.shape[1:2],
    "NonMaxSuppression": lambda node, boxes, scores, *numbers: boxes.shape[0] == scores.shape[0]
    and boxes.shape[1] == scores.shape[2] and all(number.size == 1 for number in numbers),
    "NegativeLogLikelihoodLoss": lambda node, scores, labels, *weights: all(
        weight.shape == scores.shape[1:2] for weight in weights),
    "PRelu": lambda node, x, slope: np.broadcast_shapes(x.shape, slope.shape) == x.shape,
    # Of complex signals with a window ONNX Runtime reads what nobody wrote.
    "STFT": lambda node, x, step, *window: x.shape[-1] == 1 and all(array.ndim < 2 for array in window),
}
ALLOWS["SoftmaxCrossEntropyLoss"] = ALLOWS["NegativeLogLikelihoodLoss"]


class TooLong(Exception):
    pass


def evaluate(model, values):
    """The outputs by name; throws what the evaluator throws, and TooLong."""
    def end(*_):
        raise TooLong
    signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, values)
    finally:
        signal.alarm(0)
    return dict(zip([output.name for output in model.graph.output], map(np.asarray, results)))


def info(name, array, shape=None):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def is_tame(array):
    """Whether rounding can be told from errors: no NaN, no infinity, nothing vast."""
    if array.size > LARGEST_TENSOR or not networks.is_native(helper.np_dtype_to_tensor_dtype(array.dtype)):
        return False
    return array.dtype.kind != "f" or bool(np.all(np.abs(array.astype(np.float64)) <= LARGEST_NUMBER))


class Network:
    """What grows: nodes, and every value with its array."""

    def __init__(self, seed, operators):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.operators = operators
        self.nodes, self.inputs, self.constants, self.arrays = [], {}, {}, {}
        self.names = 0
        self.since = 13
        self.latest = self.random.choice([OF_PEERS, onnx.defs.onnx_opset_version()])
        self.is_open = self.random.random() < 0.5  # sizes of inputs

    def fresh(self, stem):
        self.names += 1
        return f"{stem}{self.names}"

    def take(self, array, stem="x", constant=None):
        """The array as an input or a constant of the network."""
        name = self.fresh(stem)
        constant = self.random.random() < 0.4 if constant is None else constant
        (self.constants if constant else self.inputs)[name] = array
        self.arrays[name] = array
        return name

    def draw(self):
        """An array of any element type and shape."""
        kind = np.dtype(self.random.choice(ELEMENTS))
        shape = [self.random.choice(SIZES if self.random.random() < 0.3 else SIZES[2:])
                 for _ in range(self.random.choice([0, 1, 2, 2, 3, 3, 4]))]
        while np.prod(shape) > LARGEST_TENSOR // 4:
            shape.pop()
        if kind.kind == "b":
            return self.numbers.integers(0, 2, shape).astype(kind)
        if kind.kind in "iu":
            return self.numbers.integers(0 if kind.kind == "u" else -4, 9, shape).astype(kind)
        return self.numbers.uniform(-2, 2, shape).astype(kind)

    def choose(self, own):
        """A value for an input of a node: one that is there, mostly of the latest, or the case's own."""
        likely = 0.75 if own.dtype.kind in "fb" else 0.2
        if self.random.random() < likely:
            fitting = [name for name, array in self.arrays.items() if array.dtype == own.dtype]
            if fitting:
                return self.random.choice(fitting[-4:] if self.random.random() < 0.7 else fitting)
        return self.take(own)

    def argument(self, sample, k):
        """The name of a value for an input of a node; axes are constants, as they decide ranks."""
        own = sample.arrays[k]
        if own is None:
            return ""
        return self.take(own, constant=True) if sample.takes_axes == k else self.choose(own)

    def try_node(self):
        """Adds a node of a case; False where the evaluator does not take these inputs, or it gives nothing tame."""
        sample = self.random.choice(self.operators[self.random.choice(list(self.operators))])
        if sample.since > self.latest:
            return False
        before = dict(self.inputs), dict(self.constants), dict(self.arrays)
        node = onnx.NodeProto()
        node.CopyFrom(sample.node)
        node.name = f"{node.op_type} {len(self.nodes)}"
        del node.input[:], node.output[:]
        node.input.extend(self.argument(sample, k) for k in range(len(sample.arrays)))
        node.output.extend(self.fresh(f"v{k}_") if name else "" for k, name in enumerate(sample.node.output))
        used = {name: self.arrays[name] for name in node.input if name}
        made = [name for name in node.output if name]
        nodes = self.with_casts(node, sample)
        try:
            single = helper.make_model(
                helper.make_graph(nodes, "node", [info(name, array) for name, array in used.items()],
                                  [helper.make_empty_tensor_value_info(name) for name in made]),
                opset_imports=[helper.make_opsetid("", max(sample.since, self.since))], ir_version=IR_VERSION)
            onnx.shape_inference.infer_shapes(single, check_type=True, strict_mode=True)
            allows = ALLOWS.get(node.op_type, lambda *_: True)
            if not allows(node, *[self.arrays[name] for name in node.input if name in self.arrays]):
                raise ValueError("ONNX does not allow it")
            results = evaluate(single, used)
            tame = all(is_tame(array) for array in results.values()) and self.peer_agrees(single, used, results)
        except (Exception, TooLong):
            tame = False
        if not tame:
            self.inputs, self.constants, self.arrays = before
            return False
        self.nodes += nodes
        self.arrays.update(results)
        self.since = max(self.since, sample.since)
        return True

    def with_casts(self, node, sample):
        """The node between casts from and to float32 where its types are narrow."""
        before, behind = [], []
        for k, (name, own) in enumerate(zip(node.input, sample.node.input)):
            if name and own in sample.narrow:
                node.input[k] = f"{node.output[0]} takes {k}"
                before.append(helper.make_node("Cast", [name], [node.input[k]], to=sample.narrow[own]))
        for k, (name, own) in enumerate(zip(node.output, sample.node.output)):
            if name and own in sample.narrow:
                node.output[k] = f"{name} as made"
                behind.append(helper.make_node("Cast", [node.output[k]], [name], to=TensorProto.FLOAT))
        return [*before, node, *behind]

    def peer_agrees(self, single, used, results):
        """Whether ONNX Runtime, where it has the operator, takes the node with these inputs, and sees the same in it:
        what even the two disagree about says nothing of a third."""
        try:
            session = onnxruntime.InferenceSession(single.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception as error:
            return "NOT_IMPLEMENTED" in str(error) or "opset" in str(error)
        actual = session.run(list(results), used)
        return all(np.shape(value) == array.shape and np.allclose(
            np.asarray(value, np.float64), array.astype(np.float64), rtol=0.02, atol=0.02, equal_nan=True)
            for value, array in zip(actual, results.values()))

    def outer_names(self, nodes):
        inside = {name for node in nodes for name in node.output if name}
        return [name for node in nodes for name in node.input if name and name not in inside]

    def read_after(self, first, last):
        """What nodes behind the stretch read of it, and what nobody reads."""
        inside = [name for node in self.nodes[first:last] for name in node.output if name]
        read_inside = {name for node in self.nodes[first:last] for name in node.input}
        read = {name for node in self.nodes[last:] for name in node.input}
        return [name for name in inside if name in read or name not in read_inside]

    def result(self, name, other=None):
        """What a body says of a value: its sizes where they are the same in all runs."""
        array = self.arrays[name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(other or name, kind, [None] * array.ndim if self.is_open else array.shape)

    def branch(self, first, last):
        """The stretch as a branch of an If; the other one gives what the same results might have been."""
        results = self.read_after(first, last)
        condition = self.take(np.array(self.random.random() < 0.5), "c", constant=False)
        then = helper.make_graph(self.nodes[first:last], "then", [], [self.result(name) for name in results])
        others, constants = [], []
        for name in results:
            other = f"{name} otherwise"
            array = self.arrays[name]
            constants.append(numpy_helper.from_array(self.numbers.permutation(array.ravel()).reshape(array.shape),
                                                     f"{other} is"))
            others.append(helper.make_node("Identity", [f"{other} is"], [other]))
        otherwise = helper.make_graph(others, "else", [], [self.result(name, f"{name} otherwise")
                                                           for name in results], initializer=constants)
        if self.random.random() >= 0.5:
            then, otherwise = otherwise, then
        return helper.make_node("If", [condition], results, f"If {first}", then_branch=then, else_branch=otherwise)

    def loop(self, first, last):
        """The stretch as the body of a Loop: one of its inputs is carried where a result may take its place, and the
        results are those of the last round or, joined, of all."""
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.nodes[first:last]]
        if any(node.op_type in STEEP for node in nodes):
            return None
        results = self.read_after(first, last)
        pairs = [(name, result) for name in self.outer_names(nodes) for result in results
                 if self.arrays[name].dtype == self.arrays[result].dtype
                 and self.arrays[name].shape == self.arrays[result].shape]
        rounds = self.random.choice([0, 1, 2, 3, 5])
        if not pairs or rounds == 0:
            return None
        carried, becomes = self.random.choice(pairs)
        for node in nodes:
            node.input[:] = [f"{name} of the round" if name == carried else name for name in node.input]
        others = [name for name in results if name != becomes]
        inputs = [helper.make_tensor_value_info("round", TensorProto.INT64, []),
                  helper.make_tensor_value_info("goes on", TensorProto.BOOL, []),
                  self.result(carried, f"{carried} of the round")]
        bound = self.random.choice([None, 1, 2, 9])
        if bound is None:
            ends = [helper.make_node("Identity", ["goes on"], ["goes on then"])]
            constants = []
        else:
            ends = [helper.make_node("Less", ["round", "bound"], ["goes on then"])]
            constants = [numpy_helper.from_array(np.array(bound), "bound")]
        body = helper.make_graph(
            [*nodes, *ends], "body", inputs,
            [helper.make_tensor_value_info("goes on then", TensorProto.BOOL, []), self.result(becomes),
             *[self.result(name) for name in others]], initializer=constants)
        limit = self.take(np.array(rounds), "limit")
        begins = self.take(np.array(True), "begins")
        collected = [f"{name} of all rounds" for name in others]
        loop = helper.make_node("Loop", [limit, begins, carried], [becomes, *collected], f"Loop {first}", body=body)
        # What follows reads the last round's.
        last_one = f"last of {first}"
        self.constants[last_one] = np.array(-1)
        takes = [helper.make_node("Gather", [name, last_one], [other], f"last of {other}", axis=0)
                 for name, other in zip(collected, others)]
        return [loop, *takes]

    def wrap(self):
        """Control flow around stretches of nodes."""
        wrapped = 0
        at = 0
        while at < len(self.nodes):
            length = self.random.choice([1, 1, 2, 3])
            chance = self.random.random()
            last = min(at + length, len(self.nodes))
            replaced = None
            if chance < 0.15:
                replaced = [self.branch(at, last)]
            elif chance < 0.35:
                replaced = self.loop(at, last)
            if replaced:
                self.nodes[at:last] = replaced
                wrapped += 1
                at += len(replaced)
            else:
                at += 1
        return wrapped

    def model(self):
        read = {name for node in self.nodes for name in networks.names_read(node)}
        made = [name for node in self.nodes for name in node.output if name]
        ends = [name for name in made if name not in read]
        used = {name: array for name, array in self.inputs.items() if name in read}
        shapes = self.open_shapes(used)
        graph = helper.make_graph(self.nodes, "network", [info(name, used[name], shapes[name]) for name in used],
                                  [helper.make_empty_tensor_value_info(name) for name in ends],
                                  [numpy_helper.from_array(array, name) for name, array in self.constants.items()
                                   if name in read])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.since)], ir_version=IR_VERSION)
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        results = evaluate(model, used)
        if not all(is_tame(array) for array in results.values()):
            raise ValueError("its results are too large, or no numbers")
        # Of the outputs as much is said as inference knows.
        known = {output.name: output for output in model.graph.output}
        for name, array in results.items():
            known[name].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        return model, used

    def open_shapes(self, used):
        """In half of the networks sizes of inputs are open, equal ones by one name; those of integers are not, since
        they decide ranks."""
        def size(extent):
            return f"s{extent}" if self.is_open and extent != 1 and self.random.random() < 0.9 else extent
        sizes = {extent: size(extent) for extent in SIZES}
        return {name: [sizes.get(extent, extent) if array.dtype.kind in "fb" else extent for extent in array.shape]
                for name, array in used.items()}


def make(seed, operators):
    network = Network(seed, operators)
    for _ in range(network.random.choice([1, 2, 3])):
        network.take(network.draw(), constant=False)
    length = network.random.randint(SMALLEST, LARGEST)
    for _ in range(ATTEMPTS):
        network.try_node()
        if len(network.nodes) >= length:
            break
    if not network.nodes:
        raise ValueError("no node fits")
    plain = network.nodes[:]
    try:
        if network.wrap():
            return network.model()
    except (Exception, TooLong):
        network.nodes = plain  # rounds may make numbers too large
    return network.model()


def main():
    folder = pathlib.Path(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what onnx prints is no reply
    operators = samples()
    onnxruntime.set_default_logger_severity(4)
    for line in sys.stdin:
        seed = int(line)
        try:
            model, inputs = make(seed, operators)
            np.savez(folder / f"{seed}.npz", **{f"value {name}": array for name, array in inputs.items()})
            (folder / f"{seed}.part").write_bytes(model.SerializeToString())
            (folder / f"{seed}.part").rename(folder / f"{seed}.onnx")
            print(f"made {seed}", file=replies, flush=True)
        except (Exception, TooLong) as error:
            why = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
            print(f"failed {seed} {why}", file=replies, flush=True)


if __name__ == "__main__":
    main()
