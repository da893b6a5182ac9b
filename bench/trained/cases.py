# SPDX-License-Identifier: Apache-2.0
"""The trained networks that bench/accuracy.py judges, by kind."""

from trained import files, photos, reading, sentences, speech, tones

# What makes the case, from a folder for its files.
CASES = {"PP-OCRv4 recognition": reading.recognition, "PP-OCRv4 detection": reading.detection,
         "MiniLM": sentences.encoder, "silero-vad": speech.activity, "basic-pitch": tones.pitches,
         "magika": files.file_types, "EfficientNet-Lite0": photos.classes}
