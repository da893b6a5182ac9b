# SPDX-License-Identifier: Apache-2.0
"""INT8 inside TensorFlow: calibration graphs, FakeQuant nodes and SavedModels, on a network that is trained here."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conftest import FAST, engines_of, graph_of, run_graph, v1, weights  # noqa: E402
from support import digits  # noqa: E402

import graft  # noqa: E402
import graft.tensorflow  # noqa: E402

MOST_LOST = 0.5  # points of accuracy
(TRAINED, TRAINED_DIGITS), (TESTED, TESTED_DIGITS) = digits.load()
TRAINED, TESTED = TRAINED[..., None], TESTED[..., None]
SAMPLES = [TRAINED[first:first + 50] for first in range(0, 200, 50)] + [TRAINED[200:217]]  # the last one is short


class Network(tf.Module):
    """Convolutions on pictures of digits, in two parts around an operator that no engine has if `odd`."""

    def __init__(self, odd=None):
        super().__init__()
        make = tf.random_normal_initializer(stddev=0.2, seed=1)
        shapes = {"first": (3, 3, 1, 16), "second": (3, 3, 16, 32), "head": (128, 10), "bias": (10,)}
        self.all = {name: tf.Variable(make(shape) if len(shape) > 1 else tf.zeros(shape), name=name)
                    for name, shape in shapes.items()}
        self.odd = odd

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.float32, "image")])
    def serve(self, image):
        return {"scores": self.scores(image)}

    def scores(self, image):
        x = tf.nn.relu(tf.nn.conv2d(image, self.all["first"], 1, "SAME"))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        if self.odd:
            x = self.odd(x)
        x = tf.nn.relu(tf.nn.conv2d(x, self.all["second"], 1, "SAME"))
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "SAME"), [-1, 128])
        return tf.linalg.matmul(x, self.all["head"]) + self.all["bias"]


def trained(odd=None, epochs=8):
    """A network that knows the digits: the same one in every run."""
    tf.random.set_seed(0)
    network, random = Network(odd), np.random.default_rng(0)
    optimizer = tf.keras.optimizers.Adam(3e-3)
    variables = list(network.all.values())

    @tf.function
    def step(image, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, network.scores(image)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    for _ in range(epochs):
        order = random.permutation(len(TRAINED))
        for first in range(0, len(order), 50):
            step(TRAINED[order[first:first + 50]], TRAINED_DIGITS[order[first:first + 50]])
    return network


def in_the_middle(x):
    """What no engine has."""
    return tf.math.digamma(x + 1.5)


@pytest.fixture(scope="module", name="network")
def fixture_network():
    return trained()


@pytest.fixture(scope="module", name="divided")
def fixture_divided():
    return trained(in_the_middle)


def frozen_of(network):
    """Its frozen graph, with the placeholder `image` and the result `scores`."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    frozen = convert_variables_to_constants_v2(network.serve.get_concrete_function())
    graph = frozen.graph.as_graph_def()
    result = graph.node.add(name="scores", op="Identity", input=[frozen.outputs[0].name.removesuffix(":0")])
    result.attr["T"].type = tf.float32.as_datatype_enum
    assert frozen.inputs[0].name == "image:0"
    return graph


def scores_of(graph, pictures=TESTED):
    return run_graph(graph, ["scores"], {"image": pictures})[0]


def calibrated(graph, samples=tuple(SAMPLES), **options):
    """As the announcement of TF-TRT does it: a calibration graph, its runs, and the graph that they give."""
    calibration = graft.tensorflow.create_inference_graph(
        input_graph_def=graph, outputs=["scores"], max_batch_size=64, max_workspace_size_bytes=1 << 30,
        precision_mode="INT8", **{"minimum_segment_size": 3, **FAST, **options})
    for sample in samples:
        scores_of(calibration, sample)
    return graft.tensorflow.calib_graph_to_infer_graph(calibration)


