# SPDX-License-Identifier: Apache-2.0
"""magika, which tells types of files by their bytes: files of installed packages, named by their suffix."""

import json
import pathlib
import sysconfig

import numpy as np

from trained.case import Case, folder_of, grouped

PATHS = ("python", "numpy", "scipy", "sklearn", "matplotlib", "onnx", "torch", "torchvision", "openvino")
SUFFIXES = {".py": "python", ".pyi": "python", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".hpp": "cpp", ".cuh": "cpp",
            ".json": "json", ".so": "elf", ".html": "html", ".css": "css", ".js": "javascript", ".csv": "csv",
            ".rst": "rst", ".md": "markdown", ".yaml": "yaml", ".toml": "toml", ".ttf": "ttf", ".png": "png",
            ".jpg": "jpeg", ".svg": "svg", ".pdf": "pdf", ".gz": "gzip", ".zip": "zip", ".npz": "npz", ".pyc":
            "pythonbytecode", ".sh": "shell", ".bat": "batch", ".cmake": "cmake", ".xml": "xml", ".f90": "fortran"}
FEWEST, MOST = 512, 80  # bytes of a file; files of a suffix
CALIBRATED, PER_RUN = 128, 16


def bytes_of(path, settings):
    """What the network reads of a file: its beginning and its end, without white space, as the package makes it."""
    content = path.read_bytes()
    block, begin, end, padding = (settings[key] for key in ("block_size", "beg_size", "end_size", "padding_token"))
    first, last = list(content[:block].lstrip()[:begin]), list(content[-block:].rstrip()[-end:])
    return first + [padding] * (begin - len(first)) + [padding] * (end - len(last)) + last


def chosen_files(random):
    """(path, label) of files of each suffix, in an order that has no pattern."""
    found = {suffix: [] for suffix in SUFFIXES}
    for name in PATHS:
        folder = pathlib.Path(sysconfig.get_path("stdlib")) if name == "python" else folder_of(name)
        for path in sorted(folder.rglob("*")):
            if path.suffix in found and path.is_file() and path.stat().st_size >= FEWEST:
                found[path.suffix].append(path)
    chosen = []
    for suffix, paths in found.items():
        chosen += [(paths[n], SUFFIXES[suffix]) for n in sorted(random.permutation(len(paths))[:MOST])]
    return [chosen[n] for n in random.permutation(len(chosen))]


def file_types(folder):
    """The type of each file."""
    del folder
    random, models = np.random.default_rng(2), folder_of("magika") / "models/standard_v3_3"
    settings = json.loads((models / "config.min.json").read_text())
    files = chosen_files(random)
    rows = np.array([bytes_of(path, settings) for path, _ in files], np.int32)
    wanted = [label for _, label in files[CALIBRATED:]]

    def score(results):
        best = np.concatenate([arrays[0].argmax(1) for arrays in results])
        labels = [settings["target_labels_space"][n] for n in best]
        labels = [settings.get("overwrite_map", {}).get(label, label) for label in labels]
        return 100 * float(np.mean([a == b for a, b in zip(labels, wanted, strict=True)]))

    runs = [{"bytes": group} for group in grouped(rows, PER_RUN)]
    first = CALIBRATED // PER_RUN
    return Case(str(models / "model.onnx"), runs[:first], runs[first:], score, f"of {len(wanted)} files")

