# SPDX-License-Identifier: Apache-2.0
"""Writes what an installed package says of itself into a build tree: `python_metadata.py PYPROJECT FOLDER`."""

import pathlib
import sys
import tomllib


def main():
    """The name, the version and the entry points, as pip would write them."""
    project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
    folder = pathlib.Path(sys.argv[2]) / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\n"
                                     f"Version: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