def test_a_calibration_graph_gives_a_graph_of_int8(network):
    graph = frozen_of(network)
    before = graph.SerializeToString()
    expected = scores_of(graph)
    calibration = graft.tensorflow.create_inference_graph(graph, ["scores"], precision_mode="INT8", **FAST)
    assert graph.SerializeToString() == before
    for sample in SAMPLES:  # it runs in fp32
        np.testing.assert_allclose(scores_of(calibration, sample), scores_of(graph, sample), rtol=1e-4, atol=1e-4)
    fast = graft.tensorflow.calib_graph_to_infer_graph(calibration)
    assert len(engines_of(fast)) == 1 and "calibration" not in engines_of(fast)[0].attr
    result = scores_of(fast)
    assert not np.allclose(result, expected, rtol=1e-4, atol=1e-4)  # it is of 8 bits
    wanted = digits.right(expected, TESTED_DIGITS)
    assert wanted > 93 and digits.right(result, TESTED_DIGITS) >= wanted - MOST_LOST


def test_engines_around_other_operators_are_calibrated_in_one_run(divided):
    graph = frozen_of(divided)
    fast = calibrated(graph, minimum_segment_size=1)
    assert len(engines_of(fast)) == 2
    wanted = digits.right(scores_of(graph), TESTED_DIGITS)
    assert wanted > 90 and digits.right(scores_of(fast), TESTED_DIGITS) >= wanted - MOST_LOST


def test_larger_segments_alone_are_of_int8(divided):
    """minimum_segment_size tunes what is quantised, as the announcement says."""
    graph = frozen_of(divided)
    sizes = sorted(len(node.attr["nodes"].list.s) for node in engines_of(calibrated(graph, minimum_segment_size=1)))
    large = calibrated(graph, minimum_segment_size=5)
    assert len(engines_of(large)) < len(sizes)
    errors = [np.square(scores_of(each) - scores_of(graph)).mean() for each in
              (large, calibrated(graph, minimum_segment_size=1))]
    assert errors[0] < errors[1]


def test_a_calibration_graph_that_has_not_run(network):
    calibration = graft.tensorflow.create_inference_graph(frozen_of(network), ["scores"], precision_mode="INT8", **FAST)
    with pytest.raises(graft.InvalidArgumentError, match="nothing has run yet"):
        graft.tensorflow.calib_graph_to_infer_graph(calibration)
    scores_of(calibration, SAMPLES[0])  # it can still be calibrated
    assert len(engines_of(graft.tensorflow.calib_graph_to_infer_graph(calibration))) == 1
    with pytest.raises(graft.InvalidArgumentError, match="converted already"):
        graft.tensorflow.calib_graph_to_infer_graph(calibration)


def test_samples_with_nan(network):
    sample = SAMPLES[0].copy()
    sample[3, 2, 1, 0] = np.nan
    with pytest.raises(graft.InvalidArgumentError, match="1 elements of .* are NaN"):
        calibrated(frozen_of(network), [sample])


def test_samples_of_a_wrong_shape(network):
    calibration = graft.tensorflow.create_inference_graph(frozen_of(network), ["scores"], precision_mode="INT8", **FAST)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="shape"):
        scores_of(calibration, np.zeros((2, 8, 9, 1), np.float32))
    with pytest.raises(graft.InvalidArgumentError, match="nothing has run yet"):
        graft.tensorflow.calib_graph_to_infer_graph(calibration)


def test_constant_samples(network):
    fast = calibrated(frozen_of(network), [np.zeros((4, 8, 8, 1), np.float32)])
    assert np.isfinite(scores_of(fast)).all()


def test_a_bound_of_the_error(network):
    graph = frozen_of(network)
    with pytest.raises(graft.UnsupportedError, match="has an error of at most 1e-09"):
        calibrated(graph, max_error=1e-9)
    expected = scores_of(graph, np.concatenate(SAMPLES))
    result = scores_of(calibrated(graph, max_error=0.02), np.concatenate(SAMPLES[:1]))
    assert np.abs(result - expected[:50]).max() <= 0.02 * (expected.max() - expected.min())


