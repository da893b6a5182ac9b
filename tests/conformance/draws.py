# SPDX-License-Identifier: Apache-2.0
"""Cases whose results are drawn at random, and follow from nothing in the model: judged by what has to hold of them.

Type and shape are those that the case expects, and so are the values that may occur. A model with a seed gives the same
again, one without gives other draws. And of a million draws as many are 1 as onnx's reference evaluator draws from the
same model, within five standard deviations.
"""

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import library

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
PROBABILITIES = (0.0, 0.125, 0.5, 0.75, 1.0)
DRAWS_EACH = 200_000
DEVIATIONS = 5


def are_random(model):
    """Whether the model draws."""
    return any(node.op_type in RANDOM for node in model.graph.node)


def has_seed(model):
    """Whether it says with which seed."""
    return any(attribute.name == "seed" for node in model.graph.node for attribute in node.attribute)


def run(graft, model, options, given):
    """The first output of the model for an array, as an array."""
    with library.Engine(graft, model.SerializeToString(), options) as engine:
        names = [model.graph.input[0].name], [model.graph.output[0].name]
        results = [engine.run([(names[0][0], numpy_helper.from_array(given))], names[1])[0] for _ in range(2)]
    return [numpy_helper.to_array(result) for result in results]


def of_size(model, count):
    """The model for inputs of one axis of that size."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.ClearField("dim")
        value.type.tensor_type.shape.dim.add(dim_value=count)
    del model.graph.value_info[:]
    return model


def shares(draws):
    """How many of the draws of each probability are 1."""
    return draws.astype(np.float64).reshape(len(PROBABILITIES), DRAWS_EACH).mean(axis=1)


def fault_of(graft, model, options, inputs, outputs):
    """What does not hold of a case's draws, or None."""
    expected = numpy_helper.to_array(outputs[0])
    first, second = run(graft, model, options, numpy_helper.to_array(inputs[0]))
    for drawn in (first, second):
        if drawn.dtype != expected.dtype or drawn.shape != expected.shape:
            return f"{drawn.dtype}{list(drawn.shape)}, expected {expected.dtype}{list(expected.shape)}"
        if not np.isin(drawn, (0, 1)).all():
            return "a draw is neither 0 nor 1"
    given = np.repeat(PROBABILITIES, DRAWS_EACH).astype(numpy_helper.to_array(inputs[0]).dtype)
    large = of_size(model, given.size)
    first, second = run(graft, large, options, given)
    if has_seed(model) != np.array_equal(first, second):
        return "two runs " + ("draw differently, with one seed" if has_seed(model) else "draw the same, without a seed")
    judge = shares(np.asarray(ReferenceEvaluator(large).run(None, {large.graph.input[0].name: given})[0]))
    p = np.array(PROBABILITIES)
    # Draws have some 24 bits, so that the ends of the interval come up now and then.
    allowed = DEVIATIONS * np.sqrt(2 * p * (1 - p) / DRAWS_EACH) + 2 / DRAWS_EACH
    for drawn, judged, most in zip(shares(first), judge, allowed):
        if abs(drawn - judged) > most:
            return f"{drawn} of the draws are 1, expected {judged} within {most}"
    return None
