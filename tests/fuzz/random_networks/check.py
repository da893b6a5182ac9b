# SPDX-License-Identifier: Apache-2.0
"""One network three ways: generated kernels, the interpreter, and ONNX Runtime with and without its optimisations.

The interpreter is the judge between them: it runs every node by itself in the model's own element types. ONNX Runtime
is held against it node by node, on the interpreter's values: where each node agrees and the whole network does not,
ONNX Runtime kept wider types between nodes, or one rounding grew, and that is counted and no finding.
"""

import dataclasses
import importlib.util
import re
import resource
import subprocess

import numpy as np
import onnx

import comparison
import networks
from worker import Failure, Worker

PROBES = 24
MOST_STEPS = 10**8  # some ten seconds of the interpreter's
TARGETS = ("native", "x86-64-v3", "portable")  # of the generated kernels
# No If runs without the first three, and what the others lower has no definition of its own.
NEEDED_PASSES = frozenset(["infer", "inline_if", "fold_constants", "lower_flex_attention", "lower_recurrence",
                           "lower_scan", "lower_sequence_map", "lower_non_max_suppression"])

# What docs/LIMITS.md says of networks that are valid.
LIMITS = ("matrices whose size is open", "the shapes of its inputs do not broadcast",  # 1 and more that are open
          "which decides ranks, is not known")

# Operators about whose NaN ONNX says nothing: the interpreter passes them on, as NumPy does, ONNX Runtime drops some,
# by position.
NAN_IS_OPEN = frozenset(["ArgMax", "ArgMin", "MaxPool", "ReduceMax", "ReduceMin", "Resize"])
# Operators whose weights ONNX Runtime computes from positions in f32, and by how much of the inputs that moves a result
# for each element of an axis. It also leaves out elements of weight 0, but not everywhere: an infinity times 0 is NaN.
WEIGHTS_IN_F32 = {"Resize": 5e-7}
# Operators for which ONNX Runtime multiplies a result of its own sigmoid, which is off by so much, with the input.
SIGMOIDS = {"Swish": 2e-7}


@dataclasses.dataclass
class Finding:
    kind: str  # crash, hang, refused, internal error, no kernel, generated, or `node OP`; minimising keeps it
    text: str


