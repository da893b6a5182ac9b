# SPDX-License-Identifier: Apache-2.0
"""`./dev replay`: proves that a change leaves the generated kernels as they are, or shows which it changes.

    ./dev replay --record          before the change: keep the kernels of this build
    ./dev replay                   after it: compare with what was kept
    ./dev replay --against main    compare with another revision, which is built in build-replay/

Tile programs and optimised LLVM IR of the networks of models/, and CUDA source of the programs of tests/cuda, are
compared as text. The exit status is 1 when something differs. Everything lies in build-replay/.
"""

import argparse
import os
import pathlib
import shutil
import sys
import time

import collection
import comparison

RECORDED = collection.FOLDER / "recorded"
CURRENT = collection.FOLDER / "current"
DIFF_LINES = 100


def parse_options():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="./dev replay", description=__doc__.split("\n\n", 1)[0],
                                     epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--record", action="store_true", help="keep the kernels of this build as the baseline")
    action.add_argument("--against", metavar="REV", help="compare with the kernels of another revision")
    known = sorted(collection.networks()) + [collection.CUDA]
    parser.add_argument("--networks", metavar="A,B", default=known, type=lambda text: text.split(","),
                        help=f"only these of {', '.join(known)}")
    parser.add_argument("--targets", metavar="A,B", default=list(collection.TARGETS),
                        type=lambda text: text.split(","), help=f"machines to compile for "
                        f"({','.join(collection.TARGETS)})")
    options = parser.parse_args()
    for name in set(options.networks) - set(known):
        parser.error(f"there is no network '{name}'; there are {', '.join(known)}")
    return options


def cases(options):
    """Pairs of network and target, in order."""
    for network in options.networks:
        for target in (options.targets if network != collection.CUDA else [collection.CUDA_TARGET]):
            yield network, target


def collect(build, folder, options):
    """Dumps every case with a build, where the folder does not have it already."""
    models = collection.networks()
    for network, target in cases(options):
        place = folder / f"{network}-{target}"
        start = time.perf_counter()
        if network == collection.CUDA:
            collection.dump_cuda(build, place)
        else:
            collection.dump(build, models[network](), target, place)
        count = len(list(place.glob("*.tile.txt")))
        print(f"  {network:<18}{target:<12}{count:>4} kernels  {time.perf_counter() - start:5.1f} s", flush=True)


def baseline(options):
    """The folder to compare with, and what to call it."""
    if options.against:
        commit = collection.resolve(options.against)
        folder = collection.FOLDER / commit / "kernels"
        build = collection.build_revision(commit)
        print(f"replay: kernels of {commit}")
        collect(build, folder, options)
        return folder, commit
    if not RECORDED.exists():
        collection.fail("nothing is recorded: run `./dev replay --record` before the change, or compare with a "
                        "revision: `./dev replay --against main`")
    return RECORDED, "recorded"


def check_same_models(old, new, network):
    """Kernels of two versions of a model cannot be compared."""
    if not old.exists():
        collection.fail(f"{old.name} is not recorded: run `./dev replay --record` before the change")
    if (old / "model").read_text() != (new / "model").read_text():
        collection.fail(f"the model {network} has changed since the baseline was recorded: record it again")


def report(old_folder, old_name, options):
    """Prints how the cases compare, and the first difference; true when there is none."""
    print(f"\n{'network':<18}{'target':<12}{'same':>6}{'changed':>9}{'new':>6}{'gone':>6}")
    first, kernels, different = None, 0, 0
    for network, target in cases(options):
        old, new = (folder / f"{network}-{target}" for folder in (old_folder, CURRENT))
        check_same_models(old, new, network)
        outcome = comparison.compare(collection.read_kernels(old), collection.read_kernels(new))
        counts = (len(outcome.changed), len(outcome.new), len(outcome.gone))
        print(f"{network:<18}{target:<12}{outcome.same:>6}{counts[0]:>9}{counts[1]:>6}{counts[2]:>6}")
        kernels += outcome.same + sum(counts)
        different += sum(counts)
        if outcome.differs() and (first is None or (outcome.changed and not first[0].changed)):
            first = outcome, network, target
    if first is None:
        print(f"\nreplay: all {kernels} kernels are the same")
        return True
    title, diff = comparison.first_difference(first[0], old_name, "working tree")
    lines = diff.splitlines()
    print(f"\nfirst difference: {first[1]} for {first[2]}, {title}")
    print("\n".join(lines[:DIFF_LINES]))
    if len(lines) > DIFF_LINES:
        print(f"... {len(lines) - DIFF_LINES} more lines")
    print(f"\nreplay: {different} of {kernels} kernels differ; all texts: "
          f"diff -r {old_folder.relative_to(collection.ROOT)} {CURRENT.relative_to(collection.ROOT)}")
    return False


def main():
    """Records or compares."""
    options = parse_options()
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", collection.ROOT / "build"))
    if not options.record:
        old_folder, old_name = baseline(options)
    goal = RECORDED if options.record else CURRENT
    shutil.rmtree(goal, ignore_errors=True)
    print("replay: kernels of the working tree")
    collect(build, goal, options)
    if options.record:
        print("replay: recorded; after the change, ./dev replay compares")
        return 0
    return 0 if report(old_folder, old_name, options) else 1


if __name__ == "__main__":
    sys.exit(main())
