# SPDX-License-Identifier: Apache-2.0
"""The networks of benches and tests, with seeded random weights under which outputs vary.

    python models/networks.py --list
    python models/networks.py resnet50 -o resnet50.onnx
    python models/networks.py resnet50 --fold-batch-norm   # into the cache; prints the path
    python models/networks.py swin_t --shallow             # each kind of region, fewer layers

NETWORKS are those that benches name and that kernels are kept for; ARCHITECTURES are what strangers may bring.
"""

import argparse
import functools
import sys

import numpy as np

from architectures import ARCHITECTURES
from bert import BertConfig, bert
from mobile_networks import mobilenet_v2
from network_builder import NetworkBuilder, cached, save_model
from network_inputs import Network, image_inputs, row_inputs, token_inputs
from resnet import resnet50, tiny_cnn
from vision_transformer import vit_b16


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
    "bert_base": Network(bert_base, functools.partial(token_inputs, 30522), ("fused",),
                         symbols=("batch", "length")),
    "mobilenet_v2": Network(mobilenet_v2, functools.partial(image_inputs, 224),
                            ("fold_batch_norm",)),
    "efficientnet_b0": ARCHITECTURES["efficientnet_b0"],
    "vit_b16": Network(vit_b16, functools.partial(image_inputs, 224), ("fused",)),
    "tiny_mlp": Network(tiny_mlp, functools.partial(row_inputs, 16)),
    "tiny_cnn": Network(tiny_cnn, functools.partial(image_inputs, 32), ("fold_batch_norm",)),
    "tiny_transformer": Network(
        tiny_transformer,
        functools.partial(token_inputs, TINY_BERT.vocab_size, length=12), ("fused",),
        symbols=("batch", "length")),
}


def find(name):
    """A network of either list."""
    return NETWORKS.get(name) or ARCHITECTURES[name]


def small_path(name):
    """Returns the path of an architecture's small form in the cache."""
    return cached_path(name, shallow=True, **ARCHITECTURES[name].small)


def cached_path(name, **options):
    """Returns the path of a network in the cache, building it first where needed."""
    suffix = "".join(f"-{key}" + ("" if value is True else f"-{value}")
                     for key, value in sorted(options.items()) if value)
    return cached(name + suffix, lambda: find(name).build(**options))


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
    parser.add_argument("network", nargs="?", choices=sorted({**NETWORKS, **ARCHITECTURES}), help="which one")
    parser.add_argument("--list", action="store_true", help="name the networks and stop")
    parser.add_argument("-o", "--output", help="the ONNX file to write (default: the cache)")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument("--fold-batch-norm", action="store_true",
                        help="merge BatchNormalization into the convolutions")
    parser.add_argument("--fused", action="store_true",
                        help="emit LayerNormalization and Gelu as single nodes")
    parser.add_argument("--shallow", action="store_true",
                        help="fewer layers, of which none is of another kind")
    options = parser.parse_args()
    if options.list:
        print("\n".join({**NETWORKS, **ARCHITECTURES}))
        return
    if options.network is None:
        parser.error("name a network; --list shows them")
    chosen = {"seed": options.seed}
    for name in ("fold_batch_norm", "fused"):
        if getattr(options, name):
            if name not in find(options.network).options:
                parser.error(f"{options.network} has no --{name.replace('_', '-')}")
            chosen[name] = True
    if options.shallow:
        if not find(options.network).shallow:
            parser.error(f"{options.network} has no --shallow")
        chosen["shallow"] = True
    if options.output is None:
        print(cached_path(options.network, **chosen))
        return
    save_model(find(options.network).build(**chosen), options.output)
    print(options.output)


if __name__ == "__main__":
    sys.exit(main())
