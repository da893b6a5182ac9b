# SPDX-License-Identifier: Apache-2.0
"""Pages written by hand speak the trade's language: none of the phrases of words.txt. Code, derived pages and derived
tables are left alone, since they quote what the sources say. As a program this prints where sources have such phrases
(comments, messages, names of tests), which ./dev check does not ask for:

    python3 tools/checks/check_words.py [FOLDER...]
"""

import functools
import re
import sys

import check_pages
from source_files import HERE, ROOT, source_files

DERIVED_PAGE = re.compile(r"<!-- Written by ")
LEFT_ALONE = [re.compile(pattern, re.MULTILINE | re.DOTALL) for pattern in
              (r"<!-- [\w: ./-]*-->\n.*?<!-- end.*?-->", r"^```.*?^```", r"`[^`\n]+`", r"\]\([^)\s]*\)")]


@functools.cache
def phrases():
    """[(expression, replacement)] of words.txt; a blank in an expression is any white space."""
    rows = [line.split("\t") for line in (HERE / "words.txt").read_text().splitlines() if not line.startswith("#")]
    return [(re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE), instead) for phrase, instead in rows]


def prose(text):
    """The text with what is left alone made blank, character by character, so that places stay."""
    for pattern in LEFT_ALONE:
        text = pattern.sub(lambda found: re.sub(r"\S", " ", found[0]), text)
    return text


def word_faults(text):
    """Yields (position, message) for one page."""
    if DERIVED_PAGE.match(text):
        return
    blanked = prose(text)
    for phrase, instead in phrases():
        for found in phrase.finditer(blanked):
            words = " ".join(found[0].split())
            yield found.start(), f"'{words}' is not the trade's: {instead} (tools/checks/words.txt)"


def check():
    """Yields (path, line, message)."""
    for page in check_pages.pages():
        text = page.read_text()
        for position, message in word_faults(text):
            yield page, text.count("\n", 0, position) + 1, message


def main():
    """Prints the phrases in sources of the folders, all without one; exits 1 if there are any."""
    folders, count = [ROOT / name for name in sys.argv[1:]] or [ROOT], 0
    for path in source_files():
        if not any(folder in path.parents for folder in folders):
            continue
        text = path.read_text(errors="replace")
        for phrase, instead in phrases():
            for found in phrase.finditer(text):
                line, words = text.count("\n", 0, found.start()) + 1, " ".join(found[0].split())
                print(f"{path.relative_to(ROOT)}:{line}: '{words}': {instead}")
                count += 1
    print(f"{count} phrases")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
