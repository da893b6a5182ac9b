# SPDX-License-Identifier: Apache-2.0
"""Measures the machine's fp32 peak and copy bandwidth, to hold results against.

    python bench/peaks.py [--threads 2]
"""

import argparse
import ctypes
import hashlib
import os
import subprocess
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMPILER = os.environ.get("CXX", "g++")
FLAGS = ["-std=c++20", "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
COPY_BYTES = 512 << 20


def measure(threads):
    """Returns {"fp32_gflops", "copy_gb_per_s"}, the best of several tries each."""
    library = ctypes.CDLL(_build())
    library.peak_gflops.restype = ctypes.c_double
    library.peak_gflops.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.copy_bandwidth.restype = ctypes.c_double
    library.copy_bandwidth.argtypes = [ctypes.c_int, ctypes.c_size_t]
    return {"fp32_gflops": max(library.peak_gflops(threads, 20_000_000) for _ in range(5)),
            "copy_gb_per_s": max(library.copy_bandwidth(threads, COPY_BYTES) for _ in range(5))}


def _build():
    """Compiles peaks.cpp for this machine, once per source, compiler and processor."""
    source = os.path.join(FOLDER, "peaks.cpp")
    with open(source, "rb") as file:
        key = hashlib.sha256(file.read() + repr((COMPILER, FLAGS, _processor())).encode())
    cache = os.path.join(os.path.dirname(FOLDER), ".cache", "bench")
    os.makedirs(cache, exist_ok=True)
    library = os.path.join(cache, f"peaks-{key.hexdigest()[:12]}.so")
    if not os.path.exists(library):
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            partial = os.path.join(folder, "peaks.so")
            subprocess.run([COMPILER, *FLAGS, source, "-o", partial], check=True)
            os.replace(partial, library)
    return library


def _processor():
    """Gives the lines of /proc/cpuinfo that decide what -march=native means."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return sorted({line for line in file if line.startswith(("model name", "flags"))})


def main():
    """Prints the two figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    peaks = measure(parser.parse_args().threads)
    print(f"fp32 {peaks['fp32_gflops']:.0f} GFLOP/s, copy {peaks['copy_gb_per_s']:.1f} GB/s")


if __name__ == "__main__":
    main()
