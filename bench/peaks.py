# SPDX-License-Identifier: Apache-2.0
"""Measures the machine's fp32 peak, and copy and read bandwidth, to hold results against.

    python bench/peaks.py [--threads 2]
"""

import argparse
import ctypes

import native

COPY_BYTES = 512 << 20


def measure(threads):
    """Returns {"fp32_gflops", "copy_gb_per_s", "read_gb_per_s"}, the best of several tries each."""
    library = native.load("peaks")
    library.peak_gflops.restype = ctypes.c_double
    library.peak_gflops.argtypes = [ctypes.c_int, ctypes.c_int64]
    for bandwidth in (library.copy_bandwidth, library.read_bandwidth):
        bandwidth.restype = ctypes.c_double
        bandwidth.argtypes = [ctypes.c_int, ctypes.c_size_t]
    return {"fp32_gflops": max(library.peak_gflops(threads, 20_000_000) for _ in range(5)),
            "copy_gb_per_s": max(library.copy_bandwidth(threads, COPY_BYTES) for _ in range(5)),
            "read_gb_per_s": max(library.read_bandwidth(threads, COPY_BYTES) for _ in range(5))}


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    peaks = measure(parser.parse_args().threads)
    print(f"fp32 {peaks['fp32_gflops']:.0f} GFLOP/s, copy {peaks['copy_gb_per_s']:.1f} GB/s, "
          f"read {peaks['read_gb_per_s']:.1f} GB/s")


if __name__ == "__main__":
    main()
