# SPDX-License-Identifier: Apache-2.0
"""What somebody who installs the wheel relies on: packed from the build under test and installed into a virtual
environment that has nothing but numpy, it imports, compiles the demo's network, computes what ONNX Runtime computes,
reads texts and an image, and its command runs; all that is loaded lies inside, or is on the list of what every Linux
has. Where PyTorch is in .deps/torch, `graft-host` builds its library from what the wheel carries, and TorchScript uses
it."""

import os
import pathlib
import shutil
import struct
import sys
import sysconfig
import tempfile
import time
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")).resolve()
SITE = pathlib.Path(sysconfig.get_path("purelib"))
sys.path[:0] = [str(ROOT / "tools/wheel"), str(ROOT / "models"), str(ROOT / "tests")]

import audit  # noqa: E402
from support.command import run  # noqa: E402
from support.modules import missing_modules  # noqa: E402

MODEL = """
import numpy as np

def mapped():
    return {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if ".so" in line}

feeds = dict(np.load("feeds.npz"))
before = mapped()  # Python's own and numpy's
import graft

engine = graft.compile("model.onnx", dims={"batch": (1, 2, 4), "length": (1, 16, 32)}, tune="off")
results = engine.run(feeds)
engine.save("model.graft")
np.savez("results.npz", **graft.load("model.graft").run(feeds))
assert all(np.isfinite(result).all() for result in results.values())
ways = engine.describe()["ways"]
assert ways["generated"] > 0 and ways["interpreter"] == 0, ways

engine = graft.compile("values.onnx", tune="off")
upper, matches, pixels = engine(np.array(["monday", "2 \u00e4pfel"]), np.fromfile("pixels.png", np.uint8))
assert upper.tolist() == ["MONDAY", "2 \u00c4PFEL"] and matches.tolist() == [False, True], (upper, matches)
assert pixels.tolist() == [[[255, 0, 0], [1, 2, 3]]], pixels
print(graft.__version__, graft.__file__)
print(*sorted(mapped() - before), sep="\\n")
"""


TORCHSCRIPT = """
import torch, graft.torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
x = torch.ones(2, 8)
made = graft.torch.script.compile(torch.jit.trace(net, x), [x], tune="off", require_full=True)
torch.testing.assert_close(made(x), net(x))
print(graft.__file__)
"""


def write_model(folder):
    """The demo's network, inputs for it, and what ONNX Runtime makes of them; gives that."""
    import minilm
    import numpy as np
    import onnxruntime
    os.symlink(minilm.cached_path(), folder / "model.onnx")
    ids = np.random.default_rng(3).integers(1000, 2000, (2, 16))
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    np.savez(folder / "feeds.npz", **feeds)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))


