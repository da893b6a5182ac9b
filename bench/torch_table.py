# SPDX-License-Identifier: Apache-2.0
"""The table of networks and doors in docs/PYTORCH.md.

    python bench/torch_table.py NETWORK DOOR TUNE THREADS ROUNDS FILE      one row, as DoorTable starts it
"""

import pathlib
import sys
import time

import door_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
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
            made = doors.DOORS[door](model, inputs, tune=tune, threads=threads, strict=network.whole)
        except doors.Refused as refusal:
            return {"refused": str(refusal)[:300]}
        results = made.run(*inputs)
        compiling = time.perf_counter() - start
        found = timing.interleaved({"graft": lambda: made.run(*inputs), "eager": lambda: model(*inputs)}, rounds)
    return {"engines": made.engines, "inside": made.inside, "operators": made.operators,
            "error": networks.error_of(results, expected), "compile_s": compiling,
            **{f"{name}_ms": timing.summary(seconds)["median_ms"] for name, seconds in found.items()}}


def write_row(name, door, tune, threads, rounds, path):
    """Measures a row into a file."""
    import networks
    from rows import processor
    door_table.write_row(path, lambda: measured(networks.BY_NAME[name], door, tune, int(threads), int(rounds)),
                         {"processor": processor(), "threads": int(threads), "tune": tune})


def run_rows(options):
    """Measures, and writes the table."""
    import doors
    import networks
    table = table_of([each.name for each in networks.NETWORKS], list(doors.DOORS), options.rows)
    table.run(options, [options.tune, options.threads, options.rounds])


def table_of(names, doors, folder=None):
    """The table, whose rows are in a folder."""
    return door_table.DoorTable(
        page=ROOT / "docs" / "PYTORCH.md", begin="<!-- networks: ./dev bench torch --table -->\n",
        end="<!-- end of networks -->\n", folder=pathlib.Path(folder or ROOT / ".cache" / "torch_networks"),
        program=pathlib.Path(__file__), names=names, doors=doors, cell=cell)


def cell(row):
    """A row as the table has it."""
    if "refused" in row:
        return "torch refuses"
    if failure := door_table.failure_of(row):
        return failure
    if not row["error"] <= MOST_ERROR:
        return f"wrong by {row['error']:.1g}"
    return f"{door_table.share_of(row)}, {row['error']:.0e}, {row['compile_s']:.1f} s, {row['graft_ms']:.2f} ms"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests" / "torch"))
    write_row(*sys.argv[1:])