def test_a_calibration_file_survives_the_process(network, tmp_path):
    graph = frozen_of(network)
    first = scores_of(calibrated(graph, calibration_file=tmp_path / "ranges.json"))
    assert json.loads((tmp_path / "ranges.json").read_text())["samples"] == 217
    (tmp_path / "graph.pb").write_bytes(graph.SerializeToString())
    np.save(tmp_path / "tested.npy", TESTED)
    program = f"""
import numpy as np, tensorflow as tf, graft.tensorflow
fast = graft.tensorflow.create_inference_graph({str(tmp_path / 'graph.pb')!r}, ["scores"], precision_mode="INT8",
                                               tune="off", calibration_file={str(tmp_path / 'ranges.json')!r})
fast = graft.tensorflow.calib_graph_to_infer_graph(fast)  # nothing is left to do
with tf.compat.v1.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
    tf.import_graph_def(fast, name="")
    tested = np.load({str(tmp_path / 'tested.npy')!r})
    np.save({str(tmp_path / 'second.npy')!r}, session.run("scores:0", {{"image:0": tested}}))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "second.npy"), first)


def test_a_file_of_two_engines_and_of_another_network(divided, network, tmp_path):
    file = tmp_path / "ranges.json"
    first = scores_of(calibrated(frozen_of(divided), minimum_segment_size=1, calibration_file=file))
    assert len(json.loads(file.read_text())["networks"]) == 2
    again = graft.tensorflow.create_inference_graph(frozen_of(divided), ["scores"], precision_mode="INT8",
                                                    minimum_segment_size=1, calibration_file=file, **FAST)
    np.testing.assert_array_equal(scores_of(again), first)
    with pytest.raises(graft.InvalidArgumentError, match="calibrated for another network"):
        calibrated(frozen_of(network), calibration_file=file)


def test_a_calibration_graph_of_another_process(network, tmp_path):
    (tmp_path / "graph.pb").write_bytes(frozen_of(network).SerializeToString())
    program = f"""
import graft.tensorflow
made = graft.tensorflow.create_inference_graph({str(tmp_path / 'graph.pb')!r}, ["scores"], precision_mode="INT8",
                                               tune="off")
open({str(tmp_path / 'calibration.pb')!r}, "wb").write(made.SerializeToString())
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    graph = v1.GraphDef.FromString((tmp_path / "calibration.pb").read_bytes())
    with pytest.raises(graft.InvalidArgumentError, match="another process"):
        graft.tensorflow.calib_graph_to_infer_graph(graph)
    with pytest.raises(tf.errors.InvalidArgumentError, match="another process"):
        scores_of(graph)


def test_int8_of_what_has_nothing_to_quantise():
    graph = graph_of(lambda: tf.nn.relu(tf.nn.relu(v1.placeholder(tf.float32, [None, 4], "image")) * 2.0,
                                        name="scores"))
    with pytest.raises(graft.UnsupportedError, match="no Conv, MatMul or Gemm"):
        graft.tensorflow.create_inference_graph(graph, ["scores"], precision_mode="INT8", minimum_segment_size=1)


def test_int8_without_ranges_says_what_to_do(network):
    with pytest.raises(graft.InvalidArgumentError, match="give samples of the inputs to calibrate with"):
        graft.tensorflow.create_inference_graph(frozen_of(network), ["scores"], precision_mode="INT8",
                                                use_calibration=False, **FAST)
    with pytest.raises(graft.InvalidArgumentError, match="method is a choice of precision='int8'"):
        graft.tensorflow.create_inference_graph(frozen_of(network), ["scores"], method="entropy", **FAST)


