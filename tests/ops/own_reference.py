# SPDX-License-Identifier: Apache-2.0
"""What operators of our own, and random numbers, should give: written in numpy, apart from src/ops."""

import numpy as np
from onnx import helper

STATE_INPUTS = {"RandomNormal": 0, "RandomUniform": 0, "RandomNormalLike": 1, "RandomUniformLike": 1, "Bernoulli": 1,
                "Multinomial": 1, "Dropout": 3}
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(key, count):
    """Philox4x32-10 (Salmon et al. 2011): four arrays of words, at positions 0 to count - 1."""
    position = np.arange(count, dtype=np.uint64)
    x = [position & LOW, position >> HALF, np.zeros_like(position), np.zeros_like(position)]
    key = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> HALF) ^ x[1] ^ key[0], b & LOW, (a >> HALF) ^ x[3] ^ key[1], a & LOW]
        key = [(key[0] + np.uint64(0x9E3779B9)) & LOW, (key[1] + np.uint64(0xBB67AE85)) & LOW]
    return x


def key_of(case, feeds):
    """The key: the bits of the seed, or of the state."""
    seed = case["attributes"].get("seed")
    if seed is None:
        return int(feeds[f"input_{STATE_INPUTS[case['op']]}"]) & 0xFFFFFFFFFFFFFFFF
    return int(np.array(seed, np.float32).view(np.uint32))


def units(words, dtype):
    """Numbers in [0, 1) with as many bits as the type holds."""
    if dtype == np.float64:
        return ((words[0] << HALF | words[1]) >> np.uint64(11)) * 2.0 ** -53
    bits = {np.dtype(np.float16): 11, np.dtype(np.float32): 24}.get(np.dtype(dtype), 8)
    return (words[0] >> np.uint64(32 - bits)).astype(np.float64) * 2.0 ** -bits


def normals(words, dtype):
    """Standard normal numbers (Box and Muller)."""
    if dtype == np.float64:
        first, second = ((words[k] << HALF | words[k + 1]) >> np.uint64(11) for k in (0, 2))
        first, second = first * 2.0 ** -53 + 2.0 ** -54, second * 2.0 ** -53
    else:
        first, second = words[0] * 2.0 ** -32 + 2.0 ** -33, words[1] * 2.0 ** -32
    return np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)


def random_numbers(case, feeds):
    """RandomNormal, RandomUniform and the forms that take a shape from a tensor."""
    attributes = case["attributes"]
    like = feeds.get("input_0") if case["op"].endswith("Like") else None
    shape = attributes["shape"] if like is None else like.shape
    code = attributes.get("dtype", 1 if like is None else None)
    dtype = like.dtype if code is None else helper.tensor_dtype_to_np_dtype(code)
    words = philox(key_of(case, feeds), int(np.prod(shape, dtype=int)))
    if "Normal" in case["op"]:
        drawn = attributes["mean"] + attributes["scale"] * normals(words, dtype)
    else:
        drawn = attributes["low"] + units(words, dtype) * (attributes["high"] - attributes["low"])
    return [drawn.reshape(shape).astype(dtype)]


def bernoulli(case, feeds):
    """1 where a number in [0, 1) is below the probability."""
    p = feeds["input_0"]
    code = case["attributes"].get("dtype")
    dtype = p.dtype if code is None else helper.tensor_dtype_to_np_dtype(code)
    words = philox(key_of(case, feeds), p.size)
    drawn = units(words, np.float64 if p.dtype == np.float64 else np.float32)
    return [(drawn.reshape(p.shape) < p).astype(dtype)]


def multinomial(case, feeds):
    """Where a number falls among the running sums of exp(x)."""
    x, count = feeds["input_0"].astype(np.float64), case["attributes"]["sample_size"]
    dtype = helper.tensor_dtype_to_np_dtype(case["attributes"].get("dtype", 6))
    sums = np.cumsum(np.exp(x - x.max(axis=1, keepdims=True)), axis=1)
    drawn = units(philox(key_of(case, feeds), len(x) * count), np.float64).reshape(len(x), count)
    goals = drawn * sums[:, -1:]
    return [np.array([np.searchsorted(row, goal, side="right") for row, goal in zip(sums, goals)]).astype(dtype)]


def tempered(words):
    """The numbers that MT19937 gives out of words of its state."""
    x = words.astype(np.uint32).reshape(-1)
    x = x ^ x >> np.uint32(11)
    x = x ^ x << np.uint32(7) & np.uint32(0x9D2C5680)
    x = x ^ x << np.uint32(15) & np.uint32(0xEFC60000)
    return x ^ x >> np.uint32(18)


