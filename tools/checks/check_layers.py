# SPDX-License-Identifier: Apache-2.0
"""Layers point one way, and each third-party library stays in its folder.

The rules are data: layers.txt says which folder of src/ may include which, libraries.txt where a
library's headers may be seen. include/graft/ sees the standard library and itself only.
"""

import re

from source_files import HERE, ROOT, cpp_files

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')


def read_table(name):
    """The rows `left : words` of a rule file, in order."""
    rows = []
    for line in (HERE / name).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            left, _, right = line.rpartition(":")
            rows.append((left.strip(), right.split()))
    return rows


def includes(path):
    """Yields (line number, header) for each include of a file."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1]


def layer_fault(folder, header, layers):
    """Why a file of src/<folder>/ may not include the header, or None."""
    target = header.split("/")[0]
    if "/" not in header or target not in layers or target == folder:
        return None
    if folder not in layers:
        return f"src/{folder} has no row in tools/checks/layers.txt"
    if target not in layers[folder]:
        return f"{folder}/ may not include {header}; it sees {' '.join(layers[folder]) or 'nothing'}"
    return None


def public_fault(header, layers):
    """Why a public header may not include the header, or None."""
    if "/" in header and not header.startswith("graft/"):
        return f"a public header includes {header}: only graft/ and the standard library"
    return None


def library_fault(relative, header, libraries):
    """Why a file may not include a library's header, or None."""
    for pattern, folders in libraries:
        if re.fullmatch(pattern, header):
            if not any(relative.startswith(folder + "/") for folder in folders):
                return f"{header} is confined to {' '.join(folders)}"
    return None


def table_faults(layers, libraries):
    """Yields (path, line, message) for each folder that a table names and the tree lacks."""
    for folder, seen in layers.items():
        for name in (folder, *seen):
            if not (ROOT / "src" / name).is_dir():
                yield HERE / "layers.txt", 1, f"there is no src/{name}"
    for pattern, folders in libraries:
        for name in folders:
            if not (ROOT / name).is_dir():
                yield HERE / "libraries.txt", 1, f"{pattern}: there is no {name}"


def check():
    """Yields (path, line, message) for each include that breaks a rule."""
    layers = dict(read_table("layers.txt"))
    libraries = read_table("libraries.txt")
    yield from table_faults(layers, libraries)
    for path in cpp_files():
        relative = path.relative_to(ROOT).as_posix()
        parts = relative.split("/")
        if parts[0] == "src" and len(parts) == 2:
            yield path, 1, "a file of src/ lies in the folder of its layer"
            continue
        for number, header in includes(path):
            fault = library_fault(relative, header, libraries)
            if not fault and parts[0] == "src":
                fault = layer_fault(parts[1], header, layers)
            elif not fault and parts[0] == "include":
                fault = public_fault(header, layers)
            if fault:
                yield path, number, fault
