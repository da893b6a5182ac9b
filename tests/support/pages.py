# SPDX-License-Identifier: Apache-2.0
"""Code of pages, for tests that follow them to the letter."""

import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def blocks(page):
    """(language, text) of each code block of a page of docs/, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
