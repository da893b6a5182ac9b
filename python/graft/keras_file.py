# SPDX-License-Identifier: Apache-2.0
"""Keras' own files, `.keras`, as SavedModels: Keras itself exports them, in a process of its own, so that neither it
nor TensorFlow is loaded here."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from .errors import InvalidModelError, UnsupportedError

MISSING = 3  # the exit status where Keras, or TensorFlow under it, is not there
EXPORT = f"""
import sys
try:
    import keras, tensorflow
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit({MISSING})
keras.saving.load_model(sys.argv[1], compile=False).export(sys.argv[2], verbose=False)
"""


def is_keras(path: object) -> bool:
    """Whether it is the path of such a file."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    return str(path).endswith(".keras") and pathlib.Path(path).is_file()


def exported(path: str | os.PathLike[str]) -> tempfile.TemporaryDirectory[str]:
    """A folder that is the model's SavedModel, until it is closed or forgotten. Raises UnsupportedError where there is
    no Keras with TensorFlow, InvalidModelError where Keras cannot load the file."""
    folder = tempfile.TemporaryDirectory(prefix="graft-keras-")
    variables = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", EXPORT, os.fspath(path), folder.name], env=variables,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return folder
    folder.cleanup()
    said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it says nothing")
    if done.returncode == MISSING:
        raise UnsupportedError(f"{os.fspath(path)}: Keras reads its own files, and {sys.executable} has none with "
                               f"TensorFlow ({said}): install keras and tensorflow beside graft, or call "
                               "keras.saving.load_model(FILE).export(FOLDER) where they are, and compile the folder")
    raise InvalidModelError(f"{os.fspath(path)}: Keras does not export it: {said}: layers of one's own are exported "
                            "where they are defined, by model.export(FOLDER); compile that folder")
