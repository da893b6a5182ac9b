# SPDX-License-Identifier: Apache-2.0
"""The form of a result, and how two results are compared."""

import platform

# Results may differ by this share of the output's range before a runner counts as wrong.
TOLERANCE = 1e-4


def processor():
    """Names the processor as Linux does."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file
                     if line.startswith("model name")), platform.machine())


def row_of(options, case, batch, graft_ms, peers, device=None, dtype="float32"):
    """One result as JSON has it; a ratio above 1 means that Graft is faster than every peer."""
    ratio = min(peers.values()) / graft_ms if graft_ms and peers else None
    return {"bench": options.bench, "case": case, "device": device or processor(), "dtype": dtype,
            "batch": batch, "graft_ms": graft_ms, "peers": peers, "ratio": ratio}


def errors(reference, results):
    """Returns the greatest absolute error and the greatest as a share of an output's range."""
    import numpy as np
    largest, share = 0.0, 0.0
    for expected, got in zip(reference, results, strict=True):
        if expected.shape != got.shape:
            raise RuntimeError(f"shape {got.shape}, expected {expected.shape}")
        error = float(np.abs(expected.astype(np.float64) - got).max())
        if not np.isfinite(error):
            return float("inf"), float("inf")
        largest = max(largest, error)
        share = max(share, error / float(np.ptp(expected)))
    return largest, share


def compare(what, reference, results):
    """Fails when results are not those of the reference."""
    error, share = errors(reference, results)
    if share > TOLERANCE:
        raise SystemExit(f"{what}: results differ by {error:.2e}, {share:.1e} of the range")