def dropout(case, feeds):
    """Dropout in training, by a state or by words."""
    x, ratio, training = (feeds[f"input_{k}"] for k in range(3))
    if not training:
        raise ValueError("ONNX Runtime knows inference")
    if "input_4" in feeds:
        numbers = tempered(feeds["input_4"])[:2 * x.size].reshape(-1, 2).astype(np.float64)
        drawn = (np.floor(numbers[:, 0] / 32) * 67108864 + np.floor(numbers[:, 1] / 64)) / 9007199254740992
    else:
        drawn = units(philox(key_of(case, feeds), x.size), np.float32)
    mask = drawn.reshape(x.shape) >= ratio.astype(np.float64)
    return [np.where(mask, x / (1 - ratio), 0).astype(x.dtype), mask]


def mersenne_round(_, feeds):
    """numpy's own generator, whose state is read after it has given a number."""
    generator = np.random.MT19937()
    generator.state = {"bit_generator": "MT19937", "state": {"key": feeds["input_0"], "pos": 624}}
    generator.random_raw()
    return [generator.state["state"]["key"].astype(np.uint32)]


def key_place(case, feeds):
    """The place of each element in a list."""
    x, keys = feeds["input_0"], feeds["input_1"].tolist()
    nan = case["attributes"].get("nan_place", -1)
    places = [nan if value != value and nan >= 0 else keys.index(value) if value in keys else len(keys)
              for value in x.reshape(-1).tolist()]
    return [np.array(places, np.int64).reshape(x.shape)]


def masked_softmax(case, feeds):
    """Softmax; 0 where a row has nothing but minus infinity."""
    x, axis = feeds["input_0"], case["attributes"].get("axis", -1)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
        weights = exponentials / exponentials.sum(axis, keepdims=True)
    return [np.where((wide == -np.inf).all(axis, keepdims=True), 0, weights).astype(x.dtype)]


def tree_leaves(case, feeds):
    """Each row down each tree, node by node."""
    x, roots, features, relations, splits, yes, no = (feeds[f"input_{k}"] for k in range(7))
    leaves = np.zeros((len(x), len(roots)), np.int64)
    for row, values in enumerate(x):
        for tree, node in enumerate(roots):
            while yes[node] != node:
                value, split = values[features[node]], splits[node]
                relation = 1 if value < split else 2 if value == split else 4 if value > split else 8
                node = (yes if relations[node] & relation else no)[node]
            leaves[row, tree] = node
    return [leaves]


def packed_product(case, feeds):
    """x times the transposed (code - zero point) scale; without zero points they are half of the range."""
    x, codes, scales = (feeds[f"input_{k}"] for k in range(3))
    bits = case["attributes"].get("bits", 4)
    parts = [(codes >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    numbers = np.stack(parts, axis=-1).reshape(*codes.shape[:2], -1).astype(np.float64)
    zeros = feeds["input_3"].astype(np.float64) if "input_3" in feeds else np.full(scales.shape, 1 << (bits - 1))
    weights = ((numbers - zeros[..., None]) * scales.astype(np.float64)[..., None]).reshape(codes.shape[0], -1)
    return [(x.astype(np.float64) @ weights[:, :x.shape[-1]].T).astype(x.dtype)]


def lookup_table(case, feeds):
    """The table's element for each code, the smallest code first."""
    del case
    codes, table = feeds["input_0"], feeds["input_1"]
    return [table[codes.astype(np.int64) - np.iinfo(codes.dtype).min]]


def matmul_float8(case, feeds):
    """The product of the values, in f64."""
    return [(feeds["input_0"].astype(np.float64) @ feeds["input_1"].astype(np.float64)).astype(np.float32)]


def conv_float8(case, feeds):
    """onnx's own Conv of the values."""
    from onnx.reference.ops.op_conv import Conv
    values = (feeds[name].astype(np.float32) for name in ("input_0", "input_1"))
    return [Conv.eval(*values, **case["attributes"])]


REFERENCES = {"RandomNormal": random_numbers, "RandomUniform": random_numbers, "RandomNormalLike": random_numbers,
              "RandomUniformLike": random_numbers, "Bernoulli": bernoulli, "Multinomial": multinomial,
              "Dropout": dropout, "MersenneRound": mersenne_round, "KeyPlace": key_place, "TreeLeaves": tree_leaves,
              "MaskedSoftmax": masked_softmax, "PackedMatMul": packed_product,
              "LookupTable": lookup_table, "MatMulFloat8": matmul_float8, "ConvFloat8": conv_float8,
              "Require": lambda case, feeds: [feeds["input_0"]],
              "Seed": lambda case, feeds: [np.array(0, np.int64)]}
