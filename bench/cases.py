# SPDX-License-Identifier: Apache-2.0
"""What `./dev bench cpu|cuda` measures: a network, the sizes it runs at, and its inputs."""

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "models"))

import minilm  # noqa: E402
import network_builder  # noqa: E402
import networks  # noqa: E402
import operator_networks as operators  # noqa: E402
from architectures import ARCHITECTURES  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table; cases with the same model and dims share one Graft plan."""

    name: str
    batch: int
    model: Callable       # () -> path of the ONNX file
    inputs: Callable      # () -> {name: array}
    dims: tuple           # (symbol, lowest, usual, highest) of each symbolic size
    sizes: tuple          # (symbol, size) as run in this case
    gflop: float | None   # of the contractions, a multiply and an add being two; None: not known

    @property
    def label(self):
        """The case and its batch in one word, as --cases matches it."""
        return f"{self.name}/b{self.batch}"


MINILM_DIMS = (("batch", 1, 1, 8), ("length", 1, 128, 256))


def cpu_cases(which="named"):
    """Lists the cases in the order in which they run."""
    if which == "architectures":
        return architecture_cases(1)
    if which == "operators":
        return operator_cases()
    cases = [minilm_case(length, batch) for length in (16, 128, 256) for batch in (1, 8)]
    cases.append(_encoder_case("bert_base", functools.partial(networks.cached_path, "bert_base"),
                               (12, 768, 3072), 128, 1,
                               (("batch", 1, 1, 8), ("length", 1, 128, 512))))
    return cases + [resnet_case(batch) for batch in (1, 8)]


def minilm_case(length, batch, dims=MINILM_DIMS):
    """Lists MiniLM at one size, on a plan for the sizes of `dims`."""
    return _encoder_case("minilm", minilm.cached_path, (6, 384, 1536), length, batch, dims)


def _encoder_case(name, model, sizes, length, batch, dims):
    layers, hidden, inner = sizes
    per_token = 2 * (4 * hidden * hidden + 2 * hidden * inner) + 4 * length * hidden
    inputs = functools.partial(networks.token_inputs, 30522, batch, 1, length, full=True)
    return Case(f"{name}/l{length}", batch, model, inputs, dims,
                (("batch", batch), ("length", length)),
                layers * batch * length * per_token / 1e9)


def cuda_cases(which="named"):
    """Lists what `./dev bench cuda` measures: whole networks with seeded weights, each batch on a plan of its own."""
    if which == "architectures":
        return architecture_cases(1) + architecture_cases(32)
    if which == "operators":  # that torch has as single calls
        return [case for case in operator_cases() if re.match("lstm|nms|roi", case.name)]
    seeded = functools.partial(network_builder.cached, "minilm-seeded", minilm.seeded)
    cases = []
    for batch in (1, 32, 128):
        cases += [_fixed(_encoder_case("minilm", seeded, (6, 384, 1536), 128, batch, ())),
                  _fixed(_encoder_case("bert_base", functools.partial(networks.cached_path, "bert_base"),
                                       (12, 768, 3072), 128, batch, ()))]
        cases += [_image_case(name, batch, gflop)
                  for name, gflop in (("vit_b16", 35.1), ("resnet50", 8.18), ("mobilenet_v2", 0.6))]
    return sorted(cases, key=lambda case: case.name)


def architecture_cases(batch):
    """Lists the architectures that no bench was tuned on, each on a plan for its own sizes."""
    return [_architecture_case(name, 128 * batch if name == "dlrm" else batch) for name in ARCHITECTURES]


def operator_cases():
    """Lists networks of one operator: recurrent layers, what detectors end with, and a loop of 10,000 rounds."""
    cases = []
    for kind, direction in (("LSTM", "forward"), ("LSTM", "bidirectional"), ("GRU", "forward"), ("RNN", "forward")):
        name = kind.lower() + ("_both_ways" if direction == "bidirectional" else "")
        for batch in (1, 32):
            flops = 128 * batch * 2 * 2 * 512 * 512 * operators.GATES[kind] * (2 if "both" in name else 1)
            build = functools.partial(operators.recurrent, kind, batch, direction=direction)
            cases.append(_operator_case(f"{name}_512", build, functools.partial(operators.recurrent_inputs, batch),
                                        batch, flops / 1e9))
    for name, boxes, classes, limit, sides in (("nms_one_class", 5000, 1, 1000, 120), ("nms", 1000, 80, 200, 120),
                                               ("nms_most_kept", 3000, 80, 3000, 12)):
        cases.append(_operator_case(name, functools.partial(operators.suppression, boxes, classes, limit),
                                    functools.partial(operators.suppression_inputs, boxes, classes, sides)))
    cases.append(_operator_case("roi_align", operators.regions, operators.region_inputs))
    cases.append(_operator_case("loop_10000", operators.counting_loop,
                                functools.partial(operators.counting_inputs, 10000)))
    return cases


def _operator_case(name, build, inputs, batch=1, gflop=None):
    model = functools.partial(network_builder.cached, f"{name}-b{batch}", build)
    return Case(name, batch, model, inputs, (), (), gflop)


def _architecture_case(name, batch):
    inputs = functools.partial(ARCHITECTURES[name].inputs, batch, 1)
    known = {"batch": batch, "length": 128}
    sizes = tuple((symbol, known[symbol]) for symbol in ARCHITECTURES[name].symbols)
    return _fixed(Case(name, batch, functools.partial(networks.cached_path, name), inputs, (), sizes, None))


def _fixed(case):
    """The case on a plan for its own sizes only."""
    return dataclasses.replace(case, dims=tuple((symbol, size) for symbol, size in case.sizes))


def _image_case(name, batch, gflop):
    return _fixed(Case(name, batch, functools.partial(networks.cached_path, name),
                       functools.partial(networks.image_inputs, 224, batch, 1), (), (("batch", batch),),
                       gflop * batch))


def resnet_case(batch):
    """Lists ResNet-50 at one batch size."""
    return Case("resnet50", batch, functools.partial(networks.cached_path, "resnet50"),
                functools.partial(networks.image_inputs, 224, batch, 1),
                (("batch", 1, 1, 8),), (("batch", batch),), 8.18 * batch)
