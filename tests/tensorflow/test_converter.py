# SPDX-License-Identifier: Apache-2.0
"""SavedModels with engines, by TF-TRT's TrtGraphConverterV2."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from conftest import FAST, close, split_network

import graft
import graft.tensorflow
from graft.tensorflow import profiles, segments


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    """A network around an operator that no engine has."""
    folder = str(tmp_path_factory.mktemp("model") / "saved")
    module = tf.Module()
    with tf.compat.v1.Graph().as_default() as graph:
        split_network()
    frozen = graph.as_graph_def()
    module.scale = tf.Variable(2.0)

    def call(image):
        given = tf.graph_util.import_graph_def(frozen, {"image": image}, ["softmax:0"], name="")[0]
        return {"probabilities": given * module.scale}

    module.call = tf.function(call, input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, name="image")])
    tf.saved_model.save(module, folder, signatures=module.call)
    return folder


def converter(folder, **options):
    return graft.tensorflow.Converter(folder, strict=True, **{**FAST, **options})


def expected(folder, image):
    return tf.saved_model.load(folder).signatures["serving_default"](image=tf.constant(image))["probabilities"].numpy()


def given(function, image):
    return function(image=tf.constant(image))["probabilities"].numpy()


def test_a_signature_keeps_its_names_and_runs_with_engines(folder, image):
    made = converter(folder)
    function = made.convert()
    assert len(segments.engines_of(made._made)) == 2  # pylint: disable=protected-access
    for batch in (2, 1, 5):
        close(given(function, image(batch)), expected(folder, image(batch)))
    lines = []
    made.summary(print_fn=lines.append)
    assert re.match(r"\S*graft_engine_0: .*Conv2D", lines[0]) and "0 profiles" in lines[3]


def test_it_is_saved_with_engines_as_assets_and_loaded(folder, image, tmp_path):
    made = converter(folder)
    made.convert()
    made.save(tmp_path / "fast")
    plans = sorted((tmp_path / "fast" / "assets").glob("graft-engine-*.graft"))
    assert len(plans) == 2 and graft.load(str(plans[0])).inputs
    (tmp_path / "fast").rename(tmp_path / "moved")
    loaded = tf.saved_model.load(str(tmp_path / "moved")).signatures["serving_default"]
    close(given(loaded, image(3)), expected(folder, image(3)))
    again = tf.function(lambda image: loaded(image=image)["probabilities"])
    close(again(tf.constant(image(4))).numpy(), expected(folder, image(4)))


@pytest.mark.parametrize("strategy, count", [("Range", 1), ("optimal", 2), ("Range+Optimal", 3),
                                             ("ImplicitBatchModeCompatible", 2)])
def test_each_strategy_makes_its_profiles_and_results_stay(folder, image, strategy, count):
    made = converter(folder, dynamic_shape_profile_strategy=strategy, maximum_cached_engines=4)
    made.convert()
    made.build(lambda: [(image(2),), {"image": image(4)}, [image(2)]])
    lines = []
    made.summary(print_fn=lines.append)
    assert sum(f"{count} profiles" in line for line in lines) == 2, lines
    function = made._function  # pylint: disable=protected-access
    for batch in (2, 4, 3, 9):  # 9 is beyond all of them: the engine for all sizes
        close(given(function, image(batch)), expected(folder, image(batch)))


def test_sizes_that_were_not_built_run_in_tensorflow_and_are_counted(folder, image, tmp_path):
    made = converter(folder, dynamic_shape_profile_strategy="Optimal", allow_build_at_runtime=False)
    made.convert()
    made.build(lambda: [(image(1),), (image(2),), (image(4),)])
    made.save(tmp_path / "fast")
    loaded = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
    before = graft.tensorflow.fallback_count()
    for batch in (1, 2, 4, 2, 1):  # with a cache of one engine
        close(given(loaded, image(batch)), expected(folder, image(batch)))
    assert graft.tensorflow.fallback_count() == before
    close(given(loaded, image(3)), expected(folder, image(3)))
    assert graft.tensorflow.fallback_count() == before + 2  # both engines


def test_an_engine_that_cannot_be_loaded_falls_back_until_it_is_asked_for_again(folder, image, tmp_path):
    made = converter(folder, dynamic_shape_profile_strategy="Optimal", allow_build_at_runtime=False)
    made.convert()
    made.build(lambda: [(image(2),)])
    made.save(tmp_path / "fast")
    plans = sorted((tmp_path / "fast" / "assets").glob("*.graft"))
    contents = [plan.read_bytes() for plan in plans]
    for plan in plans:
        plan.write_bytes(b"nothing")
    loaded = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
    before = graft.tensorflow.fallback_count()
    close(given(loaded, image(2)), expected(folder, image(2)))
    assert graft.tensorflow.fallback_count() == before + 2
    for plan, each in zip(plans, contents):
        plan.unlink()
        plan.write_bytes(each)
    close(given(loaded, image(2)), expected(folder, image(2)))
    assert graft.tensorflow.fallback_count() == before + 4  # nobody asked
    graft.tensorflow.retry_failed_engines()
    close(given(loaded, image(2)), expected(folder, image(2)))
    assert graft.tensorflow.fallback_count() == before + 4


@pytest.mark.parametrize("broken", [0, 1])
def test_one_engine_that_cannot_be_loaded_leaves_the_other(folder, image, tmp_path, broken):
    """base_test PartiallyConvertedTestA and B."""
    made = converter(folder, allow_build_at_runtime=False)
    made.convert()
    made.build(lambda: [(image(2),)])
    made.save(tmp_path / "fast")
    plans = sorted((tmp_path / "fast" / "assets").glob("*.graft"))
    assert len(plans) == 2
    plans[broken].write_bytes(b"nothing")
    loaded = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
    before = graft.tensorflow.fallback_count()
    close(given(loaded, image(2)), expected(folder, image(2)))
    assert graft.tensorflow.fallback_count() == before + 1


def test_an_engines_operators_are_a_function_that_agrees(folder, image):
    made = converter(folder)
    made.convert()
    first = segments.engines_of(made._made)[0]  # pylint: disable=protected-access
    native = segments.function_of(made._original, made._made, first)  # pylint: disable=protected-access
    assert [tensor.shape.rank for tensor in native.inputs] == [None]
    engine = graft.load(first.attr["plan"].s)
    close(np.asarray(engine(image(2))), native(tf.constant(image(2)))[0].numpy())


def test_profiles_follow_what_was_seen():
    sizes = {("x", 0): "x_0", ("x", 1): "x_1"}
    seen = [{"x": (2, 8)}, {"x": (4, 5)}, {"x": (2, 8)}]
    whole = {"x_0": (2, 4, 4), "x_1": (5, 8, 8)}
    exact = [{"x_0": (n, n, n), "x_1": (m, m, m)} for n, m in ((2, 8), (4, 5))]
    assert profiles.profiles_of("Range", sizes, seen) == [whole]
    assert profiles.profiles_of("Optimal", sizes, seen) == exact
    assert profiles.profiles_of("Range+Optimal", sizes, seen) == [whole, *exact]
    assert profiles.profiles_of("ImplicitBatchModeCompatible", sizes, seen) == [
        {"x_0": (1, 2, 2), "x_1": (8, 8, 8)}, {"x_0": (1, 4, 4), "x_1": (5, 5, 5)}]


@pytest.mark.parametrize("options, message", [
    ({"precision_mode": "INT8"}, "calibration_input_fn"), ({"dynamic_shape_profile_strategy": "Tight"}, "Range"),
    ({"maximum_cached_engines": 0}, "at least 1"), ({"input_saved_model_signature_key": "other"}, "serving_default"),
    ({"conversion_params": 1}, "conversion_params")])
def test_parameters_that_do_not_fit_are_errors(folder, options, message):
    with pytest.raises(graft.Error, match=message):
        converter(folder, **options).convert()


def test_build_comes_after_convert(folder):
    with pytest.raises(graft.InvalidArgumentError, match=r"build\(\) comes after convert\(\)"):
        converter(folder).build(lambda: [])


def test_the_environment_chooses_by_the_old_names(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_TRT_OP_DENYLIST", "Softmax,NobodyHasThis")
    monkeypatch.setenv("TF_TRT_MAX_ALLOWED_ENGINES", "1")
    monkeypatch.setenv("TF_TRT_SHOW_DETAILED_REPORT", str(tmp_path / "report.txt"))
    monkeypatch.setenv("TF_TRT_EXPORT_GRAPH_VIZ_PATH", str(tmp_path / "graph.dot"))
    made = converter(folder)
    made.convert()
    assert len(segments.engines_of(made._made)) == 1  # pylint: disable=protected-access
    assert "the operator Softmax was excluded" in (tmp_path / "report.txt").read_text()
    assert re.search(r'label="\S*graft_engine_0: .*", shape=box', (tmp_path / "graph.dot").read_text())
    monkeypatch.setenv("TF_TRT_MAX_ALLOWED_ENGINES", "many")
    with pytest.raises(graft.InvalidArgumentError, match="TF_TRT_MAX_ALLOWED_ENGINES"):
        converter(folder).convert()


def saved(folder, **functions):
    """A SavedModel whose signatures are these functions, of tensors that their parameters name; gives its path."""
    module = functions.pop("module", None) or tf.Module()
    signatures = {}
    for name, (function, specs) in functions.items():
        signatures[name] = tf.function(function, input_signature=specs).get_concrete_function()
        setattr(module, name, signatures[name])
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return str(folder)


VECTOR = tf.TensorSpec([None, 6], tf.float32, name="x")
WORDS = tf.TensorSpec([None], tf.string, name="words")


def network(seed):
    weight = tf.constant(np.random.default_rng(seed).standard_normal((6, 6)).astype(np.float32))
    return lambda x: {"y": tf.nn.softmax(tf.nn.relu(x @ weight))}


def vectors(rows):
    return np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)


@pytest.mark.parametrize("how", ["removed", "over"])
def test_a_new_version_at_the_path_of_one_that_serves_computes_with_its_own_weights(how, tmp_path):
    expected, loaded = [], []
    for version in (1, 2, 2):
        folder = saved(tmp_path / f"plain{len(loaded)}", serving_default=(network(version), [VECTOR]))
        expected.append(tf.saved_model.load(folder).signatures["serving_default"](tf.constant(vectors(3)))["y"])
        if how == "removed" and loaded:
            shutil.rmtree(tmp_path / "served")
        made = converter(folder, minimum_segment_size=1)
        made.convert()
        made.save(tmp_path / "served")
        loaded.append(tf.saved_model.load(str(tmp_path / "served")))
        for model, wanted in zip(loaded, expected):
            close(model.signatures["serving_default"](tf.constant(vectors(3)))["y"].numpy(), wanted.numpy())


def test_a_plan_that_was_replaced_before_it_is_loaded_again_is_an_error(tmp_path):
    folder = saved(tmp_path / "plain", serving_default=(network(1), [VECTOR]))
    made = converter(folder, minimum_segment_size=1)
    made.convert()
    made.build(lambda: [(vectors(2),), (vectors(4),)])
    made.save(tmp_path / "fast")
    run = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
    run(tf.constant(vectors(2)))
    for plan in (tmp_path / "fast" / "assets").glob("*.graft"):
        (tmp_path / "other").write_bytes(plan.read_bytes())
        (tmp_path / "other").replace(plan)
    with pytest.raises(tf.errors.OpError, match="another version of the model was saved there"):
        for rows in (4, 2, 7):
            run(tf.constant(vectors(rows)))


def test_tables_and_texts_stay_with_tensorflow_and_the_network_is_an_engine(tmp_path):
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant(["cat", "dog"]), tf.constant([1, 2], tf.int64)), default_value=0)
    module.grown = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "none")
    module.grown.insert(tf.constant([0, 1], tf.int64), tf.constant(["zero", "one"]))
    module.weight = tf.Variable(np.random.default_rng(4).standard_normal((3, 6)).astype(np.float32))

    def run(words):
        x = tf.nn.relu(tf.gather(module.weight, module.table.lookup(tf.strings.lower(words)))) * 2.0 + 1.0
        lengths = tf.map_fn(lambda word: tf.cast(tf.strings.length(word), tf.float32) * 0.5, words,
                            fn_output_signature=tf.float32)
        return {"y": tf.nn.softmax(x), "name": module.grown.lookup(tf.argmax(x, 1)), "length": lengths + 1.0}

    folder = saved(tmp_path / "plain", module=module, serving_default=(run, [WORDS]))
    words = tf.constant(["DOG", "emu", "cat"])
    wanted = tf.saved_model.load(folder).signatures["serving_default"](words=words)
    made = converter(folder, minimum_segment_size=1)
    functions = [made.convert()]
    assert segments.engines_of(made._made)  # pylint: disable=protected-access
    made.save(tmp_path / "fast")
    del made
    loaded = tf.saved_model.load(str(tmp_path / "fast"))
    functions.append(loaded.signatures["serving_default"])
    for function in functions:
        result = function(words=words)
        assert sorted(result) == sorted(wanted)
        assert result["name"].numpy().tolist() == wanted["name"].numpy().tolist()
        close(result["y"].numpy(), wanted["y"].numpy())
        close(result["length"].numpy(), wanted["length"].numpy())


def test_other_signatures_are_saved_as_they_are(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable(np.random.default_rng(5).standard_normal((6, 4)).astype(np.float32))
    module.bias = tf.Variable(1.5)
    folder = saved(tmp_path / "plain", module=module,
                   serving_default=(lambda x: {"y": tf.nn.relu(x @ module.weight) * 2.0}, [VECTOR]),
                   encode=(lambda x: {"code": tf.tanh(x @ module.weight) + module.bias}, [VECTOR]))
    made = converter(folder, minimum_segment_size=1)
    made.convert()
    made.save(tmp_path / "fast")
    plain, fast = (tf.saved_model.load(str(each)).signatures for each in (folder, tmp_path / "fast"))
    assert sorted(fast) == ["encode", "serving_default"]
    for name in fast:
        for result, wanted in zip(fast[name](tf.constant(vectors(3))).values(),
                                  plain[name](tf.constant(vectors(3))).values()):
            close(result.numpy(), wanted.numpy())


def test_a_variable_that_the_model_writes_to_is_told_by_its_name(tmp_path):
    module = tf.Module()
    module.calls = tf.Variable(0.0, name="calls")

    @tf.function
    def counted(x):
        module.calls.assign_add(1.0)
        return tf.nn.relu(x) + module.calls

    folder = saved(tmp_path / "plain", module=module, serving_default=(lambda x: {"y": counted(x)}, [VECTOR]))
    with pytest.raises(graft.UnsupportedError, match=r"variable 'calls.*keeps nothing between calls"):
        converter(folder).convert()


def test_a_converted_function_maps_a_dataset_and_refuses_gradients(tmp_path):
    folder = saved(tmp_path / "plain", serving_default=(network(1), [VECTOR]))
    run = converter(folder, minimum_segment_size=1).convert()
    plain = tf.saved_model.load(folder).signatures["serving_default"]
    data = tf.data.Dataset.from_tensor_slices(vectors(9)).batch(4)
    for result, wanted in zip(data.map(lambda x: run(x=x)["y"]), data.map(lambda x: plain(x=x)["y"]), strict=True):
        close(result.numpy(), wanted.numpy())
    x = tf.Variable(vectors(2))
    with pytest.raises(graft.UnsupportedError, match="gradient was asked of an engine"), tf.GradientTape() as tape:
        tape.gradient(run(x=x)["y"], x)
