# SPDX-License-Identifier: Apache-2.0
"""Plugins of TensorRT from parts of models, with the parameters of TPAT: `graft plugin` from Python."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import Error, InvalidArgumentError

_USAGE = 2  # the status of a command line that is wrong


def onnx2plugin(input_model_path: str | os.PathLike[str], output_model_path: str | os.PathLike[str],
                node_names: Sequence[str] | None = None, node_types: Sequence[str] | None = None,
                plugin_name_dict: Mapping[str, str] | None = None, dynamic_bs: bool = False, min_bs: int = 1,
                max_bs: int = 256, opt_bs: int = 128, *, target: Sequence[str] = (),
                tensorrt: str = "10", tune: str = "fast",
                ops: Sequence[str | os.PathLike[str]] = ()) -> list[str]:
    """Writes a plugin for each of the nodes, and the model that calls them; returns the plugins' names.

    input_model_path   an ONNX file
    output_model_path  the model to write; the sources go into a folder beside it, `.plugins` for its `.onnx`
    node_names         nodes; or
    node_types         operators, whose nodes all become plugins; or
    plugin_name_dict   names of plugins by the names of nodes, which alone choose the nodes as well
    dynamic_bs         the first axes of the model's inputs have the range min_bs, opt_bs, max_bs
    target, tensorrt   GPUs and the version of TensorRT, and how long candidates are measured, as `graft plugin
    tune               --help` has them
    ops                files that define operators of your own (docs/OWN_OPERATORS.md)

    Raises graft.Error with the command's message.
    """
    names = dict(plugin_name_dict or {})
    chosen = list(node_names or ()) or ([] if node_types else list(names))
    words = [word for name in chosen for word in ("--nodes", name)]
    words += [word for name in node_types or () for word in ("--types", name)]
    words += [word for name in target for word in ("--target", name)]
    words += [word for file in ops for word in ("--ops", os.fspath(file))]
    if dynamic_bs:
        words += ["--batch", f"{min_bs}:{opt_bs}:{max_bs}"]
    output = pathlib.Path(output_model_path)
    folder = output.with_suffix(".plugins")
    with tempfile.TemporaryDirectory() as work:
        if names:
            (pathlib.Path(work) / "names.json").write_text(json.dumps(names))
            words += ["--names", f"{work}/names.json"]
        words += ["--tensorrt", tensorrt, "--tune", tune, "-o", str(folder), "--json", "-"]
        made = _run([os.fspath(input_model_path), *words])
    shutil.copyfile(made["model"], output)
    weights = pathlib.Path(made["model"] + ".data")  # of a model that is too large to hold them
    if weights.exists():
        shutil.copyfile(weights, output.parent / weights.name)
    return [plugin["name"] for plugin in made["plugins"]]


def _run(words: list[str]) -> Any:
    """What `graft plugin` says of its work."""
    program = pathlib.Path(__file__).parent / "bin" / "graft"
    done = subprocess.run([program, "plugin", *words], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    message = done.stderr.strip().removeprefix("graft: ")
    raise (InvalidArgumentError if done.returncode == _USAGE else Error)(message)
