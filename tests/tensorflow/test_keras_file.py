# SPDX-License-Identifier: Apache-2.0
"""`.keras` files: exported by Keras where it is, and an error that says what to do where it is not."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from conftest import FAST, close

import graft
from graft import keras_file

layers = keras.layers


@pytest.fixture(name="model", scope="module")
def fixture_model():
    keras.utils.set_random_seed(3)
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(4, 3, activation="relu")(image)
    return keras.Model(image, layers.Dense(5)(layers.GlobalAveragePooling2D()(x)))


@pytest.fixture(name="file", scope="module")
def fixture_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("keras") / "model.keras"
    model.save(path)
    return path


@pytest.fixture(name="x", scope="module")
def fixture_x():
    return np.random.default_rng(1).standard_normal((2, 8, 8, 3)).astype(np.float32)


def command(*words, folder, variables=()):
    return subprocess.run([sys.executable, "-m", "graft", *words], cwd=folder, capture_output=True, text=True,
                          check=False, timeout=300, env={**os.environ, **dict(variables)})


def test_a_file_of_keras_compiles_in_python(model, file, x):
    engine = graft.compile(file, **FAST)
    close(engine(x), model(x).numpy())
    assert all(each["way"] != "cannot run" for each in graft.check(file, **FAST))


def test_a_file_of_keras_compiles_on_the_command_line(model, file, x):
    done = command("compile", file.name, "--tune", "off", "-o", "model.graft", folder=file.parent)
    assert done.returncode == 0, done.stderr
    close(graft.load(file.parent / "model.graft")(x), model(x).numpy())


def test_without_keras_the_error_says_what_to_do(file, tmp_path):
    (tmp_path / "keras.py").write_text("raise ImportError('no Keras here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = command("compile", file, "-o", "other.graft", folder=tmp_path, variables={"PYTHONPATH": path})
    assert done.returncode != 0 and "no Keras here" in done.stderr and ".export(FOLDER)" in done.stderr
    assert not (tmp_path / "other.graft").exists()


def test_what_keras_cannot_load_is_an_error_of_the_model(tmp_path):
    path = tmp_path / "broken.keras"
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(graft.InvalidModelError, match="broken.keras.*does not export"):
        keras_file.exported(path)


def test_the_command_without_python_names_the_way(file):
    program = os.path.join(os.environ["GRAFT_BUILD"], "bin", "graft")
    done = subprocess.run([program, "compile", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "python -m graft" in done.stderr
