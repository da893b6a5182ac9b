# SPDX-License-Identifier: Apache-2.0
"""Modules on a GPU by each door: engines take torch's tensors where they lie, give results out of torch's allocator,
and stand in the order of torch's streams, captured ones too. Skipped without a GPU; tests/emulator tries what a capture
asks of the runtime without one."""

import threading

import networks
import pytest
import torch
from conftest import FAST, Split, in_fresh_process, trained

import graft
import graft.torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

CYCLES = 400_000_000  # some 200 ms, longer than a call takes to be queued
WIDE = 2048


def by_compile(model, x, **choices):
    """torch.compile."""
    del x
    return torch.compile(model, backend="graft", options={**FAST, "strict": True, **choices}, dynamic=True)


def by_export(model, x, **choices):
    """torch.export, for batches of 1 to WIDE."""
    ranged = graft.torch.Input(("batch", *x.shape[1:]), x.dtype)
    return graft.torch.compile(model, [ranged], {"batch": (1, 2, WIDE)}, **FAST, strict=True, **choices)


def by_script(model, x, **choices):
    """TorchScript, likewise."""
    ranged = graft.torch.Input(("batch", *x.shape[1:]), x.dtype)
    return graft.torch.script.compile(torch.jit.script(model), [ranged], {"batch": (1, 2, WIDE)}, **FAST, strict=True,
                                      **choices)


each_door = pytest.mark.parametrize("door", [by_compile, by_export, by_script],
                                    ids=["torch.compile", "torch.export", "TorchScript"])


class Wide(torch.nn.Module):
    """Products that take the GPU a while, whose intermediate results fill the session's memory."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(WIDE, WIDE) for _ in range(4)])

    def forward(self, x):
        """Of the size of x."""
        return self.layers(x)


@pytest.fixture(autouse=True)
def fixture_without_tf32():
    """torch's own results are in strict fp32, and no gradients are wanted."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    with torch.inference_mode():
        yield
    torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(name="split")
def fixture_split():
    """Two segments around an operator that stays with torch."""
    with torch.inference_mode(False):
        return trained(Split()).cuda()


@pytest.fixture(name="wide")
def fixture_wide():
    """Random weights that keep results of a usual size."""
    with torch.inference_mode(False):
        return networks.varied(Wide()).cuda()


@pytest.fixture(name="image")
def fixture_image():
    """A batch of two."""
    return random_images(2)


def random_images(batch, seed=1):
    """Pictures on the GPU, which are no inference tensors."""
    with torch.inference_mode(False):
        return torch.randn(batch, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).cuda()


def random_rows(rows=WIDE, seed=1):
    """For Wide."""
    with torch.inference_mode(False):
        return torch.randn(rows, WIDE, generator=torch.Generator().manual_seed(seed)).cuda()


def near(result, expected, share=1e-4):
    """Within a share of the largest element."""
    assert result.dtype == expected.dtype and result.shape == expected.shape and result.device == expected.device
    error = (result.double() - expected.double()).abs().max() / expected.double().abs().max()
    assert error.item() <= share, f"off by {error.item():.2g} of the largest element"


def engines_of(function):
    """What `function` returns, and the engines that Python has built while it ran."""
    built = []
    with pytest.MonkeyPatch.context() as patch:
        original = graft.engine.Engine.__init__
        patch.setattr(graft.engine.Engine, "__init__", lambda self, *given: (built.append(self),
                                                                            original(self, *given))[1])
        result = function()
    return result, built


# ---- Tensors and memory


@each_door
def test_two_segments_run_on_the_gpu_for_several_batches(door, split, image):
    before = graft.torch.fallback_count()
    fast = door(split, image)
    for batch in (2, 1, 2, 1, 7, 16):
        x = random_images(batch, batch)
        near(fast(x), split(x))
    assert graft.torch.fallback_count() == before


def test_generated_kernels_and_libraries_do_it_and_not_the_interpreter(split, image):
    _, built = engines_of(lambda: by_compile(split, image)(image))
    assert len(built) == 2
    for engine in built:
        assert engine.device.startswith("cuda") and engine.describe()["ways"]["interpreter"] == 0


@each_door
def test_results_lie_in_torchs_memory_until_they_are_given_up(door, wide):
    fast, x = door(wide, random_rows()), random_rows()
    kept = fast(x)
    wanted = kept.clone()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    result = fast(x * 2)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before >= result.nbytes
    assert torch.equal(kept, wanted), "a later call has written to an earlier result"
    result.add_(1)  # writable, as any tensor
    del result
    assert torch.cuda.memory_allocated() == before


