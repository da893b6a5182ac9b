# SPDX-License-Identifier: Apache-2.0
"""What would become of a graph, as data: for programs (JSON), Graphviz (DOT) and browsers (HTML)."""

import html
import json

from ..errors import InvalidArgumentError
from .fx_graph import source_of


def described(host, partition):
    """{segments, stays, operators}: each segment with its nodes and borders, each other node with its reason."""
    def node_at(index):
        node = host.nodes[index]
        return {"op": host.ops[index], "name": host.names[index], "source": source_of(node) if node else ""}

    segments, inside = [], set()
    for nodes, inputs, outputs, size, border_bytes in partition.segments():
        inside.update(nodes)
        segments.append({"operators": size, "border_bytes": border_bytes, "nodes": [node_at(each) for each in nodes],
                         "inputs": [host.value_names[each] for each in inputs],
                         "outputs": [host.value_names[each] for each in outputs]})
    stays = [{**node_at(index), "reason": reason} for index, reason in enumerate(partition.reasons())
             if index not in inside and host.counted[index]]
    return {"segments": segments, "stays": stays,
            "operators": sum(each["operators"] for each in segments) + len(stays)}


def as_json(graphs):
    """A list of what `described` gives."""
    return json.dumps(graphs, indent=1)


def quoted(text):
    """As DOT has strings."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_dot(graphs):
    """A graph of nodes for each; segments are clusters, what stays is red, and its reason its tool tip."""
    lines = []
    for number, graph in enumerate(graphs):
        lines += [f"digraph graph_{number} {{", "  node [shape=box];"]
        places = {}
        for index, segment in enumerate(graph["segments"]):
            lines += [f"  subgraph cluster_{index} {{", f"    label={quoted(f'segment {index}')};"]
            for node in segment["nodes"]:
                lines.append(f"    {quoted(node['name'])} [label={quoted(node['op'])}];")
            lines.append("  }")
            last = segment["nodes"][-1]["name"]
            places.update({output: last for output in segment["outputs"]})
        lines += [f"  {quoted(node['name'])} [label={quoted(node['op'])}, color=red, "
                  f"tooltip={quoted(node['reason'])}];" for node in graph["stays"]]
        for segment in graph["segments"]:
            first = segment["nodes"][0]["name"]
            lines += [f"  {quoted(places.get(each, each))} -> {quoted(first)} [label={quoted(each)}];"
                      for each in segment["inputs"]]
        lines.append("}")
    return "\n".join(lines) + "\n"


def as_html(graphs):
    """A page with a table of segments and one of what stays, for each graph."""
    def row(*cells):
        return "<tr>" + "".join(f"<td>{html.escape(str(each))}</td>" for each in cells) + "</tr>"

    parts = ["<!DOCTYPE html><meta charset='utf-8'><title>graft dry run</title>",
             "<style>td{border-top:1px solid #ccc;padding:2px 8px;vertical-align:top}</style>"]
    for number, graph in enumerate(graphs):
        inside = graph["operators"] - len(graph["stays"])
        parts.append(f"<h2>Graph {number}: {inside} of {graph['operators']} operators in "
                     f"{len(graph['segments'])} engines</h2><table>")
        parts += [row(f"segment {index}", f"{each['operators']} operators", f"{each['border_bytes']} bytes cross",
                      ", ".join(each["inputs"]), ", ".join(each["outputs"]),
                      ", ".join(node["op"] for node in each["nodes"]))
                  for index, each in enumerate(graph["segments"])]
        parts.append("</table><h3>What stays with torch</h3><table>")
        parts += [row(each["op"], each["name"], each["reason"], each["source"]) for each in graph["stays"]]
        parts.append("</table>")
    return "\n".join(parts) + "\n"


FORMATS = {"json": as_json, "dot": as_dot, "html": as_html}


def written(graphs, texts, form):
    """The graphs in a format: `text` is the partitioner's own."""
    if form == "text":
        return "\n".join(texts)
    if form not in FORMATS:
        raise InvalidArgumentError(f"format {form!r} is none of text, {', '.join(FORMATS)}")
    return FORMATS[form](graphs)
