# SPDX-License-Identifier: Apache-2.0
"""Arrays in and out of the command: every element type in numpy's files, hostile files, random inputs, references."""

import io
import json
import resource
import signal
import struct
import subprocess
import time
import zlib

import ml_dtypes
import numpy as np
import onnx
import pytest
from conftest import COMMAND
from onnx import TensorProto, helper

FOREIGN = [("bfloat16", TensorProto.BFLOAT16), ("float8_e4m3fn", TensorProto.FLOAT8E4M3FN),
           ("float8_e4m3fnuz", TensorProto.FLOAT8E4M3FNUZ), ("float8_e5m2", TensorProto.FLOAT8E5M2),
           ("float8_e5m2fnuz", TensorProto.FLOAT8E5M2FNUZ), ("float8_e8m0fnu", TensorProto.FLOAT8E8M0),
           ("float4_e2m1fn", TensorProto.FLOAT4E2M1), ("int4", TensorProto.INT4), ("uint4", TensorProto.UINT4),
           ("int2", TensorProto.INT2), ("uint2", TensorProto.UINT2)]
NATIVE = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
          np.uint64, np.bool_, np.complex64, np.complex128]


def save_model(folder, element, shape=("n", 3), name="model.onnx", op="Identity"):
    """x -> y of one operator and element type."""
    values = [helper.make_tensor_value_info(value, element, shape) for value in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "one", [values[0]], [values[1]])
    opset = 25 if element in (TensorProto.INT2, TensorProto.UINT2) else 24
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11), folder / name)


def run(graft, *words):
    done = graft("run", "model.onnx", "--tune", "off", *words)
    assert done.returncode == 0, done.stderr
    return done


def values_of(name):
    """Seven rows of every kind of value of a type, negative ones included."""
    kind = np.dtype(getattr(ml_dtypes, name))
    bits = np.random.default_rng(3).integers(0, 1 << min(8 * kind.itemsize, 16), (7, 3))
    if "int" in name or "float4" in name:
        bits %= 4 if name.endswith("int2") else 16
    return bits.astype(np.uint16 if kind.itemsize == 2 else np.uint8).view(kind)


@pytest.mark.parametrize("name, element", FOREIGN)
def test_types_that_numpy_lacks_keep_their_shape(graft, tmp_path, name, element):
    save_model(tmp_path, element)
    given = values_of(name)
    bits = given.view(np.uint16 if given.itemsize == 2 else np.uint8)
    np.save(tmp_path / "x.npy", given)  # as ml_dtypes has it saved
    run(graft, "-i", "x.npy", "-o", "y.npy")
    result = np.load(tmp_path / "y.npy")
    assert result.shape == (7, 3) and result.dtype.kind == "V"
    np.testing.assert_array_equal(result.view(given.dtype).view(bits.dtype), bits)
    run(graft, "-i", "x=y.npy", "-o", "y.npz")  # what was written is read
    archive = np.load(tmp_path / "y.npz")
    assert archive.files == ["y"]
    np.testing.assert_array_equal(archive["y"].view(bits.dtype), bits)
    assert "agrees" in run(graft, "-i", "x.npy", "--reference", "y.npz").stdout
    for given in (bits, np.asfortranarray(bits), bits.view([("bits", bits.dtype)])):
        np.savez(tmp_path / "x.npz", x=given)
        run(graft, "-i", "x.npz", "-o", "y.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy").view(bits.dtype), bits)


def test_signed_bytes_are_values_of_narrow_integers(graft, tmp_path):
    save_model(tmp_path, TensorProto.INT4, (3,))
    np.save(tmp_path / "x.npy", np.array([-8, -1, 7], np.int8))
    run(graft, "-i", "x.npy", "-o", "y.npy")
    assert np.load(tmp_path / "y.npy").view(ml_dtypes.int4).astype(int).tolist() == [-8, -1, 7]
    np.save(tmp_path / "x.npy", np.array([-8, 93, 7], np.int8))
    done = graft("run", "model.onnx", "-i", "x.npy")
    assert done.returncode == 1 and "element 1" in done.stderr and "i4" in done.stderr, done.stderr


