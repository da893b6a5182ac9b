# SPDX-License-Identifier: Apache-2.0
"""Tables of networks by doors in pages of the documentation: a process for each row, whose result is a file of its own,
so that a table goes on where it stopped."""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

MOST_SECONDS = 1800  # of a row: one that takes longer is a failure


@dataclass
class DoorTable:
    """page     where the table stands, between `begin` and `end`
    folder   where rows are kept
    program  started as PROGRAM NETWORK DOOR SETTING... FILE for each row, of which it calls write_row()
    cell     a row as the table has it; None is a row that is not there yet
    notes    lines behind the table, of all rows by (network, door)
    """

    page: pathlib.Path
    begin: str
    end: str
    folder: pathlib.Path
    program: pathlib.Path
    names: list
    doors: list
    cell: Callable
    notes: Callable = lambda rows: []

    def path_of(self, name, door):
        """Where the row of a network and a door is kept."""
        network, way = (re.sub(r"[^A-Za-z0-9_.-]+", "_", text.removeprefix(".")) for text in (name, door))
        return self.folder / f"{network}--{way}.json"

    def row(self, name, door):
        """The row, or None."""
        path = self.path_of(name, door)
        return json.loads(path.read_text()) if path.is_file() else None

    def run(self, options, settings):
        """Measures the rows that were asked for with --cases, or else those that are missing, each in a process of its
        own, and writes the table after each."""
        for name in self.names:
            for door in self.doors:
                path = self.path_of(name, door)
                if not re.search(options.cases, name) or not re.search(options.doors, door):
                    continue
                if path.is_file() and not options.cases and not options.again:
                    continue
                self.run_row(name, door, settings)
                print(f"{name}, {door}: {self.cell(self.row(name, door))}", flush=True)
                self.write()
        self.write()

    def run_row(self, name, door, settings):
        """One process; one that ends early or never is a row that says so. Until then the row of before stays."""
        path = self.path_of(name, door)
        made = path.with_suffix(".new")
        made.unlink(missing_ok=True)
        words = [sys.executable, self.program, name, door, *settings, made]
        try:
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=MOST_SECONDS,
                                  check=False)
        except subprocess.TimeoutExpired:
            return save(path, {"failed": f"not done after {MOST_SECONDS} s"})
        if made.is_file():
            return os.replace(made, path)
        said = " ".join(done.stderr.split())[-300:]
        return save(path, {"failed": f"the process ended with {done.returncode}: {said}"})

    def write(self):
        """Puts all rows into the page; networks without any keep the line that they have."""
        before, rest = self.page.read_text().split(self.begin)
        old, after = rest.split(self.end)
        head = [f"| network | {' | '.join(self.doors)} |", "|" + "---|" * (len(self.doors) + 1)]
        kept = {line.split(" | ")[0]: line for line in old.splitlines()[2:]} if old.startswith(head[0]) else {}
        lines, rows = [], {}
        for name in self.names:
            of_name = [self.row(name, door) for door in self.doors]
            rows.update({(name, door): row for door, row in zip(self.doors, of_name) if row})
            if any(of_name):
                lines.append(f"| {name} | {' | '.join('' if row is None else self.cell(row) for row in of_name)} |")
            elif f"| {name}" in kept:
                lines.append(kept[f"| {name}"])
        self.page.write_text(before + self.begin + "\n".join([*head, *lines, *self.notes(rows)]) + "\n" + self.end
                             + after)


def add_options(parser):
    """What the command line says of tables."""
    parser.add_argument("--doors", default="", metavar="REGEX", help="with --table: only doors that match")
    parser.add_argument("--again", action="store_true", help="with --table: also rows that are there")


def write_row(path, measure, facts):
    """Measures a row and puts it into a file, which is there whole or not at all."""
    try:
        row = measure()
    except Exception as failure:
        row = {"failed": " ".join(f"{type(failure).__name__}: {failure}".split())[:600]}
    save(path, {**row, **facts})


def save(path, row):
    """Writes a row's file."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".part")
    written.write_text(json.dumps({**row, "date": datetime.date.today().isoformat()}, indent=1) + "\n")
    os.replace(written, path)


def failure_of(row):
    """What the table says of a row without figures, or None."""
    return "failed: " + row["failed"][:100].replace("|", "/") if "failed" in row else None


def share_of(row):
    """`1, 100% of 70`: engines, and the share of the operators that are in them."""
    return f"{row['engines']}, {row['inside'] / row['operators']:.0%} of {row['operators']}"
