# SPDX-License-Identifier: Apache-2.0
"""Models that Keras makes, on small images: its applications, an encoder like BERT, LSTMs, a detector."""

import keras
import numpy as np
import tensorflow as tf
from keras.src.applications.convnext import ConvNeXt

layers, applications = keras.layers, keras.applications
WORDS = 40
CLASSES = 10
LEAST_SCORE = 0.3  # of a detection


class Model:
    """How a model is made, what it is given, and in how many engines it runs beside which operators of TensorFlow.
    `detects`: it gives boxes, scores, classes and how many are valid, in the order of their names."""

    def __init__(self, build, inputs, engines=1, stays=(), detects=False):
        self.build, self.inputs, self.engines, self.stays = build, inputs, engines, set(stays)
        self.detects = detects

    def made(self):
        keras.utils.set_random_seed(3)
        model = self.build()
        keep_scale(model)
        return model


def keep_scale(model):
    """Weights of convolutions and products such that layers keep the scale of what flows through (He et al.,
    Delving Deep into Rectifiers): with Keras' own ones it vanishes on the way through tens of layers."""
    for layer in model.layers:
        if isinstance(layer, (layers.Conv2D, layers.DepthwiseConv2D, layers.Dense)):
            kernel = layer.get_weights()[0]
            by_depth = isinstance(layer, layers.DepthwiseConv2D)
            fan_in = np.prod(kernel.shape[:2] if by_depth else kernel.shape[:-1])
            layer.set_weights([kernel * np.float32(np.sqrt(2 / fan_in) / kernel.std()), *layer.get_weights()[1:]])


def images(size, scale=1.0):
    """Noise, and a gradient: what they share, random weights give for both."""
    noise = np.random.default_rng(size).uniform(-1, 1, (size, size, 3))
    gradient = np.linspace(-1, 1, 3 * size * size).reshape(size, size, 3)
    return np.stack([noise, gradient]).astype(np.float32) * np.float32(scale)


def application(build, size, scale=1.0, **options):
    """Without pretrained weights, and without the softmax that would flatten what they give."""
    return Model(lambda: build(weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None,
                               **options), [images(size, scale)])


def vgg16():
    """Its convolutions; the dense layers behind them are most of its weights."""
    return applications.VGG16(weights=None, include_top=False, pooling="avg", input_shape=(32, 32, 3))


def convnext_tiny():
    """Of its depth, and an eighth of its channels."""
    return ConvNeXt([3, 3, 9, 3], [12, 24, 48, 96], weights=None, input_shape=(32, 32, 3), classes=CLASSES,
                    classifier_activation=None)


def encoder():
    """Embeddings, two layers of attention with a mask, a pooled result."""
    words, mask = (keras.Input((9,), dtype="int32", name=name) for name in ("words", "mask"))
    x = layers.Embedding(WORDS, 16, embeddings_initializer="glorot_normal")(words)
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Embedding(9, 16)(keras.ops.arange(9)))
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 8)(x, x, attention_mask=keras.ops.expand_dims(mask, 1))
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(attended))
        x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))
    return keras.Model([words, mask], [x, layers.Dense(16, activation="tanh")(x[:, 0])])


def sentences():
    """Words and which of them count."""
    random = np.random.default_rng(5)
    return [random.integers(0, WORDS, (2, 9), np.int32), (np.arange(18).reshape(2, 9) < 15).astype(np.int32)]


def lstm(unroll):
    """A classifier of six words."""
    words = keras.Input((6,), dtype="int32", name="words")
    x = layers.Embedding(WORDS, 12, embeddings_initializer="glorot_normal")(words)
    x = layers.LSTM(8, unroll=unroll)(x)
    return keras.Model(words, layers.Dense(3)(layers.Dense(8, activation="relu")(x)))


def both_ways():
    """Sequences from a GRU that reads in both directions, into an LSTM that leaves out padding."""
    words = keras.Input((6,), dtype="int32", name="words")
    x = layers.Embedding(WORDS, 12, mask_zero=True, embeddings_initializer="glorot_normal")(words)
    x = layers.Bidirectional(layers.GRU(8, return_sequences=True))(x)
    x, hidden, cell = layers.LSTM(8, return_state=True)(x)
    return keras.Model(words, layers.Dense(3)(layers.Concatenate()([x, hidden, cell])))


def of_open_length():
    """Sequences of any length, read backwards and in both directions, and what each step computes for itself."""
    words = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(WORDS, 12, mask_zero=True, embeddings_initializer="glorot_normal")(words)
    x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(x)
    x = layers.GRU(8, return_sequences=True, reset_after=False)(x)
    x = layers.TimeDistributed(layers.Dense(6))(x)
    return keras.Model(words, layers.Dense(3)(layers.LSTM(8, go_backwards=True)(x)))


class Suppression(layers.Layer):
    """The head of a detector, as TensorFlow's own ones freeze it."""

    def call(self, boxes, scores):  # pylint: disable=arguments-differ
        made = tf.image.combined_non_max_suppression(tf.expand_dims(boxes, 2), scores, 5, 12, 0.5, LEAST_SCORE)
        return [made.nmsed_boxes, made.nmsed_scores, made.nmsed_classes, made.valid_detections]


def detector():
    """Boxes and scores from two grids of a small network of convolutions that are taken apart by depth."""
    image = keras.Input((32, 32, 3), name="image")
    x, boxes, scores = image, [], []
    for channels in (8, 16, 16):
        x = layers.SeparableConv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        if channels == 16:
            boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(8, 3, padding="same")(x)))
            scores.append(layers.Reshape((-1, 3))(layers.Conv2D(6, 3, padding="same")(x)))
    corners = layers.Activation("sigmoid")(layers.Concatenate(axis=1)(boxes))
    likely = layers.Activation("sigmoid")(layers.Concatenate(axis=1)(scores))
    return keras.Model(image, Suppression()(corners, likely))


MODELS = {
    "ResNet50": application(applications.ResNet50, 32),
    "MobileNetV2": application(applications.MobileNetV2, 32, alpha=0.35),
    "EfficientNetB0": application(applications.EfficientNetB0, 32, 255),
    "InceptionV3": application(applications.InceptionV3, 75),
    "DenseNet121": application(applications.DenseNet121, 32),
    "VGG16": Model(vgg16, [images(32)]),
    "ConvNeXtTiny": Model(convnext_tiny, [images(32, 255)]),
    "encoder": Model(encoder, sentences()),
    "unrolled LSTM": Model(lambda: lstm(True), [np.arange(12, dtype=np.int32).reshape(2, 6)]),
    "LSTM": Model(lambda: lstm(False), [np.arange(12, dtype=np.int32).reshape(2, 6)]),
    "GRU": Model(both_ways, [np.array([[3, 9, 4, 0, 0, 0], [7, 8, 1, 2, 5, 6]], np.int32)]),
    "open length": Model(of_open_length, [np.array([[3, 9, 4, 0, 0, 0], [7, 8, 1, 2, 5, 6]], np.int32)]),
    "detector": Model(detector, [images(32)], detects=True),
}
