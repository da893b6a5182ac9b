# SPDX-License-Identifier: Apache-2.0
"""The graphs that TF-TRT's tests converted, rebuilt: what they compute, and how many engines TF-TRT made of each."""

import numpy as np
import tensorflow as tf
from conftest import v1, weights


class Graph:
    """A graph with its inputs by shape (None: an open size), its outputs, and TF-TRT's number of engines."""

    def __init__(self, build, inputs, engines, outputs=("output_0",), dtype=tf.float32, feed=4):
        self.build, self.inputs, self.engines, self.outputs = build, inputs, engines, list(outputs)
        self.dtype, self.feed = dtype, feed

    def add(self):
        given = [v1.placeholder(self.dtype, shape, name=f"input_{i}") for i, shape in enumerate(self.inputs)]
        made = self.build(*given)
        for i, value in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            tf.identity(value, name=f"output_{i}")

    def feeds(self):
        random = np.random.default_rng(len(self.inputs))
        shapes = [[self.feed if size is None else size for size in shape] for shape in self.inputs]
        return {f"input_{i}": (random.standard_normal(shape) * 3).astype(self.dtype.as_numpy_dtype)
                for i, shape in enumerate(shapes)}


def single_engine(x):
    """base_test: convolution, bias, relu, pooling in one engine."""
    x = tf.nn.bias_add(tf.nn.conv2d(x, weights(1, 1, 2, 6), 2, "SAME"), weights(6))
    return tf.squeeze(tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID"))


def multi_engines(x):
    """base_test: two segments around an operator that no engine has."""
    x = tf.nn.conv2d(x, weights(1, 1, 2, 6), 2, "SAME")
    p, q = x * weights(6), x / (tf.abs(weights(6)) + 1.0)
    s = q - tf.math.digamma(tf.abs(p) + 1.0)
    return tf.squeeze(q * q + s * 2.0)


def const_input(x):
    """base_test ConstInputTest: a constant between two engines."""
    c = tf.constant([2.0], name="c")
    d = tf.math.digamma(tf.abs(x + c) * (x + c) + 1.0)
    return tf.nn.relu(d * c + c)


def const_data_input(x):
    """base_test ConstDataInputSingleEngineTest."""
    return (x + 1.0) * tf.constant([1.0, 2.0]) * (x + 1.0)


def control_dependency(x):
    """base_test ControlDependencyTest: control edges in and between engines."""
    c1, c2 = tf.constant(1.0), tf.constant(2.0)
    add = x + c1
    with v1.control_dependencies([add]):
        mul = x * c1
    with v1.control_dependencies([mul]):
        odd = tf.math.digamma(tf.abs(add - mul) + 1.0)
    with v1.control_dependencies([odd]):
        return (odd + c2) * c2 - mul


def batch_matmul(x):
    """batch_matmul_test: by a matrix, and by a stack of them."""
    return tf.matmul(x, weights(5, 8)) + tf.matmul(x, weights(12, 5, 8))


def biasadd_matmul(x):
    """biasadd_matmul_test: products of a matrix, biases of ranks 2 to 4, one of them NCHW."""
    a = tf.matmul(x, weights(48, 4))
    b = tf.reshape(tf.nn.bias_add(tf.matmul(x, weights(4, 48), transpose_b=True), weights(4)), [-1, 1, 2, 2])
    c = tf.nn.bias_add(tf.reshape(x, [-1, 2, 24]), weights(24))
    d = tf.nn.bias_add(tf.reshape(x, [-1, 4, 12, 1]), weights(1))
    return tf.concat([tf.reshape(each, [4, -1]) for each in (a, b, c, d)], 1)


def rank_two(x, y):
    """rank_two_test: ranks two and four meet."""
    z = tf.reduce_mean(tf.abs(y * 2.0 + 1.0), [2, 3])
    return tf.expand_dims(tf.abs(x * 3.0) + z, -1) * 0.5


def binary_broadcast(x):
    """binary_tensor_weight_broadcast_test: constants of all ranks on both sides."""
    for shape in ((), (1,), (3, 1, 1), (1, 1, 1), (1, 24, 24), (3, 24, 24), (24, 24)):
        x = weights(*shape) * (x + weights(*shape))
    return x


def const_broadcast(x):
    """const_broadcast_test: a filled constant between convolutions."""
    x = tf.nn.conv2d(x, weights(5, 5, 2, 8), 1, "VALID")
    x = tf.nn.conv2d(x + tf.fill([1, 1, 1, 8], 0.1), weights(3, 3, 8, 8), 1, "SAME")
    return x * tf.fill([8], 0.1)


def booleans(x):
    """bool_test: comparisons, logic and a choice."""
    flags = tf.logical_and(x > 0.1, tf.logical_not(tf.logical_or(x > 1.0, x < -1.0)))
    return tf.where(flags, x * 2.0, x - 1.0)


def casts(x):
    """cast_test: to half and back."""
    return tf.cast(tf.cast(x + 0.5, tf.float16) * tf.constant(2.0, tf.float16), tf.float32) - 1.0


def int32(x):
    """int32_test: integers, which TF-TRT left to TensorFlow: it made no engine."""
    return tf.matmul(tf.cast(tf.cast(x, tf.int32) + 1, tf.float32), weights(40, 10))


def concatenation(x):
    """concatenation_test: arithmetic joined along two axes."""
    parts = [x + weights(1, 3, 1), x - weights(2, 1, 1), x * weights(4), x / 2.5]
    return tf.reshape(tf.concat([tf.concat(parts[:2], 1), tf.concat(parts[2:], 1)], -1), [-1, 24])


def reshape_transpose(x):
    """reshape_transpose_test: shapes that keep the batch; TF-TRT made one engine of those that it took."""
    x = tf.reshape(x, [-1, 24, 24, 2])
    x = tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [-1, 2, 24 * 24])
    return tf.abs(tf.reshape(tf.transpose(x, [0, 2, 1]), [-1, 48, 24]))


