# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs with engines in a tf.Session: against TensorFlow's own results."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, engines_of, graph_of, run_graph, split_network, v1, weights

import graft
import graft.tensorflow


def converted(graph_def, outputs=("softmax",), **options):
    """With engines; the given graph has to stay as it is."""
    before = graph_def.SerializeToString(deterministic=True)
    made = graft.tensorflow.create_inference_graph(graph_def, list(outputs), **{**FAST, "strict": True, **options})
    assert graph_def.SerializeToString(deterministic=True) == before
    return made


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_two_engines_around_an_operator_that_stays_for_any_batch(image, layout):
    graph = graph_of(lambda: split_network(layout=layout))
    made = converted(graph)
    engines = engines_of(made)
    assert [node.op for node in made.node] == ["Placeholder", "GraftEngine", "Digamma", "GraftEngine", "Identity"]
    assert "Conv2D" in engines[0].attr["contents"].s.decode() and b"head/Conv2D" in engines[1].attr["nodes"].list.s
    wanted = graph_of(split_network) if layout == "NCHW" else graph  # TensorFlow's CPU has no convolution in NCHW
    for batch in (2, 1, 5, 2):
        close(run_graph(made, ["softmax"], {"image": image(batch)})[0],
              run_graph(wanted, ["softmax"], {"image": image(batch)})[0])


def test_what_is_behind_an_operator_of_unknown_shape_is_an_engine(image):
    def odd(x):
        return v1.py_func(lambda given: np.cos(given), [x], tf.float32)

    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        split_network(odd)
        made = converted(graph.as_graph_def())
        expected = session.run("softmax:0", {"image:0": image(3)})
        assert len(engines_of(made)) == 2
        tf.import_graph_def(made, name="new")  # py_func lives in this process
        close(session.run("new/softmax:0", {"new/image:0": image(3)}), expected)


def test_a_graph_that_the_command_has_rewritten_runs_and_is_the_same_each_time(image):
    graph = graph_of(split_network)
    plain = graft.embed(graph.SerializeToString(), ["softmax"], tune="off")
    assert plain.engines == 2 and plain == graft.embed(graph, ["softmax"], tune="off")
    assert "there is no converter for Digamma" in plain.report
    graft.tensorflow.load_library()
    made = v1.GraphDef.FromString(plain.model)
    close(run_graph(made, ["softmax"], {"image": image(4)})[0], run_graph(graph, ["softmax"], {"image": image(4)})[0])


def test_it_runs_in_a_function_and_in_a_saved_model(image, tmp_path):
    graph = graph_of(split_network)
    made = converted(graph)
    expected = run_graph(graph, ["softmax"], {"image": image(3)})[0]

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3])])
    def call(x):
        return tf.graph_util.import_graph_def(made, {"image": x}, ["softmax:0"], name="")[0]

    close(call(tf.constant(image(3))).numpy(), expected)
    module = tf.Module()
    module.call = call
    tf.saved_model.save(module, str(tmp_path / "saved"))
    close(tf.saved_model.load(str(tmp_path / "saved")).call(tf.constant(image(3))).numpy(), expected)


def test_shapes_that_the_graph_knew_are_known_behind_engines():
    made = converted(graph_of(lambda: split_network(batch=4)))
    with v1.Graph().as_default() as graph:
        tf.import_graph_def(made, name="")
        assert graph.get_tensor_by_name("softmax:0").shape == (4, 5)
    made = converted(graph_of(split_network))
    with v1.Graph().as_default() as graph:
        tf.import_graph_def(made, name="")
        assert graph.get_tensor_by_name("softmax:0").shape.as_list() == [None, 5]


def test_many_threads_of_one_session(image):
    graph = graph_of(split_network)
    made = converted(graph)
    batches = [1, 3, 2, 5] * 4
    expected = {batch: run_graph(graph, ["softmax"], {"image": image(batch)})[0] for batch in set(batches)}
    with v1.Graph().as_default() as default, v1.Session(graph=default) as session:
        tf.import_graph_def(made, name="")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda b: session.run("softmax:0", {"image:0": image(b)}), batches))
    for batch, result in zip(batches, results):
        close(result, expected[batch])