@each_door
@pytest.mark.parametrize("prepare", [
    lambda x: x.to(memory_format=torch.channels_last),
    lambda x: torch.stack([x, -x], -1)[..., 0],
    lambda x: torch.cat([x, x], 2)[:, :, 5:13],
    lambda x: x.transpose(2, 3),
    lambda x: x[:1].expand(2, 3, 8, 8),
    lambda x: torch._neg_view(x),
    lambda x: torch.cat([x.flatten(), x.flatten()])[1:385].view(2, 3, 8, 8),
], ids=["channels_last", "strided", "a part of another", "transposed", "expanded", "negated", "off its alignment"])
def test_tensors_are_taken_as_they_lie(door, split, image, prepare):
    x = prepare(image)
    near(door(split, image)(x), split(x))


@each_door
@pytest.mark.parametrize("dtype, share", [(torch.float16, 1e-2), (torch.bfloat16, 5e-2)], ids=["fp16", "bf16"])
def test_models_of_16_bits(door, split, image, dtype, share):
    expected = split(image)
    with torch.inference_mode(False):
        narrow, x = split.to(dtype), image.to(dtype)
    result = door(narrow, x)(x)
    assert result.dtype == dtype
    near(result.float(), expected, share)


@each_door
@pytest.mark.parametrize("precision, share", [("tf32", 1e-2), ("fp16", 1e-2), ("bf16", 5e-2)])
def test_precision_is_a_choice(door, wide, precision, share):
    x = random_rows(64)
    result, expected = door(wide, x, precision=precision)(x), wide(x)
    near(result, expected, share)
    assert (result - expected).abs().max() > 1e-5 * expected.abs().max(), "it was computed in fp32"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(split, image, dtype):
    fast = torch.compile(split, backend="graft", options=FAST)
    with torch.autocast("cuda", dtype=dtype):
        result, expected = fast(image), split(image)
    assert result.dtype == expected.dtype == dtype
    near(result, expected, 5e-2)


def test_graph_breaks_and_writes_in_place():
    def function(x, total):
        total.add_(torch.relu(x))
        torch._dynamo.graph_break()
        return torch.sigmoid(total), total.sum()

    x = random_images(2)
    total, wanted = torch.ones_like(x), torch.ones_like(x)
    result, expected = torch.compile(function, backend="graft", options=FAST)(x, total), function(x, wanted)
    near(result[0], expected[0])
    near(result[1], expected[1])
    near(total, wanted)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "vit_b_16"])
def test_networks(name):
    network = networks.BY_NAME[name]
    with torch.inference_mode(False):
        model = networks.varied(network.build()).cuda()
        inputs = [each.cuda() for each in network.inputs()]
    before = graft.torch.fallback_count()
    result = torch.compile(model, backend="graft", options={**FAST, "strict": True})(*inputs)
    assert networks.error_of(result, model(*inputs)) <= 1e-4
    assert graft.torch.fallback_count() == before


# ---- Streams