def png(rows):
    """An image of pixels of three bytes, as a file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def write_values_model(folder):
    """A network that looks inside of strings and an image, which others' libraries do that the wheel carries."""
    import onnx
    from onnx import TensorProto, helper
    def tensor(name, shape, kind):
        return helper.make_tensor_value_info(name, kind, shape)
    nodes = [helper.make_node("StringNormalizer", ["x"], ["upper"], case_change_action="UPPER", locale="de_DE"),
             helper.make_node("RegexFullMatch", ["x"], ["matches"], pattern=r"\d .*"),
             helper.make_node("ImageDecoder", ["file"], ["pixels"])]
    graph = helper.make_graph(
        nodes, "values", [tensor("x", ["n"], TensorProto.STRING), tensor("file", ["bytes"], TensorProto.UINT8)],
        [tensor("upper", ["m"], TensorProto.STRING), tensor("matches", ["n"], TensorProto.BOOL),
         tensor("pixels", ["height", "width", 3], TensorProto.UINT8)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
              folder / "values.onnx")
    (folder / "pixels.png").write_bytes(png([[255, 0, 0, 1, 2, 3]]))


def make_environment(folder, wheel):
    """A virtual environment with the wheel in it, and numpy as it is here; gives its python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", wheel)
    place = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for package in ("numpy", "numpy.libs"):
        if (SITE / package).exists():
            os.symlink(SITE / package, place / package)
    return python


def try_host(folder, wheel):
    """One command after `pip install`: the library for the torch that the tests have."""
    torch_python = ROOT / ".deps/torch/bin/python"
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not torch_python.is_file() or not run(torch_python, "--version").startswith(f"Python {tag}."):
        print(f"SKIPPED: graft-host, there is no PyTorch for Python {tag} in {torch_python.parent.parent}")
        return
    site = folder / "site"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
        "--target", site, wheel)
    caching = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": "/", "CCACHE_NOHASHDIR": "1"}
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(site),
             **(caching if shutil.which("ccache") else {})}
    start = time.monotonic()
    made = pathlib.Path(run(torch_python, "-m", "graft.hosts", "torch", cwd=folder, env=clean).strip())
    if made != site / "graft/lib/libgraft_torch.so" or list(made.parent.glob(".*")):
        sys.exit(f"wheel: graft-host wrote {made} and left {list(made.parent.glob('.*'))}")
    for needed in ("include/graft/torchscript.h", "lib/cmake/graft_torch/graft_torch-config.cmake"):
        if not (site / "graft" / needed).is_file():
            sys.exit(f"wheel: programs in C++ find no {needed}")
    if run(torch_python, "-m", "graft.hosts", "--prefix", env=clean).strip() != str(site / "graft"):
        sys.exit("wheel: graft-host --prefix names another folder than that of the package")
    if not pathlib.Path(run(torch_python, "-c", TORCHSCRIPT, cwd=folder, env=clean).strip()).is_relative_to(site):
        sys.exit("wheel: TorchScript ran with another package")
    print(f"graft-host built and tried in {time.monotonic() - start:.0f} s")


def strangers(loaded, folder):
    """The libraries that were loaded although they are neither the wheel's nor every Linux's."""
    for path in map(pathlib.Path, loaded):
        of_others = any(part in path.parts for part in ("numpy", "numpy.libs", "lib-dynload"))
        if not of_others and not path.is_relative_to(folder) and not audit.SYSTEM.match(path.name):
            yield str(path)


def main():
    """Packs, looks, installs and tries."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        name = "cp311" if sys.version_info[:2] == (3, 11) else "cp312-abi3"
        print(run(sys.executable, ROOT / "tools/wheel/run.py", "--python", sys.executable, "--only", name, "-o", folder,
                  env={**os.environ, "GRAFT_BUILD": str(BUILD)}), end="")
        wheel, = folder.glob("graft_compiler-*.whl")
        if missing := missing_modules(BUILD, zipfile.ZipFile(wheel).namelist()):
            sys.exit(f"wheel: these modules were built and are not in it: {', '.join(missing)}")
        packed = time.monotonic()
        expected = write_model(folder)
        write_values_model(folder)
        python = make_environment(folder / "environment", wheel)
        clean = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(folder)}
        version, *loaded = run(python, "-c", MODEL, cwd=folder, env=clean).splitlines()
        if not pathlib.Path(version.split()[1]).is_relative_to(folder):
            sys.exit(f"wheel: {version} is not the installed one")
        if found := list(strangers(loaded, folder)):
            sys.exit("wheel: these libraries of the system were loaded: " + ", ".join(found))
        import numpy as np
        for output, result in np.load(folder / "results.npz").items():
            np.testing.assert_allclose(result, expected[output], atol=1e-4)
        for command in (["graft", "--help"], ["graft", "run", "model.graft", "--input", "feeds.npz"]):
            run(*command, cwd=folder, env=clean)
        if version.split()[0] not in run("graft", "--version", cwd=folder, env=clean):
            sys.exit("wheel: the command is of another version")
        try_host(folder, wheel)
    print(f"packed in {packed - start:.0f} s, installed and tried in {time.monotonic() - packed:.0f} s")


if __name__ == "__main__":
    main()
