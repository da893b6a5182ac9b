# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU: of the CUDA driver alone, torch's, CuPy's and JAX's, used where they lie, in the order of their
streams. Skipped without a GPU; the emulated one runs what needs no framework (test_device_emulated.py)."""

import gc

import graft
import numpy as np
import pytest
from conftest import WEIGHTS, expected, layer_model, model_of
from device_array import DeviceArray, Stream, lent, open_driver
from onnx import TensorProto, helper

DRIVER = open_driver()
if DRIVER is None:
    pytest.skip("there is no GPU", allow_module_level=True)

SIZE = 2048
CYCLES = 100_000_000  # some 50 ms, longer than a run takes to be queued


def framework(name):
    """The framework, where it is and can use the GPU; tests/torch, a folder, is none."""
    module = pytest.importorskip(name)
    if not hasattr(module, "__version__"):
        pytest.skip(f"there is no {name}")
    usable = {"torch": lambda: module.cuda.is_available(),
              "cupy": lambda: module.cuda.runtime.getDeviceCount() > 0,
              "jax": lambda: module.default_backend() == "gpu"}[name]
    if not usable():
        pytest.skip(f"{name} has no GPU here")
    return module


@pytest.fixture(name="torch", scope="module")
def fixture_torch():
    return framework("torch")


@pytest.fixture(name="cupy", scope="module")
def fixture_cupy():
    return framework("cupy")


@pytest.fixture(name="jax", scope="module")
def fixture_jax():
    return framework("jax")


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


def close(result, x):
    """Whether a result of the host is what the layer computes."""
    np.testing.assert_allclose(result, expected(x), rtol=1e-5, atol=1e-5)


# ---- Any DLPack array


def test_the_same_engine_takes_arrays_of_the_host(engine, x):
    y = engine(x)
    assert isinstance(y, np.ndarray)
    close(y, x)


class WithBuffer(bytearray):
    """An array of the GPU that has the buffer protocol too, as CuPy's and JAX's have; the buffer is not its memory."""

    def __new__(cls, array):
        return super().__new__(cls, array.values.nbytes)

    def __init__(self, array):
        super().__init__(array.values.nbytes)
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def test_memory_of_the_gpu_is_not_read_as_a_buffer(engine, x):
    close(engine(WithBuffer(DeviceArray(DRIVER, x))), x)


def test_an_array_of_the_gpu_is_read_where_it_lies(engine, x):
    before = lent()
    for _ in range(4):  # the first prepares, the second records, the third replays
        close(engine(DeviceArray(DRIVER, x)), x)
    assert lent() == before, "arrays that were taken are given back"


def test_a_result_goes_where_the_caller_has_memory_on_the_gpu(engine, x):
    target = DeviceArray(DRIVER, np.full((5, 3), np.nan, np.float32))
    for given in (DeviceArray(DRIVER, x), x):
        with graft.Session(engine) as session:
            assert session.run({"x": given}, {"y": target})["y"] is target
            session.wait()
        close(target.numpy(), x)


def test_an_output_on_the_host_and_one_on_the_gpu(x):
    model = model_of([helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])],
                     [("x", TensorProto.FLOAT, ["n", 4])],
                     [("a", TensorProto.FLOAT, ["n", 4]), ("b", TensorProto.FLOAT, ["n", 4])])
    target = DeviceArray(DRIVER, np.zeros_like(x))
    with graft.Session(graft.compile(model, device="cuda", tune="off")) as session:
        results = session.run({"x": DeviceArray(DRIVER, x)}, {"a": target, "b": None})
        session.wait()
    np.testing.assert_array_equal(results["b"], np.abs(x))
    np.testing.assert_array_equal(target.numpy(), -x)


@pytest.mark.parametrize("spelled", [lambda stream: stream, lambda stream: stream.cuda_stream],
                         ids=["object", "number"])
def test_takers_say_the_stream_of_the_session(engine, x, spelled):
    stream = Stream(DRIVER)
    given, target = DeviceArray(DRIVER, x), DeviceArray(DRIVER, np.zeros((5, 3), np.float32))
    with graft.Session(engine, stream=spelled(stream)) as session:
        for _ in range(3):
            session.run({"x": given}, {"y": target})
        stream.wait()
        close(target.numpy(), x)
    assert set(given.asked) == set(target.asked) == {stream.cuda_stream}
    engine(given)
    assert given.asked[-1] == 1, "the legacy default stream, where the caller names none"


@pytest.mark.parametrize("warm", [0, 1, 3], ids=["a new session", "once run", "recorded"])
def test_runs_go_into_the_graph_that_the_callers_stream_is_captured_into(engine, x, warm):
    stream, given, target = Stream(DRIVER), DeviceArray(DRIVER, x), DeviceArray(DRIVER, np.zeros((5, 3), np.float32))
    with graft.Session(engine) as session:
        session._use_stream(stream.cuda_stream, stream)
        for _ in range(warm):
            session.run({"x": given}, {"y": target})
        stream.wait()
        target.write(np.zeros((5, 3), np.float32))
        assert not session._session.was_captured()
        stream.begin_capture()
        for _ in range(3):  # each of which would otherwise be queued, recorded or replayed
            session.run({"x": given}, {"y": target})
        replay = stream.end_capture()
        assert session._session.was_captured()
        stream.wait()
        np.testing.assert_array_equal(target.numpy(), 0)
        for factor in (2, 3):
            given.write(factor * x)
            replay()
            stream.wait()
            close(target.numpy(), factor * x)


def test_a_session_that_is_made_while_a_stream_is_captured_goes_into_its_graph(engine, x):
    stream, given, target = Stream(DRIVER), DeviceArray(DRIVER, x), DeviceArray(DRIVER, np.zeros((5, 3), np.float32))
    stream.begin_capture()
    session = graft.Session(engine, stream=stream)
    session.run({"x": given}, {"y": target})
    replay = stream.end_capture()
    given.write(2 * x)
    replay()
    stream.wait()
    close(target.numpy(), 2 * x)
    session.close()


@pytest.mark.parametrize("what", ["input", "output"])
def test_strides_on_the_gpu_are_refused_with_what_to_do(engine, x, what):
    given, target = DeviceArray(DRIVER, x), DeviceArray(DRIVER, np.zeros((5, 3), np.float32))
    (given if what == "input" else target).strides = (8, 2)
    with pytest.raises(graft.UnsupportedError, match=f"{what} '[xy]'.*row-major.*contiguous"):
        engine.run({"x": given}, {"y": target})
    given.strides = target.strides = None
    engine.run({"x": given}, {"y": target})  # and it goes on


@pytest.mark.parametrize("shape, kind", [((5, 4), np.float64), ((5, 5), np.float32), ((65, 4), np.float32)])
def test_what_does_not_fit_is_an_error_and_the_engine_goes_on(engine, x, shape, kind):
    with pytest.raises(graft.InvalidArgumentError, match="'x'"):
        engine(DeviceArray(DRIVER, np.zeros(shape, kind)))
    with pytest.raises(graft.InvalidArgumentError, match="'y'"):
        engine.run({"x": x}, {"y": DeviceArray(DRIVER, np.zeros(shape, kind))})
    close(engine(DeviceArray(DRIVER, x)), x)


def test_an_engine_of_the_processor_refuses_arrays_of_the_gpu(x):
    engine = graft.compile(layer_model(), tune="off")
    with pytest.raises(graft.InvalidArgumentError, match="'x'"):
        engine(DeviceArray(DRIVER, x))
    close(engine(x), x)


def test_a_plan_goes_from_process_to_process(engine, x, tmp_path):
    engine.save(tmp_path / "layer.graft")
    again = graft.load(tmp_path / "layer.graft", device="cuda")
    np.testing.assert_array_equal(again(DeviceArray(DRIVER, x)), engine(x))


@pytest.mark.parametrize("precision, tolerance", [("fp16", 5e-3), ("bf16", 4e-2), ("tf32", 5e-3)])
def test_precisions(x, precision, tolerance):
    engine = graft.compile(layer_model(), dims={"batch": (1, 8, 64)}, device="cuda", precision=precision, tune="off")
    np.testing.assert_allclose(engine(DeviceArray(DRIVER, x)), expected(x), rtol=tolerance, atol=tolerance)


# ---- torch


def test_results_are_tensors_on_the_gpu(engine, torch, x):
    given = torch.from_numpy(x).cuda()
    y = engine(given)
    assert isinstance(y, torch.Tensor) and y.device == given.device and y.dtype == torch.float32
    np.testing.assert_allclose(y.cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)
    assert set(engine.describe()["ways"]) and engine.describe()["ways"]["interpreter"] == 0
    by_name = engine.run({"x": given})["y"]
    assert torch.equal(by_name, y)


def test_results_go_where_the_caller_wants_them(engine, torch, x):
    target = torch.full((5, 3), float("nan"), device="cuda")
    assert engine.run({"x": torch.from_numpy(x).cuda()}, {"y": target})["y"] is target
    np.testing.assert_allclose(target.cpu().numpy(), expected(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("other", [False, True], ids=["default", "other"])
def test_runs_stand_in_the_order_of_torchs_current_stream(square, torch, other):
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


def test_a_session_has_a_stream_of_its_own(square, torch):
    x = torch.rand(SIZE, SIZE, generator=torch.Generator().manual_seed(2)).cuda() / SIZE
    wanted, stream, target = square(x), torch.cuda.Stream(), torch.empty_like(x)
    torch.cuda.synchronize()
    with graft.Session(square, stream=stream) as session:
        session.run({"x": x}, {"y": target})
        session.wait()
        assert torch.equal(target, wanted)


@pytest.mark.parametrize("number, kind", [(TensorProto.FLOAT16, "float16"), (TensorProto.BFLOAT16, "bfloat16")])
def test_tensors_of_16_bits(torch, number, kind):
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", number, ["n", 3])], [("y", number, ["n", 3])])
    x = torch.arange(12, device="cuda").reshape(4, 3).to(getattr(torch, kind))
    y = graft.compile(model, device="cuda", tune="off")(x)
    assert y.dtype == x.dtype and torch.equal(y, -x)


# ---- CuPy and JAX


def test_cupy_is_used_where_it_lies(engine, cupy, x):
    with cupy.cuda.Stream(non_blocking=True):
        y = engine(cupy.asarray(x) + 0)
        assert isinstance(y, cupy.ndarray)
        np.testing.assert_allclose(cupy.asnumpy(y), expected(x), rtol=1e-5, atol=1e-5)


def test_a_stream_of_cupy_that_is_gone_is_not_used(engine, cupy, x):
    """The session's last stream was made for one block; what comes next is of a library that names none."""
    with cupy.cuda.Stream(non_blocking=True):
        engine(cupy.asarray(x))
    gc.collect()
    close(engine(x), x)
    with cupy.cuda.Stream(non_blocking=True):
        close(cupy.asnumpy(engine(cupy.asarray(x))), x)


