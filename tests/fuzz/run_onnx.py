# SPDX-License-Identifier: Apache-2.0
"""Writes what run_onnx begins from: the small node cases of the onnx package, into the folder that is named."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import case_files  # noqa: E402

LARGEST_MODEL = 8_000


def main():
    """Writes NAME.onnx for each case."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for case in case_files.collect():
        model = case.model.SerializeToString()
        if len(model) <= LARGEST_MODEL:
            (folder / f"{case.name}.onnx").write_bytes(model)


if __name__ == "__main__":
    main()
