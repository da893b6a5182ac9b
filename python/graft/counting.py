# SPDX-License-Identifier: Apache-2.0
"""What this process has counted."""

from __future__ import annotations

from typing import Any

from . import _graft


def metrics() -> dict[str, Any]:
    """Counters of the process, always on: numbers of kernels, and `engines`, a record for each model and device.

    >>> graft.metrics()
    {'kernel_compilations': 3, 'kernel_cache_hits': 0, ..., 'engines': [{'engine': 'encoder', 'device': 'cpu',
     'engines': 1, 'sessions': 2, 'runs': 17, 'run_failures': 0, 'run_seconds': 0.21, 'arena_bytes': 90112, ...}]}
    """
    process: dict[str, Any] = {}
    engines: dict[tuple[str, str], dict[str, Any]] = {}
    for name, _, engine, device, value in _graft.metrics():
        key = name.removeprefix("graft_").removesuffix("_total")
        record = process
        if engine is not None and device is not None:
            record = engines.setdefault((engine, device), {"engine": engine, "device": device})
        record[key] = value if "seconds" in key else int(value)
    return {**process, "engines": list(engines.values())}


def metrics_text() -> str:
    """The same as text for Prometheus (`text/plain; version=0.0.4`)."""
    return _graft.metrics_text().decode(errors="replace")