def top_k(x):
    """topk_test."""
    values, indices = tf.nn.top_k(x + 0.1, 5)
    return [values * 1.0, indices]


def unary(x):
    """unary_test: a chain of functions of one argument."""
    x = tf.abs(x) + 1.1
    for function in (tf.exp, lambda v: tf.math.log(v + 1.0), tf.sqrt, lambda v: 1.0 / v, tf.math.rsqrt, tf.sin, tf.cos,
                     tf.atan, tf.sinh, tf.asinh, tf.math.ceil, tf.math.floor, tf.negative, tf.abs):
        x = function(x) + 1.5
    return tf.squeeze(x * x)


def resize(x):
    """A picture made larger: reshaping around a convolution where sizes are known."""
    x = tf.nn.conv2d_transpose(x, weights(2, 2, 4, 2), [4, 16, 16, 4], 2, "VALID")
    return tf.nn.space_to_depth(x, 2)


def identity_output(x):
    """identity_output_test: results that are names of others."""
    y = tf.nn.relu(x * 2.0 + 1.0)
    return [tf.identity(y), tf.identity(tf.identity(y)), y + 1.0]


def shape_output(x):
    """shape_output_test: a shape as a result of the graph."""
    y = tf.nn.relu(x * 2.0) + 1.0
    return [tf.shape(y), y * 2.0]


def neighbors(x):
    """multi_connection_neighbor_engine_test: two segments with several edges between them. TF-TRT made two engines."""
    e = tf.nn.conv2d(x, weights(1, 1, 2, 5), 1, "SAME")
    t = tf.nn.bias_add(e, weights(5))
    e = tf.math.digamma(tf.abs(e) + 1.0)
    return (t - e) * (e + t) + tf.nn.relu(tf.minimum(t, e) - tf.maximum(e, 0.3))


def neighboring(x):
    """neighboring_engine_test: segments of two sizes beside each other. TF-TRT made two engines."""
    e = tf.nn.conv2d(x, weights(3, 2, 2, 4), 1, "VALID")
    t = e * weights(4)
    return t + tf.math.digamma(tf.abs(e) + 1.0)


def squeezed_batch(x):
    """trt_mode_test: the batch is squeezed away. TF-TRT made two engines with an implicit batch, one without."""
    x = tf.abs(tf.exp(tf.sin(x * 0.5 + 1.0)))
    return tf.exp(tf.abs(tf.squeeze(x, 0) * 2.0 - 1.0) * 0.1) + 1.0


def vgg_block(x):
    """vgg_block_test."""
    x = v1.nn.fused_batch_norm(x, weights(2) + 1.0, weights(2), weights(2), tf.abs(weights(2)) + 0.5,
                               is_training=False)[0]
    x = tf.nn.bias_add(tf.nn.conv2d(x, weights(1, 1, 2, 6), 2, "SAME"), weights(6))
    return tf.squeeze(tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID"))


def vgg_block_nchw(x):
    """vgg_block_nchw_test, transposed to the layout that TensorFlow's kernels have on processors."""
    x = tf.transpose(x, [0, 2, 3, 1])
    x = v1.nn.fused_batch_norm(x, weights(2) + 1.0, weights(2), weights(2), tf.abs(weights(2)) + 0.5,
                               is_training=False)[0]
    x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights(1, 1, 2, 6), 2, "SAME"), weights(6)))
    return tf.squeeze(tf.transpose(tf.nn.max_pool2d(x, 2, 2, "VALID"), [0, 3, 1, 2]))


def const_data_inputs(x):
    """base_test ConstDataInputMultipleEnginesTest."""
    c = tf.constant([1.0, 2.0])
    first = c * (x + 1.0)
    return tf.math.digamma(tf.abs(first) + 1.0) * c + 1.0


