# SPDX-License-Identifier: Apache-2.0
"""Models that Keras makes: compiled whole from SavedModels, and with engines as a GraphDef, as a SavedModel and in
predict(), against what TensorFlow gives."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, engines_of, run_graph
from detections import furthest
from keras_models import LEAST_SCORE, MODELS

import graft
import graft.tensorflow

HANDS_ON = {"Const", "Identity", "IdentityN", "NoOp", "Placeholder"}


class Served(keras.layers.Layer):
    """A signature as a layer: keras.layers.TFSMLayer, which takes one input, for several."""

    def __init__(self, signature):
        super().__init__()
        self.signature = signature

    def call(self, inputs):  # pylint: disable=arguments-differ
        return self.signature(**inputs)


class Exported:
    """A model as a SavedModel, with what TensorFlow makes of its inputs."""

    def __init__(self, name, folder):
        self.spec = MODELS[name]
        self.folder = str(folder / "model")
        model = self.spec.made()
        model.export(self.folder, verbose=False)
        loaded = tf.saved_model.load(self.folder)
        signature = loaded.signatures["serving_default"]
        by_name = {tensor.name: value for tensor, value in zip(model.inputs, self.spec.inputs)}
        names = signature.structured_input_signature[1]
        self.feeds = {name: by_name.get(name, self.spec.inputs[0]) for name in names}
        made = signature(**{name: tf.constant(value) for name, value in self.feeds.items()})
        self.expected = {name: value.numpy() for name, value in made.items()}

    def check(self, results, share):
        """Within a share of the range of each result, which differs from row to row of the batch."""
        assert sorted(results) == sorted(self.expected)
        if self.spec.detects and share > 1e-4:  # rounded scores come in another order
            lists = [[np.asarray(each[name]) for name in sorted(each)] for each in (self.expected, results)]
            worst = furthest(*lists, LEAST_SCORE)
            print(f"detections: {worst:.1e} from their like")
            assert worst <= share
            return
        for name, expected in self.expected.items():
            result = np.asarray(results[name])
            assert result.shape == expected.shape and result.dtype == expected.dtype
            if expected.dtype.kind != "f":
                np.testing.assert_array_equal(result, expected)
                continue
            assert np.abs(expected[0] - expected[1]).max() > 0.05 * np.ptp(expected) > 0, "the model is too flat"
            worst = np.abs(result - expected).max() / np.ptp(expected)
            print(f"{name}: {worst:.1e} of the range")
            assert worst <= share, name


@pytest.fixture(name="exported", params=list(MODELS), scope="module")
def fixture_exported(request, tmp_path_factory):
    yield Exported(request.param, tmp_path_factory.mktemp("keras"))
    keras.backend.clear_session()
    gc.collect()


def check_segments(graph, spec):
    """The engines, and what stays with TensorFlow."""
    for node in engines_of(graph):
        print(f"{node.name}: {node.attr['contents'].s.decode()}")
    assert len(engines_of(graph)) == spec.engines
    assert sorted({node.op for node in graph.node} - HANDS_ON - {"GraftEngine"}) == sorted(spec.stays)
    if not spec.stays:  # an engine has them
        assert not [node.name for node in graph.node if node.op == "Const"]


@pytest.mark.parametrize("precision, share", [("fp32", 1e-4), ("fp16", 2e-2)])
def test_a_model_compiles_whole_from_its_saved_model(exported, precision, share):
    if exported.spec.stays:
        with pytest.raises(graft.UnsupportedError, match="|".join(exported.spec.stays)):
            graft.compile(exported.folder, **FAST)
        return
    exported.check(graft.compile(exported.folder, precision=precision, **FAST).run(exported.feeds), share)


def given_to(converter, model):
    """What a session is given, by the placeholders of the frozen graph."""
    names = [given.node for given in converter._inputs]  # pylint: disable=protected-access
    return dict(zip(names, (model.feeds[name] for name in sorted(model.feeds))))


def served(folder, feeds):
    """A SavedModel as a layer of a model of Keras, and what that predicts."""
    inputs = {name: keras.Input(value.shape[1:], dtype=value.dtype.name, name=name) for name, value in feeds.items()}
    if len(inputs) == 1:
        layer = keras.layers.TFSMLayer(str(folder), call_endpoint="serving_default")
        given = [*inputs.values()]
        return keras.Model(given, layer(given[0])).predict([*feeds.values()], verbose=0)
    layer = Served(tf.saved_model.load(str(folder)).signatures["serving_default"])
    return keras.Model(inputs, layer(inputs)).predict(feeds, verbose=0)


def test_engines_give_what_tensorflow_gives_in_a_graph_a_saved_model_and_predict(exported, tmp_path):
    converter = graft.tensorflow.Converter(exported.folder, **FAST)
    fast = converter.convert()
    graph, made = converter._original, converter._made  # pylint: disable=protected-access
    check_segments(made, exported.spec)
    exported.check(fast(**{name: tf.constant(value) for name, value in exported.feeds.items()}), 1e-4)
    outputs = converter._outputs  # pylint: disable=protected-access
    half = graft.tensorflow.create_inference_graph(graph, [name.removesuffix(":0") for name in outputs],
                                                   precision_mode="FP16", strict=True, **FAST)
    assert len(engines_of(half)) == exported.spec.engines
    for each, share in ((made, 1e-4), (half, 2e-2)):
        results = run_graph(each, outputs, given_to(converter, exported))
        exported.check(dict(zip(sorted(exported.expected), results)), share)
    converter.save(tmp_path / "fast")
    exported.check(served(tmp_path / "fast", exported.feeds), 1e-4)
