# SPDX-License-Identifier: Apache-2.0
"""`./dev bundle`: a folder that runs on another Linux of glibc 2.36 or newer, with nothing installed but, for a GPU,
the CUDA libraries. `./dev bundle --for aarch64` makes it of the cross build.

Two archives are made. graft-VERSION-linux-x86_64.tar.xz holds the command, the libraries, headers, tests and their
data, and the scripts that write the test networks (weights come from a seed, where they are written). The second, -cpu,
holds the CPU code generator, oneDNN, and what reads texts and images; unpacked into the same folder it makes CPU
kernels too. Without it, models run on a GPU, or in the interpreter. The third, -torch (--part torch), is for inside
PyTorch and stands alone (torch_part).
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import libraries
import torch_part

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MOST_BYTES = 36e6
MOST_GLIBC = (2, 36)
CPU_MODULES = ("libgraft_llvm.so", "libgraft_onednn.so", "libgraft_text.so", "libgraft_image.so")
CPU_TESTS = ("graft_llvm_tests", "graft_onednn_tests")
# Folders of the checkout whose files of these kinds travel; caches do not.
DATA = {"models": (".py",), "bench": (".py", ".json"), "tests/conformance": (".py", ".txt"), "tests/ops": (".py",),
        "tests/device": (".py",), "tests/cudnn": (".json",), "tests/golden": (".graft",),
        "examples/embed": (".cpp", ".txt")}


def build_folder():
    """The build that the bundle is made from."""
    return pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))


def version():
    """Graft's version, as CMakeLists.txt states it."""
    return re.search(r"project\(graft VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def install(stage):
    """Installs the build and its tests, stripped, with paths relative to themselves."""
    for component in ("Unspecified", "tests"):
        subprocess.run(["cmake", "--install", build_folder(), "--prefix", stage, "--component", component, "--strip"],
                       check=True, stdout=subprocess.DEVNULL)


def binaries(folder):
    """The programs and libraries of a folder, each once."""
    places = [*folder.glob("bin/*"), *folder.glob("libexec/*"), *folder.glob("lib/*.so*")]
    return sorted(path for path in places if not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF")


def is_cpu_part(path):
    """Whether a binary of ours belongs to the second archive."""
    return path.name in CPU_MODULES or path.name in CPU_TESTS


def add_libraries(stage):
    """Copies what the binaries need; gives the files of the CPU part, and {name: licence} of each part."""
    own = binaries(stage)
    # oneDNN's library was installed with its module, under its own name.
    foreign = [path for path in own if path.name.startswith("libdnnl")]
    main = libraries.closure([path for path in own if not is_cpu_part(path) and path not in foreign], stage)
    cpu = libraries.closure([path for path in own if is_cpu_part(path)] + foreign, stage)
    cpu = {soname: path for soname, path in cpu.items() if soname not in main}
    libraries.keep_relative_places(own)
    for soname, path in {**main, **cpu}.items():
        shutil.copy(path.resolve(), stage / "lib" / soname)
        (stage / "lib" / soname).chmod(0o755)
    prefix = ROOT / ".deps/venv/lib"
    origins = [*cpu.values(), *(prefix / path.name for path in foreign)]
    cpu_files = [path for path in own if is_cpu_part(path)] + foreign + [stage / "lib" / soname for soname in cpu]
    return cpu_files, libraries.licences(main.values()), libraries.licences(origins)


def add_licences(stage, folder, found):
    """Writes the licence texts; gives the files."""
    target = stage / "licences" / folder
    target.mkdir(parents=True, exist_ok=True)
    return [pathlib.Path(shutil.copy(text.resolve(), target / f"{name}.txt")) for name, text in sorted(found.items())]


def add_data(stage):
    """Copies scripts and data of the checkout, and writes the cases of the conformance suite."""
    for folder, suffixes in DATA.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and "__pycache__" not in path.parts:
                target = stage / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    subprocess.run([sys.executable, ROOT / "tests/conformance/run.py", "--write-cases",
                    stage / "tests/conformance/cases.zip"], check=True)
    for name in ("tiny_mlp", "tiny_cnn", "tiny_transformer"):
        (stage / "share/graft").mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, ROOT / "models/networks.py", name, "-o", stage / f"share/graft/{name}.onnx"],
                       check=True, stdout=subprocess.DEVNULL)
    shutil.copy(HERE / "README.md", stage / "README.md")
    for name in ("LICENSE", "THIRD_PARTY_NOTICES.md"):
        shutil.copy(ROOT / name, stage / name)
    shutil.copy(HERE / "selftest.sh", stage / "bin/graft-selftest")
    (stage / "bin/graft-selftest").chmod(0o755)


