# SPDX-License-Identifier: Apache-2.0
"""Puts empty stand-ins beside torch's libraries for the CUDA libraries that it links and that are not installed.

`python stub_libraries.py SITE_PACKAGES`: torch then loads on any machine without 2 GB of CUDA libraries, and computes
on the CPU. A function that is called in spite of that ends the process. Needs nm, objdump and a C compiler.
"""

import pathlib
import re
import subprocess
import sys

STANDARD = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp)\.so")

VENDOR = re.compile(r"nccl|cuFile|cusparseLt|nvshmem|curand|nvrtc|nvJitLink|cu[a-z]*[A-Z]")

LOADED_LATER = frozenset(["libcaffe2_nvrtc.so"])  # and never without a GPU


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def wanted_symbols(path):
    """(name, version) of the symbols that the library looks for in others; the version may be empty."""
    found = set()
    for line in output("nm", "-D", path).splitlines():
        words = line.split()
        if words[-2] == "U":
            name, _, version = words[-1].partition("@")
            found.add((name, version))
    return found


def links_of(path):
    """The libraries that this one needs, each with the versions of symbols that it wants there."""
    links, library = {}, None
    for line in output("objdump", "-p", path).splitlines():
        words = line.split()
        if words[:1] == ["NEEDED"]:
            links.setdefault(words[1], set())
        elif words[:2] == ["required", "from"]:
            library = links.setdefault(words[2].rstrip(":"), set())
        elif library is not None and len(words) == 4 and words[0].startswith("0x"):
            library.add(words[3])
    return links


def write_stub(path, names):
    """A library whose functions end the process; `names` lists them by version."""
    script = path.with_suffix(".map")
    script.write_text("".join(f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group) or '*')} }};\n"
                              for version, group in names.items()))
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in sorted(set().union(*names.values())))
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{path.name}",
                    f"-Wl,--version-script={script}", "-o", path, "-x", "c", "-"], input=source, text=True, check=True)
    script.unlink()


def main():
    packages = pathlib.Path(sys.argv[1])
    folder = packages / "torch" / "lib"
    present = {path.name for path in [*folder.iterdir(), *packages.glob("nvidia/*/lib/*")]}
    versions, wanted = {}, set()
    for path in sorted(folder.glob("*.so")):
        if path.name in LOADED_LATER:
            continue
        for library, its_versions in links_of(path).items():
            versions.setdefault(library, set()).update(its_versions)
        wanted |= wanted_symbols(path)
    missing = sorted(name for name in versions if name not in present and not STANDARD.match(name))
    # Who defines a symbol without a version does not matter: the first library that has it does.
    loose = {name for name, version in wanted if not version and VENDOR.match(name)}
    for library in missing:
        names = {version: {name for name, its_version in wanted if its_version == version}
                 for version in sorted(versions[library])}
        write_stub(folder / library, names or {"": loose})
    print(f"{len(missing)} stand-ins: {' '.join(missing)}")


if __name__ == "__main__":
    main()
