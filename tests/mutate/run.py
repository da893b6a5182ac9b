# SPDX-License-Identifier: Apache-2.0
"""`./dev mutate`: how many faults in our own code do the tests catch?

Faults are made by rules from the sources (rules.py), chosen by a seed (choose.py) and compiled into
one copy of the project in build-mutate/, each behind a switch (tree.py). The tests run once without a
fault, which shows the tests that reach each of them, and then those tests run with the fault on
(suite.py). A failure, a crash, a hang and a lack of memory catch it.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import sys
import time

from suite import Suite
from tree import Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENOUGH = 95  # per cent


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many faults (200)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--only", default="", metavar="RE",
                        help="try only those of them whose `path:line: rule: change` or number matches")
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at the same time (all cores)")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build-mutate", help="folder of the copy")
    return parser.parse_args()


def try_all(suite, faults, jobs):
    """Yields the outcome of each fault as it is known."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(suite.try_fault, fault) for fault in faults]
        for done in concurrent.futures.as_completed(waiting):
            yield done.result()


def report(outcomes, work):
    """Prints what nobody noticed, and the count by folder."""
    order = sorted(outcomes, key=lambda outcome: (outcome.fault.path, outcome.fault.line))
    rows = [{"fault": outcome.fault.title(), "number": outcome.fault.number, "caught": outcome.caught,
             "how": outcome.how, "seconds": round(outcome.seconds, 1)} for outcome in order]
    (work / "outcomes.json").write_text(json.dumps(rows, indent=1))
    total, caught = collections.Counter(), collections.Counter()
    for outcome in order:
        folder = os.path.dirname(outcome.fault.path)
        total[folder] += 1
        caught[folder] += outcome.caught
        if not outcome.caught:
            print(f"SURVIVED {outcome.fault.title()} ({outcome.how})")
    for folder in sorted(total):
        print(f"{folder}: {caught[folder]} of {total[folder]}")


def main():
    """Builds, tries, counts."""
    options = arguments()
    tree = Tree(ROOT, options.work)
    if options.list:
        for fault in tree.choose(options.count, options.seed):
            print(f"{fault.number} {fault.title()}")
        return 0
    start = time.monotonic()
    faults = tree.make(options.count, options.seed)
    built = time.monotonic()
    suite = Suite(tree)
    suite.record(options.jobs)
    recorded = time.monotonic()
    print(f"mutate: built in {built - start:.0f} s; all tests pass without a fault ({recorded - built:.0f} s)",
          flush=True)
    tried = [fault for fault in faults
             if re.search(options.only, fault.title()) or options.only == str(fault.number)]
    outcomes = []
    for outcome in try_all(suite, tried, options.jobs):
        outcomes.append(outcome)
        word = "caught" if outcome.caught else "SURVIVED"
        print(f"{len(outcomes):3} {word} {outcome.fault.number} {outcome.fault.title()} "
              f"[{outcome.how}; {outcome.seconds:.0f} s]", flush=True)
    print(f"mutate: tried in {time.monotonic() - recorded:.0f} s")
    report(outcomes, options.work)
    caught = sum(outcome.caught for outcome in outcomes)
    share = 100 * caught / len(outcomes) if outcomes else 0
    print(f"caught {caught} of {len(outcomes)} ({share:.1f} %)")
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