def stage_all(stage):
    """Fills the folder; gives the set of files that belong to the CPU part."""
    install(stage)
    cpu_files, main_licences, cpu_licences = add_libraries(stage)
    add_data(stage)
    add_licences(stage, "", main_licences)
    cpu_files += add_licences(stage, "cpu", {k: v for k, v in cpu_licences.items() if k not in main_licences})
    asked = libraries.glibc_version(binaries(stage))
    if asked > MOST_GLIBC:
        raise SystemExit(f"bundle: these binaries need glibc {asked[0]}.{asked[1]}, newer than "
                         f"{MOST_GLIBC[0]}.{MOST_GLIBC[1]}: build them on an older system (Debian 12)")
    return {path.relative_to(stage) for path in cpu_files}


def pack(stage, files, name, archive):
    """Writes files below a folder `name` into an archive, whole or not at all; gives its bytes."""
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for file in sorted(files):
            tar.add(stage / file, f"{name}/{file}", recursive=False, filter=plain_owner)
    # xz's own program uses all processors. Programs that are linked with the same code are neighbours in the archive:
    # the window is as large as two of them.
    subprocess.run(["xz", "--threads=0", "--lzma2=preset=6,dict=32MiB", "--force", "--suffix=.xz", partial], check=True)
    os.replace(f"{partial}.xz", archive)
    return archive.stat().st_size


def plain_owner(item):
    """Nobody's in particular: the archive does not tell who made it."""
    item.uid = item.gid = 0
    item.uname = item.gname = "root"
    return item


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev bundle", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the folder for the archives (build/bundle)")
    parser.add_argument("--part", choices=["main", "cpu", "all", "torch"], default="all",
                        help="which archive to write (all: main and cpu)")
    parser.add_argument("--python", choices=["cp311", "cp312-abi3"], default="cp312-abi3",
                        help="for which Python --part torch is (cp312-abi3: 3.12 and newer)")
    parser.add_argument("--for", dest="architecture", default="x86_64", choices=["x86_64", "aarch64"],
                        help="of the cross build for that architecture, without --part torch (x86_64)")
    parser.add_argument("--unpacked", action="store_true", help="leave a folder there, not archives")
    options = parser.parse_args()
    if options.architecture != "x86_64" and options.part == "torch":
        parser.error("--part torch: PyTorch's part is for x86_64")
    return options


def main():
    """Makes the archives and says how large they are."""
    options = arguments()
    if options.architecture != "x86_64":
        libraries.use_architecture((ROOT / ".deps" / options.architecture).resolve(), options.architecture)
    output = (options.output or build_folder() / "bundle").resolve()
    output.mkdir(parents=True, exist_ok=True)
    name = f"graft-{version()}-linux-{options.architecture}"
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        stage = pathlib.Path(scratch).resolve() / name
        stage.mkdir()
        cpu_files = stage_all(stage) if options.part != "torch" else set()
        if options.part == "torch":
            torch_part.stage_all(stage, build_folder().resolve(), options.python)
        every = {path.relative_to(stage) for path in stage.rglob("*") if path.is_file() or path.is_symlink()}
        parts = {"main": (every - cpu_files, f"{name}.tar.xz"), "cpu": (cpu_files, f"{name}-cpu.tar.xz")}
        if options.part == "torch":
            parts = {"torch": (every, f"{name}-torch.tar.xz")}
        elif options.part != "all":
            parts = {options.part: parts[options.part]}
        if options.unpacked:
            for file in every - set().union(*(files for files, _ in parts.values())):
                (stage / file).unlink()
            shutil.rmtree(output / name, ignore_errors=True)
            os.replace(stage, output / name)
            print(output / name)
            return 0
        for part, (files, archive) in parts.items():
            size = pack(stage, files, name, output / archive)
            print(f"{output / archive}: {size / 1e6:.1f} MB, {len(files)} files")
            if part == "main" and size > MOST_BYTES:
                raise SystemExit(f"bundle: that is more than the {MOST_BYTES / 1e6:.0f} MB that it may take")
    return 0


if __name__ == "__main__":
    sys.exit(main())
