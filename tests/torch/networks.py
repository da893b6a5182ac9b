# SPDX-License-Identifier: Apache-2.0
"""Networks of torchvision, timm and transformers in small configurations, with weights that make results vary. No file
is downloaded. `./dev bench torch --table` runs all of them, the tests one of each family."""

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass(frozen=True)
class Network:
    """name, how it is made, what it takes. `whole`: by torch.compile and torch.export all of it is one engine, and a
    test says so when that ends."""

    name: str
    build: Callable
    inputs: Callable
    whole: bool = True


def varied(model, seed=3):
    """Random weights whose results differ from element to element and from input to input, of a usual size: those of
    a fresh network shrink what goes through them, and its normalisations have no statistics yet."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if not tensor.is_floating_point():
                continue
            drawn = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(1 + drawn.abs() * 0.2)
            elif tensor.dim() <= 1 and name.endswith("weight"):
                tensor.copy_(1 + drawn * 0.1)
            elif tensor.dim() <= 1 or "running" in name:
                tensor.copy_(drawn * 0.1)
            elif isinstance(tensor, torch.nn.Parameter):
                tensor.copy_(drawn * (getattr(model, "gain", 2) / tensor[0].numel()) ** 0.5)
    return model.eval()


def damped(build):
    """With smaller weights: in deep networks of residuals that are scaled by gates, others blow rounding errors up
    until fp32 and fp64 differ in the first digit."""
    def built():
        model = build()
        model.gain = 1
        return model
    return built


def image(size=64, batch=1):
    """Pictures."""
    return lambda: (torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1)),)


def pictures(size=64):
    """A list with a picture, as detectors take them."""
    return lambda: ([image(size)()[0][0].sigmoid()],)


def tokens(length=12, batch=2):
    """Numbers of words."""
    return lambda: (torch.randint(5, 90, (batch, length), generator=torch.Generator().manual_seed(1)),)


def vision(name, **settings):
    """A classifier of torchvision."""
    def build():
        import torchvision
        return torchvision.models.get_model(name, weights=None, **settings)
    return build


def small_maxvit():
    """Of torchvision, which has one size only."""
    import torchvision
    return torchvision.models.MaxVit(input_size=(64, 64), stem_channels=16, partition_size=2, head_dim=8,
                                     block_channels=[16, 32, 64, 128], block_layers=[1, 1, 1, 1],
                                     stochastic_depth_prob=0.0)


def segmentation(name):
    """Of torchvision; without pretrained parts."""
    def build():
        import torchvision
        return torchvision.models.get_model(name, weights=None, weights_backbone=None)
    return build


def detector(name, **settings):
    """Of torchvision, whole: from pictures to boxes."""
    def build():
        import torchvision
        return torchvision.models.get_model(name, weights=None, weights_backbone=None, **settings)
    return build


def backbone(name):
    """Of a detector: its results are the pyramid's."""
    return lambda: detector(name)().backbone


def timm_model(name, **settings):
    """Of timm."""
    def build():
        import timm
        return timm.create_model(name, pretrained=False, **settings)
    return build


def transformer(kind, config, *names, attention="sdpa", part=None, **settings):
    """Of transformers, by the names of its class and its configuration's. `names`: of what it takes, unless its first
    argument is all; `part`: the method that gives the part of it that is meant."""
    def build():
        import transformers
        configuration = getattr(transformers, config)(**settings)
        configuration._attn_implementation = attention
        model = getattr(transformers, kind)(configuration)
        return First(getattr(model, part)() if part else model, names)
    return build


class First(torch.nn.Module):
    """A model of transformers as one from tensors to a tensor."""

    def __init__(self, model, names=()):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs):
        """The first result."""
        if self.names:
            return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]
        return self.model(*inputs, return_dict=False)[0]