def test_sizes_that_an_engine_was_not_made_for_are_an_error_of_tensorflow():
    made = converted(graph_of(lambda: split_network(batch=2)))
    for node in made.node:  # as a caller may edit it
        if node.op == "Placeholder":
            node.attr["shape"].shape.unknown_rank = True
            del node.attr["shape"].shape.dim[:]
    with pytest.raises(tf.errors.InvalidArgumentError, match="image"):
        run_graph(made, ["softmax"], {"image": np.zeros((3, 8, 8, 3), np.float32)})


def test_a_damaged_plan_is_an_error_of_tensorflow(image):
    made = converted(graph_of(split_network))
    engine = engines_of(made)[0]
    engine.attr["plan"].s = engine.attr["plan"].s[:-100]
    with pytest.raises(tf.errors.OpError, match="plan"):
        run_graph(made, ["softmax"], {"image": image(1)})


def test_types_that_the_plan_has_not_are_an_error_of_tensorflow():
    made = converted(graph_of(split_network))
    engine = engines_of(made)[1]
    engine.attr["plan"].s = engines_of(converted(graph_of(two_inputs), ["sum"], minimum_segment_size=1))[0].attr[
        "plan"].s
    with pytest.raises(tf.errors.InvalidArgumentError, match="InT"):
        run_graph(made, ["softmax"], {"image": np.zeros((1, 8, 8, 3), np.float32)})


def two_inputs():
    """A sum of two images."""
    a, b = (v1.placeholder(tf.float32, [2, 3], name=name) for name in "ab")
    return tf.add(tf.nn.relu(a), b, name="sum")


def test_control_edges_go_from_and_to_engines():
    def build():
        x = v1.placeholder(tf.float32, [2, 3], name="x")
        a, shifted = tf.nn.relu(x * 2.0, name="a"), x + 2.0
        with v1.control_dependencies([a]):
            odd = tf.math.digamma(shifted, name="odd")
        with v1.control_dependencies([odd]):
            tf.nn.relu(x, name="b")

    graph = graph_of(build)
    made = converted(graph, ["a", "b", "odd"], minimum_segment_size=1)
    by_name = {node.name: node for node in made.node}
    engine_of_a = by_name["a"].input[0].partition(":")[0]
    assert f"^{engine_of_a}" in by_name["odd"].input
    assert "^odd" in by_name[by_name["b"].input[0].partition(":")[0]].input
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for result, expected in zip(run_graph(made, ["a", "b", "odd"], {"x": x}),
                                run_graph(graph, ["a", "b", "odd"], {"x": x})):
        close(result, expected)


def test_a_constant_as_output_and_one_that_both_sides_use_stay():
    def build():
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        shared, only = tf.constant([1.0, 2.0, 3.0], name="shared"), tf.constant([4.0, 5.0, 6.0], name="only")
        tf.math.digamma(tf.nn.relu(x * shared * only) + shared, name="y")
        tf.raw_ops.Lgamma(x=shared, name="z")

    graph = graph_of(build)
    made = converted(graph, ["y", "z", "shared"], minimum_segment_size=1)
    names = {node.name for node in made.node}
    assert "shared" in names and "only" not in names
    x = np.ones((2, 3), np.float32)
    for result, expected in zip(run_graph(made, ["y", "z", "shared"], {"x": x}),
                                run_graph(graph, ["y", "z", "shared"], {"x": x})):
        close(result, expected)


