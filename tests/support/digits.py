# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's pictures of handwritten digits, read from the package's file without importing it: what the tests
inside of frameworks train on, so that int8 has real accuracy to lose."""

import csv
import gzip
import pathlib

import numpy as np

FILE = "sklearn/datasets/data/digits.csv.gz"
TRAINED = 1200  # of 1,797; the others are tested with


def path():
    """The file, in the environment of the project's own tests."""
    root = pathlib.Path(__file__).resolve().parents[2]
    return next((root / ".deps" / "venv").glob(f"lib/python*/site-packages/{FILE}"))


def load():
    """((pictures, digits) to train with, the same to test with): pictures of 8 x 8 pixels from 0 to 1, f32, in an order
    that is always the same."""
    with gzip.open(path(), "rt") as file:
        rows = np.array([list(map(float, row)) for row in csv.reader(file)], np.float32)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    pictures, digits = rows[:, :-1].reshape(-1, 8, 8) / 16, rows[:, -1].astype(np.int64)
    return (pictures[:TRAINED], digits[:TRAINED]), (pictures[TRAINED:], digits[TRAINED:])


def right(scores, digits):
    """The share that is right, in percent."""
    return 100 * float((np.asarray(scores).argmax(1) == digits).mean())
