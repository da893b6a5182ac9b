# SPDX-License-Identifier: Apache-2.0
"""SavedModels that TensorFlow writes, compiled without it: against what the loaded model gives."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, v1

import graft


class Small(tf.Module):
    """A function in a function, a result that is not its node's first, and a table."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(0)
        self.w = tf.Variable(random.standard_normal((5, 4)).astype(np.float32), name="same")
        self.b = tf.Variable(np.arange(4, dtype=np.float32), name="same")
        self.table = tf.Variable(random.standard_normal((7, 5)).astype(np.float32))
        self.steps = tf.Variable(3, dtype=tf.int64)

    @tf.function
    def inner(self, x):
        return tf.nn.relu(x @ self.w + self.b)

    @tf.function(input_signature=[tf.TensorSpec([None, 5], tf.float32, name="x")])
    def __call__(self, x):
        first, second = tf.split(self.inner(x), 2, axis=1)
        values, indices = tf.nn.top_k(first + second, 2)
        tf.debugging.assert_less(tf.reduce_max(x), 1e9)
        return {"y": second * 2.0, "values": values, "indices": indices, "same": x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="ids")])
    def look_up(self, ids):
        return {"row": tf.nn.embedding_lookup(self.table, ids)}

    @tf.function(input_signature=[])
    def count(self):
        return {"steps": self.steps.assign_add(1)}


@pytest.fixture(name="small", scope="module")
def fixture_small(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("small") / "model")
    module = Small()
    tf.saved_model.save(module, folder, signatures={"serving_default": module.__call__, "look_up": module.look_up,
                                                    "count": module.count})
    return folder


def agrees(folder, inputs, signature="serving_default", **options):
    """The compiled model on these inputs, against the loaded one."""
    engine = graft.compile(folder, signature=signature, **{**FAST, **options})
    expected = tf.saved_model.load(folder).signatures[signature](**{k: tf.constant(v) for k, v in inputs.items()})
    results = engine.run(inputs)
    assert sorted(results) == sorted(expected)
    for name, wanted in expected.items():
        close(np.asarray(results[name]), wanted.numpy())
    return engine


def test_functions_are_inlined_and_variables_read_for_any_batch(small):
    for batch in (1, 3):
        agrees(small, {"x": np.random.default_rng(batch).standard_normal((batch, 5)).astype(np.float32)})


def test_another_signature_gathers_rows_of_a_variable(small):
    agrees(small, {"ids": np.array([6, 0, 6], np.int32)}, "look_up")


def test_a_signature_that_changes_a_variable_is_refused(small):
    with pytest.raises(graft.UnsupportedError, match="changes the variable"):
        graft.compile(small, signature="count", **FAST)


@pytest.mark.parametrize("options, message", [
    ({"signature": "lookup"}, "did you mean 'look_up'"), ({"tag": "train"}, "tags train; it has serve"),
    ({"outputs": "y"}, "by signature"), ({"shapes": {"z": (1, 5)}}, "no input 'z'")])
def test_what_the_model_does_not_have_is_told(small, options, message):
    with pytest.raises(graft.InvalidArgumentError, match=message):
        graft.compile(small, **FAST, **options)


def test_a_shard_that_was_cut_short_is_told_with_the_variable(small, tmp_path):
    folder = tmp_path / "model"
    tf.io.gfile.makedirs(str(folder / "variables"))
    for path in pathlib.Path(small).rglob("*"):
        if path.is_file():
            (folder / path.relative_to(small)).parent.mkdir(exist_ok=True)
            (folder / path.relative_to(small)).write_bytes(path.read_bytes())
    shard = folder / "variables" / "variables.data-00000-of-00001"
    shard.write_bytes(shard.read_bytes()[:50])
    with pytest.raises(graft.InvalidModelError, match=r"variable '.*cut short"):
        graft.compile(str(folder), **FAST)


