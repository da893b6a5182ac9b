# SPDX-License-Identifier: Apache-2.0
"""The networks of benches and tests, with seeded random weights under which outputs vary.

    python models/networks.py --list
    python models/networks.py resnet50 -o resnet50.onnx
    python models/networks.py resnet50 --fold-batch-norm   # into the cache; prints the path
"""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable

import numpy as np

from bert import BertConfig, bert
from mobile_networks import efficientnet_b0, mobilenet_v2
from network_builder import NetworkBuilder, cached, save_model
from resnet import resnet50, tiny_cnn
from vision_transformer import vit_b16


@dataclasses.dataclass(frozen=True)
class Network:
    """A network that can be built (`build(seed=0, ...)`) and fed (`inputs(batch=1, seed=0)`)."""

    build: Callable
    inputs: Callable
    options: tuple = ()


def image_inputs(size, batch=1, seed=0):
    """Random images with large forms and fine noise, as photographs have; variance about 1."""
    generator = np.random.default_rng(seed)
    coarse = generator.standard_normal((batch, 3, 8, 8), dtype=np.float32)
    position = np.linspace(0, 6.999, size, dtype=np.float32)
    low, share = position.astype(int), position % 1
    rows = (coarse[:, :, low].transpose(0, 1, 3, 2) * (1 - share)
            + coarse[:, :, low + 1].transpose(0, 1, 3, 2) * share)
    forms = rows[:, :, low].transpose(0, 1, 3, 2) * (1 - share) \
        + rows[:, :, low + 1].transpose(0, 1, 3, 2) * share
    noise = generator.standard_normal((batch, 3, size, size), dtype=np.float32)
    return {"input": np.ascontiguousarray(forms + np.float32(0.5) * noise)}


def token_inputs(vocabulary, batch=1, seed=0, length=128, full=False):
    """Random tokens; rows after the first are padded to differing lengths unless `full`."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(0, vocabulary, (batch, length))
    lengths = np.full(batch, length)
    if not full:
        lengths[1:] = generator.integers((length + 1) // 2, length + 1, batch - 1)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask,
            "token_type_ids": np.zeros((batch, length), np.int64)}


def row_inputs(width, batch=1, seed=0):
    """Rows of standard normal values."""
    values = np.random.default_rng(seed).standard_normal((batch, width), dtype=np.float32)
    return {"input": values}


def tiny_mlp(seed=0, sizes=(16, 32, 32, 8)):
    """Linear layers with ReLU between, input `input` (batch, 16), output `output` (batch, 8)."""
    net = NetworkBuilder("tiny_mlp", seed=seed)
    x = net.input("input", np.float32, ["batch", sizes[0]])
    for index, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        with net.scope(f"fc{index}"):
            x = net.op("Relu", x) if index else x
            weight = net.random(net.path("weight")).standard_normal((fan_out, fan_in))
            weight = (weight * np.sqrt((2 if index else 1) / fan_in)).astype(np.float32)
            bias = 0.1 * net.random(net.path("bias")).standard_normal(fan_out)
            x = net.op("Gemm", x, net.weight("weight", weight),
                       net.weight("bias", bias.astype(np.float32)), transB=1)
    net.output("output", x, np.float32, ["batch", sizes[-1]])
    return net.model()


TINY_BERT = BertConfig(vocab_size=101, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                       intermediate_size=64, max_position_embeddings=64)


def tiny_transformer(seed=0, fused=False):
    """BERT with two layers of 32 channels, lengths up to 64."""
    return bert("tiny_transformer", TINY_BERT, seed, fused)


def bert_base(seed=0, fused=False):
    """BERT-base, 12 layers of 768 channels."""
    return bert("bert_base", seed=seed, fused=fused)


NETWORKS = {
    "resnet50": Network(resnet50, functools.partial(image_inputs, 224), ("fold_batch_norm",)),
    "bert_base": Network(bert_base, functools.partial(token_inputs, 30522), ("fused",)),
    "mobilenet_v2": Network(mobilenet_v2, functools.partial(image_inputs, 224),
                            ("fold_batch_norm",)),
    "efficientnet_b0": Network(efficientnet_b0, functools.partial(image_inputs, 224),
                               ("fold_batch_norm",)),
    "vit_b16": Network(vit_b16, functools.partial(image_inputs, 224), ("fused",)),
    "tiny_mlp": Network(tiny_mlp, functools.partial(row_inputs, 16)),
    "tiny_cnn": Network(tiny_cnn, functools.partial(image_inputs, 32), ("fold_batch_norm",)),
    "tiny_transformer": Network(
        tiny_transformer,
        functools.partial(token_inputs, TINY_BERT.vocab_size, length=12), ("fused",)),
}


def cached_path(name, **options):
    """Returns the path of a network in the cache, building it first where needed."""
    suffix = "".join(f"-{key}" + ("" if value is True else f"-{value}")
                     for key, value in sorted(options.items()) if value)
    return cached(name + suffix, lambda: NETWORKS[name].build(**options))


def assert_outputs_vary(run, first_inputs, second_inputs):
    """Fails unless two inputs give outputs that differ by over 10 % of the output's range."""
    for index, (first, second) in enumerate(zip(run(first_inputs), run(second_inputs))):
        value_range = max(np.ptp(first), np.ptp(second))
        difference = np.abs(np.asarray(first) - np.asarray(second)).max()
        if not np.isfinite(value_range) or difference <= 0.1 * value_range:
            raise AssertionError(f"output {index}: two inputs differ by {difference:.3g}, "
                                 f"not over 10 % of the range {value_range:.3g}")


def main():
    """Writes one network where asked, or into the cache, and prints where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", choices=sorted(NETWORKS), help="which one")
    parser.add_argument("--list", action="store_true", help="name the networks and stop")
    parser.add_argument("-o", "--output", help="the ONNX file to write (default: the cache)")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument("--fold-batch-norm", action="store_true",
                        help="merge BatchNormalization into the convolutions")
    parser.add_argument("--fused", action="store_true",
                        help="emit LayerNormalization and Gelu as single nodes")
    options = parser.parse_args()
    if options.list:
        print("\n".join(NETWORKS))
        return
    if options.network is None:
        parser.error("name a network; --list shows them")
    chosen = {"seed": options.seed}
    for name in ("fold_batch_norm", "fused"):
        if getattr(options, name):
            if name not in NETWORKS[options.network].options:
                parser.error(f"{options.network} has no --{name.replace('_', '-')}")
            chosen[name] = True
    if options.output is None:
        print(cached_path(options.network, **chosen))
        return
    save_model(NETWORKS[options.network].build(**chosen), options.output)
    print(options.output)


if __name__ == "__main__":
    sys.exit(main())