class Checker:
    def __init__(self, graft_command, device="cpu"):
        """`device`: of the generated kernels. Without ONNX Runtime nothing is compared with it."""
        # CUDA takes as many addresses as there are bytes in this machine and its GPUs.
        memory = {"memory": resource.RLIM_INFINITY} if device != "cpu" else {}
        self.device, self.graft = device, Worker("graft", **memory)
        self.peer = Worker("onnxruntime") if importlib.util.find_spec("onnxruntime") else None
        listed = subprocess.run([graft_command, "opt"], capture_output=True, text=True, check=True).stdout
        names = {line.split()[0] for line in listed.splitlines()[1:] if line}
        self.passes = sorted(names - NEEDED_PASSES)
        self.notes = {}

    def stop(self):
        self.graft.stop()
        if self.peer:
            self.peer.stop()

    def note(self, text):
        self.notes[text] = self.notes.get(text, 0) + 1

    def check(self, model, inputs, target):
        """What is wrong, as Findings; what else is worth counting goes to the notes."""
        types = networks.value_types(model)
        if networks.window_steps(model, types) > MOST_STEPS:
            self.note("windows too large for the interpreter")
            return []
        findings, values, undefined = [], None, {}
        try:
            values = {**inputs, **self.interpret(networks.exposed(model, types), inputs)}
            undefined = undefined_elements(model, values)
        except Failure as failure:
            findings.append(self.judge(failure, "interpreter", model, inputs))
        try:
            outputs, engine = self.graft.run(model, inputs, mode="generated", target=target, disable=[],
                                             device=self.device)
            findings += without_kernels(engine)
            if values is not None:
                findings.append(self.compare_generated(model, types, inputs, values, outputs, undefined))
        except Failure as failure:
            findings.append(self.judge(failure, "generated", model, inputs))
        if values is not None and self.peer:
            findings += self.compare_peer(model, types, inputs, values, undefined)
        return [finding for finding in findings if finding]

    def interpret(self, model, inputs):
        return self.graft.run(model, inputs, mode="interpret", target="native", disable=self.passes)[0]

    def judge(self, failure, way, model, inputs):
        """A network that ONNX Runtime refuses too may be refused; nothing may crash or hang."""
        text = f"{way}: {failure}"
        if failure.kind != "error":
            return Finding(failure.kind, text)
        if "internal error" in text or "This is a bug in Graft" in text:
            return Finding("internal error", text)
        if any(limit in text for limit in LIMITS):
            self.note(f"refused: {text[:100]}")
            return None
        try:
            if self.peer:
                self.peer.run(model, inputs, optimise=False)
        except Failure:
            self.note(f"refused by both: {str(failure)[:100]}")
            return None
        return Finding("refused", text)

    def compare_generated(self, model, types, inputs, values, outputs, undefined):
        expected = {output.name: values[output.name] for output in model.graph.output}
        ignored = {name: undefined.get(name) for name in expected}
        if not differences(expected, outputs, ignored):
            return None
        allowed = self.rounding(model, types, inputs, values, expected)
        remaining = differences(expected, outputs, ignored, allowed)
        if not remaining:
            self.note("generated: differs as rounding may make it")
            return None
        return Finding("generated", f"generated kernels differ from the interpreter: {remaining}")

    def rounding(self, model, types, inputs, values, expected):
        """By output and element, how far roundings of single values move the result, and some."""
        runs = []
        for probe in range(PROBES):
            generator = np.random.default_rng(probe)
            try:
                moved, given = networks.disturbed(model, types, values, generator), inputs
                if networks.has_bodies(model):  # whose values are not known: what they are made of stands for them
                    moved, given = networks.disturbed_arguments(moved, inputs, generator)
                runs.append(self.interpret(moved, given))
            except Failure:
                self.note("disturbed network not run")
        return {name: 4 * comparison.spread(value, [run[name] for run in runs]) for name, value in expected.items()}

    def rounding_of_sums(self, single, inputs, name, expected):
        """By element, how far rounding of a single node's arguments moves its result, and some."""
        runs = []
        for probe in range(PROBES):
            try:
                moved = networks.disturbed_arguments(single, inputs, np.random.default_rng(probe))
                runs.append(self.interpret(*moved)[name])
            except Failure:
                self.note("disturbed node not run")
        return 4 * comparison.spread(expected, runs)

    def compare_peer(self, model, types, inputs, values, undefined):
        """ONNX Runtime unoptimised, value by value, then optimised; and what differs, node by node."""
        suspects = list(model.graph.node)
        try:
            actual = self.peer.run(networks.exposed(model, types), inputs, optimise=False)[0]
            suspects = [node for node in suspects if any(
                name in values and comparison.difference(values[name], actual[name], ignored=undefined.get(name))
                for name in node.output if name in actual)]
        except Failure as failure:
            self.note(f"onnxruntime, unoptimised: {failure.kind}")
        findings = [self.compare_node(model, types, node, values) for node in suspects]
        findings = [finding for finding in findings if finding]
        if suspects and not findings:
            self.note("onnxruntime, unoptimised: single nodes agree, together they do not or it cannot run them")
        try:
            actual = self.peer.run(model, inputs, optimise=True)[0]
            expected = {name: values[name] for name in actual}
            if not findings and differences(expected, actual, undefined):
                self.note("onnxruntime, optimised: wider types between nodes, or roundings that grew")
        except Failure as failure:
            self.note(f"onnxruntime, optimised: {failure.kind}")
        return findings

    def compare_node(self, model, types, node, values):
        """The node alone in ONNX Runtime, on the interpreter's values."""
        known = {name: values[name] for name in networks.names_read(node) if name in values}
        made = {name: types[name] for name in node.output if name in values and name in types}
        if not made or (names_missing(model, node, known) and node.op_type != "Constant"):
            return None
        single = networks.with_nodes(model, [node], known, made)
        try:
            actual = self.peer.run(single, known, optimise=False)[0]
        except Failure as failure:
            self.note(f"onnxruntime, {node.op_type} alone: {failure.kind}")
            return None
        undefined = undefined_elements(single, values)
        for name in made:
            ignored, allowed = open_elements(node, known, values[name], actual[name], undefined.get(name))
            text = comparison.difference(values[name], actual[name], allowed, ignored)
            if text and node.op_type not in networks.EXACT:
                allowed = allowed + self.rounding_of_sums(single, known, name, values[name])
                text = comparison.difference(values[name], actual[name], allowed, ignored)
            if text:
                return Finding(f"node {node.op_type}", f"{node.op_type} {node.name!r}: ONNX Runtime's value beside the "
                               f"interpreter's: {text}; inputs {describe(known)}")
        return None


