# SPDX-License-Identifier: Apache-2.0
"""What STYLE asks of each file and can be counted: licence line, length of files, functions and
lines, no tabs, no trailing blanks; and that nothing prints past the one place that escapes names."""

import re

from source_files import CPP, ROOT, source_files

LICENCE = "SPDX-License-Identifier: Apache-2.0"
MAX_FILE = 600
MAX_FUNCTION = 80
MAX_COLUMN = 120
TABLES = {".inc", ".fbs", ".proto"}
PRINTING = re.compile(r"\bfmt::print\(|\bstd::(cout|cerr|clog)\b|\b(f?puts|f?printf|fwrite|putchar)\(")
PRINTERS = {"tools/graft/console.cpp", "src/base/log.cpp", "src/base/environment.cpp"}  # which escape names from files
NOT_A_FUNCTION = ("namespace", "extern", "struct", "class", "enum", "union", "typedef", "#", "//", "}")


def long_functions(lines):
    """Yields (line, length) of the functions at namespace level that exceed the limit.

    Such a definition starts at column 0 with a line that opens no type, and ends with `}` alone at
    column 0; a declaration or a table ends with `;` first and is not one.
    """
    start = None
    for number, line in enumerate(lines, 1):
        if not line or line[0].isspace():
            continue
        if line == "}" and start:
            if number - start + 1 > MAX_FUNCTION:
                yield start, number - start + 1
            start = None
        elif line.endswith((";", "}")) or line.startswith(NOT_A_FUNCTION):
            start = None
        elif start is None:
            start = number


def line_fault(line, is_table):
    """What is wrong with one line, or None."""
    if "\t" in line:
        return "a tab: indent with blanks"
    if line != line.rstrip():
        return "blanks at the end of the line"
    if len(line) > MAX_COLUMN and not is_table:
        return f"{len(line)} columns, at most {MAX_COLUMN}"
    return None


def prints_by_itself(path):
    """Whether the lines of a file may not print: names from files are escaped in one place."""
    place = path.relative_to(ROOT).as_posix()
    return place.startswith(("src/", "tools/graft/")) and place not in PRINTERS


def check():
    """Yields (path, line, message) for each departure."""
    for path in source_files():
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        if not any(LICENCE in line for line in lines[:2]):
            yield path, 1, f"the first line lacks `{LICENCE}`"
        if len(lines) > MAX_FILE and path.suffix not in TABLES:
            yield path, 1, f"{len(lines)} lines, at most {MAX_FILE}: make two files of it"
        for number, line in enumerate(lines, 1):
            fault = line_fault(line, path.suffix in TABLES)
            if fault:
                yield path, number, fault
            if PRINTING.search(line) and prints_by_itself(path):
                yield path, number, "prints past the console: use print_to, print_text or log, which escape names"
        if path.suffix in CPP:
            for number, length in long_functions(lines):
                yield path, number, f"a function of {length} lines, at most {MAX_FUNCTION}"
