# SPDX-License-Identifier: Apache-2.0
"""silero-vad, which tells speech from noise: sentences that espeak-ng speaks, with noise and pauses around them."""

import ctypes

import numpy as np
from scipy import ndimage, signal

from trained import texts
from trained.case import Case, folder_of

RATE, FRAME, CONTEXT = 16000, 512, 64
CLIPS, CALIBRATED = 60, 16
VOICES = (b"en-us", b"en-gb", b"de", b"fr", b"es", b"it")
SYNCHRONOUS, UTF8 = 2, 1  # of speak_lib.h
LOUD = 0.01  # the root mean square of a frame with a voice
PAUSE, FADING = 12, 3  # frames: between words, which belong to speech, and behind the last sound


class Speaker:
    """espeak-ng, of the package espeakng-loader."""

    def __init__(self):
        folder = folder_of("espeakng_loader")
        self.library = ctypes.CDLL(str(folder / "libespeak-ng.so"))
        self.rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, str(folder / "espeak-ng-data").encode(), 0)
        self.parts = []
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self.callback = prototype(self.take)
        self.library.espeak_SetSynthCallback(self.callback)

    def take(self, samples, count, _):
        """Keeps what was spoken since the last call."""
        if samples and count > 0:
            self.parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(self, text, voice, pitch, speed):
        """A text, as samples of 16 kHz in [-1, 1]."""
        self.parts = []
        self.library.espeak_SetVoiceByName(voice)
        self.library.espeak_SetParameter(1, int(speed), 0)
        self.library.espeak_SetParameter(3, int(pitch), 0)
        content = text.encode()
        self.library.espeak_Synth(content, len(content) + 1, 0, 1, 0, UTF8, None, None)
        spoken = np.concatenate(self.parts) / 32768
        return signal.resample_poly(spoken, RATE // 50, self.rate // 50)


def noise(random, count):
    """White, brown or humming noise."""
    kind, white = random.integers(3), random.standard_normal(count)
    if kind == 1:
        white = signal.lfilter([1], [1, -0.97], white)
    if kind == 2:
        steps = np.arange(count) / RATE
        white = 0.3 * white + sum(np.sin(2 * np.pi * n * 50 * steps) for n in (1, 2, 3, 5))
    return white / np.sqrt(np.mean(white ** 2))


def clip(speaker, random):
    """(whether each frame is speech, the frames with what goes before them)."""
    every, parts = texts.pairs(), []
    for _ in range(2):
        text = " ".join(every[random.integers(len(every))][0].split()[:8])
        spoken = speaker.say(text, VOICES[random.integers(len(VOICES))], random.integers(20, 80),
                             random.integers(130, 200))
        parts += [np.zeros(int(RATE * random.uniform(0.4, 1.6))), spoken * random.uniform(0.3, 1)]
    clean = np.concatenate([*parts, np.zeros(RATE // 2)])
    clean = clean[:len(clean) // FRAME * FRAME]
    is_loud = np.sqrt(np.mean(clean.reshape(-1, FRAME) ** 2, 1)) > LOUD
    is_speech = ndimage.binary_closing(np.pad(is_loud, PAUSE), np.ones(PAUSE))[PAUSE:-PAUSE]
    is_speech = ndimage.binary_dilation(is_speech, np.ones(FADING), origin=-(FADING // 2))
    heard = clean + 10 ** random.uniform(-3, -1.3) * noise(random, len(clean))
    padded = np.concatenate([np.zeros(CONTEXT), heard]).astype(np.float32)
    return is_speech, np.lib.stride_tricks.sliding_window_view(padded, FRAME + CONTEXT)[::FRAME].copy()


def activity(folder):
    """Frames of 32 ms that are rightly called speech, or not."""
    del folder
    random, speaker = np.random.default_rng(4), Speaker()
    clips = [clip(speaker, random) for _ in range(CLIPS + CALIBRATED)]
    wanted = np.concatenate([is_speech for is_speech, _ in clips[CALIBRATED:]])

    def score(results):
        found = np.concatenate([arrays[0].reshape(-1) for arrays in results]) > 0.5
        return 100 * float(np.mean(found == wanted))

    state = np.zeros((1, 1, 128), np.float32)
    runs = [{"input": frames, "h": state, "c": state} for _, frames in clips]
    path = str(folder_of("silero_vad") / "data/silero_vad_16k_sequence.onnx")
    return Case(path, runs[:CALIBRATED], runs[CALIBRATED:], score, f"of {len(wanted)} frames")
