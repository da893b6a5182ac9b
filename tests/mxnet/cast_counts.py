# SPDX-License-Identifier: Apache-2.0
"""Casts of graft.amp beside those of MXNet's own amp over its model zoo: `python tests/mxnet/cast_counts.py` in MXNet's
environment writes the table of docs/AMP.md. Symbols alone are converted: what does not follow from the contents of
weights."""

import json
import pathlib
import sys
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mxnet as mx
    from mxnet.contrib import amp
import numpy as np

import graft.amp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))
import tables  # noqa: E402

NETWORKS = ["alexnet", "densenet121", "inceptionv3", "mobilenet1.0", "mobilenetv2_1.0", "resnet18_v1", "resnet18_v2",
            "resnet50_v1", "resnet50_v2", "resnet152_v1", "squeezenet1.0", "vgg16", "vgg16_bn"]
KINDS = ["float16", "bfloat16"]
HEADING = ["network", "type", "here", "1.9.1, `cast_optional_params=True`", "1.9.1, default",
           "operators of another type than with 1.9.1"]


def symbol_of(name):
    """Of a network of the zoo, which has no weights yet."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=1000)
    return net(mx.sym.var("data"))


def cast_count(symbol):
    """amp_cast and amp_multicast."""
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
    return sum(node["op"] in ("amp_cast", "amp_multicast") for node in nodes)


def types_of(symbol):
    """{operator's node: the type of its first result}, casts aside."""
    internals = symbol.get_internals()
    _, types, _ = internals.infer_type(data=np.float32)
    named = dict(zip(internals.list_outputs(), types))
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
    return {node["name"]: named.get(f"{node['name']}_output", named.get(f"{node['name']}_output0")) for node in nodes
            if node["op"] != "null" and not node["op"].startswith("amp_")}


def row(name, kind):
    """The table's."""
    symbol = symbol_of(name)
    here = graft.amp.convert_symbol(symbol, kind, data_names=["data"])
    own = amp.convert_symbol(symbol, kind, data_names=["data"], cast_optional_params=True)
    default = amp.convert_symbol(symbol, kind, data_names=["data"])
    ours, theirs = types_of(here), types_of(own)
    assert set(ours) == set(theirs)
    other = [node for node, type_ in ours.items() if type_ != theirs[node]]
    return [name, kind, *(str(cast_count(each)) for each in (here, own, default)), str(len(other))]


def table():
    """As docs/AMP.md has it."""
    return tables.table(HEADING, [row(name, kind) for name in NETWORKS for kind in KINDS])


if __name__ == "__main__":
    page = ROOT / "docs" / "AMP.md"
    page.write_text(tables.with_block(page.read_text(), "casts", table()))
