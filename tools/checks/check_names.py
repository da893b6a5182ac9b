# SPDX-License-Identifier: Apache-2.0
"""Names in pages written by hand exist: environment variables, functions and types of the C, C++ and Python interfaces,
files of src named without `src/`, and options of ./dev. A name exists if a source has it as a word."""

import functools
import re

import check_pages
import check_words
from source_files import ROOT, files_with, source_files

#: What graft makes in the examples of pages: an output of an engine, a plugin.
EXAMPLES = ("graft_engine0_output0", "graft_det")
#: Variables, functions and binaries, and names of C++ and Python.
NAME = re.compile(r"\bGRAFT_[A-Z]\w*|\bgraft_[a-z]\w*|\bgraft(?:::\w+)+|(?<![\w./:@-])graft(?:\.[A-Za-z_]\w*)+")
#: Where the programs behind the commands of ./dev state their options.
PROGRAMS = {"bench": "bench", "bundle": "tools/bundle", "conformance": "tests/conformance", "demo": "examples/demo",
            "docs": "tools/docs", "fuzz": "tests/fuzz", "mutate": "tests/mutate", "replay": "tests/replay",
            "wheel": "tools/wheel"}
DEV = re.compile(r"(?<![\w/])\./dev ([a-z]+)([^`\n#|;&]*)")


def words(paths):
    """The words of files."""
    return {word for path in paths for word in re.findall(r"\w+", path.read_text(errors="replace"))}


@functools.cache
def all_words():
    """The words of all sources."""
    return words(source_files())


@functools.cache
def python_words():
    """The words of the Python package."""
    return words(path for path in files_with({".py", ".pyi"}) if (ROOT / "python") in path.parents)


@functools.cache
def folders():
    """The folders of src."""
    return "|".join(sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir()))


@functools.cache
def options(command):
    """The options of a command of ./dev, or nothing where they are cmake's or a file has them all."""
    text = (ROOT / "dev").read_text()
    if command in PROGRAMS:
        text += "".join(path.read_text() for path in sorted((ROOT / PROGRAMS[command]).rglob("*.py")))
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))


def name_exists(name):
    """Whether some source has the words of a name; `graft_KIND_tests` are made of the folders of tests."""
    if kind := re.fullmatch(r"graft_(\w+?)_tests", name):
        return any((ROOT / "tests" / folder).is_dir() for folder in (kind[1], kind[1] + "s"))
    if name.startswith("graft."):
        return not {*re.findall(r"\w+", name)} - {"graft"} - python_words()
    return name in EXAMPLES or not {*re.findall(r"\w+", name)} - all_words()


def name_faults(page, text):
    """Yields (position, message) for names that nothing has."""
    for found in NAME.finditer(text):
        if not name_exists(found[0]):
            yield found.start(), f"nothing is called {found[0]}"
    for found in re.finditer(rf"`((?:{folders()})/[\w./-]*\w)`", text):
        if not check_pages.exists(page, f"src/{found[1]}") and not check_pages.exists(page, found[1]):
            yield found.start(), f"there is no src/{found[1]}"
    for found in DEV.finditer(text):
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", found[2]):
            if found[1] != "build" and option not in options(found[1]):
                yield found.start(), f"./dev {found[1]} has no option {option}"


def check():
    """Yields (path, line, message)."""
    for page in check_pages.pages():
        text = page.read_text()
        if check_words.DERIVED_PAGE.match(text):
            continue
        for position, message in name_faults(page, text):
            yield page, text.count("\n", 0, position) + 1, message
