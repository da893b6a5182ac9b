# SPDX-License-Identifier: Apache-2.0
"""`python -m graft.tensorflow`: what `saved_model_cli convert ... tensorrt` did."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from conftest import close, split_network

import graft.tensorflow


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    """A network around an operator that no engine has."""
    folder = str(tmp_path_factory.mktemp("command") / "saved")
    with tf.compat.v1.Graph().as_default() as graph:
        split_network()
    module, frozen = tf.Module(), graph.as_graph_def()
    module.call = tf.function(
        lambda image: {"y": tf.graph_util.import_graph_def(frozen, {"image": image}, ["softmax:0"], name="")[0]},
        input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, name="image")])
    tf.saved_model.save(module, folder, signatures=module.call)
    return folder


def command(*words):
    return subprocess.run([sys.executable, "-m", "graft.tensorflow", *map(str, words)], capture_output=True, text=True,
                          timeout=300, check=False)


def test_convert_writes_a_saved_model_with_engines(folder, tmp_path, image):
    done = command("convert", "--dir", folder, "--output_dir", tmp_path / "fast", "--tune", "off", "--build",
                   "image:2x8x8x3", "--build", "image:4x8x8x3", "--profile_strategy", "Optimal",
                   "--max_workspace_size_bytes", "1000000", "--convert_tf1_model", "True")
    assert done.returncode == 0, done.stderr
    assert "graft_engine_0" in done.stdout and "Conv2D" in done.stdout
    assert len(list((tmp_path / "fast/assets").iterdir())) == 2 * 3  # for all sizes, for 2 and for 4
    graft.tensorflow.load_library()
    for batch in (2, 4, 3):
        given = tf.constant(image(batch))
        expected = tf.saved_model.load(folder).signatures["serving_default"](image=given)["y"].numpy()
        loaded = tf.saved_model.load(str(tmp_path / "fast")).signatures["serving_default"]
        close(np.asarray(loaded(image=given)["y"]), expected)


def test_show_says_what_would_become_engines_and_why_the_rest_would_not(folder):
    done = command("show", "--dir", folder, "--minimum_segment_size", "2")
    assert done.returncode == 0, done.stderr
    assert "there is no converter for Digamma" in done.stdout and "segment 1" in done.stdout


@pytest.mark.parametrize("words, message", [
    (["--precision_mode", "INT8"], "calibration_file"), (["--signature_def", "other"], "serving_default"),
    (["--build", "picture:2x8x8x3"], "the signature takes image"), (["--build", "image:2xo"], "is no shape"),
    (["--dir", "/nowhere"], "/nowhere")])
def test_mistakes_are_one_line(folder, tmp_path, words, message):
    done = command("convert", "--dir", folder, "--output_dir", tmp_path / "fast", "--tune", "off", *words)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "fast").exists()
