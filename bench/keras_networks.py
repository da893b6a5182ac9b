# SPDX-License-Identifier: Apache-2.0
"""Keras' networks in their usual sizes, with random weights: what is measured inside TensorFlow."""

import math

WORDS, LENGTH, WIDTH = 8000, 128, 256
CLASSES, DETECTIONS, OF_CLASS, LEAST_SCORE = 20, 100, 20, 0.5  # of the detector


def image_network(name, size):
    """One of Keras' applications, without the softmax that would flatten what they give."""
    def build():
        import keras
        return getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classifier_activation=None)
    return build


def encoder():
    """Six layers like BERT's, of a third of its width."""
    import keras
    layers = keras.layers
    words = keras.Input((LENGTH,), dtype="int32", name="words")
    x = layers.LayerNormalization()(layers.Embedding(WORDS, WIDTH)(words))
    for _ in range(6):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, WIDTH // 4)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(x)))
    return keras.Model(words, layers.Dense(WIDTH, activation="tanh")(x[:, 0]))


def lstm(unroll=True):
    """A classifier of 32 words."""
    import keras
    layers = keras.layers
    words = keras.Input((32,), dtype="int32", name="words")
    return keras.Model(words, layers.Dense(8)(layers.LSTM(WIDTH, unroll=unroll)(layers.Embedding(WORDS, 128)(words))))


def anchors_of(grids):
    """Boxes that a detector starts from: centre and size of each, for grids of so many cells to a side."""
    import numpy as np
    made = []
    for number, cells in enumerate(grids):
        scale = 0.2 + 0.7 * number / (len(grids) - 1)
        between = math.sqrt(scale * min(scale + 0.7 / (len(grids) - 1), 1))
        sizes = [(between, between), *((scale / math.sqrt(r), scale * math.sqrt(r)) for r in (1, 2, 1 / 2, 3, 1 / 3))]
        centres = (np.arange(cells) + 0.5) / cells
        made += [(y, x, height, width) for y in centres for x in centres for height, width in sizes]
    return np.array(made, np.float32)


def ssd():
    """MobileNetV2 with heads on four grids (Liu et al., SSD: Single Shot MultiBox Detector), and TensorFlow's
    CombinedNonMaxSuppression."""
    import keras
    import tensorflow as tf
    layers = keras.layers

    class Detections(layers.Layer):
        """Boxes by their anchors, and those that are left."""

        def __init__(self, anchors):
            super().__init__()
            self.anchors = anchors

        def call(self, moved, scores):  # pylint: disable=arguments-differ
            centres = self.anchors[:, :2] + 0.1 * moved[..., :2] * self.anchors[:, 2:]
            halves = self.anchors[:, 2:] * tf.exp(0.2 * moved[..., 2:]) / 2
            corners = tf.expand_dims(tf.concat([centres - halves, centres + halves], -1), 2)
            made = tf.image.combined_non_max_suppression(corners, scores, OF_CLASS, DETECTIONS, 0.5, LEAST_SCORE)
            return {"boxes": made.nmsed_boxes, "scores": made.nmsed_scores, "classes": made.nmsed_classes,
                    "valid": made.valid_detections}

    base = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(288, 288, 3))
    grids = [base.get_layer("block_13_expand_relu").output, base.output]
    for channels in (512, 256):
        x = layers.Conv2D(channels // 2, 1, activation="relu6")(grids[-1])
        grids.append(layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu6")(x))
    anchors = anchors_of([grid.shape[1] for grid in grids])
    each = len(anchors) // sum(grid.shape[1] ** 2 for grid in grids)
    moved, scores = [], []
    for grid in grids:
        moved.append(layers.Reshape((-1, 4))(layers.Conv2D(4 * each, 3, padding="same")(grid)))
        scores.append(layers.Reshape((-1, CLASSES))(layers.Conv2D(CLASSES * each, 3, padding="same")(grid)))
    rare = layers.Rescaling(0.4, -5)(layers.Concatenate(axis=1)(scores))  # most boxes show nothing, and none is certain
    likely = layers.Activation("sigmoid")(rare)
    return keras.Model(base.input, Detections(anchors)(layers.Concatenate(axis=1)(moved), likely))


CASES = {
    "ResNet50": image_network("ResNet50", 224), "MobileNetV2": image_network("MobileNetV2", 224),
    "EfficientNetB0": image_network("EfficientNetB0", 224), "InceptionV3": image_network("InceptionV3", 299),
    "DenseNet121": image_network("DenseNet121", 224), "VGG16": image_network("VGG16", 224),
    "ConvNeXtTiny": image_network("ConvNeXtTiny", 224), "encoder": encoder, "LSTM": lstm,
}
PIXELS = {"EfficientNetB0", "ConvNeXtTiny"}  # these scale what they take by themselves
MORE_CASES = {"LSTM, not unrolled": lambda: lstm(False), "SSD": ssd}  # whose results are compared, and not their times


def model_of(name):
    """A network whose layers keep the scale of what flows through."""
    import keras
    from keras_models import keep_scale
    keras.utils.set_random_seed(3)
    model = {**CASES, **MORE_CASES}[name]()
    keep_scale(model)
    return model


def given(name, model_input, batch, random):
    """Noise, or words: what a network takes."""
    shape = (batch, *model_input.shape[1:])
    if model_input.dtype == "int32":
        return random.integers(0, WORDS, shape, "int32")
    return random.uniform(*((0, 255) if name in PIXELS else (-1, 1)), shape).astype("float32")


class Case:
    """A frozen graph with its input and output."""

    def __init__(self, name):
        import numpy as np
        import tensorflow as tf
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
        model = model_of(name)
        function = tf.function(lambda x: model(x, training=False), autograph=False)
        self.taken = tf.TensorSpec([None, *model.inputs[0].shape[1:]], model.inputs[0].dtype)
        frozen = convert_variables_to_constants_v2(function.get_concrete_function(self.taken))
        self.name, self.graph = name, frozen.graph.as_graph_def()
        self.input, self.output = frozen.inputs[0].op.name, frozen.outputs[0].op.name
        self.random = np.random.default_rng(1)

    def given(self, batch):
        """What it may take."""
        return given(self.name, self.taken, batch, self.random)
