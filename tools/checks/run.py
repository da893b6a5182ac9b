# SPDX-License-Identifier: Apache-2.0
"""`./dev check`: runs every check, prints each fault as path:line: message, exits 1 if any."""

import sys

import check_docs
import check_pages
import check_layers
import check_names
import check_style
import check_tables
import check_words
from source_files import ROOT


def main():
    """Runs the checks in order and counts."""
    faults = 0
    for module in (check_layers, check_style, check_tables, check_docs, check_pages, check_names, check_words):
        for path, line, message in module.check():
            print(f"{path.relative_to(ROOT)}:{line}: {message}")
            faults += 1
    good = "check: layers, libraries, style, tables, derived documentation, pages, their names and words hold"
    print(f"check: {faults} faults" if faults else good)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