class Step(torch.nn.Module):
    """A decoder that is given a word and the keys and values of those before, of each layer one after the other."""

    def __init__(self, model, layers):
        super().__init__()
        self.model = model
        self.layers = layers

    def forward(self, word, states, *past):
        """What it says of the next word, and the keys and values with this word's."""
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache
        own = DynamicCache()
        for layer in range(self.layers):
            own.update(past[2 * layer], past[2 * layer + 1], layer)
        cache = EncoderDecoderCache(own, DynamicCache())
        place = torch.arange(past[0].shape[2], past[0].shape[2] + 1)
        said = self.model(input_ids=word, encoder_hidden_states=states, past_key_values=cache, cache_position=place,
                          use_cache=True, return_dict=False)[0]
        return said, *(each for layer in own.layers for each in (layer.keys, layer.values))


def whisper_step():
    """The decoder of Whisper."""
    import transformers
    configuration = transformers.WhisperConfig(**HEARING)
    configuration._attn_implementation = "sdpa"
    return Step(transformers.WhisperModel(configuration).get_decoder(), 2)


def draws(*shapes):
    """Words for shapes of integers, which begin with "words", and random numbers for the others."""
    def inputs():
        generator = torch.Generator().manual_seed(1)
        return tuple(torch.randint(5, 90, shape[1:], generator=generator) if shape[0] == "words"
                     else torch.randn(shape, generator=generator) for shape in shapes)
    return inputs


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {**SMALL, "vocab_size": 100}
PICTURES = {**SMALL, "image_size": 32, "patch_size": 8}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
HEARING = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 100,
           "max_source_positions": 20, "max_target_positions": 24, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2, "decoder_start_token_id": 1}