@each_door
@pytest.mark.parametrize("other", [False, True], ids=["default", "other"])
def test_calls_stand_in_the_order_of_the_current_stream(door, split, image, other):
    """What the call reads is written just before it, behind a long wait; what it gives is read just after."""
    fast, wanted = door(split, image), split(image)
    stream = torch.cuda.Stream() if other else torch.cuda.current_stream()
    late = torch.zeros_like(image)
    with torch.cuda.stream(stream):
        for _ in range(4):  # prepares, records, replays
            fast(late)
    for _ in range(3):
        late.fill_(float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            late.copy_(image)
            result = fast(late)
            assert not stream.query(), "it was queued, not waited for"
            copied = result.clone()
        stream.synchronize()
        near(copied, wanted)


@each_door
def test_calls_in_two_streams_do_not_share_what_is_in_use(door, wide):
    """The second call is queued while the first is at work, in another stream and with the same engine."""
    given = [random_rows(seed=1), random_rows(seed=2)]
    wanted, fast, streams = [wide(x) for x in given], door(wide, given[0]), [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    for _ in range(6):
        results = []
        for _ in range(4):
            for x, stream in zip(given, streams):
                with torch.cuda.stream(stream):
                    results.append(fast(x))
        torch.cuda.synchronize()
        for index, result in enumerate(results):
            near(result, wanted[index % 2])


@pytest.mark.parametrize("door", [by_compile, by_script], ids=["torch.compile", "TorchScript"])
def test_eight_threads_with_streams_of_their_own(door, split, image):
    fast = door(split, image)
    given = [random_images(batch, batch) for batch in range(1, 17)]
    wanted = [split(x) for x in given]
    with torch.inference_mode():
        for x in given:  # torch traces in one thread, as it must
            fast(x)
    torch.cuda.synchronize()
    errors = []

    def work(first):
        try:
            with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
                for number in range(48):
                    index = (5 * first + number) % 16
                    near(fast(given[index]), wanted[index])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


# ---- CUDA graphs of torch


def warmed(function, *given):
    """As torch wants it before a capture: called some times in another stream."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*given)
    torch.cuda.current_stream().wait_stream(stream)


def captured(function, given):
    """(graph, what the function gave while it was captured)."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(given)
    return graph, result


@each_door
def test_a_captured_module_computes_at_each_replay(door, split, image):
    fast, static = door(split, image), image.clone()
    warmed(fast, static)
    graph, result = captured(fast, static)
    for seed in range(4):
        x = random_images(2, seed)
        static.copy_(x)
        graph.replay()
        near(result, split(x))


@each_door
def test_a_graph_keeps_the_memory_that_it_uses(door, wide):
    """Calls of other sizes beside it, for which a session would move its memory."""
    fast, static = door(wide, random_rows(16)), random_rows(16)
    warmed(fast, static)
    graph, result = captured(fast, static)
    for rows in (16, 33, 64, 16):
        x = random_rows(rows, rows)
        near(fast(x), wide(x))
        static.copy_(random_rows(16, rows + 1))
        expected = wide(static)
        graph.replay()
        beside = fast(x)
        near(result, expected)
        near(beside, wide(x))


@each_door
def test_a_module_is_captured_twice_in_one_graph_and_in_another_one(door, wide):
    fast, static = door(wide, random_rows(16)), random_rows(16)
    warmed(lambda x: fast(fast(x)), static)  # torch compiles again for the inner call's result
    twice, result = captured(lambda x: fast(fast(x)), static)
    once, other = captured(fast, static)
    for seed in range(3):
        static.copy_(random_rows(16, seed))
        twice.replay()
        once.replay()
        near(other, wide(static))
        near(result, wide(wide(static)), 1e-3)


@each_door
def test_sizes_that_are_new_while_capturing(door, wide):
    fast = door(wide, random_rows(16))
    warmed(fast, random_rows(16))
    static = random_rows(24)
    graph, result = captured(fast, static)
    static.copy_(random_rows(24, 5))
    graph.replay()
    near(result, wide(static))


# ---- Files


LOADED = """
import sys, torch, graft.torch
graft.torch.load_library()
net = {load}
x, expected = torch.load(sys.argv[2])
with torch.inference_mode():
    for _ in range(3):
        result = net(x)
assert result.is_cuda
assert (result - expected).abs().max() <= 1e-4 * expected.abs().max()
"""


@pytest.mark.parametrize("load", ["torch.jit.load(sys.argv[1])", "torch.jit.load(sys.argv[1], map_location='cuda')"])
@pytest.mark.parametrize("strict", [True, False], ids=["engines alone", "with what they stand for"])
def test_a_module_is_saved_and_loaded_on_the_gpu(split, image, tmp_path, load, strict):
    grafted = graft.torch.script.compile(torch.jit.script(split), [image], strict=strict, **FAST)
    torch.jit.save(grafted, tmp_path / "net.pt")
    torch.save((image, split(image)), tmp_path / "sample.pt")
    in_fresh_process(LOADED.format(load=load), tmp_path / "net.pt", tmp_path / "sample.pt")


def test_a_program_is_saved_and_loaded_on_the_gpu(split, image, tmp_path):
    graft.torch.save(by_export(split, image), tmp_path / "net.pt2")
    torch.save((image, split(image)), tmp_path / "sample.pt")
    in_fresh_process(LOADED.format(load="graft.torch.load(sys.argv[1])"), tmp_path / "net.pt2", tmp_path / "sample.pt")


# ---- What an engine refuses


def test_sizes_outside_of_their_ranges_run_in_torch_on_the_gpu(split, image):
    ranged = graft.torch.Input(("batch", 3, 8, 8))
    fast = graft.torch.script.compile(torch.jit.script(split), [ranged], {"batch": (1, 2, 8)}, **FAST)
    before, x = graft.torch.fallback_count(), random_images(9)
    near(fast(x), split(x))
    assert graft.torch.fallback_count() == before + 2
    near(fast(image), split(image))
    with pytest.raises(Exception, match="batch"):
        graft.torch.script.compile(torch.jit.script(split), [ranged], {"batch": (1, 2, 8)}, strict=True, **FAST)(x)


def test_tensors_of_the_processor_are_refused_by_engines_of_the_gpu(split, image):
    fast = by_script(split, image)
    with pytest.raises(Exception, match="lies on cpu, the engine was made for cuda"):
        fast(image.cpu())
    near(fast(image), split(image))


def test_torch_compile_runs_a_module_of_the_processor_on_the_gpu_where_that_is_asked_for(image):
    with torch.inference_mode(False):
        model, x = trained(Split()), image.cpu()
    result, built = engines_of(lambda: by_compile(model, x, device="cuda")(x))
    assert {engine.device for engine in built} == {"cuda"}
    near(result, model(x))
