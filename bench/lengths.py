# SPDX-License-Identifier: Apache-2.0
"""What symbolic sizes cost: one plan for every length against plans fixed to a length each."""

import random

import cases
import timing
from rows import compare, row_of

LENGTHS = tuple(sorted(random.Random(7).sample(range(1, 257), 24)))
MOST = 1.15
DIMS = (("batch", 1, 1, 1), ("length", 1, 128, 256))


def measure(options, graft):
    """Times MiniLM at batch 1 over seeded lengths in random order; prints a table, gives the rows."""
    print(f"\nMiniLM, batch 1: one plan for lengths 1 to 256 against {len(LENGTHS)} plans for one "
          f"length each; {options.rounds} rounds of all lengths in random order")
    groups = {}
    for length in LENGTHS:
        case = cases.minilm_case(length, 1, DIMS)
        inputs = case.inputs()
        fixed = graft.runner(case, inputs, (("batch", 1, 1, 1), ("length", length, length, length)))
        groups[length] = {"one plan": graft.runner(case, inputs), "fixed": fixed}
        compare(f"length {length}", [array.copy() for array in fixed()],
                groups[length]["one plan"]())
    samples = timing.interleaved_groups(groups, options.rounds)
    return print_rows(options, samples)


def print_rows(options, samples):
    """Prints the medians by length and for all; gives the rows."""
    print(f"{'length':>8}{'fixed ms':>12}{'one plan ms':>14}{'ratio':>8}")
    rows, totals = [], {"one plan": 0.0, "fixed": 0.0}
    for length, seconds in samples.items():
        medians = {name: timing.summary(runs)["median_ms"] for name, runs in seconds.items()}
        for name, value in medians.items():
            totals[name] += value
        rows.append(row_of(options, f"lengths/minilm/l{length}", 1, medians["one plan"],
                           {"fixed": medians["fixed"]}))
        print(f"{length:8}{medians['fixed']:12.3f}{medians['one plan']:14.3f}"
              f"{medians['one plan'] / medians['fixed']:8.2f}")
    ratio = totals["one plan"] / totals["fixed"]
    print(f"{'all':>8}{totals['fixed']:12.3f}{totals['one plan']:14.3f}{ratio:8.2f}"
          f"   at most {MOST} is wanted: {'met' if ratio <= MOST else 'MISSED'}")
    rows.append(row_of(options, "lengths/minilm/all", 1, totals["one plan"],
                       {"fixed": totals["fixed"]}))
    return rows