def test_variables_of_tensorflow_1_are_restored_by_their_names(tmp_path):
    folder = str(tmp_path / "model")
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        for resource in (True, False):
            with v1.variable_scope(f"layer_{resource}", use_resource=resource):
                w = v1.get_variable("w", [3, 3], initializer=v1.random_normal_initializer(seed=3))
                x = tf.nn.relu(x @ w + 0.5)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": graph.get_tensor_by_name("x:0")}, {"y": x})
    agrees(folder, {"x": np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)})


def test_a_frozen_graph_compiles_as_a_whole(tmp_path):
    def build():
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        tf.nn.relu(x * 2.0, name="y")
        tf.exp(x, name="z")

    with v1.Graph().as_default() as graph:
        build()
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    x = np.array([[-1, 0, 2]], np.float32)
    engine = graft.compile(str(path), outputs="y", **FAST)
    np.testing.assert_allclose(engine(x), np.maximum(x * 2, 0))
    assert [each.name for each in graft.compile(str(path), **FAST).outputs] == ["y", "z"]


def of_function(tmp_path, function, *specs):
    """A SavedModel of a function of named tensors."""
    module = tf.Module()
    module.run = tf.function(function, input_signature=specs)
    folder = str(tmp_path / "model")
    tf.saved_model.save(module, folder, signatures={"serving_default": module.run.get_concrete_function()})
    return folder


def test_results_that_are_called_like_inputs_keep_their_names(tmp_path):
    folder = of_function(tmp_path, lambda a, b: {"a": a * 2.0, "b": a + b, "c": b},
                         *(tf.TensorSpec([None, 3], tf.float32, name=name) for name in "ab"))
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.arange(6, dtype=np.float32).reshape(2, 3)}
    agrees(folder, feeds).save(str(tmp_path / "plan.graft"))
    loaded = graft.load(str(tmp_path / "plan.graft"))
    assert [each.name for each in loaded.outputs] == ["a", "b", "c"]
    close(np.asarray(loaded.run(feeds)["b"]), feeds["a"] + feeds["b"])


@pytest.mark.parametrize("function", [
    lambda x: {"y": x[::-1], "z": x[:, ::-2], "r": tf.reverse(x, [0, 1])},
    lambda x: {"y": tf.switch_case(tf.shape(x)[0] - 2, [lambda: x * 2.0, lambda: x + 1.0, lambda: -x])},
    lambda x: {"y": tf.linalg.band_part(tf.matmul(x, x, transpose_b=True), -1, 0)},
    lambda x: {"y": tf.gather(x, tf.cast(tf.argsort(x, axis=1) * 0 + 1, tf.int32), batch_dims=1),
               "n": tf.shape(x) // -2},
], ids=["backwards", "cases", "band", "batches"])
def test_open_sizes_compile_whole(function, tmp_path):
    folder = of_function(tmp_path, function, tf.TensorSpec([None, None], tf.float32, name="x"))
    for shape in ((2, 4), (3, 5), (7, 3), (1, 2)):
        agrees(folder, {"x": np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)})


def test_each_class_has_boxes_of_its_own_in_any_number(tmp_path):
    def suppressed(boxes, scores):
        made = tf.image.combined_non_max_suppression(boxes, scores, 3, 6, 0.4, 0.2)
        return {"corners": made.nmsed_boxes, "best": made.nmsed_scores, "classes": made.nmsed_classes}

    folder = of_function(tmp_path, suppressed, tf.TensorSpec([None, None, 2, 4], tf.float32, name="boxes"),
                         tf.TensorSpec([None, None, 2], tf.float32, name="scores"))
    for images, count in ((1, 30), (3, 7)):
        random = np.random.default_rng(count)
        begin = random.uniform(0, 0.7, (images, count, 2, 2))
        boxes = np.concatenate([begin, begin + random.uniform(0.05, 0.3, begin.shape)], -1).astype(np.float32)
        agrees(folder, {"boxes": boxes, "scores": random.uniform(0, 1, (images, count, 2)).astype(np.float32)})
