# SPDX-License-Identifier: Apache-2.0
"""Regions that plans of whole networks are slow in, over all networks: ./dev bench losses cpu|cuda

    ./dev bench losses cpu                           # the architectures, by the cost model, for this machine
    ./dev bench losses cuda --target sm_80           # no GPU is needed
    ./dev bench losses cuda --measure --tune fast    # on the GPU that is here
    ./dev bench losses cpu --networks 'swin|levit' --whole

Networks are in their shallow forms, which have each kind of region, unless --whole is given.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

import cases  # noqa: F401  (makes models/ importable)
import networks
from architectures import ARCHITECTURES

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_SHOWN = 20
# A region is badly planned that reaches less than this ratio of what its target could do, and is above this share of
# its network's arithmetic or bytes, or loses this share of its network's time.
RATIO, SHARE, LOST = 0.1, 0.03, 0.1
LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Settings:
    """How networks are planned: the target's name, and whether steps are measured."""

    target: str
    precision: str = "fp32"
    batch: int = 1
    threads: int = 2
    tune: str = "off"
    measure: bool = False
    whole: bool = False


def settings_for(target):
    """What the test and the default of the command use: fp32 on CPUs, fp16 in batches of 8 on GPUs."""
    return Settings(target, "fp16", 8) if target.startswith("sm_") else Settings(target)


def model_of(name, settings):
    """The path of a network."""
    return networks.cached_path(name, **({} if settings.whole or not networks.find(name).shallow
                                         else {"shallow": True}))


def sizes_of(name, settings):
    """The fixed sizes of its inputs, as --dim words."""
    sizes = {"batch": settings.batch * (128 if name == "dlrm" else 1), "length": LENGTH}
    return [word for symbol in networks.find(name).symbols for word in ("--dim", f"{symbol}={sizes[symbol]}")]


def report_of(graft, name, settings):
    """What `graft inspect --losses` says of a network; raises RuntimeError with its message."""
    with tempfile.TemporaryDirectory(prefix="graft-losses-") as folder:
        path = os.path.join(folder, "losses.json")
        words = [str(graft), "inspect", model_of(name, settings), "--losses", "--json", path, "--tune", settings.tune,
                 "--precision", settings.precision, "--threads", str(settings.threads), *sizes_of(name, settings)]
        if not settings.measure:
            words += ["--no-run", "--target", settings.target]
        elif settings.target.startswith("sm_"):
            words += ["--device", "cuda"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr or done.stdout}")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def badly_planned(report):
    """The regions of a report that matter and are below RATIO."""
    return [region for region in report["regions"] if region["ratio"] < RATIO
            and (region["share"] > SHARE or region["lost_ms"] > LOST * report["ms"])]


def text_of(name, region):
    """One line for a person."""
    return (f"{name} {region['name']} ({' + '.join(region['operators'])}, {region['schedule'] or region['way']}): "
            f"{region['share']:.1%} of the network, {region['ratio']:.1%} of what is possible")


def parse_options(arguments):
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="./dev bench losses", description=__doc__.splitlines()[0])
    parser.add_argument("device", nargs="?", default="cpu", choices=["cpu", "cuda"], help="what runs them (cpu)")
    parser.add_argument("--networks", default="", metavar="REGEX", help="only those that match (the architectures)")
    parser.add_argument("--all", action="store_true", help="also the networks that benches name")
    parser.add_argument("--whole", action="store_true", help="with all their layers")
    parser.add_argument("--target", help="plan for this machine, which need not be here (native; sm_90a)")
    parser.add_argument("--precision", help="of floats (fp32; on GPUs fp16)")
    parser.add_argument("--batch", type=int, help="items in a run (1; on GPUs 8)")
    parser.add_argument("--threads", type=int, default=2, help="threads of a CPU (2)")
    parser.add_argument("--tune", default="off", choices=["off", "fast", "full"], help="how hard to tune (off)")
    parser.add_argument("--measure", action="store_true", help="by the times of this machine, not by the cost model")
    parser.add_argument("--build", default=os.environ.get("GRAFT_BUILD", ROOT / "build"), help="Graft's build folder")
    parser.add_argument("--json", metavar="FILE", help="also write all reports here")
    options = parser.parse_args(arguments)
    if options.measure and options.target:
        parser.error("--measure: only the machine that is here can be measured, so no --target")
    return options


def main(arguments):
    """Prints the worst regions over all; exits with 1 when a network could not be planned."""
    options = parse_options(arguments)
    usual = settings_for(options.target or ("sm_90a" if options.device == "cuda" else "native"))
    settings = dataclasses.replace(usual, precision=options.precision or usual.precision,
                                   batch=options.batch or usual.batch, threads=options.threads, tune=options.tune,
                                   measure=options.measure, whole=options.whole)
    names = [name for name in ({**networks.NETWORKS, **ARCHITECTURES} if options.all else ARCHITECTURES)
             if re.search(options.networks, name)]
    if not names:
        raise SystemExit(f"--networks {options.networks!r} matches none")
    graft, reports, failed = pathlib.Path(options.build) / "bin" / "graft", {}, []
    for name in names:
        try:
            reports[name] = report_of(graft, name, settings)
        except RuntimeError as failure:
            print(f"FAILED {failure}")
            failed.append(name)
    print_worst(reports, settings)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def print_worst(reports, settings):
    """The regions that lose the largest share of their network's time, and how each network stands."""
    how = "measured" if settings.measure else f"by the cost model for {settings.target}"
    print(f"{len(reports)} networks, {settings.precision}, batch {settings.batch}, {how}\n"
          f"{'network':20}{'ms':>10}{'at best':>10}{'of it':>8}{'bad regions':>13}")
    for name, report in reports.items():
        print(f"{name:20}{report['ms']:10.3f}{report['least_ms']:10.3f}{report['least_ms'] / report['ms']:8.0%}"
              f"{len(badly_planned(report)):13}")
    rows = [(region["lost_ms"] / report["ms"], name, region)
            for name, report in reports.items() for region in report["regions"] if report["ms"] > 0]
    rows.sort(key=lambda row: -row[0])
    print(f"\nthe worst {MOST_SHOWN} regions: their share of the network's time that is lost")
    for share, name, region in rows[:MOST_SHOWN]:
        print(f"{share:6.1%} {text_of(name, region)}")
        for reason in region["refused"][:3]:
            print(f"         not {reason}")
