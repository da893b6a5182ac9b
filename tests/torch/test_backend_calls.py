# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="graft"): what it is called with, from where, and what it then builds."""

import logging
import sys
import threading

import pytest
import torch
from conftest import FAST, close, compute_wrongly, trained

import graft
import graft.torch


def builds(function):
    """How many engines are built while it runs."""
    built = []
    with pytest.MonkeyPatch.context() as patch:
        original = graft.engine.Engine.__init__
        patch.setattr(graft.engine.Engine, "__init__", lambda *given: (built.append(1), original(*given))[1])
        function()
    return len(built)


def dynamic(model, **options):
    """Compiled with symbols for sizes."""
    return torch.compile(model, backend="graft", options={**FAST, "strict": True, **options}, dynamic=True)


def test_sizes_inside_of_their_ranges_build_nothing(split, image):
    fast = torch.compile(split, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        assert builds(lambda: fast(image)) == 2
        assert builds(lambda: fast(torch.cat([image, image]))) == 2  # a second size: from now on torch has a symbol

        def others():
            for batch in (3, 2, 3, 2, 11):
                x = torch.randn(batch, 3, 8, 8)
                close(fast(x), split(x))
        assert builds(others) == 0


@pytest.mark.parametrize("prepare", [
    lambda x: x.to(memory_format=torch.channels_last),
    lambda x: torch.stack([x, -x], -1)[..., 0],
    lambda x: torch.cat([x, x], 2)[:, :, 5:13],
    lambda x: x.transpose(2, 3),
    lambda x: x[:1].expand(2, 3, 8, 8),
    lambda x: torch._neg_view(x),
], ids=["channels_last", "strided", "a part of another", "transposed", "expanded", "negated"])
def test_tensors_are_taken_as_they_lie(split, image, prepare):
    fast = torch.compile(split, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        x = prepare(image)
        close(fast(x), split(x))


def test_results_are_torchs_own_and_no_result_of_a_later_call(split, image):
    fast = dynamic(split)
    with torch.inference_mode():
        first = fast(image)
        kept = first.clone()
        second = fast(image + 1)
        close(first, kept)
        assert first.data_ptr() != second.data_ptr()
        first.add_(1)  # writable, as any tensor
    assert type(first) is torch.Tensor and first.untyped_storage().device.type == "cpu"


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_autocast(split, image, mode):
    fast = torch.compile(split, backend="graft", options=FAST)
    with mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        result, expected = fast(image), split(image)
    assert result.dtype == expected.dtype == torch.bfloat16
    assert (result - expected).abs().max() <= 0.05 * expected.abs().max()


@pytest.fixture(name="switching")
def fixture_switching():
    """Threads take turns far more often than usual, so that what can go wrong between two of their steps does."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def together(*works):
    """Runs each in a thread of its own; what they raised."""
    errors = []

    def guarded(work):
        try:
            with torch.inference_mode():
                work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.usefixtures("switching")
def test_eight_threads_share_a_model(split):
    fast = torch.compile(split, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        for batch in (2, 3, 1, 16):  # after which torch has traced all that there is
            fast(torch.randn(batch, 3, 8, 8))

    def work(first):
        for number in range(48):
            x = torch.randn(1 + (first + number) % 16, 3, 8, 8)
            close(fast(x), split(x))

    traced, errors = torch._dynamo.utils.counters["stats"]["unique_graphs"], []
    built = builds(lambda: errors.extend(together(*[lambda first=each: work(first) for each in range(8)])))
    assert not errors, errors[0]
    assert (built, torch._dynamo.utils.counters["stats"]["unique_graphs"]) == (0, traced)


@pytest.mark.usefixtures("switching")
def test_threads_go_on_while_another_one_traces(split, image):
    expected, done = split(image), threading.Event()
    fast = torch.compile(split, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        fast(image)
    calls = []

    def call():
        while not done.is_set():
            close(fast(image), expected)
            calls.append(1)

    def trace():
        try:
            for factor in range(4):
                other = torch.compile(lambda x, factor=factor: torch.relu(x) * factor, backend="graft", options=FAST)
                close(other(image), torch.relu(image) * factor)
        finally:
            done.set()

    errors = together(call, call, trace)
    assert not errors, errors[0]
    assert calls


class Computed(torch.utils.data.Dataset):
    """What a compiled model makes of images, computed where an item is asked for."""

    def __init__(self, fast):
        self.fast = fast

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.inference_mode():
            return self.fast(torch.full((2, 3, 8, 8), float(index)))


def test_workers_of_a_data_loader_use_the_engines_of_their_parent(split, image):
    program = graft.torch.compile(split, [image], strict=True, **FAST)
    program(image)  # threads of this process, which those of a child are not
    loader = torch.utils.data.DataLoader(Computed(program), batch_size=None, num_workers=2, timeout=120,
                                         multiprocessing_context="fork")
    with torch.inference_mode():
        for index, result in enumerate(loader):
            close(result, split(torch.full((2, 3, 8, 8), float(index))))


def test_an_engine_that_differs_from_torch_is_left_out_and_said_once(split, image, monkeypatch, caplog):
    compute_wrongly(monkeypatch, 1.1)
    before = graft.torch.fallback_count()
    fast = torch.compile(split, backend="graft", options=FAST)
    with torch.inference_mode(), caplog.at_level(logging.WARNING, "graft"):
        for _ in range(3):
            close(fast(image), split(image))
    assert graft.torch.fallback_count() == before + 2
    torch._dynamo.reset()
    with torch.inference_mode(), pytest.raises(Exception, match="differs from torch's own"):
        dynamic(split)(image)
    torch._dynamo.reset()
    with torch.inference_mode():
        assert not torch.allclose(dynamic(split, check=False)(image), split(image))


def test_a_random_graph_is_not_compared(image):
    def noisy(x):
        return torch.relu(x) + torch.rand_like(x) + 1

    before = graft.torch.fallback_count()
    with torch.inference_mode():
        result = torch.compile(noisy, backend="graft", options=FAST)(image)
    assert graft.torch.fallback_count() == before and result.min() >= 1


def test_a_value_handed_on_under_two_names_is_two_results(image):
    def function(x):
        y = torch.relu(x)
        return torch.digamma(y + 2), y.clone(), y

    with torch.inference_mode():
        results = torch.compile(function, backend="graft", options={**FAST, "strict": True})(image)
    for result, expected in zip(results, function(image)):
        close(result, expected)
    assert results[1].data_ptr() != results[2].data_ptr()


def test_parameters_made_in_inference_mode_are_inputs_unless_frozen(split, image, caplog):
    with torch.inference_mode():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        fast = torch.compile(model, backend="graft", options={**FAST, "strict": True, "minimum_size": 1})
        with caplog.at_level(logging.WARNING, "graft"):
            close(fast(image), model(image))
        assert "2 of 2 parameters" in caplog.text and "freeze" in caplog.text
        model[0].bias.add_(1)
        close(fast(image), model(image))

        caplog.clear()
        torch._dynamo.reset()
        frozen = torch.compile(model, backend="graft",
                               options={**FAST, "strict": True, "minimum_size": 1, "freeze": True})
        with caplog.at_level(logging.WARNING, "graft"):
            close(frozen(image), model(image))
        assert "inference_mode" not in caplog.text
        model[0].bias = torch.nn.Parameter(model[0].bias + 1)
        close(frozen(image), model(image))


class Attending(torch.nn.Module):
    """Attention with a mask that says nothing."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 24)

    def forward(self, x):
        """Of two heads."""
        query, key, value = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(x.shape[0], 1, x.shape[1], x.shape[1], dtype=torch.bool)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).flatten(1)


def test_attention_is_one_operator_and_has_gradients_where_they_are_wanted():
    net, x = trained(Attending()), torch.randn(2, 5, 8)
    assert "aten::scaled_dot_product_attention" in graft.torch.dry_run(net, [x])
    torch._dynamo.reset()
    fast = torch.compile(net, backend="graft", options={**FAST, "strict": True})
    with torch.inference_mode():
        close(fast(x), net(x))
    torch._dynamo.reset()
    torch.compile(net, backend="graft", options=FAST)(x).sum().backward()
    assert net.project.weight.grad is not None