NETWORKS = (
    Network("alexnet", vision("alexnet"), image()),
    Network("vgg11_bn", vision("vgg11_bn"), image()),
    Network("resnet18", vision("resnet18"), image()),
    Network("resnext50_32x4d", vision("resnext50_32x4d"), image()),
    Network("wide_resnet50_2", vision("wide_resnet50_2"), image()),
    Network("squeezenet1_1", vision("squeezenet1_1"), image()),
    Network("densenet121", vision("densenet121"), image()),
    Network("googlenet", vision("googlenet", aux_logits=False, init_weights=False), image()),
    Network("inception_v3", vision("inception_v3", aux_logits=False, init_weights=False), image(96)),
    Network("mobilenet_v2", vision("mobilenet_v2"), image()),
    Network("mobilenet_v3_small", vision("mobilenet_v3_small"), image()),
    Network("mnasnet0_5", vision("mnasnet0_5"), image()),
    Network("shufflenet_v2_x0_5", vision("shufflenet_v2_x0_5"), image()),
    Network("efficientnet_b0", vision("efficientnet_b0"), image()),
    Network("regnet_y_400mf", vision("regnet_y_400mf"), image()),
    Network("convnext_tiny", vision("convnext_tiny"), image()),
    Network("vit_b_16", vision("vit_b_16", image_size=64), image()),
    Network("swin_t", vision("swin_t"), image()),
    Network("swin_v2_t", vision("swin_v2_t"), image()),
    Network("maxvit", small_maxvit, image()),
    Network("lraspp_mobilenet_v3_large", segmentation("lraspp_mobilenet_v3_large"), image()),
    Network("fcn_resnet50", segmentation("fcn_resnet50"), image()),
    Network("deeplabv3_mobilenet_v3_large", segmentation("deeplabv3_mobilenet_v3_large"), image()),
    Network("fasterrcnn_resnet50_fpn backbone", backbone("fasterrcnn_resnet50_fpn"), image()),
    Network("ssd300_vgg16 backbone", backbone("ssd300_vgg16"), image(300)),
    Network("ssdlite320_mobilenet_v3_large backbone", backbone("ssdlite320_mobilenet_v3_large"), image()),
    Network("retinanet_resnet50_fpn backbone", backbone("retinanet_resnet50_fpn"), image()),
    Network("maskrcnn_resnet50_fpn backbone", backbone("maskrcnn_resnet50_fpn"), image()),
    Network("fasterrcnn_mobilenet_v3_large_320_fpn",
            detector("fasterrcnn_mobilenet_v3_large_320_fpn", min_size=64, max_size=96), pictures(), whole=False),
    Network("ssdlite320_mobilenet_v3_large", detector("ssdlite320_mobilenet_v3_large"), pictures(), whole=False),
    Network("retinanet_resnet50_fpn", detector("retinanet_resnet50_fpn", min_size=64, max_size=96),
            pictures(), whole=False),
    Network("maskrcnn_resnet50_fpn",
            damped(detector("maskrcnn_resnet50_fpn", min_size=64, max_size=96, box_detections_per_img=8)), pictures(),
            whole=False),
    Network("timm resnet50", timm_model("resnet50"), image()),
    Network("timm efficientnet_b0", timm_model("efficientnet_b0"), image()),
    Network("timm mobilenetv3_large_100", timm_model("mobilenetv3_large_100"), image()),
    Network("timm vit_base_patch16_224", timm_model("vit_base_patch16_224", img_size=64, depth=2), image()),
    Network("timm deit_small_patch16_224", timm_model("deit_small_patch16_224", img_size=64, depth=2), image()),
    Network("timm convnext_tiny", timm_model("convnext_tiny"), image()),
    Network("timm swin_tiny_patch4_window7_224", timm_model("swin_tiny_patch4_window7_224", depths=(1, 1, 2, 1)),
            image(224)),
    Network("timm regnety_016", timm_model("regnety_016"), image()),
    Network("timm tf_efficientnetv2_s", damped(timm_model("tf_efficientnetv2_s")), image()),
    Network("timm mixer_b16_224", timm_model("mixer_b16_224", img_size=64), image()),
    Network("BERT", transformer("BertModel", "BertConfig", **WORDS), tokens()),
    Network("RoBERTa", transformer("RobertaModel", "RobertaConfig", **WORDS), tokens()),
    Network("GPT-2", transformer("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, vocab_size=100,
                                 use_cache=False), tokens()),
    Network("T5 encoder", transformer("T5EncoderModel", "T5Config", attention="eager", **T5), tokens()),
    Network("T5", transformer("T5ForConditionalGeneration", "T5Config", "input_ids", "decoder_input_ids",
                              attention="eager", use_cache=False, **T5), draws(("words", 2, 12), ("words", 2, 7))),
    Network("Llama", transformer("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, use_cache=False, **WORDS),
            tokens()),
    Network("ViT", transformer("ViTModel", "ViTConfig", **PICTURES), image(32)),
    Network("CLIP", transformer("CLIPModel", "CLIPConfig", "input_ids", "pixel_values", text_config=WORDS,
                                vision_config=PICTURES, projection_dim=16),
            draws(("words", 2, 12), (3, 3, 32, 32))),
    Network("CLIP's pictures", transformer("CLIPVisionModel", "CLIPVisionConfig", **PICTURES), image(32)),
    Network("CLIP's words", transformer("CLIPTextModel", "CLIPTextConfig", **WORDS), tokens()),
    Network("Whisper encoder", transformer("WhisperModel", "WhisperConfig", part="get_encoder", **HEARING),
            draws((1, 80, 40))),
    Network("Whisper decoder step", whisper_step,
            draws(("words", 1, 1), (1, 20, 32), *[(1, 4, 5, 8)] * 4)),
)
BY_NAME = {network.name: network for network in NETWORKS}


def flat(results):
    """The tensors among a network's results."""
    return [each for each in torch.utils._pytree.tree_leaves(results) if isinstance(each, torch.Tensor)]


def error_of(results, expected):
    """The greatest difference of two networks' results, relative to the largest element of each."""
    pairs = list(zip(flat(results), flat(expected), strict=True))
    return max(float((got - want).abs().max() / want.abs().max()) for got, want in pairs if want.is_floating_point())
