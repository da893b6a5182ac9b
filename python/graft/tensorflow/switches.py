# SPDX-License-Identifier: Apache-2.0
"""TF-TRT's environment variables, by their old names."""

import os

from ..errors import InvalidArgumentError

DENYLIST = "TF_TRT_OP_DENYLIST"
MOST_ENGINES = "TF_TRT_MAX_ALLOWED_ENGINES"
REPORT = "TF_TRT_SHOW_DETAILED_REPORT"
PICTURE = "TF_TRT_EXPORT_GRAPH_VIZ_PATH"


def choices(graph_def):
    """What the environment chooses of how a graph is divided, as arguments of graft.embed()."""
    made = {}
    listed = {name for name in os.environ.get(DENYLIST, "").split(",") if name}
    here = {node.op for node in graph_def.node}
    if listed & here:
        made["exclude_ops"] = sorted(listed & here)
    if MOST_ENGINES in os.environ:
        try:
            most = int(os.environ[MOST_ENGINES])
        except ValueError as error:
            raise InvalidArgumentError(f"{MOST_ENGINES}={os.environ[MOST_ENGINES]!r} is no number: give the most "
                                       "engines, or 0 for all") from error
        made["most_segments"] = max(most, 0)
    return made


def merged(graph_def, options):
    """The caller's options with what the environment chooses; the caller's come first."""
    made = {**choices(graph_def), **options}
    if "exclude_ops" in options:
        made["exclude_ops"] = sorted({*options["exclude_ops"], *choices(graph_def).get("exclude_ops", ())})
    return made


def tell(report, graph_def):
    """Writes what the environment asks for: the report (1: to standard output, else into that file), the picture."""
    wanted = os.environ.get(REPORT, "")
    if wanted == "1":
        print(report, end="")
    elif wanted not in ("", "0"):
        with open(wanted, "w", encoding="utf-8") as file:
            file.write(report)
    if os.environ.get(PICTURE):
        with open(os.environ[PICTURE], "w", encoding="utf-8") as file:
            file.write(picture(graph_def))


def picture(graph_def):
    """The graph in DOT: engines are boxes that are filled, with what is inside."""
    def text(words):
        return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph graft {"]
    for node in graph_def.node:
        is_engine = node.op == "GraftEngine"
        inside = node.attr["contents"].s.decode() if is_engine else node.op
        style = ", shape=box, style=filled" if is_engine else ""
        lines.append(f"  {text(node.name)} [label={text(f'{node.name}: {inside}')}{style}];")
    for node in graph_def.node:
        for source in node.input:
            name = source.lstrip("^").partition(":")[0]
            lines.append(f"  {text(name)} -> {text(node.name)}{' [style=dashed]' if source.startswith('^') else ''};")
    return "\n".join([*lines, "}", ""])
