# SPDX-License-Identifier: Apache-2.0
"""The third archive of `./dev bundle`, -torch, which needs neither of the others: the Python package as a wheel holds
it, libgraft_torch.so, and what runs inside PyTorch: tests/torch and bench/torch_networks.py."""

import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENT = ROOT / ".deps" / "torch"
# Files of the checkout, by folder: those that the tests and the bench read.
DATA = {"tests/torch": (".py", ".txt"), "tests/support": (".py",), "bench": (".py",), "python": (".toml",),
        "tools/docs": (".txt",)}

sys.path.insert(0, str(ROOT / "tests" / "support"))


def add_package(stage, build, kind):
    """The package with its libraries and entry points, as pip would unpack the wheel."""
    with_wheels = build / "wheel"
    subprocess.run([sys.executable, ROOT / "tools/wheel/run.py", "--only", kind, "-o", with_wheels], check=True,
                   stdout=subprocess.DEVNULL)
    wheel = max(with_wheels.glob(f"*-{kind.partition('-')[0]}-*.whl"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(stage / "python")
    (stage / "python/graft/bin/graft").chmod(0o755)


def add_host(stage):
    """libgraft_torch.so beside the package's libraries, where the package looks for it."""
    from framework import build_host
    packages = next(ENVIRONMENT.glob("lib/python*/site-packages/torch"), None)
    if packages is None:
        raise SystemExit(f"bundle: there is no torch in {ENVIRONMENT}: ./dev test torch installs it")
    name = build_host("torch", f"-DGRAFT_TORCH={packages}", [])
    from framework import BUILD
    target = stage / "python/graft/lib" / name
    shutil.copy(BUILD / "lib" / name, target)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def stage_all(stage, build, kind):
    """Fills the folder. `kind`: for which Python, cp311 or cp312-abi3."""
    add_package(stage, build, kind)
    add_host(stage)
    for folder, suffixes in DATA.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not {"__pycache__", "program"} & set(path.parts):
                target = stage / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    (stage / "bin").mkdir()
    shutil.copy(HERE / "torch_selftest.sh", stage / "bin/graft-torch-selftest")
    (stage / "bin/graft-torch-selftest").chmod(0o755)
    for name in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
        shutil.copy(ROOT / name, stage / name)
