# SPDX-License-Identifier: Apache-2.0
"""Writes what mutations of images begin from: the files of the onnx package's cases, one of each format."""

import pathlib
import sys

from onnx.backend.test.case.node import collect_testcases


def main():
    """Into the folder that is named."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for case in collect_testcases("ImageDecoder"):
        for number, (inputs, _) in enumerate(case.data_sets):
            (folder / f"{case.name}_{number}").write_bytes(bytes(inputs[0]))


if __name__ == "__main__":
    main()
