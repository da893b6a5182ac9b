# SPDX-License-Identifier: Apache-2.0
"""Chooses faults: the same number in each folder, in a folder the rules in turn, and in a rule by the
seed. A choice hangs on the text of its line, so that a change elsewhere leaves the others as they are."""

import hashlib
import pathlib
import re

from rules import Rules

FOLDERS = ("src/ops", "src/expr", "src/fuse", "src/tile", "src/codegen/llvm", "src/codegen/cuda")
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent.txt")


def read_equivalents():
    """The rows `path | rule | expression that the change or line matches | reason`."""
    rows = []
    for number, line in enumerate(EQUIVALENT.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 4 or not parts[3]:
            raise SystemExit(f"{EQUIVALENT}:{number}: not `path | rule | expression | reason`")
        rows.append((parts[0], parts[1], re.compile(parts[2])))
    return rows


def is_equivalent(fault, rows):
    """Whether a row of equivalent.txt names the fault."""
    return any(re.fullmatch(path, fault.path) and rule in ("*", fault.rule)
               and (expression.search(fault.change) or expression.search(fault.line_text))
               for path, rule, expression in rows)


def candidates(root, folder, rows):
    """All faults of a folder, by rule."""
    by_rule = {}
    for path in sorted((root / folder).glob("*.cpp")):
        for fault in Rules(str(path.relative_to(root)), path.read_text()).collect():
            if not is_equivalent(fault, rows):
                by_rule.setdefault(fault.rule, []).append(fault)
    return by_rule


def take_turns(by_rule, seed):
    """Yields the faults of a folder: the first of each rule, the second of each rule ..."""
    def rank(text):
        return hashlib.sha256(f"{seed}|{text}".encode()).hexdigest()

    lists = [sorted(by_rule[rule], key=lambda fault: rank(fault.key)) for rule in sorted(by_rule, key=rank)]
    for turn in range(max(map(len, lists), default=0)):
        for faults in lists:
            if turn < len(faults):
                yield faults[turn]


def choose(root, count, seed, impossible):
    """`count` faults that do not overlap; those whose key is in `impossible` do not compile."""
    rows = read_equivalents()
    chosen = []
    for k, folder in enumerate(FOLDERS):
        share = count // len(FOLDERS) + (k < count % len(FOLDERS))
        taken = {}
        for fault in take_turns(candidates(root, folder, rows), seed):
            spans = taken.setdefault(fault.path, [])
            if share == 0:
                break
            if fault.key in impossible or any(fault.begin < end and begin < fault.end for begin, end in spans):
                continue
            spans.append((fault.begin, fault.end))
            chosen.append(fault)
            share -= 1
    return chosen
