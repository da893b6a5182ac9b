# SPDX-License-Identifier: Apache-2.0
"""The tables name what the folders hold: operators in all_ops.inc, passes in pipeline.cpp, rewrites of regions in
region_rewrites.cpp, each with its golden test. A file that no table names would be built and never run."""

import re

from source_files import ROOT


def rows(path):
    """The identifiers that the rows of a table use, in lower case without underscores."""
    text = re.sub(r"//.*", "", path.read_text())
    return {word.lower().replace("_", "") for word in re.findall(r"\w+", text)}


def named(stem, table):
    """Whether the table mentions the stem, or names that start or end with it (a close family)."""
    plain = stem.replace("_", "")
    return any(plain in word for word in table)


def check_operators():
    """Each function `family_ops()` of a file in ops/ is the row GRAFT_OPS(family) of all_ops.inc."""
    folder = ROOT / "src/ops"
    table_file = folder / "all_ops.inc"
    if not table_file.exists():
        return
    table = set(re.findall(r"^GRAFT_OPS\((\w+)\)", table_file.read_text(), re.MULTILINE))
    for path in sorted(folder.glob("*.cpp")):
        for family in re.findall(r"^std::vector<OpDef> (\w+)_ops\(\)", path.read_text(), re.MULTILINE):
            if family not in table:
                yield path, 1, f"defines {family}_ops(), and all_ops.inc has no GRAFT_OPS({family})"


def check_passes():
    """Each file of passes/ is a row of pipeline.cpp and has a golden test of its name."""
    pipeline = ROOT / "src/passes/pipeline.cpp"
    if not pipeline.exists():
        return
    table = rows(pipeline)
    golden = ROOT / "tests/golden"
    for path in sorted((ROOT / "src/passes").glob("*.cpp")):
        if path == pipeline or "Graph" not in path.read_text() or not is_pass(path):
            continue
        if not named(path.stem, table):
            yield path, 1, "is a pass that pipeline.cpp does not list"
        if not any(golden.rglob(f"{path.stem}*")):
            yield path, 1, f"is a pass without a golden test: tests/golden/**/{path.stem}*"


def check_region_rewrites():
    """Each rewrite that rewrite_region.h declares is a row of region_rewrites.cpp and has a golden test."""
    header = ROOT / "src/fuse/rewrite_region.h"
    table = ROOT / "src/fuse/region_rewrites.cpp"
    if not header.exists():
        return
    for number, line in enumerate(header.read_text().splitlines(), 1):
        declared = re.match(r"void (\w+)\(Region& region\);", line)
        if not declared:
            continue
        if f'"{declared[1]}"' not in table.read_text():
            yield header, number, f"{declared[1]} is a rewrite that region_rewrites.cpp does not list"
        if not (ROOT / f"tests/golden/regions/{declared[1]}.graft").exists():
            yield header, number, f"{declared[1]} has no golden test: tests/golden/regions/{declared[1]}.graft"


def is_pass(path):
    """A pass is a file whose stem is also the name of a function that it defines."""
    return re.search(rf"^\w[\w:<>&* ]*\b{path.stem}\(", path.read_text(), re.MULTILINE) is not None


def check():
    """Yields (path, line, message) for each file that no table names."""
    yield from check_operators()
    yield from check_passes()
    yield from check_region_rewrites()
