# SPDX-License-Identifier: Apache-2.0
"""Whether a wheel keeps its promises: it asks for nothing that a Linux of its platform tag may lack, looks for
libraries only inside itself, holds the licences of what it carries, and is small.

    python tools/wheel/audit.py build/wheel/*.whl
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

MOST_BYTES = 60e6
# What every Linux with glibc has by PEP 600; everything else lies inside.
SYSTEM = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libz)\.so\.\d")
# Symbol versions of libstdc++ and libgcc that a system of a glibc has at the least (Debian 12: glibc 2.36, GCC 12).
MOST_VERSIONS = {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
# What each of ours holds a part of, by a word of the name of its licence's text; and whose they are that lie beside.
COMPILED_IN = {"graft": ["cli11", "spdlog", "nlohmann", "flatbuffers"], "libgraft_llvm.so": ["llvm"],
               "_graft": ["nanobind"]}
CARRIED = {"libfmt": "fmt", "libprotobuf": "protobuf", "libxxhash": "xxhash", "libzstd": "zstd", "libgomp": "gomp",
           "libdnnl": "onednn/THIRD-PARTY-PROGRAMS", "libLLVM": "llvm", "libtinfo": "tinfo", "libedit": "edit",
           "libre2": "re2", "libicu": "icu", "libjpeg": "jpeg", "libpng": "png", "libwebp": "webp",
           "libopenjp2": "openjp2"}
MAGIC = b"\x7fELF"


def output_of(*words):
    """What a program prints."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def symbol_versions(file):
    """{name: newest} of the versions of other libraries' symbols that a file asks for: {"GLIBC": (2, 34)}."""
    newest = {}
    needs = re.search(r"Version needs section.*", output_of("readelf", "-VW", file), re.DOTALL)
    for name, number in re.findall(r"Name: (\w+)_([\d.]+)\s", needs[0] if needs else ""):
        newest[name] = max(newest.get(name, ()), tuple(map(int, number.split("."))))
    return newest


def dynamic_entries(file, kind):
    """What the dynamic section says: NEEDED, RPATH, RUNPATH, SONAME."""
    return re.findall(rf"\({kind}\).*\[(.*)\]", output_of("readelf", "-dW", file))


def binaries(folder):
    """The programs and libraries below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.open("rb").read(4) == MAGIC)


def glibc_of(files):
    """The glibc that the files ask for, as a pair of numbers."""
    return max(symbol_versions(file).get("GLIBC", (2, 0))[:2] for file in files)


def faults_of_file(path, inside):
    """What is wrong with a program or library, beside which lie libraries of the names `inside`."""
    for name in dynamic_entries(path, "NEEDED"):
        if name not in inside and not SYSTEM.match(name):
            yield f"needs {name}, which a system may lack and the wheel does not hold"
    for kind in ("RPATH", "RUNPATH"):
        for entry in ":".join(dynamic_entries(path, kind)).split(":"):
            if entry and not re.match(r"\$ORIGIN(/|$)", entry):
                yield f"looks for libraries in {entry}"
    for name, newest in symbol_versions(path).items():
        if newest > MOST_VERSIONS.get(name, newest):
            yield f"asks for {name}_{'.'.join(map(str, newest))}"


def missing_licences(files, texts):
    """What the programs and libraries hold and no text is there for, by the names of the texts."""
    wanted = set()
    for path in files:
        stem = path.name.split(".")[0]
        wanted.update(COMPILED_IN.get(path.name, []), COMPILED_IN.get(stem, []))
        if stem.startswith("lib") and not stem.startswith(("libgraft", "libtriton_graft")):
            wanted.add(next((text for name, text in CARRIED.items() if stem.startswith(name)), stem))
    return sorted(word for word in wanted if not any(word in text for text in texts))


def faults_of(wheel):
    """What is wrong with a wheel, as sentences."""
    if wheel.stat().st_size > MOST_BYTES:
        yield f"{wheel.stat().st_size / 1e6:.1f} MB are more than {MOST_BYTES / 1e6:.0f}"
    tag = re.search(r"-manylinux_(\d+)_(\d+)_x86_64\.whl$", wheel.name)
    if not tag:
        yield "its name states no glibc"
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
            names = archive.namelist()
        files = binaries(folder)
        if glibc_of(files) > tuple(map(int, tag.groups())):
            yield f"its files ask for glibc {glibc_of(files)}"
        inside = {path.name for path in files}
        for path in files:
            yield from (f"{path.relative_to(folder)} {fault}" for fault in faults_of_file(path, inside))
        texts = [name for name in names if name.startswith("graft/licences/")]
        for word in missing_licences(files, texts):
            yield f"there is no licence of {word}"
        for wanted in ("graft/__init__.py", "graft/py.typed", "graft/_graft.pyi", "graft/bin/graft",
                       "graft/lib/libgraft_llvm.so"):
            if wanted not in names:
                yield f"{wanted} is missing"


def main():
    """Looks at each wheel."""
    for name in sys.argv[1:]:
        wheel = pathlib.Path(name)
        if faults := list(faults_of(wheel)):
            sys.exit("\n".join(f"{wheel.name}: {fault}" for fault in faults))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
