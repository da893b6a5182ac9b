# SPDX-License-Identifier: Apache-2.0
"""Engines that are built when shapes come for the first time: is_dynamic_op=True, against TensorFlow's own results."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, graph_of, run_graph, split_network, v1, weights

import graft
import graft.tensorflow


def dynamic(graph, outputs=("softmax",), **options):
    return graft.tensorflow.create_inference_graph(graph, list(outputs), is_dynamic_op=True, **{**FAST, **options})


class Session:
    """A session that keeps its engines, with what a call has built and where it fell back."""

    def __init__(self, graph, outputs=("softmax",)):
        with v1.Graph().as_default() as default:
            tf.import_graph_def(graph, name="")
        self.session, self.outputs = v1.Session(graph=default), [f"{name}:0" for name in outputs]

    def run(self, **feeds):
        """Results, how many engines were built, how often something fell back."""
        before = graft.tensorflow.build_count(), graft.tensorflow.fallback_count()
        results = self.session.run(self.outputs, {f"{name}:0": value for name, value in feeds.items()})
        after = graft.tensorflow.build_count(), graft.tensorflow.fallback_count()
        return results, after[0] - before[0], after[1] - before[1]


def test_engines_are_built_when_their_shapes_come_and_then_kept(image):
    graph = graph_of(split_network)
    made = dynamic(graph)
    assert [node.op for node in made.node] == ["Placeholder", "GraftEngine", "Digamma", "GraftEngine", "Identity"]
    assert not any(node.attr["plan"].s for node in engines_of(made))
    session = Session(made)
    for batch, wanted in ((2, 2), (2, 0), (5, 2), (3, 0), (2, 0)):  # of two engines; 3 lies between 2 and 5
        results, built, fell = session.run(image=image(batch))
        close(results[0], run_graph(graph, ["softmax"], {"image": image(batch)})[0])
        assert (built, fell) == (wanted, 0), batch


@pytest.mark.parametrize("most, builds", [(1, [1, 1, 1, 0, 0, 0]), (3, [1, 1, 1, 0, 0, 0]), (2, [1, 1, 1, 0, 0, 0])])
def test_batches_of_1_2_4_2_do_not_build_for_ever(image, most, builds):
    """lru_cache_test."""
    graph = graph_of(lambda: split_network(tf.nn.relu))
    session = Session(dynamic(graph, maximum_cached_engines=most))
    for batch, wanted in zip((1, 2, 4, 2, 4, 1), builds):
        results, built, fell = session.run(image=image(batch))
        close(results[0], run_graph(graph, ["softmax"], {"image": image(batch)})[0])
        assert (built, fell) == (wanted, 0), batch


def test_sizes_that_stretch_are_those_of_the_call():
    def build():
        a, b = (v1.placeholder(tf.float32, [None, 3], name=name) for name in "ab")
        tf.nn.relu(a * 2.0 + b, name="y")

    graph = graph_of(build)
    session = Session(dynamic(graph, ["y"], minimum_segment_size=1), ["y"])
    random = np.random.default_rng(3)
    for a, b in ((4, 4), (4, 1), (1, 4), (2, 2), (4, 1)):
        feeds = {name: random.standard_normal((size, 3)).astype(np.float32) for name, size in (("a", a), ("b", b))}
        results, _, fell = session.run(**feeds)
        close(results[0], run_graph(graph, ["y"], feeds)[0])
        assert fell == 0


def test_what_cannot_be_built_runs_in_tensorflow_until_it_is_asked_for_again(image, tmp_path):
    graph = graph_of(lambda: split_network(tf.nn.relu))
    frozen, record = tmp_path / "frozen.pb", tmp_path / "choices.graft"
    frozen.write_bytes(graph.SerializeToString())
    session = Session(dynamic(graph, record=str(record)))

    def run(batch):
        results, built, fell = session.run(image=image(batch))
        close(results[0], run_graph(graph, ["softmax"], {"image": image(batch)})[0])
        return built, fell

    assert [run(batch) for batch in (2, 2, 3)] == [(0, 1)] * 3  # there is no such record
    graft.compile(str(frozen), outputs="softmax", shapes={"image": (2, 8, 8, 3)}, **FAST).save(record)
    assert [run(batch) for batch in (2, 3)] == [(0, 1)] * 2  # there is, and nobody asked
    graft.tensorflow.retry_failed_engines()
    assert [run(batch) for batch in (2, 2)] == [(1, 0), (0, 0)]


def test_strict_is_an_error_of_the_run(image, tmp_path):
    session = Session(dynamic(graph_of(split_network), record=str(tmp_path / "none.record"), strict=True))
    with pytest.raises(tf.errors.OpError, match="none.record"):
        session.run(image=image(1))


def test_it_runs_in_functions_and_in_saved_models(image, tmp_path):
    graph = graph_of(split_network)
    made = dynamic(graph)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3])])
    def call(x):
        return tf.graph_util.import_graph_def(made, {"image": x}, ["softmax:0"], name="")[0]

    module = tf.Module()
    module.call = call
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    before = graft.tensorflow.build_count(), graft.tensorflow.fallback_count()
    for batch in (2, 3):
        expected = run_graph(graph, ["softmax"], {"image": image(batch)})[0]
        close(call(tf.constant(image(batch))).numpy(), expected)
        close(loaded.call(tf.constant(image(batch))).numpy(), expected)
    assert graft.tensorflow.build_count() > before[0] and graft.tensorflow.fallback_count() == before[1]


def test_loops_are_built_too():
    def build():
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        w = weights(4, 4)
        y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.nn.relu(y @ w) + 0.1 * x), [0, x])[1]
        tf.add(y, 1.0, name="y")

    graph = graph_of(build)
    made = dynamic(graph, ["y"], minimum_segment_size=1)
    assert len(engines_of(made)) == 1 and not any("While" in node.op for node in made.node)
    session = Session(made, ["y"])
    for rows in (2, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        results, built, fell = session.run(x=x)
        close(results[0], run_graph(graph, ["y"], {"x": x})[0])
        assert (built, fell) == (1, 0)


def test_the_same_graph_is_made_each_time_and_the_given_one_stays():
    graph = graph_of(split_network)
    before = graph.SerializeToString(deterministic=True)
    one, other = dynamic(graph), dynamic(graph.SerializeToString())
    assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
    assert graph.SerializeToString(deterministic=True) == before


def test_weights_are_there_once():
    def build():
        x = v1.placeholder(tf.float32, [None, 64], name="x")
        tf.nn.relu(tf.nn.relu(x @ weights(64, 128)) @ weights(128, 64), name="y")

    graph = graph_of(build)
    made = dynamic(graph, ["y"], minimum_segment_size=1)
    assert made.ByteSize() < graph.ByteSize() + 4096


def test_precision_and_other_choices_go_into_what_is_built(image):
    graph = graph_of(lambda: split_network(tf.nn.relu))
    made = dynamic(graph, precision_mode="FP16", threads=1)
    assert {b"precision=fp16", b"threads=1", b"tune=off"} <= set(engines_of(made)[0].attr["build"].list.s)
    result = Session(made).run(image=image(2))[0][0]
    expected = run_graph(graph, ["softmax"], {"image": image(2)})[0]
    np.testing.assert_allclose(result, expected, atol=2e-2)
    assert np.abs(result - expected).max() > 0  # rounded


def test_many_threads_wait_for_one_build(image):
    graph = graph_of(lambda: split_network(tf.nn.relu))
    session = Session(dynamic(graph, maximum_cached_engines=2))
    batches = [1, 3] * 4
    expected = {batch: run_graph(graph, ["softmax"], {"image": image(batch)})[0] for batch in set(batches)}
    before = graft.tensorflow.build_count()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for batch, (results, _, _) in zip(batches, pool.map(lambda b: session.run(image=image(b)), batches)):
            close(results[0], expected[batch])
    assert graft.tensorflow.build_count() == before + 2


def test_the_room_for_engines_is_at_least_one():
    with pytest.raises(graft.InvalidArgumentError, match="maximum_cached_engines"):
        dynamic(graph_of(split_network), maximum_cached_engines=0)


def test_engines_on_a_device_say_that_tensors_are_copied(caplog):
    with caplog.at_level("WARNING", "graft"):
        dynamic(graph_of(split_network), device="cuda")
    assert "copied to the device and back" in caplog.text
