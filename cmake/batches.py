# SPDX-License-Identifier: Apache-2.0
"""Chooses which files of a folder are compiled together, and writes it as CMake source properties.

usage: batches.py OUTPUT [FOLDER...]   in the root of the sources; without folders, those that OUTPUT is about

Most of a small file's compilation is that of its headers. Files of one folder share a batch where no name that one of
them keeps to itself (in an anonymous namespace, or as a macro) occurs in another at all: they then mean together what
they mean alone. The choice depends on the files' text only, and a file is not rewritten with what it holds already.
"""
import functools
import re
import sys
from pathlib import Path

ROOTS = Path("src"), Path("include"), Path("tests")
LARGEST = 10  # files: a change of one compiles its whole batch
LINES = 2000  # so that two processors finish together

WORD = re.compile(r"[A-Za-z_]\w*")
# What a name kept by another file could be taken for: no member, no qualified name; a function only where it is called.
LOOKED_UP = re.compile(r"(?<![\w.>:])(?:[A-Za-z_]\w*)|(?<=[^-]>)[A-Za-z_]\w*|(?<=[^:]:)[A-Za-z_]\w*")
CALLED = re.compile(r"([A-Za-z_]\w*)(?=[(<{])")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
DEFINED_TYPE = re.compile(r"^(?:template <.*> *)?(?:struct|class|union|enum(?: class)?)\s+(?:\[\[\w+\]\] )?(\w+)")
ALIAS = re.compile(r"^(?:using|namespace) (\w+) =")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]+) \{", re.M)
ATTRIBUTE = re.compile(r"^\[\[\w+\]\] ")
IMPORT = re.compile(r"^using [\w:]+::(\w+);", re.M)
ENUMERATOR = re.compile(r"^  (k[A-Z]\w*)\b")
# What follows the name of a function or variable at the start of a line: its arguments, value or size.
DEFINED = re.compile(r"(::)?\b(\w+)\s*(\(|\{|\[|=|;)")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)")
ARGUMENTS = re.compile(r"<[^<>]*>")


class Text:
    """What a file looks up: the names that could be another file's."""

    def __init__(self, text):
        code = COMMENT.sub(" ", text).replace("graft::", "")  # which finds what lies in an inline namespace, too
        self.words = set(LOOKED_UP.findall(code))
        self.calls = set(CALLED.findall(code)) & self.words

    def takes(self, functions, others):
        """Whether one of the names could be meant here."""
        return not (self.calls.isdisjoint(functions) and self.words.isdisjoint(others))


def included(path, text):
    """The files of ours that the text includes; the others are of libraries, or generated."""
    for name in INCLUDE.findall(text):
        yield from (root / name for root in (path.parent, *ROOTS) if (root / name).is_file())


@functools.cache
def header(path):
    """What a header looks up, what it declares, and what it includes."""
    text = path.read_text()
    space = "::".join(NAMESPACE.findall(text))
    functions, others, _ = names_declared(text, everywhere=True)
    return Text(text), {(name, space) for name in functions | others}, tuple(included(path, text))


@functools.cache
def reached(path):
    """The header and all that it includes, of ours."""
    found, waiting = set(), [path]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += header(one)[2]
    return frozenset(found)


class Source:
    def __init__(self, path):
        text = path.read_text()
        self.path = path
        self.lines = text.count("\n")
        self.text = Text(text)
        self.headers = frozenset().union(*map(reached, included(path, text)))
        self.functions, self.others, self.directives = names_declared(text, everywhere=False)
        # What a header that was not included could give another meaning: as (name, namespace).
        self.known = {(name, "") for name in self.functions | self.others}.union(*(header(h)[1] for h in self.headers))
        self.looked_up = {name for name, _ in self.known} & self.text.words
        self.imports = {found[0]: found[1] for found in IMPORT.finditer(text)}

    def leaves(self, other):
        """Whether the other file means the same behind this one."""
        mine = self.functions, self.others
        return not (other.text.takes(*mine)
                    or (self.functions | self.others) & (other.functions | other.others)
                    or any(name in other.text.words and line not in other.imports
                           for line, name in self.imports.items())
                    or any(header(path)[0].takes(*mine) for path in other.headers - self.headers)
                    or any(name in other.looked_up and (name, space) not in other.known
                           for path in self.headers - other.headers for name, space in header(path)[1]))

    def goes_with(self, other):
        return self.directives == other.directives and self.leaves(other) and other.leaves(self)


def without_arguments(line):
    """The line without the arguments of its templates, which may look like a function's."""
    shorter = ARGUMENTS.sub("", line)
    return line if shorter == line else without_arguments(shorter)


def names_declared(text, everywhere):
    """The functions and other names that the text declares, or those of them that its file keeps to itself, and the
    namespaces that it opens for all that follows."""
    functions, others, directives = set(), set(), set()
    hidden = False
    for raw in text.split("\n"):
        line = ATTRIBUTE.sub("", COMMENT.sub('""', raw))
        if line.startswith("#define"):
            others.add(WORD.findall(line)[1])
        elif line.startswith("using namespace"):
            directives.add(line)
        elif line.startswith("namespace {"):
            hidden = True
        elif raw == "}  // namespace":
            hidden = False
        elif alias := ALIAS.match(line):
            others.add(alias[1])
        elif hidden or everywhere or line.startswith(("static ", "constexpr ")):
            if found := DEFINED_TYPE.match(line):
                others.add(found[1])
            elif enumerator := ENUMERATOR.match(line):
                others.add(enumerator[1])
            elif test := TEST.match(line):
                others.add("_".join(test.groups()))
            elif line[:1].isalpha() and not line.startswith("namespace"):
                found = DEFINED.search(without_arguments(line))
                if found and not found[1]:  # else a member, defined behind its class
                    (functions if found[3] == "(" else others).add(found[2])
    return functions, others, frozenset(directives)


def batches(folder):
    """First fit in the order of names: a file that is added or changed moves few others."""
    found = []
    for path in sorted(folder.glob("*.cpp")):
        source = Source(path)
        for batch in found:
            if (len(batch) < LARGEST and sum(s.lines for s in batch) + source.lines <= LINES
                    and all(source.goes_with(s) for s in batch)):
                batch.append(source)
                break
        else:
            found.append([source])
    return found


def main():
    output = Path(sys.argv[1])
    folders = sys.argv[2:] or output.read_text().split("\n", 1)[0].split()[1:]
    text = f"# {' '.join(folders)}\n"
    for folder in folders:
        for number, batch in enumerate(batches(Path(folder))):
            if len(batch) > 1:
                files = " ".join(f"${{CMAKE_SOURCE_DIR}}/{source.path}" for source in batch)
                name = re.sub(r"\W", "_", f"{folder}_{number}")
                text += f"set_source_files_properties({files} PROPERTIES GRAFT_BATCH {name})\n"
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


main()
