# SPDX-License-Identifier: Apache-2.0
"""When two results agree: exactly, or for floats within what rounding in the type does, absolute plus relative."""

import numpy as np

# Of an element's magnitude, and of the tensor's largest: kernels add in another order than the interpreter, which
# computes in double, and their functions are off by a few units in the last place.
RELATIVE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-11}
OF_THE_LARGEST = {"float16": 1e-3, "float32": 4e-6, "float64": 1e-13}
# Of 1: polynomials for functions that lie between 0 and 1 are exact to so much, and not near 0.
ABSOLUTE = {"float16": 1e-6, "float32": 2e-7, "float64": 1e-15}


def difference(expected, actual, allowed=None, ignored=None):
    """The first element where they differ, as a sentence, or nothing. `allowed` adds to the tolerance, by element;
    elements that `ignored` names may be anything."""
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}"
    if expected.dtype != actual.dtype:
        return f"type {actual.dtype} instead of {expected.dtype}"
    if not expected.size:
        return None
    with np.errstate(all="ignore"):
        bad = differing(expected, actual, 0 if allowed is None else allowed)
    if ignored is not None:
        bad &= ~ignored
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{np.count_nonzero(bad)} of {bad.size} differ, first {list(at)}: {actual[at]} instead of {expected[at]}"


def differing(expected, actual, allowed):
    if expected.dtype.kind != "f":
        return np.asarray((expected != actual) & ~(np.asarray(allowed) > 0))
    wide, other = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wide)
    largest = np.abs(wide[finite]).max(initial=0)
    kind = expected.dtype.name
    tolerance = ABSOLUTE[kind] + RELATIVE[kind] * np.abs(wide) + OF_THE_LARGEST[kind] * largest
    near = np.abs(wide - other) <= tolerance + allowed
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    return np.asarray(~(near | same | ~np.isfinite(np.broadcast_to(allowed, wide.shape))))


def spread(expected, runs):
    """By element, how far runs on disturbed values lie from the undisturbed one; infinite where they disagree about
    NaN, infinity, a whole number or their shape."""
    total = np.zeros(expected.shape)
    with np.errstate(all="ignore"):
        for run in runs:
            if run.shape != expected.shape:
                return np.full(expected.shape, np.inf)
            if expected.dtype.kind != "f":
                apart = np.where(expected != run, np.inf, 0)
            else:
                apart = np.abs(expected.astype(np.float64) - run.astype(np.float64))
                same = (expected == run) | (np.isnan(expected) & np.isnan(run))
                apart = np.where(same, 0, np.where(np.isfinite(apart), apart, np.inf))
            total = np.maximum(total, apart)
    return total