def open_elements(node, inputs, expected, actual, ignored):
    """What else may be anything in the node's result, and by how much more than rounding it may differ."""
    floats = [value for value in inputs.values() if value.dtype.kind == "f"]
    ignored = np.zeros(expected.shape, bool) if ignored is None else ignored
    is_open = node.op_type in NAN_IS_OPEN and any(np.isnan(value).any() for value in floats)
    if node.op_type == "Pow" and expected.dtype.kind == "i":  # what is too large is the largest, or the smallest
        limits = np.iinfo(expected.dtype)
        ignored = ignored | (expected == limits.max) | (expected == limits.min)
    is_open |= node.op_type in WEIGHTS_IN_F32 and any(np.isinf(value).any() for value in floats)
    if is_open:
        ignored = ignored | (np.isnan(expected) | np.isnan(actual) if expected.dtype.kind == "f" else True)
    largest = max((np.abs(value[np.isfinite(value)]).max(initial=0) for value in floats), default=0)
    longest = max((size for value in floats for size in value.shape), default=0)
    allowed = WEIGHTS_IN_F32.get(node.op_type, 0) * longest + SIGMOIDS.get(node.op_type, 0)
    return ignored, allowed * float(largest)


def names_missing(model, node, known):
    constants = {tensor.name for tensor in model.graph.initializer}
    inner = {name for attribute in node.attribute for graph in [attribute.g, *attribute.graphs]
             for each in graph.node for name in each.output}
    return [name for name in networks.names_read(node) if name not in known | dict.fromkeys(constants | inner)]


def describe(arrays):
    return ", ".join(f"{name}: {value.dtype}{list(value.shape)}" for name, value in arrays.items())


def differences(expected, actual, ignored, allowed=None):
    """Of all outputs, as one text."""
    texts = []
    for name, value in expected.items():
        text = comparison.difference(value, actual[name], None if allowed is None else allowed[name],
                                     ignored.get(name))
        if text:
            texts.append(f"{name}: {text}")
    return "; ".join(texts)


def without_kernels(engine):
    """Steps that no kernel could be made for, each with the reason."""
    for step in engine["steps"]:
        if step["way"] == "interpreter":
            why = "; ".join(candidate["reason"] for candidate in step["candidates"] if candidate["reason"])
            kind = "internal error" if "internal error" in why else "no kernel"
            yield Finding(kind, f"{'+'.join(step['operators'])}: {re.sub(r'%[0-9]+', '%', why)}")


def undefined_elements(model, values):
    """name -> mask of elements that ONNX leaves open: casts of floats that the integer cannot hold, and all that is
    computed from them."""
    undefined = {}
    for node in model.graph.node:
        tainted = any(np.any(undefined[name]) for name in networks.names_read(node) if name in undefined)
        for name in node.output:
            if name not in values:
                continue
            mask = np.full(values[name].shape, tainted)
            if node.op_type == "Cast" and node.input[0] in values:
                mask |= outside(values[node.input[0]], values[name].dtype)
            if mask.any():
                undefined[name] = mask
    return undefined


def outside(source, target):
    """Which floats the integer type cannot hold."""
    if source.dtype.kind != "f" or target.kind not in "iu":
        return np.zeros(source.shape, bool)
    limits, wide = np.iinfo(target), source.astype(np.float64)
    return ~((wide > float(limits.min) - 1) & (wide < float(limits.max) + (0 if limits.bits == 64 else 1)))
