# SPDX-License-Identifier: Apache-2.0
"""English text that every installation has: docstrings of installed packages."""

import ast
import functools
import re
import warnings

from trained.case import folder_of

PACKAGES = ("sklearn", "scipy", "numpy")
FEWEST, MOST = 40, 400  # characters of a description


def documented(path):
    """Yields the docstring of each function and class of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in others' sources
        tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
            yield text


@functools.cache
def pairs():
    """(first sentence, description) of functions and classes that have both, each once, in the order of files."""
    found = {}
    for package in PACKAGES:
        for path in sorted(folder_of(package).rglob("*.py")):
            if "tests" in path.parts:
                continue
            for text in documented(path):
                parts = [" ".join(part.split()) for part in text.split("\n\n")[:2]]
                if len(parts) < 2 or re.search(r"---|::|>>>|\.\.", parts[1]) or not FEWEST <= len(parts[1]) <= MOST:
                    continue
                if len(parts[0]) >= 20:
                    found.setdefault(parts[0], parts[1])
    described = {}  # a description that several share would make two answers right
    for first, second in found.items():
        described.setdefault(second, first)
    return [(first, second) for second, first in described.items()]


@functools.cache
def words():
    """Words of 3 to 12 letters, each once, in the order of their first use."""
    found = {}
    for first, second in pairs():
        for word in re.findall(r"[A-Za-z]+", f"{first} {second}"):
            if 3 <= len(word) <= 12:
                found.setdefault(word)
    return list(found)
