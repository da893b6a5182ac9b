# SPDX-License-Identifier: Apache-2.0
"""How long compiling and loading take, and how much memory they hold at most."""

import os
import statistics
import sys
import tempfile

import cases
import child
from rows import row_of

REPEATS = 3
# A process that does nothing but load a plan: what the library adds to a program.
LOADER = """
import ctypes, sys
error = ctypes.create_string_buffer(2048)
engine = ctypes.c_void_p()
if ctypes.CDLL(sys.argv[1]).graft_load_on(sys.argv[2].encode(), sys.argv[3].encode(), ctypes.byref(engine), error):
    sys.exit(error.raw[4:].split(b"\\0")[0].decode())
"""
# The same without a plan; on a GPU its context is made, which every program there has.
NOTHING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
if sys.argv[3] != "cpu":
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        sys.exit("the driver gives no context")
"""


def measure(options, graft, device="cpu", networks=None):
    """Compiles and loads each network in processes of their own; prints a table, gives the rows."""
    print(f"\ncompiling and loading, medians of {REPEATS}; cold: with an empty kernel cache, which a "
          "load fills again; a load's time is what it adds to a process"
          + (" with a context on the GPU" if device != "cpu" else ""))
    print(f"{'network':14}{'what':34}{'seconds':>10}{'peak MB':>10}")
    rows = []
    for case in networks or (cases.resnet_case(1), cases.minilm_case(128, 1)):
        network = case.name.split("/", maxsplit=1)[0]
        for what, seconds, peak_bytes in _figures(case, graft, device):
            print(f"{network:14}{what:34}{seconds:10.2f}{peak_bytes / 1e6:10.0f}", flush=True)
            row = row_of(options, f"compile/{network}/{what.replace(' ', '_')}", 1, seconds * 1e3, {})
            rows.append({**row, "peak_mb": peak_bytes / 1e6})
    return rows


def _figures(case, graft, device):
    """Yields (what, seconds, peak bytes)."""
    model = case.model()
    with tempfile.TemporaryDirectory(prefix="graft-bench-") as folder:
        def cold():
            cache = tempfile.mkdtemp(dir=folder)
            return {**os.environ, "GRAFT_CACHE": cache}

        plan, warm = os.path.join(folder, "network.graft"), cold()
        if device != "cpu":
            words = [graft.command, "run", model, "--tune", "off", *graft.arguments]
            for symbol, *bounds in case.dims:
                words += ["--dim", f"{symbol}={':'.join(map(str, bounds))}"]
            yield "first answer --tune off, cold", *_median(lambda: child.measure(words, cold()))
        for tune in ("off", "fast"):
            yield f"compile --tune {tune}, cold", *_median(
                lambda tune=tune: graft.compile(model, case.dims, plan, tune=tune, environment=cold()))
        graft.compile(model, case.dims, plan, tune="fast", environment=warm)
        yield "compile --tune fast, warm", *_median(
            lambda: graft.compile(model, case.dims, plan, tune="fast", environment=warm))
        yield "load, cold", *_median(lambda: _load(graft, plan, device, cold()))
        yield "load, warm", *_median(lambda: _load(graft, plan, device, warm))


def _load(graft, plan, device, environment):
    """The seconds by which a process is longer that also loads the plan, and its peak."""
    python = [sys.executable, "-S", "-E", "-c"]
    words = [graft.library_path, plan, device]
    seconds, peak_bytes = child.measure([*python, LOADER, *words], environment)
    empty, _ = child.measure([*python, NOTHING, *words], environment)
    return max(seconds - empty, 0.0), peak_bytes


def _median(measure_once):
    """The medians of both figures."""
    return tuple(statistics.median(values)
                 for values in zip(*(measure_once() for _ in range(REPEATS))))
