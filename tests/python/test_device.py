# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU: torch's, CuPy's and JAX's used where they lie, in the order of their streams. Skipped without a GPU
or torch."""

import graft
import numpy as np
import pytest
from conftest import WEIGHTS, expected, layer_model, model_of
from onnx import TensorProto, helper

torch = pytest.importorskip("torch", minversion="2.0")  # tests/torch, a folder, is none
if not torch.cuda.is_available():
    pytest.skip("there is no GPU that torch can use", allow_module_level=True)

SIZE = 2048
CYCLES = 100_000_000  # some 50 ms, longer than a run takes to be queued


@pytest.fixture(name="engine", scope="module")
def fixture_engine():
    """The layer on the GPU."""
    return graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, device="cuda", tune="off")


@pytest.fixture(name="square", scope="module")
def fixture_square():
    """y = (x x) x, for matrices of which a product takes a while."""
    nodes = [helper.make_node("MatMul", ["x", "x"], ["h"]), helper.make_node("MatMul", ["h", "x"], ["y"])]
    model = model_of(nodes, [("x", TensorProto.FLOAT, [SIZE, SIZE])], [("y", TensorProto.FLOAT, [SIZE, SIZE])])
    return graft.compile(model, device="cuda", tune="off")


def on_gpu(x):
    return torch.from_numpy(x).cuda()


def test_results_are_tensors_on_the_gpu(engine, x):
    given = on_gpu(x)
    y = engine(given)
    assert isinstance(y, torch.Tensor) and y.device == given.device and y.dtype == torch.float32
    np.testing.assert_allclose(y.cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)
    assert set(engine.describe()["ways"]) and engine.describe()["ways"]["interpreter"] == 0
    by_name = engine.run({"x": given})["y"]
    assert torch.equal(by_name, y)


def test_the_same_engine_takes_arrays_of_the_host(engine, x):
    y = engine(x)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-5)


def test_results_go_where_the_caller_wants_them(engine, x):
    target = torch.full((5, 3), float("nan"), device="cuda")
    assert engine.run({"x": on_gpu(x)}, {"y": target})["y"] is target
    np.testing.assert_allclose(target.cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)


def test_strides_are_followed(engine, x):
    wide = torch.zeros(5, 8, device="cuda")
    wide[:, ::2] = on_gpu(x)
    np.testing.assert_allclose(engine(wide[:, ::2]).cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", [False, True], ids=["default", "other"])
def test_runs_stand_in_the_order_of_torchs_current_stream(square, other):
    """What the run reads is written just before it, behind a long wait; what it gives is read just after."""
    x = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(1)).cuda() / SIZE
    wanted = square(x).clone()
    for _ in range(3):  # the first prepares, the second records, the third replays
        stream = torch.cuda.Stream() if other else torch.cuda.current_stream()
        late = torch.full_like(x, float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            late.copy_(x)
            y = square(late)
            assert not stream.query(), "it was queued, not waited for"
            total = (y - wanted).abs().max()
        late.record_stream(stream)
        stream.synchronize()
        assert total.item() == 0


def test_a_session_has_a_stream_of_its_own(square):
    x = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(2)).cuda() / SIZE
    wanted, stream, target = square(x), torch.cuda.Stream(), torch.empty_like(x)
    torch.cuda.synchronize()
    with graft.Session(square, stream=stream) as session:
        session.run({"x": x}, {"y": target})
        session.wait()
        assert torch.equal(target, wanted)


def test_a_plan_goes_from_process_to_process(engine, x, tmp_path):
    engine.save(tmp_path / "layer.graft")
    again = graft.load(tmp_path / "layer.graft", device="cuda")
    assert torch.equal(again(on_gpu(x)), engine(on_gpu(x)))


@pytest.mark.parametrize("precision, tolerance", [("fp16", 5e-3), ("bf16", 4e-2), ("tf32", 5e-3)])
def test_precisions(x, precision, tolerance):
    engine = graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, device="cuda", precision=precision, tune="off")
    np.testing.assert_allclose(engine(on_gpu(x)).cpu().numpy(), expected(x), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("number, kind", [(TensorProto.FLOAT16, "float16"), (TensorProto.BFLOAT16, "bfloat16")])
def test_tensors_of_16_bits(number, kind):
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", number, ["n", 3])], [("y", number, ["n", 3])])
    x = torch.arange(12, device="cuda").reshape(4, 3).to(getattr(torch, kind))
    y = graft.compile(model, device="cuda", tune="off")(x)
    assert y.dtype == x.dtype and torch.equal(y, -x)


def test_what_does_not_fit_is_an_error_and_the_engine_goes_on(engine, x):
    with pytest.raises(graft.InvalidArgumentError):
        engine(on_gpu(x).double())
    with pytest.raises(graft.InvalidArgumentError):
        engine(on_gpu(x)[:, :3])
    with pytest.raises(graft.InvalidArgumentError):
        graft.compile(layer_model(), tune="off")(on_gpu(x))  # an engine for the CPU
    np.testing.assert_allclose(engine(on_gpu(x)).cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)


def test_cupy_is_used_where_it_lies(engine, x):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        y = engine(cupy.asarray(x) + 0)
        assert isinstance(y, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(y), expected(x), rtol=1e-5, atol=1e-5)


def test_arrays_of_jax_are_read_when_they_are_ready(engine):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")

    @jax.jit
    def slow(x):
        """Ones, after a long computation."""
        step = jax.numpy.tanh(x @ x)
        for _ in range(50):
            step = jax.numpy.tanh(step @ x)
        return jax.numpy.ones((5, 4)) + 0 * step[:5, :4]

    x = jax.numpy.ones((4096, 4096)) / 4096
    slow(x).block_until_ready()
    np.testing.assert_allclose(np.asarray(engine(slow(x))), np.maximum(np.ones((5, 4)) @ WEIGHTS, 0), rtol=1e-5,
                               atol=1e-5)


def test_an_array_of_another_library_than_the_first_is_waited_for():
    """The first input says whose stream it is; the second is written late in another library's."""
    cupy = pytest.importorskip("cupy")
    model = model_of([helper.make_node("Add", ["a", "b"], ["y"])],
                     [("a", TensorProto.FLOAT, [SIZE, SIZE]), ("b", TensorProto.FLOAT, [SIZE, SIZE])],
                     [("y", TensorProto.FLOAT, [SIZE, SIZE])])
    engine = graft.compile(model, device="cuda", tune="off")
    a, ones = torch.ones(SIZE, SIZE, device="cuda"), cupy.ones((SIZE, SIZE), cupy.float32)
    for _ in range(3):
        late = cupy.zeros_like(ones)
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            product = ones
            for _ in range(20):
                product = cupy.minimum(product @ ones, 1)
            late[...] = product
            y = engine(a, late)
        stream.synchronize()
        torch.cuda.synchronize()
        assert torch.equal(y, 2 * a)