def test_a_branch_of_a_conditional_stays_with_tensorflow():
    def build():
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        flag = v1.placeholder(tf.bool, [], name="flag")
        y = tf.nn.relu(x * 2.0)
        v1.cond(flag, lambda: tf.nn.relu(y) + 1.0, lambda: tf.exp(y) * 3.0, name="either")
        v1.enable_control_flow_v2()

    graph = graph_of(build)
    output = next(node.name for node in graph.node if node.op == "Merge")
    made = converted(graph, [output], minimum_segment_size=1)
    assert len(engines_of(made)) == 1
    x = np.ones((2, 3), np.float32)
    for flag in (True, False):
        close(run_graph(made, [output], {"x": x, "flag": flag})[0], run_graph(graph, [output],
                                                                              {"x": x, "flag": flag})[0])


def test_engines_are_named_after_the_scope_that_holds_them():
    made = converted(graph_of(split_network), exclude_ops=["AddV2", "Softmax"])
    assert [node.name for node in engines_of(made)] == ["stem/graft_engine_0", "head/graft_engine_1"]


def test_choices_divide_the_graph():
    graph = graph_of(split_network)
    for options, expected in (({"only": ["stem"]}, 1), ({"exclude_ops": ["Conv2D"], "minimum_segment_size": 1}, 2),
                              ({"minimum_segment_size": 40}, 0), ({"most_segments": 1}, 1), ({"exclude": ["head"]}, 1)):
        assert len(engines_of(converted(graph, **options))) == expected, options


def test_sizes_can_be_fixed_and_bounded(image):
    graph = graph_of(split_network)
    expected = run_graph(graph, ["softmax"], {"image": image(2)})[0]
    fixed = converted(graph, shapes={"image": (2, 8, 8, 3)})
    close(run_graph(fixed, ["softmax"], {"image": image(2)})[0], expected)
    bounded = converted(graph, dims={"image_0": (1, 2, 4)})
    close(run_graph(bounded, ["softmax"], {"image": image(2)})[0], expected)
    for made in (fixed, bounded):
        with pytest.raises(tf.errors.InvalidArgumentError, match="image"):
            run_graph(made, ["softmax"], {"image": image(5)})


def test_fp16_is_near_and_near(image):
    graph = graph_of(split_network)
    made = converted(graph, precision_mode="FP16")
    result = run_graph(made, ["softmax"], {"image": image(2)})[0]
    np.testing.assert_allclose(result, run_graph(graph, ["softmax"], {"image": image(2)})[0], atol=2e-2)


@pytest.mark.parametrize("options, message", [
    ({"precision_mode": "FP8"}, "none of"),
    ({"maximum_cached_engines": 0}, "maximum_cached_engines"), ({"input_saved_model_dir": "x"}, "Converter"),
    ({"max_batch_size": 0}, "max_batch_size"), ({"exclude_ops": ["Nothing"]}, "Nothing"),
    ({"enabled_precisions": "fp16"}, "here it is precision"), ({"min_block_size": 3}, "here it is minimum_size"),
    ({"workspace_size": 1 << 20}, "leave it out"), ({"dims": {"imgae_0": 4}}, "imgae_0"),
    ({"shapes": {"imgae": (1, 8, 8, 3)}}, "did you mean 'image'"),
])
def test_parameters_that_have_no_meaning_yet_are_errors(options, message):
    with pytest.raises(graft.Error, match=message):
        graft.tensorflow.create_inference_graph(graph_of(split_network), ["softmax"], **FAST, **options)


def test_weights_that_are_no_constants_are_given_at_run_time():
    def build():
        x = v1.placeholder(tf.float32, [None, 4, 4, 2], name="x")
        w = v1.placeholder(tf.float32, [3, 3, 2, 4], name="w")
        tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME"), name="y")

    graph = graph_of(build)
    made = converted(graph, ["y"], minimum_segment_size=1)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 4, 4, 2)).astype(np.float32),
             "w": weights(3, 3, 2, 4).numpy()}
    assert len(engines_of(made)) == 1
    close(run_graph(made, ["y"], feeds)[0], run_graph(graph, ["y"], feeds)[0])
