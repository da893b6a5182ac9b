# SPDX-License-Identifier: Apache-2.0
"""What a plan made for another machine costs here: AVX2 against the machine's own vectors."""

import cases
import timing
from rows import compare, row_of

TARGET = "x86-64-v3"
MOST = 1.10


def measure(options, graft):
    """Times both plans of each network in turns, after their first load; prints, gives the rows."""
    print(f"\nplans made with --target {TARGET} against native ones, both loaded here before")
    print(f"{'case':18}{'native ms':>12}{TARGET + ' ms':>14}{'ratio':>8}")
    rows = []
    for case in (cases.minilm_case(128, 1), cases.resnet_case(1)):
        inputs = case.inputs()
        runners = {TARGET: graft.runner(case, inputs, target=TARGET),
                   "native": graft.runner(case, inputs)}
        compare(case.label, [array.copy() for array in runners["native"]()], runners[TARGET]())
        samples = timing.interleaved(runners, options.rounds)
        medians = {name: timing.summary(runs)["median_ms"] for name, runs in samples.items()}
        ratio = medians[TARGET] / medians["native"]
        print(f"{case.label:18}{medians['native']:12.3f}{medians[TARGET]:14.3f}{ratio:8.2f}"
              f"   at most {MOST:.2f} is wanted: {'met' if ratio <= MOST else 'MISSED'}")
        rows.append(row_of(options, f"targets/{case.name}", case.batch, medians[TARGET],
                           {"native": medians["native"]}))
    return rows
