# SPDX-License-Identifier: Apache-2.0
"""Types that only a run of the method tells: behind objects, writes into parts, and operators that look at data."""

from typing import List

import torch
from conftest import FAST, close, trained

import graft.torch
from graft.torch import Input, script


class Ragged(torch.nn.Module):
    """As detectors do: pictures of several sizes are written into one batch, and the first call says something."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 5)
        self.calls = 0

    def forward(self, pictures: List[torch.Tensor]):
        """Classes of each."""
        self.calls += 1
        if self.calls == 1:
            print("the first call")
        height, width = 0, 0
        for picture in pictures:
            height = max(height, picture.size(1))
            width = max(width, picture.size(2))
        batch = pictures[0].new_full([len(pictures), 3, height, width], 0.0)
        for index, picture in enumerate(pictures):
            batch[index, :, :picture.size(1), :picture.size(2)].copy_(picture)
        x = torch.relu(self.second(torch.relu(self.first(batch))))
        return self.head(x.mean((2, 3)))


def pictures_of(*sizes):
    """One of each size."""
    generator = torch.Generator().manual_seed(len(sizes))
    return [torch.rand(3, *size, generator=generator) for size in sizes]


def test_an_engine_behind_a_batch_of_pictures_takes_any_number_and_size_of_them(capfd):
    net = trained(Ragged())
    module = torch.jit.script(net)
    made, report = script.compile_with_report(module, [pictures_of((8, 6), (5, 9))], **FAST)
    assert (report.engines, report.fallbacks, report.warnings) == (1, 0, [])
    assert "stays: aten::conv2d" not in report.text
    assert "the first call" not in capfd.readouterr().out
    assert (module.calls, made.calls) == (0, 0)
    before = graft.torch.fallback_count()
    for sizes in [((8, 6), (5, 9)), ((4, 4),), ((3, 5), (12, 2), (7, 7))]:
        close(made(pictures_of(*sizes)), net(pictures_of(*sizes)))
    assert made.calls == 3
    assert graft.torch.fallback_count() == before


class ByData(torch.nn.Module):
    """Has an axis more where its elements are large, other elements where one is larger still, and refuses negative
    ones."""

    def forward(self, x):
        """The engine's part is behind."""
        sizes: List[int] = [x.numel()]
        if bool(x.sum() < 0.0):
            raise ValueError("none of them may be negative")
        if bool(x.sum() > 100.0):
            sizes = [2, x.numel() // 2]
        if bool(x.max() > 1000.0):
            x = x.double()
        x = torch.digamma(x + 1.5).reshape(sizes)
        return torch.relu(torch.tanh(x) * 2.0)


def test_a_tensor_of_another_rank_or_type_than_was_seen_runs_in_torch_and_is_counted():
    made, report = script.compile_with_report(torch.jit.script(ByData().eval()), [Input((4, 6), torch.float32)],
                                              exclude_ops=["aten::sum", "aten::max"], minimum_size=2, **FAST)
    assert (report.engines, report.warnings) == (1, [])
    small, large = torch.rand(4, 6), torch.rand(4, 6) * 100
    before = graft.torch.fallback_count()
    close(made(small), ByData()(small))
    assert graft.torch.fallback_count() == before
    close(made(large), ByData()(large))
    assert graft.torch.fallback_count() == before + 1
    large[0, 0] = 2000
    assert ByData()(large).dtype == torch.float64
    close(made(large), ByData()(large))
    assert graft.torch.fallback_count() == before + 2


def test_a_method_that_refuses_sample_inputs_is_divided_by_what_is_known_without_a_run():
    given = Input((4, 6), torch.float32, tensor_domain=(-2.0, -1.0))
    made, report = script.compile_with_report(torch.jit.script(ByData().eval()), [given],
                                              exclude_ops=["aten::sum", "aten::max"], minimum_size=2, **FAST)
    assert report.engines == 0
    assert any("none of them may be negative" in warning for warning in report.warnings), report.warnings
    close(made(torch.ones(4, 6)), ByData()(torch.ones(4, 6)))
