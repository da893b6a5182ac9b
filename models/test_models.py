# SPDX-License-Identifier: Apache-2.0
"""Checks of the model scripts: python -m unittest discover -s models."""

import json
import math
import os
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

import minilm
import networks
import wordpiece
from network_builder import save_model

SENTENCES = ["A compiler turns a trained network into an engine.",
             "The cat sat on the mat, didn't it?",
             "Grafting joins a twig to another tree's root."]


def run(model, inputs):
    """Runs a model proto in ONNX Runtime and names its outputs."""
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def minilm_inputs(texts):
    vocabulary = os.path.join(minilm.package_folder(), "vocab.txt")
    arrays = wordpiece.WordPiece.from_file(vocabulary).batch(texts, minilm.MAX_LENGTH)
    return dict(zip(("input_ids", "attention_mask", "token_type_ids"), arrays))


def numpy_embedding(weights, ids):
    """The encoder in float64, one sentence at a time without padding: no mask is needed."""
    def linear(x, name):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x / scale * weights[name + ".weight"] + weights[name + ".bias"]

    erf = np.vectorize(math.erf)
    tables = "embeddings.{}_embeddings.weight".format
    x = norm(weights[tables("word")][ids] + weights[tables("position")][:len(ids)]
             + weights[tables("token_type")][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{index}." for index in range(6)):
        query, key, value = (
            linear(x, f"{layer}attention.self.{part}").reshape(len(ids), 12, 32).swapaxes(0, 1)
            for part in ("query", "key", "value"))
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(32))
        context = scores / scores.sum(-1, keepdims=True) @ value
        context = linear(context.swapaxes(0, 1).reshape(x.shape), layer + "attention.output.dense")
        x = norm(context + x, layer + "attention.output.LayerNorm")
        inner = linear(x, layer + "intermediate.dense")
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(linear(inner, layer + "output.dense") + x, layer + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


class MiniLm(unittest.TestCase):
    def test_embeds_padded_sentences_as_numpy_embeds_each_alone(self):
        inputs = minilm_inputs(SENTENCES)
        file = os.path.join(minilm.package_folder(), "model.safetensors")
        weights = {name: array.astype(np.float64) for name, array in load_file(file).items()}
        expected = np.stack([numpy_embedding(weights, ids[mask == 1]) for ids, mask in
                             zip(inputs["input_ids"], inputs["attention_mask"])])
        for fused in (False, True):
            got = run(minilm.build(fused), inputs)["sentence_embedding"]
            np.testing.assert_allclose(got, expected, atol=2e-6)
        self.assertGreater(np.abs(expected[0] - expected[1]).max(), 0.1 * np.ptp(expected))

    def test_finds_sentences_of_like_meaning_nearest(self):
        texts = ["A man is eating food.", "Someone has a meal.", "The stock market fell today."]
        embedding = run(minilm.build(), minilm_inputs(texts))["sentence_embedding"]
        likeness = embedding @ embedding.T
        self.assertGreater(likeness[0, 1], likeness[0, 2] + 0.3)

    def test_fused_form_has_no_decomposed_operators(self):
        operators = {node.op_type for node in minilm.build(fused=True).graph.node}
        self.assertTrue({"LayerNormalization", "Gelu"} <= operators)
        self.assertFalse({"Erf", "Pow", "ReduceMean"} & operators)


class Tokenizer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = minilm.package_folder()
        cls.tokenizer = wordpiece.WordPiece.from_file(os.path.join(folder, "vocab.txt"))
        with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
            cls.rules = json.load(file)

    def test_follows_the_rules_that_the_package_states(self):
        normalizer, model = self.rules["normalizer"], self.rules["model"]
        self.assertEqual(normalizer, {"type": "BertNormalizer", "clean_text": True,
                                      "handle_chinese_chars": True, "strip_accents": None,
                                      "lowercase": True})
        self.assertEqual(self.rules["pre_tokenizer"], {"type": "BertPreTokenizer"})
        self.assertEqual(model["max_input_chars_per_word"], wordpiece.MAX_WORD_CHARACTERS)
        self.assertEqual(model["vocab"], {token: index for index, token
                                          in enumerate(self.tokenizer.tokens_)})
        special = {token["content"] for token in self.rules["added_tokens"]}
        self.assertEqual(special, set(wordpiece.SPECIAL_TOKENS))

    def test_splits_words_into_known_pieces(self):
        for text, tokens in [
                ("Hello, World!", "hello , world !"),
                ("naïve CAFÉ", "naive cafe"),
                ("unaffable", "una ##ffa ##ble"),
                ("中文ok", "中 文 ok"),
                ("a\u200bb\x00c\td", "abc d"),
                ("$5=<x>", "$ 5 = < x >"),
                ("ΟΔΟΣ", "ο ##δ ##ο ##σ"),
                ("[MASK] [mask]", "[MASK] [ mask ]"),
                ("x" * 101 + " y", "[UNK] y"),
                ("", "")]:
            with self.subTest(text):
                ids = self.tokenizer.encode(text)
                self.assertEqual(self.tokenizer.tokens(ids), ["[CLS]", *tokens.split(), "[SEP]"])

    def test_cuts_and_pads_to_one_length(self):
        ids, mask, types = self.tokenizer.batch(["one two three four", "one"], max_length=5)
        self.assertEqual(self.tokenizer.tokens(ids[0]), ["[CLS]", "one", "two", "three", "[SEP]"])
        self.assertEqual(self.tokenizer.tokens(ids[1]), ["[CLS]", "one", "[SEP]", "[PAD]", "[PAD]"])
        self.assertEqual(mask.tolist(), [[1] * 5, [1, 1, 1, 0, 0]])
        self.assertEqual(types.any(), False)


class Networks(unittest.TestCase):
    def test_outputs_differ_for_different_inputs(self):
        for name, network in networks.NETWORKS.items():
            with self.subTest(name):
                model = network.build()
                networks.assert_outputs_vary(
                    lambda inputs, model=model: run(model, inputs).values(),
                    *(network.inputs(batch=2, seed=seed) for seed in (1, 2)))

    def test_folding_batch_normalization_keeps_the_result(self):
        for name in ("resnet50", "mobilenet_v2", "efficientnet_b0", "tiny_cnn"):
            with self.subTest(name):
                network = networks.NETWORKS[name]
                inputs = network.inputs(batch=1, seed=1)
                kept = network.build()
                folded = network.build(fold_batch_norm=True)
                operators = [node.op_type for node in folded.graph.node]
                self.assertNotIn("BatchNormalization", operators)
                self.assertIn("BatchNormalization", [node.op_type for node in kept.graph.node])
                expected, = run(kept, inputs).values()
                got, = run(folded, inputs).values()
                self.assertLess(np.abs(got - expected).max(), 1e-4 * np.ptp(expected))

    def test_same_seed_gives_the_same_file_and_another_seed_another(self):
        build = networks.NETWORKS["tiny_mlp"].build
        self.assertEqual(build().SerializeToString(), build().SerializeToString())
        self.assertNotEqual(build().SerializeToString(), build(seed=1).SerializeToString())

    def test_sizes_keep_their_symbols(self):
        for name, symbols in [("resnet50", {"batch"}), ("tiny_transformer", {"batch", "length"})]:
            model = onnx.shape_inference.infer_shapes(networks.NETWORKS[name].build(),
                                                      strict_mode=True)
            found = {size.dim_param for value in model.graph.input
                     for size in value.type.tensor_type.shape.dim if size.dim_param}
            self.assertEqual(found, symbols)

    def test_networks_have_their_published_numbers_of_weights(self):
        published = {"bert_base": 109_482_240, "resnet50": 25_557_032, "vit_b16": 86_567_656,
                     "mobilenet_v2": 3_504_872, "efficientnet_b0": 5_288_548}
        for name, expected in published.items():
            with self.subTest(name):
                count = sum(math.prod(weight.dims)
                            for weight in networks.NETWORKS[name].build().graph.initializer
                            if not weight.name.endswith(("position_ids", "running_mean",
                                                         "running_var")))
                self.assertEqual(count, expected)

    def test_failed_save_leaves_nothing_behind(self):
        model = networks.NETWORKS["tiny_mlp"].build()
        model.graph.node[0].op_type = "NoSuchOperator"
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(onnx.checker.ValidationError):
                save_model(model, os.path.join(folder, "bad.onnx"))
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