def test_bits_of_another_width_or_with_a_meaning_are_no_bf16(graft, tmp_path):
    save_model(tmp_path, TensorProto.BFLOAT16)
    for dtype, parts in [("V1", ["1 bytes", "bf16"]), ("V4", ["4 bytes", "bf16"]), (np.float16, ["bf16", "f16"]),
                         (np.int16, ["bf16", "i16"])]:
        np.save(tmp_path / "x.npy", np.zeros((2, 3), dtype))
        done = graft("run", "model.onnx", "-i", "x.npy")
        assert done.returncode == 1 and all(part in done.stderr for part in parts), done.stderr


@pytest.mark.parametrize("dtype", NATIVE)
def test_byte_and_axis_orders_are_numpys_business(graft, tmp_path, dtype):
    save_model(tmp_path, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ("n", 3, 2))
    given = (np.random.default_rng(2).standard_normal((5, 3, 2)) * 99).astype(dtype)
    if np.dtype(dtype).kind == "c":
        given += 1j
    foreign = given.astype(given.dtype.newbyteorder(">"))
    for array in (given, foreign, np.asfortranarray(given), np.asfortranarray(foreign)):
        np.save(tmp_path / "x.npy", array)
        np.savez_compressed(tmp_path / "x.npz", x=array)
        for name in ("x.npy", "x.npz"):
            run(graft, "-i", name, "-o", "y.npy")
            np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), given)


def header(text, version=1):
    """The start of an .npy file with this header."""
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text.encode()


@pytest.mark.parametrize("text, part", [
    ("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "fortran_order"),
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "4 bytes"),
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", "memory"),
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "shape"),
    ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "'|O'"),
    ("{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }", "element type"),
    ("{'descr': [('a', '<f4', (3,))], 'fortran_order': False, 'shape': (1,), }", "element type"),
    ("{'descr': '>V', 'fortran_order': False, 'shape': (1,), }", "element type"),
    ("{'descr': ", "element type"), ("{", "descr"),
])
def test_hostile_headers_are_refused(graft, tmp_path, text, part):
    save_model(tmp_path, TensorProto.FLOAT, ("n",))
    (tmp_path / "x.npy").write_bytes(header(text) + bytes(4))
    done = graft("run", "model.onnx", "-i", "x.npy")
    assert done.returncode == 1 and "x.npy" in done.stderr and part in done.stderr, done.stderr


def archive(entries):
    """A zip of (name, data, size, checksum, offset or nothing): an offset names the data of an entry before it."""
    body, directory = b"", b""
    for name, data, size, checksum, offset in entries:
        start = len(body) if offset is None else offset
        common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, checksum, len(data), size, len(name), 0)
        if offset is None:
            body += b"PK\x03\x04" + common + name.encode() + data
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, start)
        directory += name.encode()
    count = len(entries)
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def deflated(data):
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def limited(folder, *words, gigabytes=2):
    """Runs the command with little memory to have."""
    size = gigabytes << 30
    return subprocess.run([str(COMMAND), *words], cwd=folder, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))


