# SPDX-License-Identifier: Apache-2.0
"""Times several runners in turns, so that a busy or throttled moment hits all of them alike."""

import random
import statistics
import time

# A turn repeats short runs to about this long, and starts after this pause, in which the threads
# of the runner before it stop spinning.
TURN_SECONDS = 0.02
SETTLE_SECONDS = 0.005
MAX_RUNS_PER_TURN = 10


def interleaved(runners, rounds):
    """Runs A, B, C, A, B, C ... and returns {name: [seconds of each run]}.

    Each turn begins with an untimed run, which brings the runner's weights back into the caches.
    """
    return interleaved_groups({None: runners}, rounds)[None]


def interleaved_groups(groups, rounds, seed=1):
    """The same for {group: {name: run}}: a round takes the groups in a random order of its own,
    and in each group the runners in turns. Returns {group: {name: [seconds]}}.
    """
    repeats = {(group, name): _runs_per_turn(run)
               for group, runners in groups.items() for name, run in runners.items()}
    samples = {group: {name: [] for name in runners} for group, runners in groups.items()}
    order = random.Random(seed)
    for _ in range(rounds):
        for group in order.sample(list(groups), len(groups)):
            for name, run in groups[group].items():
                time.sleep(SETTLE_SECONDS)
                run()
                for _ in range(repeats[group, name]):
                    samples[group][name].append(_seconds(run))
    return samples


def summary(seconds):
    """Gives the median and the quartiles' distance as a share of it, which tells of noise."""
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"median_ms": median * 1e3, "spread": (high - low) / median, "runs": len(seconds)}


def _runs_per_turn(run):
    """Warms a runner up and chooses how often it runs in one turn."""
    run()
    run()
    fastest = min(_seconds(run) for _ in range(3))
    return max(1, min(MAX_RUNS_PER_TURN, round(TURN_SECONDS / fastest)))


def _seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
