# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation that are read off the sources are up to date. (The pages that need a build are checked
by the test `docs`.)"""

import sys

from source_files import ROOT

sys.path.insert(0, str(ROOT / "tools/docs"))

import tables  # noqa: E402


def check():
    """Yields (path, line, message) for each page that `./dev docs` would write differently."""
    try:
        for path, text in tables.derived_pages():
            if not path.exists() or path.read_text() != text:
                yield path, 1, "a derived table or picture is out of date: ./dev docs writes it"
    except ValueError as error:
        yield ROOT / "docs", 1, str(error)
