# SPDX-License-Identifier: Apache-2.0
"""Recommendation: mostly rows gathered from large tables."""

import numpy as np

from activations import relu
from network_builder import NetworkBuilder
from seeded_layers import gemm_layer, parameter, random_array

DENSE, TABLES, ROWS, WIDTH = 13, 26, 10000, 16


def dlrm(seed=0, shallow=False):
    """DLRM in the sizes for Criteo's Kaggle data, tables cut to 10,000 rows (Naumov et al. 2019, arXiv:1906.00091)."""
    net = NetworkBuilder("dlrm", seed=seed)
    x = net.input("dense", np.float32, ["batch", DENSE])
    sparse = net.input("sparse", np.int64, ["batch", TABLES])
    x = _layers(net, x, (DENSE, 512, 256, 64, WIDTH), "bottom")
    rows = [net.op("Unsqueeze", x, net.constant([1], np.int64))]
    for index in range(TABLES):
        table = parameter(net, f"tables.{index}", random_array(net, f"tables.{index}", (ROWS, WIDTH), fan_in=1))
        chosen = net.op("Gather", sparse, net.constant(index, np.int64), axis=1)
        rows.append(net.op("Unsqueeze", net.op("Gather", table, chosen, axis=0), net.constant([1], np.int64)))
    joint = net.op("Concat", *rows, axis=1)
    products = net.op("MatMul", joint, net.op("Transpose", joint, perm=[0, 2, 1]))
    lower = np.array([row * (TABLES + 1) + column for row in range(TABLES + 1) for column in range(row)], np.int64)
    flat = net.reshape(products, [-1, (TABLES + 1) ** 2])
    pairs = net.op("Gather", flat, net.weight("pairs", lower), axis=1)
    pairs = net.op("Mul", pairs, net.constant(1 / np.sqrt(WIDTH)))
    x = _layers(net, net.op("Concat", x, pairs, axis=1), (WIDTH + len(lower), 512, 256), "top")
    x = net.op("Sigmoid", gemm_layer(net, x, 256, 1, "top.2"))
    net.output("output", x, np.float32, ["batch", 1])
    return net.model()


def _layers(net, x, sizes, name):
    """Linear layers, each with ReLU."""
    with net.scope(name):
        for index, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
            x = relu(net, net.op("Mul", gemm_layer(net, x, fan_in, fan_out, str(index)), net.constant(1.4)))
    return x