def test_arrays_of_jax_are_read_when_they_are_ready(engine, jax):
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


def test_results_for_jax_are_made_in_its_own_memory(engine, jax, x):
    given = jax.device_put(x)
    for _ in range(3):
        y = engine(given)
        assert isinstance(y, jax.Array) and y.devices() == given.devices()
        np.testing.assert_allclose(np.asarray(jax.jit(lambda a: a + 1)(y)), expected(x) + 1, rtol=1e-5, atol=1e-5)


def test_types_that_jax_narrows_come_as_it_holds_them(jax):
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)],
                     [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.INT64, [4])])
    y = graft.compile(model, device="cuda", tune="off")(jax.numpy.arange(4.0))
    assert isinstance(y, jax.Array) and y.tolist() == [0, 1, 2, 3]


def test_an_array_of_another_library_than_the_first_is_waited_for(torch, cupy):
    """The first input says whose stream it is; the second is written late in another library's."""
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


# ---- Asynchronous runs


def test_asynchronous_runs_end_when_their_results_are_there(engine):
    with graft.Session(engine) as session:
        arrays = [np.full((rows, 4), rows, np.float32) for rows in (1, 5, 64, 5, 5)]
        futures = [session.run_async({"x": array}) for array in arrays]
        for array, future in zip(arrays, futures):
            close(future.result(60)["y"], array)
        session.wait()


# ---- Several optima


def test_optima_that_differ_in_their_kernels_take_turns():
    """A sum over few rows is one kernel, over many it has two stages."""
    nodes = [helper.make_node("ReduceSum", ["x", "axis"], ["s"], keepdims=0), helper.make_node("Relu", ["s"], ["y"])]
    model = model_of(nodes, [("x", TensorProto.FLOAT, ["n", 8])], [("y", TensorProto.FLOAT, [8])],
                     [("axis", np.array([0], np.int64))])
    summed = graft.compile(model, dims={"n": (1, (16, 500_000), 600_000)}, device="cuda", tune="off")
    assert [each["same_as"] for each in summed.describe()["optima"]] == [None, None]
    with graft.Session(summed) as session:
        for rows in (1, 20_000, 16, 20_000, 20_000, 3, 3, 3):  # the third run of a size is a recorded one
            x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
            np.testing.assert_allclose(session.run({"x": x})["y"], np.maximum(x.sum(0), 0), rtol=1e-3, atol=1e-3)
