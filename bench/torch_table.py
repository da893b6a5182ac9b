# SPDX-License-Identifier: Apache-2.0
"""The table of networks and doors in docs/PYTORCH.md: one process for each row, whose result is a file of its own.

    python bench/torch_table.py NETWORK DOOR TUNE THREADS ROUNDS FILE      one row, as `run_rows` starts it
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = ROOT / ".cache" / "torch_networks"
PAGE = ROOT / "docs" / "PYTORCH.md"
BEGIN, END = "<!-- networks: ./dev bench torch --table -->\n", "<!-- end of networks -->\n"
MOST_SECONDS = 1800  # of a row: one that takes longer is a failure
MOST_ERROR = 1e-3


def measured(network, door, tune, threads, rounds):
    """A row: what became of the network, how far its results are off, and its times."""
    import doors
    import networks
    import timing
    import torch
    torch.set_num_threads(threads)
    model, inputs = networks.varied(network.build()), network.inputs()
    with torch.inference_mode():
        expected = model(*inputs)
    start = time.perf_counter()
    with torch.no_grad() if door in ("trace", "script") else torch.inference_mode():
        try:
            made = doors.DOORS[door](model, inputs, tune=tune, threads=threads)
        except doors.Refused as refusal:
            return {"refused": str(refusal)[:300]}
        results = made.run(*inputs)
        compiling = time.perf_counter() - start
        found = timing.interleaved({"graft": lambda: made.run(*inputs), "eager": lambda: model(*inputs)}, rounds)
    return {"engines": made.engines, "inside": made.inside, "operators": made.operators,
            "error": networks.error_of(results, expected), "compile_s": compiling,
            **{f"{name}_ms": timing.summary(seconds)["median_ms"] for name, seconds in found.items()}}


def write_row(name, door, tune, threads, rounds, path):
    """Measures a row and puts it into a file, which is there whole or not at all."""
    import networks
    from rows import processor
    try:
        row = measured(networks.BY_NAME[name], door, tune, int(threads), int(rounds))
    except Exception as failure:
        row = {"failed": " ".join(f"{type(failure).__name__}: {failure}".split())[:600]}
    save(path, {**row, "processor": processor(), "threads": int(threads), "tune": tune})


def save(path, row):
    """Writes a row's file."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".part")
    written.write_text(json.dumps({**row, "date": datetime.date.today().isoformat()}, indent=1) + "\n")
    os.replace(written, path)


def path_of(folder, name, door):
    """Where the row of a network and a door is kept."""
    return folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}--{door.removeprefix('.')}.json"


def run_rows(options):
    """Measures the rows that were asked for with --cases, or else those that are missing, each in a process of its own,
    and writes the table after each."""
    import doors
    import networks
    folder = pathlib.Path(options.rows or ROWS)
    for network in networks.NETWORKS:
        for door in doors.DOORS:
            path = path_of(folder, network.name, door)
            if not re.search(options.cases, network.name) or not re.search(options.doors, door):
                continue
            if path.is_file() and not options.cases and not options.again:
                continue
            run_row(path, network.name, door, options)
            print(f"{network.name}, {door}: {cell(json.loads(path.read_text()))}", flush=True)
            write_table(folder, [each.name for each in networks.NETWORKS], list(doors.DOORS))
    write_table(folder, [each.name for each in networks.NETWORKS], list(doors.DOORS))


def run_row(path, name, door, options):
    """One process; one that ends early or never is a row that says so. Until then the row of before stays."""
    made = path.with_suffix(".new")
    made.unlink(missing_ok=True)
    words = [sys.executable, __file__, name, door, options.tune, options.threads, options.rounds, made]
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return save(path, {"failed": f"not done after {MOST_SECONDS} s"})
    if made.is_file():
        return os.replace(made, path)
    said = " ".join(done.stderr.split())[-300:]
    return save(path, {"failed": f"the process ended with {done.returncode}: {said}"})


def cell(row):
    """A row as the table has it."""
    if row is None:
        return ""
    if "refused" in row:
        return "torch refuses"
    if "failed" in row:
        return "failed: " + row["failed"][:100].replace("|", "/")
    if not row["error"] <= MOST_ERROR:
        return f"wrong by {row['error']:.1g}"
    share = f"{row['inside'] / row['operators']:.0%} of {row['operators']}"
    return f"{row['engines']}, {share}, {row['error']:.0e}, {row['compile_s']:.1f} s, {row['graft_ms']:.2f} ms"


def write_table(folder, names, doors, page=PAGE):
    """Puts all rows into the documentation, between its marks; networks without any keep the line that they have."""
    before, rest = page.read_text().split(BEGIN)
    old, after = rest.split(END)
    head = [f"| network | {' | '.join(doors)} |", "|" + "---|" * (len(doors) + 1)]
    kept = {line.split(" | ")[0]: line for line in old.splitlines()[2:]} if old.startswith(head[0]) else {}
    lines = []
    for name in names:
        paths = [path_of(folder, name, door) for door in doors]
        cells = [cell(json.loads(path.read_text()) if path.is_file() else None) for path in paths]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
        elif f"| {name}" in kept:
            lines.append(kept[f"| {name}"])
    page.write_text(before + BEGIN + "\n".join([*head, *lines]) + "\n" + END + after)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests" / "torch"))
    write_row(*sys.argv[1:])