def test_entries_of_an_archive_share_no_bytes(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n",))
    plain = npy(np.zeros(1 << 24, np.float32))
    row = (deflated(plain), len(plain), zlib.crc32(plain))
    names = [f"{number:03}.npy" for number in range(100)]
    (tmp_path / "x.npz").write_bytes(archive([(name, *row, None if i == 0 else 0) for i, name in enumerate(names)]))
    done = limited(tmp_path, "run", "model.onnx", "-i", "x.npz")
    assert done.returncode == 1 and "share bytes" in done.stderr, done.stderr
    (tmp_path / "x.npz").write_bytes(archive([("x.npy", *row, None), ("x.npy", *row, None)]))
    done = limited(tmp_path, "run", "model.onnx", "-i", "x.npz")
    assert done.returncode == 1 and "twice" in done.stderr, done.stderr


def test_an_entry_is_as_long_as_its_header_says(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n",))
    plain = npy(np.ones(1000, np.float32))
    for data, size, part in [(plain + bytes(4), len(plain) + 4, "4004 bytes"), (plain[:-4], len(plain) - 4, "3996"),
                             (plain + bytes(4), len(plain), "another size"), (plain[:-4], len(plain), "damaged")]:
        row = ("x.npy", deflated(data), size, zlib.crc32(data[:size]), None)
        (tmp_path / "x.npz").write_bytes(archive([row]))
        done = graft("run", "model.onnx", "-i", "x.npz")
        assert done.returncode == 1 and part in done.stderr, (part, done.stderr)
    (tmp_path / "x.npz").write_bytes(archive([("x.npy", deflated(plain), len(plain), zlib.crc32(plain), None)]))
    run(graft, "-i", "x.npz")


def test_what_does_not_fit_the_input_is_not_unpacked(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n", 3))
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1 << 28, 4), np.float32).view(np.float32)[:1 << 26])
    done = limited(tmp_path, "run", "model.onnx", "-i", "x.npz", gigabytes=1)
    assert done.returncode == 1 and "axis 1 must be 3" in done.stderr, done.stderr


@pytest.mark.parametrize("element", [element for _, element in FOREIGN] +
                         [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in NATIVE])
def test_every_type_can_be_random_and_repeats_with_its_seed(graft, tmp_path, element):
    save_model(tmp_path, element)
    words = ("--size", "n=50")
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        run(graft, *words, "--seed", seed, "-o", f"{name}.npy")
    first, again, other = ((tmp_path / f"{name}.npy").read_bytes() for name in "abc")
    assert first == again and first != other
    values = np.load(tmp_path / "a.npy")
    assert values.shape == (50, 3) and len(np.unique(values.view(f"V{values.itemsize}"))) > 1
    if values.dtype.kind in "fc":
        parts = np.stack([values.real, values.imag]) if values.dtype.kind == "c" else values
        assert np.abs(parts.mean()) < 0.3 and 0.7 < parts.std() < 1.3
    if values.dtype.kind == "c":
        assert np.abs(values.imag).max() > 1
    if values.dtype.kind in "iub" and values.itemsize >= 4:
        assert set(np.unique(values)) == {0, 1}


