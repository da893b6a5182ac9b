# SPDX-License-Identifier: Apache-2.0
"""Architectures that no bench was tuned on: what a stranger may bring. Built by scripts, with seeded weights."""

import functools

import attention_architectures
import audio_architectures
import dense_architectures
import generative_architectures
import inception_architectures
import language_architectures
import mixer_architectures
import mobile_architectures
import recommendation_architectures
import windowed_architectures
from mobile_networks import efficientnet_b0
from network_inputs import Network, click_inputs, image_inputs, wave_inputs, word_inputs


def _image(build, side=224, small=64, options=(), **small_sizes):
    """A network of square images."""
    return Network(build, functools.partial(image_inputs, side), options, True, {"image": small, **small_sizes},
                   functools.partial(image_inputs, small))


def _sound(build, samples=16000, small=2000, **channels):
    """A network of samples of sound."""
    return Network(build, functools.partial(wave_inputs, samples, **channels), (), True, {"samples": small},
                   functools.partial(wave_inputs, small, **channels))


def _words(build, vocabulary):
    """A network of words; `vocabulary` is that of its shallow form."""
    return Network(build, functools.partial(word_inputs, vocabulary), (), True, {},
                   functools.partial(word_inputs, vocabulary, length=9), ("batch", "length"))


def _speech():
    small = 200
    frames = generative_architectures.WHISPER_TINY.frames
    return Network(generative_architectures.whisper_tiny,
                   functools.partial(generative_architectures.speech_inputs, 51865, frames), (), True,
                   {"frames": small}, functools.partial(generative_architectures.speech_inputs, 4096, small, length=9),
                   ("batch", "length"))


def _clicks():
    sizes = (recommendation_architectures.DENSE, recommendation_architectures.TABLES, recommendation_architectures.ROWS)
    inputs = functools.partial(click_inputs, *sizes)
    return Network(recommendation_architectures.dlrm, inputs, (), True, {}, functools.partial(inputs, batch=3))


ARCHITECTURES = {
    "efficientnet_b0": _image(efficientnet_b0, options=("fold_batch_norm",)),
    "mobilenet_v3_large": _image(mobile_architectures.mobilenet_v3_large),
    "shufflenet_v2": _image(mobile_architectures.shufflenet_v2),
    "swin_t": _image(windowed_architectures.swin_t, window=2),
    "swin_v2_t": _image(windowed_architectures.swin_v2_t, 256, window=2),
    "cait_xxs24": _image(attention_architectures.cait_xxs24),
    "xcit_tiny12": _image(attention_architectures.xcit_tiny12),
    "levit_128s": _image(attention_architectures.levit_128s, small=96),
    "convnext_t": _image(mixer_architectures.convnext_t),
    "poolformer_s12": _image(mixer_architectures.poolformer_s12),
    "mixer_s16": _image(mixer_architectures.mixer_s16),
    "edgenext_small": _image(mixer_architectures.edgenext_small, 256),
    "mobilevit_s": _image(mixer_architectures.mobilevit_s, 256),
    "densenet121": _image(dense_architectures.densenet121),
    "googlenet": _image(inception_architectures.googlenet),
    "deeplab_v3": _image(dense_architectures.deeplab_v3),
    "unet": _image(dense_architectures.unet, 256),
    "hrnet_w18_small": _image(dense_architectures.hrnet_w18_small),
    "bit_r50x1": _image(dense_architectures.bit_r50x1),
    "style_transfer": _image(dense_architectures.style_transfer),
    "wav2vec2_base": _sound(audio_architectures.wav2vec2_base),
    "conv_tasnet": _sound(audio_architectures.conv_tasnet, channels=1),
    "smollm_135m": _words(language_architectures.smollm_135m, 4096),
    "mixtral_small": _words(language_architectures.mixtral_small, 8192),
    "t5_small_encoder": _words(language_architectures.t5_small_encoder, 4096),
    "gpt2": _words(generative_architectures.gpt2, 4096),
    "whisper_tiny": _speech(),
    "bilstm_tagger": _words(language_architectures.bilstm_tagger, 20000),
    "dlrm": _clicks(),
}
