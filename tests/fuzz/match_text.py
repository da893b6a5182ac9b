# SPDX-License-Identifier: Apache-2.0
"""Writes what mutations of texts begin from: expressions that are slow where a matcher steps back, or large, and
letters whose case depends on the language; the parts of an input lie between zeros."""

import pathlib
import sys

EXPRESSIONS = [r"(a+)+$", r"(a|aa)*b", r"((a{0,100}){0,100}){0,100}", r"(x+x+)+y", r"\pN{3,9}|[^\x00-\x{10FFFF}]",
               r"(?i)straße", r"[[:alpha:]]{1,1000}", r"\C*", r"(?P<n>.)*", r"((((((((((a*)*)*)*)*)*)*)*)*)*",
               r"[a-", "*"]
LOCALES = ["en_US", "tr_TR", "de_DE@collation=phonebook", "x", "\N{SNOWMAN}"]
TEXTS = ["a", "Iı İi", "ß", "\N{LATIN SMALL LIGATURE FFI}", "\N{COMBINING ACUTE ACCENT}e"]


def main():
    """Into the folder that is named."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, expression in enumerate(EXPRESSIONS):
        parts = [expression, LOCALES[number % len(LOCALES)], *TEXTS]
        (folder / f"text_{number}").write_bytes(bytes([number, 200, 200]) + b"\0".join(map(str.encode, parts)))


if __name__ == "__main__":
    main()
