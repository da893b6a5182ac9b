# SPDX-License-Identifier: Apache-2.0
"""The libraries that programs need beside glibc's, and the licences of what travels."""

import os
import pathlib
import re
import subprocess
import tempfile

# Part of every Linux with glibc, and bound to its kernel and loader: these never travel.
GLIBC = re.compile(r"(linux-vdso|ld-linux-(x86-64|aarch64)|lib(c|m|dl|pthread|rt|resolv|util|mvec))\.so")
# The packages whose headers or archives are compiled into our binaries.
COMPILED_IN = ("llvm-19-dev", "libspdlog-dev", "nlohmann-json3-dev", "libcli11-dev", "libflatbuffers-dev",
               "libgtest-dev")
DOCUMENTATION = pathlib.Path("/usr/share/doc")
# Of another architecture: the folders of its libraries, and lists of what each package holds.
UNPACKED, FILES = [], []


def use_architecture(unpacked, architecture):
    """From here on it is about programs of that architecture, whose packages were unpacked into a folder."""
    triple = f"{architecture}-linux-gnu"
    UNPACKED[:] = [unpacked / "usr/lib" / triple, unpacked / "lib" / triple, pathlib.Path("/usr") / triple / "lib"]
    FILES[:] = sorted((unpacked / ".files").iterdir())


def output_of(*words):
    """What a program prints."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def needed(file):
    """{soname: path} of everything that a program or library loads, glibc's left out."""
    if UNPACKED:
        return needed_across(file, {})
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, env=environment, check=True)
    if missing := re.findall(r"(\S+) => not found", done.stdout):
        raise SystemExit(f"bundle: {file} needs {', '.join(missing)}, which this machine lacks")
    pairs = re.findall(r"^\s*(\S+) => (/\S+)", done.stdout, re.MULTILINE)
    return {soname: pathlib.Path(path) for soname, path in pairs if not GLIBC.match(soname)}


def needed_across(file, found):
    """The same of another architecture, whose loader does not run here: beside the file, then where it was linked."""
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", file))
    for soname in names:
        if GLIBC.match(soname) or soname in found:
            continue
        places = [folder / soname for folder in (file.parent, file.parent.parent / "lib", *UNPACKED)]
        path = next((place for place in places if place.exists()), None)
        if not path:
            raise SystemExit(f"bundle: {file} needs {soname}, which was not unpacked here")
        found[soname] = path
        needed_across(path, found)
    return found


def keep_relative_places(files):
    """Takes folders of this machine out of where programs and libraries look for libraries."""
    for file in files:
        for places in re.findall(r"\(RPATH\).*\[(.*)\]", output_of("readelf", "-dW", file)):
            kept = ":".join(place for place in places.split(":") if place.startswith("$ORIGIN"))
            if kept == places:
                continue
            script = f'file(RPATH_CHANGE FILE "{file}" OLD_RPATH [=[{places}]=] NEW_RPATH [=[{kept}]=])\n'
            with tempfile.NamedTemporaryFile("w", suffix=".cmake") as text:
                text.write(script)
                text.flush()
                subprocess.run(["cmake", "-P", text.name], check=True)


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
        for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", output_of("readelf", "-VW", file)):
            newest = max(newest, tuple(map(int, version)))
    return newest


def licence_of(path):
    """(name, text file) of the package that a library comes from."""
    real = str(path.resolve())
    for listed in FILES:
        root = listed.parent.parent
        if path.is_relative_to(root) and f"./{path.relative_to(root)}\n" in listed.read_text():
            return listed.name, root / "usr/share/doc" / listed.name / "copyright"
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
    documentation = FILES[0].parent.parent / "usr/share/doc" if FILES else DOCUMENTATION
    for package in COMPILED_IN:
        text = documentation / package / "copyright"
        if text.exists():
            found[package] = text
    return found
