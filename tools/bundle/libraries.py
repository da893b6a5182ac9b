# SPDX-License-Identifier: Apache-2.0
"""The libraries that programs need beside glibc's, and the licences of what travels."""

import os
import pathlib
import re
import subprocess

# Part of every Linux with glibc, and bound to its kernel and loader: these never travel.
GLIBC = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libmvec)\.so")
# The packages whose headers or archives are compiled into our binaries.
COMPILED_IN = ("llvm-19-dev", "libspdlog-dev", "nlohmann-json3-dev", "libcli11-dev", "libflatbuffers-dev",
               "libgtest-dev")
DOCUMENTATION = pathlib.Path("/usr/share/doc")


def output_of(*words):
    """What a program prints."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def needed(file):
    """{soname: path} of everything that a program or library loads, glibc's left out."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, env=environment, check=True)
    if missing := re.findall(r"(\S+) => not found", done.stdout):
        raise SystemExit(f"bundle: {file} needs {', '.join(missing)}, which this machine lacks")
    pairs = re.findall(r"^\s*(\S+) => (/\S+)", done.stdout, re.MULTILINE)
    return {soname: pathlib.Path(path) for soname, path in pairs if not GLIBC.match(soname)}


def closure(files, inside):
    """{soname: path} of all that the files need and the folder `inside` does not hold."""
    found = {}
    for file in files:
        for soname, path in needed(file).items():
            if not path.resolve().is_relative_to(inside):
                found[soname] = path
    return found


def glibc_version(files):
    """The newest version of glibc that any of the files asks for, as a pair of numbers."""
    newest = (0, 0)
    for file in files:
        for version in re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("objdump", "-T", file)):
            newest = max(newest, tuple(map(int, version)))
    return newest


def licence_of(path):
    """(name, text file) of the package that a library comes from."""
    real = str(path.resolve())
    # Packages older than the merge of /lib into /usr/lib list their files without /usr.
    owner = subprocess.run(["dpkg-query", "-S", real, real.removeprefix("/usr")], capture_output=True, text=True,
                           check=False)
    if owner.stdout:
        package = owner.stdout.split(":", maxsplit=1)[0]
        return package, DOCUMENTATION / package / "copyright"
    for record in path.resolve().parent.glob("python3*/site-packages/*.dist-info/RECORD"):
        if path.name in record.read_text():
            return record.parent.name.split("-")[0], next(record.parent.rglob("LICENSE*"))
    raise SystemExit(f"bundle: no licence is known for {path}: neither a package of the system nor of pip has it")


def licences(paths):
    """{name: text file} for the libraries, and for what is compiled in."""
    found = dict(licence_of(path) for path in paths)
    for package in COMPILED_IN:
        text = DOCUMENTATION / package / "copyright"
        if text.exists():
            found[package] = text
    return found
