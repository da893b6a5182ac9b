# SPDX-License-Identifier: Apache-2.0
"""Checks of the architectures: python -m unittest discover -s models."""

import math
import unittest

import numpy as np
import onnx

import networks
from architectures import ARCHITECTURES
from test_models import run

# Weights of the published networks, as their authors or torchvision and timm count them.
PUBLISHED = {"mobilenet_v3_large": 5_483_032, "shufflenet_v2": 2_278_604, "swin_t": 28_288_354,
             "swin_v2_t": 28_351_570, "cait_xxs24": 11_956_264, "xcit_tiny12": 6_716_272, "levit_128s": 7_391_290,
             "convnext_t": 28_589_128, "poolformer_s12": 11_915_176, "mixer_s16": 18_528_264,
             "edgenext_small": 5_586_832, "mobilevit_s": 5_578_632, "densenet121": 7_978_856,
             "deeplab_v3": 39_638_869, "bit_r50x1": 25_549_352, "hrnet_w18_small": 13_187_464,
             "smollm_135m": 134_515_008, "t5_small_encoder": 35_330_816, "gpt2": 124_439_808,
             "whisper_tiny": 37_760_640}
# What is no weight: positions, masks, and statistics of normalisations.
NOT_TRAINED = ("running_mean", "running_var", "one", "zero", "relative_position_index", "attn_mask", "positions",
               "relative_coords_table", "attention_bias_idxs", "inv_freq", "pairs", "causal")


def small_model(network):
    """The form in which results are compared."""
    return network.build(shallow=True, **network.small)


class Architectures(unittest.TestCase):
    def test_outputs_differ_for_different_inputs(self):
        for name, network in ARCHITECTURES.items():
            with self.subTest(name):
                model = small_model(network)
                networks.assert_outputs_vary(lambda inputs, model=model: run(model, inputs).values(),
                                             *(network.small_inputs(batch=2, seed=seed) for seed in (1, 2)))

    def test_outputs_have_the_declared_shapes(self):
        for name, network in ARCHITECTURES.items():
            with self.subTest(name):
                model, inputs = small_model(network), network.small_inputs(batch=3, seed=1)
                for output, value in zip(model.graph.output, run(model, inputs).values()):
                    declared = [size.dim_value or size.dim_param for size in output.type.tensor_type.shape.dim]
                    self.assertEqual(len(declared), value.ndim)
                    for size, found in zip(declared, value.shape):
                        known = {"batch": 3, "length": next(iter(inputs.values())).shape[-1]}
                        self.assertEqual(known.get(size, size), found)
                    self.assertTrue(np.isfinite(value).all())

    def test_rows_of_a_batch_are_independent(self):
        for name, network in ARCHITECTURES.items():
            with self.subTest(name):
                model, inputs = small_model(network), network.small_inputs(batch=3, seed=1)
                whole = run(model, inputs)
                rest = run(model, {key: value[1:] for key, value in inputs.items()})
                for output, value in rest.items():
                    share = np.abs(whole[output][1:] - value).max() / np.ptp(value)
                    self.assertLess(share, 1e-4)

    def test_shallow_forms_have_the_kinds_of_nodes_of_whole_ones(self):
        for name, network in ARCHITECTURES.items():
            with self.subTest(name):
                whole, shallow = (network.build(shallow=form) for form in (False, True))
                kinds = [{node.op_type for node in model.graph.node} for model in (whole, shallow)]
                self.assertEqual(*kinds)
                self.assertLess(len(shallow.graph.node), len(whole.graph.node) + 1)
                if name in PUBLISHED:
                    self.assertEqual(_weights_of(whole), PUBLISHED[name])

    def test_every_architecture_names_its_paper(self):
        for name, network in ARCHITECTURES.items():
            with self.subTest(name):
                self.assertRegex(network.build.__doc__, r"(19|20)\d\d")


def _weights_of(model):
    onnx.checker.check_model(model.SerializeToString() if model.ByteSize() < 1 << 30 else model)
    return sum(math.prod(weight.dims) for weight in model.graph.initializer
               if weight.name.rsplit(".", 1)[-1] not in NOT_TRAINED)


if __name__ == "__main__":
    unittest.main()
