# SPDX-License-Identifier: Apache-2.0
"""Views, strides and storage of what goes through engines, by torch.compile and torch.export; sizes that vary."""

import pytest
import torch
import torch.nn.functional as F
from conftest import FAST, close

import graft.torch

torch.manual_seed(0)
IMAGE = torch.randn(2, 6, 5, 4)
CHANNELS_LAST = IMAGE.to(memory_format=torch.channels_last)
CONV = torch.nn.Conv2d(6, 8, 3, padding=1).to(memory_format=torch.channels_last).eval()


def compiled(function, **more):
    return torch.compile(function, backend="graft", options={**FAST, "strict": True}, **more)


def leaves(results):
    return [each for each in torch.utils._pytree.tree_leaves(results) if isinstance(each, torch.Tensor)]


def wide_strides(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size != 1]


def same_memory(results, expected):
    """Strides, and who shares memory with whom."""
    results, expected = leaves(results), leaves(expected)
    for one, other in zip(results, expected, strict=True):
        assert wide_strides(one) == wide_strides(other)
        close(one, other)

    def sharing(tensors):
        addresses = [each.untyped_storage().data_ptr() for each in tensors]
        return [addresses.index(each) for each in addresses]
    assert sharing(results) == sharing(expected)


LAYOUTS = {
    "convolution": (CONV, CHANNELS_LAST),
    "element_wise": (torch.relu, CHANNELS_LAST),
    "interpolated": (lambda x: F.interpolate(x, size=(7, 9)), CHANNELS_LAST),
    "padded": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), CHANNELS_LAST),
    "transposed_product": (lambda x: (x @ x.mT).mT * 2, IMAGE[0]),
    "permuted": (lambda x: torch.relu(x).permute(2, 0, 1), IMAGE[0]),
    "expanded": (lambda x: torch.relu(x).mean(1, keepdim=True).expand(-1, 9, -1), IMAGE[0]),
    "split": (lambda x: torch.relu(x).split(3, 1), IMAGE[0]),
    "part": (lambda x: torch.relu(x)[1:, :2], IMAGE[0]),
    "result_and_views_of_it": (lambda x: (lambda y: (y, y[1:], y.mT))(x @ x.mT), IMAGE[0]),
    "views_of_one_result": (lambda x: (lambda y: (y[1:], y.mT))(x @ x.mT), IMAGE[0]),
    "the_same_twice": (lambda x: (lambda y: (y, y, y + 1))(torch.relu(x)), IMAGE[0]),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x).transpose(1, 2), torch.randn(2, 3, 5, 8)),
}


@pytest.mark.parametrize("function, x", LAYOUTS.values(), ids=LAYOUTS)
def test_results_lie_in_memory_as_in_eager_mode(function, x):
    with torch.no_grad():
        same_memory(compiled(function)(x), function(x))


def test_exported_programs_give_the_strides_of_the_trace_also_when_loaded(tmp_path):
    model = torch.nn.Sequential(CONV, torch.nn.ReLU()).eval()
    program = graft.torch.compile(model, [CHANNELS_LAST], **FAST, strict=True)
    graft.torch.save(program, tmp_path / "net.pt2")
    with torch.no_grad():
        for run in (program, graft.torch.load(tmp_path / "net.pt2")):
            same_memory(run(CHANNELS_LAST), model(CHANNELS_LAST))


STORAGE = {
    "of_a_result": lambda x: torch.as_strided(torch.relu(x), (6, 10), (7, 2), 3),
    "of_a_rolled_one": lambda x: torch.as_strided(torch.roll(x, -1, 0), (5, 10), (4, 1), 0),
    "of_a_part": lambda x: torch.relu(x)[1:].as_strided((3, 4), (6, 2)) + 1,
    "of_an_argument": lambda x: torch.as_strided(x, (3, 4), (6, 2), 1) * 2,
    "scattered": lambda x: torch.as_strided_scatter(x.relu(), torch.ones(3, 4), (3, 4), (6, 2), 1),
    "offset": lambda x: x[1:] * F.relu(x)[1:].storage_offset(),
}


@pytest.mark.parametrize("function", STORAGE.values(), ids=STORAGE)
@pytest.mark.parametrize("x", [IMAGE, CHANNELS_LAST], ids=["rows", "channels_last"])
def test_what_is_said_of_storage_is_said_of_torchs_own(function, x):
    with torch.no_grad():
        close(compiled(function)(x), function(x))


def test_writes_to_returned_views_reach_the_argument_and_writes_to_results_do_not_come_back():
    run = compiled(lambda x: (torch.relu(x), x[1:], x.view(-1)))
    with torch.no_grad():
        own = IMAGE.clone()
        first, part, flat = run(own)
        part.zero_()
        assert own[1:].abs().sum() == 0 and flat[own[0].numel():].abs().sum() == 0
        first.zero_()
        close(run(own)[0], torch.relu(own))


OPEN = {
    "halves": lambda x: x.chunk(2),
    "thirds_of_a_result": lambda x: torch.relu(x).tensor_split(3),
    "columns": lambda x: x.hsplit(3),
    "moved_axes": lambda x: x.unflatten(1, (3, 2)).movedim(0, 2),
    "real_part": lambda x: torch.view_as_complex(x.view(x.shape[0], 3, 2)).real,
    "rotary": lambda x: torch.cat([-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]], -1) * 2,
    "guidance": lambda x: (lambda a, b: a + 3 * (b - a))(*torch.relu(x[:6]).chunk(2)),
    "second_half": lambda x: x[x.shape[0] // 2:],
    "one_row": lambda x: x[:1] + x,
    "one_row_of_a_result": lambda x: torch.relu(x)[-1:] * x,
    "one_column": lambda x: torch.relu(x).T[:, :1] + x.T,
}


@pytest.mark.parametrize("function", OPEN.values(), ids=OPEN)
def test_sizes_that_vary_are_views_halves_and_single_rows(function):
    run = compiled(function, dynamic=True)
    before = graft.torch.fallback_count()
    with torch.no_grad():
        for rows in (7, 9, 6, 12):
            x = torch.randn(rows, 6)
            for one, other in zip(leaves(run(x)), leaves(function(x)), strict=True):
                close(one, other)
    assert graft.torch.fallback_count() == before


def test_what_goes_between_devices_or_lies_on_one_without_engines_stays_with_torch():
    def function(x):
        shape = torch.relu(x).to("meta") + 1
        return torch.relu(x) * 2, shape.reshape(-1)

    text = graft.torch.dry_run(function, [IMAGE])
    assert "it goes between devices, cpu and meta" in text and "there are no engines on meta" in text
    torch._dynamo.reset()
    with torch.no_grad():
        result, shape = compiled(function)(IMAGE)
    close(result, torch.relu(IMAGE) * 2)
    assert shape.is_meta and shape.shape == (IMAGE.numel(),)
