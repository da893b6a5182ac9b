# SPDX-License-Identifier: Apache-2.0
"""Where the programs and libraries of the build tree look for libraries: beside themselves, or in folders that exist.
An empty or relative entry would be the current folder, from which anybody's library would be loaded."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("bin", "lib", "emulator")
MAGIC = b"\x7fELF"


def is_elf(path):
    """Whether a file is a program or library that was built here: what is linked into the tree is not."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def entries(path):
    """The folders that an ELF file names for the loader, in order."""
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return [entry for line in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text) for entry in line.split(":")]


def fault_of(entry):
    """What is wrong with an entry, or nothing."""
    if re.match(r"\$ORIGIN(/|$)", entry):
        return ""
    if not entry.startswith("/"):
        return "is the current folder" if not entry else "is relative to the current folder"
    return "" if pathlib.Path(entry).is_dir() else "does not exist"


def main():
    """Looks at every ELF file of the build."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build"))
    files = [path for folder in FOLDERS for path in sorted((build / folder).glob("*")) if is_elf(path)]
    if not files:
        sys.exit(f"rpath: {build} holds no programs or libraries: build first")
    faults = [f"{path.relative_to(build)}: its RPATH entry '{entry}' {fault}"
              for path in files for entry in dict.fromkeys(entries(path)) if (fault := fault_of(entry))]
    if faults:
        sys.exit("\n".join(faults))
    print(f"rpath: {len(files)} programs and libraries look beside themselves and in existing folders")


if __name__ == "__main__":
    main()
