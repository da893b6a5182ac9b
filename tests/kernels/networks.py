# SPDX-License-Identifier: Apache-2.0
"""networks.py: writes the networks whose kernels are compiled, and prints `name path [size=N ...]` of each, the sizes
beside the batch.

Transformers have three layers, the first, the last and one between: more would only repeat their kernels.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "models"))

import bert  # noqa: E402
import minilm  # noqa: E402
import networks  # noqa: E402
import vision_transformer  # noqa: E402
from network_builder import cached  # noqa: E402

LAYERS = 3


def shallow_bert():
    """BERT-base with fewer layers and words."""
    config = dataclasses.replace(bert.BertConfig(), vocab_size=1000, num_hidden_layers=LAYERS)
    return bert.bert("bert", config)


def shallow_vit():
    """ViT-B/16 with fewer layers."""
    config = vision_transformer.VisionTransformerConfig(layers=LAYERS)
    return vision_transformer.VisionTransformerGraph("vit", config, 0, False).model()


def main():
    """Writes what is missing."""
    print("minilm", cached("kernels-minilm", lambda: minilm.seeded(layers=LAYERS)), "length=128")
    print("bert_base", cached("kernels-bert", shallow_bert), "length=128")
    print("vit_b16", cached("kernels-vit", shallow_vit))
    print("resnet50", networks.cached_path("resnet50"))
    print("mobilenet_v2", networks.cached_path("mobilenet_v2"))


if __name__ == "__main__":
    main()
