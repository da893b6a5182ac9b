# SPDX-License-Identifier: Apache-2.0
"""Pages name what exists: links and their headings, files of the repository, commands of ./dev and of graft, and the
options of graft's commands, by the derived page docs/commands.md."""

import functools
import re

from source_files import ROOT

#: What the examples of pages on adding something would make.
EXAMPLES = ("src/ops/thresholded_relu.cpp", "src/passes/drop_zero_branch.cpp",
            "tests/golden/passes/drop_zero_branch.graft")
FOLDERS = "(?:src|tests|tools|docs|examples|include|python|models|bench|cmake|packaging)"
PATH = re.compile(rf"`({FOLDERS}/[\w./-]*\w)`")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
COMMAND = re.compile(r"(?:^|build/bin/|`)graft +([a-z]+)\b([^`\n#]*)", re.MULTILINE)
#: A package's name, or a word of C++, in front of no command.
NOT_COMMANDS = ("is", "and", "for", "in", "of", "error", "warning", "reason", "help")


def pages():
    """All pages."""
    return [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [
        path for folder in ("docs", "src", "tests", "examples", "python", "tools")
        for path in sorted((ROOT / folder).rglob("*.md"))]


def anchor(heading):
    """The fragment that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@functools.cache
def anchors(path):
    """The fragments of a page; lines of its code blocks are no headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def link_fault(page, target):
    """What is wrong with a link, or nothing."""
    if re.match(r"\w+:", target):
        return None
    name, _, fragment = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        return f"a dead link: {target}"
    if fragment and path.suffix == ".md" and fragment not in anchors(path):
        return f"a link to a heading that {path.name} does not have: #{fragment}"
    return None


@functools.cache
def options():
    """{command of graft: its options}, the choices of `graft compile` among those of all that compile."""
    text = (ROOT / "docs/commands.md").read_text()
    parts = dict(re.findall(r"^## graft (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    found = {name: set(re.findall(r"--[a-z][a-z-]*", part)) for name, part in parts.items()}
    for name, part in parts.items():
        if "\nCompiling: the choices of" in part:
            found[name] |= found["compile"]
        found[name.split()[0]] |= found[name]
    return found | {"build": found["compile"]}


@functools.cache
def dev_commands():
    """The commands of ./dev."""
    text = (ROOT / "dev").read_text()
    return {"help", *re.findall(r"^  ([a-z]+)\b", text.partition("<<'TEXT'")[2].partition("\nTEXT")[0], re.MULTILINE)}


def command_faults(text):
    """Yields (position, message) for commands and options that do not exist."""
    for found in re.finditer(r"(?<![\w/])\./dev ([a-z]+)", text):
        if found[1] not in dev_commands():
            yield found.start(), f"./dev has no command '{found[1]}'"
    for found in COMMAND.finditer(text):
        name, rest = found.groups()
        if name not in options():
            if name not in NOT_COMMANDS:
                yield found.start(), f"graft has no command '{name}'"
            continue
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", re.split(r"[|;&]", rest)[0]):
            if option not in options()[name] | {"--help"}:
                yield found.start(), f"graft {name} has no option {option}"


def exists(page, name):
    """Whether the repository has a path, from its root or the page; `src/ops/philox` is the .h and .cpp of that name,
    and words in capitals stand for any."""
    if name in EXAMPLES or re.search(r"\b[A-Z]{4,}\b(?!\.md)", name):
        return True
    return any((base / name).exists() or any((base / name).parent.glob((base / name).name + ".*"))
               for base in (ROOT, page.parent))


def page_faults(page, text):
    """Yields (position, message) for one page."""
    for found in LINK.finditer(re.sub(r"^```.*?^```", lambda block: " " * len(block[0]), text, flags=re.M | re.S)):
        if fault := link_fault(page, found[1]):
            yield found.start(), fault
    for found in PATH.finditer(text):
        if not exists(page, found[1]):
            yield found.start(), f"there is no {found[1]}"
    if page.name != "CHANGELOG.md":
        yield from command_faults(text)


def check():
    """Yields (path, line, message)."""
    for page in pages():
        text = page.read_text()
        for position, message in page_faults(page, text):
            yield page, text.count("\n", 0, position) + 1, message
