# SPDX-License-Identifier: Apache-2.0
"""basic-pitch, which finds notes in music: chords of synthesised tones."""

import numpy as np

from trained.case import Case, folder_of

RATE, LENGTH, HOP, LOWEST = 22050, 43844, 256, 21  # of the network: samples of a window and of a frame; MIDI's A0
CLIPS, CALIBRATED, CERTAIN = 100, 24, 0.3  # its own threshold of frames


def tone(random, pitch, count):
    """A tone with overtones that fade, and its envelope."""
    steps, base = np.arange(count) / RATE, 440 * 2 ** ((pitch - 69) / 12)
    fading, bright = random.uniform(0.5, 3), random.uniform(0.3, 0.8)
    sound = sum(bright ** n * np.sin(2 * np.pi * base * (n + 1) * steps + random.uniform(0, 6))
                for n in range(8) if base * (n + 1) < RATE / 2)
    return sound * np.exp(-fading * steps) * np.minimum(1, steps * 100)


def clip(random):
    """(notes that sound in each frame, two seconds of sound)."""
    heard, notes = np.zeros(LENGTH), np.zeros((LENGTH // HOP + 1, 88), bool)
    place = int(random.integers(0, RATE // 4))
    while place < LENGTH - RATE // 4:
        count = min(int(RATE * random.uniform(0.25, 0.9)), LENGTH - place)
        for pitch in random.choice(np.arange(40, 88), random.integers(1, 4), replace=False):
            heard[place:place + count] += random.uniform(0.3, 1) * tone(random, pitch, count)
            notes[place // HOP:(place + count) // HOP, pitch - LOWEST] = True
        place += count + int(RATE * random.uniform(0, 0.15))
    heard = 0.5 * heard / np.abs(heard).max() + 10 ** random.uniform(-4, -2) * random.standard_normal(LENGTH)
    return notes, heard.astype(np.float32)[None, :, None]


def pitches(folder):
    """Notes of frames: the harmonic mean of precision and recall."""
    del folder
    random = np.random.default_rng(5)
    clips = [clip(random) for _ in range(CLIPS + CALIBRATED)]
    wanted = np.stack([notes for notes, _ in clips[CALIBRATED:]])

    def score(results):
        found = np.concatenate([arrays[1] for arrays in results]) > CERTAIN
        both = np.sum(found & wanted[:, :found.shape[1]])
        return 200 * float(both) / float(found.sum() + wanted[:, :found.shape[1]].sum())

    runs = [{"serving_default_input_2:0": heard} for _, heard in clips]
    path = str(folder_of("basic_pitch") / "saved_models/icassp_2022/nmp.onnx")
    return Case(path, runs[:CALIBRATED], runs[CALIBRATED:], score, "notes (F1)")