@pytest.fixture(scope="module", name="saved")
def fixture_saved(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    tf.saved_model.save(network, str(folder), signatures={"serving_default": network.serve})
    return folder


def converter_of(saved, **options):
    return graft.tensorflow.Converter(str(saved), precision_mode="INT8", **{**FAST, **options})


def test_a_converter_calibrates_by_a_function(saved, network, tmp_path):
    converter = converter_of(saved)
    function = converter.convert(calibration_input_fn=lambda: ((sample,) for sample in SAMPLES))
    expected = network.serve(TESTED)["scores"].numpy()
    result = function(image=tf.constant(TESTED))["scores"].numpy()
    assert not np.allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert digits.right(result, TESTED_DIGITS) >= digits.right(expected, TESTED_DIGITS) - MOST_LOST
    assert "layers are int8" in converter.report
    converter.build(lambda: [(TESTED[:8],)])
    converter.save(str(tmp_path / "fast"))
    loaded = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
    np.testing.assert_array_equal(loaded(image=tf.constant(TESTED))["scores"].numpy(), result)
    np.testing.assert_allclose(loaded(image=tf.constant(TESTED[:8]))["scores"].numpy(), result[:8], atol=1e-4)


def failing():
    """Samples that stop with an exception."""
    yield {"image": SAMPLES[0]}
    raise OSError("the disk is gone")


@pytest.mark.parametrize("samples, reason", [
    (lambda: [], "nothing has run yet"),
    (lambda: [(np.zeros((2, 8, 9, 1), np.float32),)], "sample 0 of calibration_input_fn does not fit"),
    (lambda: [{"picture": SAMPLES[0]}], "sample 0 of calibration_input_fn gives picture"),
    (lambda: [(np.array([["a"]]),)], "sample 0 of calibration_input_fn does not fit"),
    (lambda: ((sample * np.nan,) for sample in SAMPLES), "are NaN or infinite"),
    (None, "give calibration_input_fn"),
])
def test_bad_samples_of_a_converter(saved, samples, reason):
    converter = converter_of(saved)
    with pytest.raises(graft.InvalidArgumentError, match=reason):
        converter.convert(calibration_input_fn=samples)
    with pytest.raises(graft.InvalidArgumentError, match="comes after convert"):
        converter.save("nowhere")


def test_samples_that_end_with_an_exception(saved):
    converter = converter_of(saved)
    with pytest.raises(OSError, match="the disk is gone"):
        converter.convert(calibration_input_fn=failing)
    assert converter.convert(calibration_input_fn=lambda: [(SAMPLES[0],)]) is not None


def test_samples_without_int8(saved):
    with pytest.raises(graft.InvalidArgumentError, match="is for precision_mode 'INT8'"):
        graft.tensorflow.Converter(str(saved), **FAST).convert(calibration_input_fn=lambda: [(SAMPLES[0],)])


class FakeQuantised(Network):
    """The same with ranges of activations as FakeQuant nodes, as training for quantisation leaves them."""

    def __init__(self, network):
        super().__init__()
        for name, variable in self.all.items():
            variable.assign(network.all[name])
        x = tf.nn.relu(tf.nn.conv2d(TRAINED[:200], self.all["first"], 1, "SAME"))
        pooled = tf.nn.max_pool2d(x, 2, 2, "SAME")
        second = tf.nn.relu(tf.nn.conv2d(pooled, self.all["second"], 1, "SAME"))
        self.channels = np.abs(self.all["second"].numpy()).max((0, 1, 2))
        self.most = [float(tf.reduce_max(each)) for each in (x, second)]

    def scores(self, image):
        fake = tf.quantization
        x = fake.fake_quant_with_min_max_args(image, 0.0, 1.0)
        weights_of_first = fake.fake_quant_with_min_max_args(self.all["first"], -1.0, 1.0, narrow_range=True)
        x = tf.nn.relu(tf.nn.conv2d(x, weights_of_first, 1, "SAME"))
        x = tf.nn.max_pool2d(fake.fake_quant_with_min_max_vars(x, 0.0, self.most[0]), 2, 2, "SAME")
        channels = fake.fake_quant_with_min_max_vars_per_channel(self.all["second"], -self.channels, self.channels,
                                                                 narrow_range=True)
        x = tf.nn.relu(tf.nn.conv2d(x, channels, 1, "SAME"))
        x = fake.fake_quant_with_min_max_vars(x, 0.0, self.most[1])
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "SAME"), [-1, 128])
        return tf.linalg.matmul(x, self.all["head"]) + self.all["bias"]


@pytest.mark.parametrize("use_calibration", [False, True])
def test_fake_quant_nodes_state_the_ranges(network, use_calibration):
    graph = frozen_of(FakeQuantised(network))
    expected = scores_of(graph)
    fast = graft.tensorflow.create_inference_graph(graph, ["scores"], precision_mode="INT8",
                                                   use_calibration=use_calibration, **FAST)
    assert len(engines_of(fast)) == 1 and "calibration" not in engines_of(fast)[0].attr
    result = scores_of(fast)
    assert digits.right(result, TESTED_DIGITS) >= digits.right(expected, TESTED_DIGITS) - MOST_LOST
    assert np.abs(result - expected).max() <= 0.03 * (expected.max() - expected.min())


def test_a_converter_takes_fake_quant_nodes(network, tmp_path):
    model = FakeQuantised(network)
    tf.saved_model.save(model, str(tmp_path), signatures={"serving_default": model.serve})
    converter = converter_of(tmp_path, use_calibration=False)
    result = converter.convert()(image=tf.constant(TESTED))["scores"].numpy()
    assert "3 of 3 layers are int8" in converter.report
    wanted = digits.right(model.serve(TESTED)["scores"].numpy(), TESTED_DIGITS)
    assert digits.right(result, TESTED_DIGITS) >= wanted - MOST_LOST