def test_inputs_beyond_memory_are_refused_before_they_are_made(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n", 1000))
    start = time.monotonic()
    done = graft("run", "model.onnx", "--size", "n=1000000000")
    assert done.returncode == 1 and time.monotonic() - start < 20
    assert all(part in done.stderr for part in ("4.0 TB", "'x'", "f32[1000000000, 1000]", "available", "--size")), \
        done.stderr


def test_what_the_system_has_no_memory_for_is_named(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n", 1000))
    limit = 2_000_000_000
    done = graft("run", "model.onnx", "--size", "n=800000", "--mode", "interpret",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.returncode == 1
    assert all(part in done.stderr for part in ("input 'x'", "3200000000 bytes", "smaller sizes")), done.stderr


def is_stopped_at_once(folder, number, *words):
    """Sends a signal while inputs of 2 GB are made or read."""
    process = subprocess.Popen([str(COMMAND), "run", "model.onnx", "--mode", "interpret", *words],
                               cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.2)
    start = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "stopped" in errors, errors
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_making_random_inputs_can_be_stopped(tmp_path, number):
    save_model(tmp_path, TensorProto.FLOAT, ("n", 1000))
    is_stopped_at_once(tmp_path, number, "--size", "n=500000")


def test_reading_inputs_can_be_stopped(tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, ("n", 1000))
    start = header("{'descr': '>f4', 'fortran_order': True, 'shape': (500000, 1000), }")
    with open(tmp_path / "x.npy", "wb") as file:
        file.write(start)
        file.truncate(len(start) + 2_000_000_000)
    is_stopped_at_once(tmp_path, signal.SIGTERM, "-i", "x.npy")
    (tmp_path / "x.npy").unlink()


def test_a_reference_is_compared_by_type(graft, tmp_path):
    save_model(tmp_path, TensorProto.FLOAT, (2, 3))
    x = np.array([[1, 2, 3], [4, np.nan, np.inf]], np.float32)
    np.save(tmp_path / "x.npy", x)

    def against(reference, *words):
        np.save(tmp_path / "reference.npy", reference)
        return graft("run", "model.onnx", "-i", "x.npy", "--reference", "reference.npy", *words)

    done = against(x)
    assert done.returncode == 0 and "agrees; NaN 1; infinite 1" in done.stdout, done.stdout
    changed = x.copy()
    changed[1, 0] = 4.5
    changed[0, 0] = 1.001
    done = against(changed)
    assert done.returncode == 1
    assert all(part in done.stdout for part in ("y ", "2 of 6", "worst [1, 0]: 4, reference 4.5")), done.stdout
    assert against(changed, "--rtol", "0.12").returncode == 0
    assert against(changed, "--rtol", "0", "--atol", "0.5").returncode == 0
    assert against(changed, "--rtol", "0", "--atol", "0.4").returncode == 1
    for element in (np.nan, np.inf, -np.inf):
        changed = x.copy()
        changed[0, 1] = element
        done = against(changed, "--rtol", "9", "--atol", "1e30")
        assert done.returncode == 1 and f"[0, 1]: 2, reference {element}" in done.stdout, done.stdout
    changed = x.copy()
    changed[1, 2] = -np.inf
    assert against(changed).returncode == 1
    changed[1, 2] = 7
    assert against(changed).returncode == 1


@pytest.mark.parametrize("dtype, step", [(np.int64, 1), (np.bool_, True), (np.uint8, 1), (np.float64, 1e-6),
                                         (np.complex64, 1e-2j), (np.float16, 0.1)])
def test_the_default_tolerance_is_that_of_the_type(graft, tmp_path, dtype, step):
    save_model(tmp_path, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (3,))
    x = np.array([0, 1, 1], dtype)
    changed = x.copy()
    changed[1] = x[1] ^ step if dtype == np.bool_ else x[1] + step
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "right.npz", y=x)
    np.savez(tmp_path / "wrong.npz", y=changed)
    run(graft, "-i", "x.npz", "--reference", "right.npz")
    done = graft("run", "model.onnx", "-i", "x.npz", "--reference", "wrong.npz")
    assert done.returncode == 1 and "worst [1]" in done.stdout, done.stdout


@pytest.mark.parametrize("element", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN])
def test_onnxruntime_is_a_reference_for_narrow_floats(graft, tmp_path, element):
    save_model(tmp_path, element, (2, 3))
    assert "agrees" in run(graft, "--reference", "onnxruntime").stdout


@pytest.mark.parametrize("shape, words, batch, part", [
    ((3, "batch"), ("--size", "batch=5"), 5, "axis 1 of 'x' is named batch"),
    (("length", "N"), ("--size", "N=4", "--size", "length=7"), 4, "axis 1 of 'x' is named N"),
    (("batch_size", 2), ("--dim", "batch_size=6"), 6, "compiled for batch_size=6"),
    (("length", 2), ("--size", "length=7"), 1, "no axis is named like a batch"), ((8, 2), (), 1, "no axis"),
    ((None, 2), ("--size", "x_0=7"), 7, "axis 0 of 'x' is open, and has no name"),
    ((None, 2), ("--shapes", "x:6x2"), 6, "axis 0 of 'x', fixed when compiling, and of each result"),
])
def test_items_are_counted_along_the_axis_named_batch(graft, tmp_path, shape, words, batch, part):
    save_model(tmp_path, TensorProto.FLOAT, shape)
    done = graft("bench", "model.onnx", "--tune", "off", "--iterations", "3", "--json", "row.json", *words)
    assert done.returncode == 0 and part in done.stdout and f"items = {batch} per run" in done.stdout, done.stdout
    (row,) = json.loads((tmp_path / "row.json").read_text())
    assert row["batch"] == batch