def conv2d(x):
    """conv2d_test: strides, dilations, and a depthwise one, of either padding."""
    x = tf.nn.conv2d(x, weights(3, 3, 3, 4), 1, "SAME", dilations=2) * 2.0
    x = tf.nn.depthwise_conv2d(x, weights(3, 3, 4, 2), [1, 2, 2, 1], "VALID")
    return tf.nn.conv2d_transpose(tf.nn.relu(x), weights(2, 2, 5, 8), [13, 12, 12, 5], 2, "SAME")


def data_dependent_shape(x):
    """data_dependent_shape_test: how many elements there are, a run says."""
    positive = tf.boolean_mask(tf.reshape(x * 2.0, [-1]), tf.reshape(x, [-1]) > 0.0)
    return tf.reduce_sum(tf.exp(-positive) * 2.0 + 1.0)


def dynamic_input_shapes(x):
    """dynamic_input_shapes_test: no size but the channels' is known."""
    x = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 1, 2), 1, "SAME") + weights(2))
    return tf.squeeze(tf.nn.conv2d(x, weights(3, 3, 2, 1), 1, "SAME"), [3]) * 2.0


def memory_alignment(x):
    """memory_alignment_test: weights and images of odd sizes."""
    x = tf.nn.conv2d(x, weights(3, 5, 3, 3), 1, "VALID")
    x = v1.nn.fused_batch_norm(tf.nn.bias_add(x, weights(3)), weights(3) + 1.0, weights(3), weights(3),
                               tf.abs(weights(3)) + 0.5, is_training=False)[0]
    return tf.nn.conv2d(tf.nn.relu(x), weights(1, 1, 3, 7), 1, "SAME") + 1.0


def engine_op_shape(x):
    """trt_engine_op_shape_test: TensorFlow knows the shapes of what engines give."""
    x = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 2, 4), 2, "SAME"))
    return tf.reshape(x, [-1, int(np.prod(x.shape[1:]))]) * 0.5


GRAPHS = {
    "SimpleSingleEngine": Graph(single_engine, [[100, 24, 24, 2]], 1),
    "SimpleMultiEngines": Graph(multi_engines, [[100, 24, 24, 2]], 2),
    "ConstInput": Graph(const_input, [[10, 24, 24, 2]], 2),
    "ConstDataInput": Graph(const_data_input, [[4, 2]], 1),
    "ControlDependency": Graph(control_dependency, [[2, 32, 32, 3]], 2),
    "BatchMatMul": Graph(batch_matmul, [[12, 5, 5]], 1),
    "BiasaddMatMul": Graph(biasadd_matmul, [[4, 48]], 1),
    "RankTwo": Graph(rank_two, [[12, 5], [12, 5, 2, 2]], 2),
    "BinaryTensorWeightBroadcast": Graph(binary_broadcast, [[10, 3, 24, 24]], 16),
    "ConstBroadcast": Graph(const_broadcast, [[5, 12, 12, 2]], 1),
    "Bool": Graph(booleans, [[4, 5]], 1),
    "Cast": Graph(casts, [[1, 40]], 1),
    "Int32": Graph(int32, [[100, 40]], 1),
    "Concatenation": Graph(concatenation, [[2, 3, 4]], 1),
    "ReshapeTranspose": Graph(reshape_transpose, [[None, 24, 48]], 1),
    "TopK": Graph(top_k, [[100, 20]], 1, ["output_0", "output_1"]),
    "Unary": Graph(unary, [[12, 5, 8, 1, 1, 12, 1]], 1),
    "Resize": Graph(resize, [[4, 8, 8, 2]], 1),
    "IdentityOutput": Graph(identity_output, [[100, 32]], 1, [f"output_{i}" for i in range(3)]),
    "ShapeOutput": Graph(shape_output, [[None, None, 5]], 1, ["output_0", "output_1"]),
    "MultiConnectionNeighborEngine": Graph(neighbors, [[2, 7, 7, 2]], 2),
    "NeighboringEngine": Graph(neighboring, [[2, 8, 7, 2]], 2),
    "TrtMode": Graph(squeezed_batch, [[1, 12, 5]], 1),
    "ConstDataInputMultipleEngines": Graph(const_data_inputs, [[4, 2]], 2),
    "Conv2D": Graph(conv2d, [[13, 13, 13, 3]], 1),
    "DataDependentShape": Graph(data_dependent_shape, [[3, 5]], 2),
    "DynamicInputShapes": Graph(dynamic_input_shapes, [[None, None, None, 1]], 1),
    "MemoryAlignment": Graph(memory_alignment, [[2, 15, 15, 3]], 1),
    "EngineOpShape": Graph(engine_op_shape, [[5, 24, 24, 2]], 1),
    "VGGBlockNCHW": Graph(vgg_block_nchw, [[5, 2, 8, 8]], 1),
    "VGGBlock": Graph(vgg_block, [[5, 8, 8, 2]], 1),
}
