# SPDX-License-Identifier: Apache-2.0
"""What a network of models/ is, and seeded inputs for each kind."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Network:
    """A network that can be built (`build(seed=0, ...)`) and fed (`inputs(batch=1, seed=0)`).

    Architectures also take `shallow=True`, with which no layer stands more often than its kinds of regions need, and
    have a `small` form of fewer pixels or shorter sequences, for comparing results.
    """

    build: Callable
    inputs: Callable
    options: tuple = ()
    shallow: bool = False
    small: dict = dataclasses.field(default_factory=dict)
    small_inputs: Callable | None = None
    symbols: tuple = ("batch",)


def image_inputs(size, batch=1, seed=0):
    """Random images with large forms and fine noise, as photographs have; variance about 1."""
    generator = np.random.default_rng(seed)
    coarse = generator.standard_normal((batch, 3, 8, 8), dtype=np.float32)
    position = np.linspace(0, 6.999, size, dtype=np.float32)
    low, share = position.astype(int), position % 1
    rows = (coarse[:, :, low].transpose(0, 1, 3, 2) * (1 - share)
            + coarse[:, :, low + 1].transpose(0, 1, 3, 2) * share)
    forms = rows[:, :, low].transpose(0, 1, 3, 2) * (1 - share) \
        + rows[:, :, low + 1].transpose(0, 1, 3, 2) * share
    noise = generator.standard_normal((batch, 3, size, size), dtype=np.float32)
    return {"input": np.ascontiguousarray(forms + np.float32(0.5) * noise)}


def token_inputs(vocabulary, batch=1, seed=0, length=128, full=False):
    """Random tokens; rows after the first are padded to differing lengths unless `full`."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(0, vocabulary, (batch, length))
    lengths = np.full(batch, length)
    if not full:
        lengths[1:] = generator.integers((length + 1) // 2, length + 1, batch - 1)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask,
            "token_type_ids": np.zeros((batch, length), np.int64)}


def row_inputs(width, batch=1, seed=0):
    """Rows of standard normal values."""
    values = np.random.default_rng(seed).standard_normal((batch, width), dtype=np.float32)
    return {"input": values}


def wave_inputs(samples, batch=1, seed=0, channels=0):
    """Sound: a few tones with noise."""
    generator = np.random.default_rng(seed)
    shape = (batch, channels, samples) if channels else (batch, samples)
    time = np.arange(samples, dtype=np.float32) / 16000
    tones = generator.uniform(100, 2000, (*shape[:-1], 1)).astype(np.float32)
    noise = generator.standard_normal(shape, dtype=np.float32)
    return {"input": np.sin(2 * np.pi * tones * time, dtype=np.float32) + np.float32(0.5) * noise}


def word_inputs(vocabulary, batch=1, seed=0, length=128):
    """Random tokens without padding."""
    return {"input_ids": np.random.default_rng(seed).integers(0, vocabulary, (batch, length))}


def click_inputs(dense, tables, rows, batch=128, seed=0):
    """What a recommendation is made from: numbers, and one row of each table."""
    generator = np.random.default_rng(seed)
    return {"dense": generator.standard_normal((batch, dense), dtype=np.float32),
            "sparse": generator.integers(0, rows, (batch, tables))}
