# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation that are read off the sources, so that neither writing nor checking them needs a build.

Each stands in a page between the comments `<!-- derived: NAME -->` and `<!-- end: NAME -->`.
"""

import json
import pathlib
import re
import statistics

import pictures

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


def table(heading, rows):
    """A table in Markdown; bars in cells are escaped."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text):
    """The text as code, or nothing."""
    return f"`{text}`" if text else ""


def torch_versions():
    """The versions of src/host/torch/versions.txt, and whether ./dev test torch takes it by itself."""
    lines = (ROOT / "src/host/torch/versions.txt").read_text().splitlines()
    usual = re.search(r"^torch==(.*)$", (ROOT / "tools/deps/environment-torch.txt").read_text(), re.MULTILINE)[1]
    rows = []
    for version in (line.split()[0] for line in lines if not line.startswith("#")):
        short = version.rpartition(".")[0]
        rows.append([short, version, code("./dev test torch" + (f" --torch {short}" if version != usual else ""))])
    return table(["PyTorch", "tested with", "by"], rows)


def environment():
    """The variables of src/base/environment.inc."""
    text = (ROOT / "src/base/environment.inc").read_text()
    rows = re.findall(r'^GRAFT_VARIABLE\(\w+, "(.*?)", "(.*?)", "(.*)"\)$', text, re.MULTILINE)
    return table(["variable", "default", "meaning"],
                 [[code(name), code(default), meaning] for name, default, meaning in rows])


def pipeline():
    """The passes of src/passes/pipeline.cpp, in order."""
    text = (ROOT / "src/passes/pipeline.cpp").read_text()
    rows = re.findall(r'\{"(\w+)", \w+,\s*"(.*?)"(?:, \w+)?\}', text, re.DOTALL)
    return table(["pass", "what it does"], [[code(name), purpose] for name, purpose in rows])


def plugins():
    """What tests/plugin/matrix.txt says of operators: those with the same types in one row, then those without."""
    lines = (ROOT / "tests/plugin/matrix.txt").read_text().splitlines()
    types, reasons = {}, {}
    for operator, kind, says in (line.split(" ", 2) for line in lines if not line.startswith("#")):
        if says == "plugin":
            types.setdefault(operator, []).append(kind)
        else:
            reasons.setdefault(operator, {}).setdefault(says, []).append(kind)
    same = {}
    for operator, kinds in types.items():
        same.setdefault(" ".join(kinds), []).append(operator)
    made = table(["types", "operators"],
                 [[kinds, ", ".join(code(name) for name in names)]
                  for kinds, names in sorted(same.items(), key=lambda row: -len(row[1]))])
    none = {}
    for operator, says in reasons.items():
        for why, kinds in says.items():
            where = "" if kinds == ["-"] or operator not in types else f" ({' '.join(kinds)})"
            none.setdefault(why, []).append(code(operator) + where)
    return f"{made}\n" + table(["no plugin of", "because"], [[", ".join(names), why] for why, names in none.items()])


def plugin_speed():
    """What tests/plugin/seed_on_gpu.py measured: bench/results/plugins-*.json, the newest of each GPU."""
    newest = {}
    for path in sorted((ROOT / "bench/results").glob("plugins-*.json")):
        results = json.loads(path.read_text())
        if results["date"] >= newest.get(results["gpu"], results)["date"]:
            newest[results["gpu"]] = results
    if not newest:
        return "Not measured yet.\n"
    return "\n".join(speed_table(results) for _, results in sorted(newest.items()))


def speed_table(results):
    """Microseconds of one GPU's rows, how often torch's are longer, and the share of the bandwidth of a copy."""
    rows, ratios = [], {"torch": [], "compiled": []}
    for row in results["rows"].values():
        if "failed" in row:
            rows.append([row["says"], row["failed"].partition(":")[0], "", "", "", "", ""])
            continue
        for peer, of in ratios.items():
            of.append(row[peer] / row["graft"])
        share = row["traffic"] / (row["graft"] * 1e-6) / results["copy_bandwidth"]
        rows.append([row["says"], *(f"{row[key]:.1f}" for key in ("graft", "torch", "compiled")),
                     *(f"{of[-1]:.2f}" for of in ratios.values()), f"{100 * share:.0f} %"])
    rows.append(["geometric mean", "", "", "", *(f"{statistics.geometric_mean(of):.2f}" if of else ""
                                                 for of in ratios.values()), ""])
    heading = ["operator", "generated, µs", "torch, µs", "torch.compile, µs", "torch / generated",
               "torch.compile / generated", "of a copy's bandwidth"]
    return (f"{results['gpu']}, torch {results['torch']}, {results['date']}; kernels: {results['kernels']}; "
            f"a copy of 1 GiB moves "
            f"{results['copy_bandwidth'] / 1e12:.2f} TB/s:\n\n" + table(heading, rows))


def newest_results(pattern):
    """Of the files of bench/results that match, the newest of each machine."""
    newest = {}
    for path in sorted((ROOT / "bench/results").glob(pattern)):
        results = json.loads(path.read_text())
        if results["date"] >= newest.get(results["gpu"], results)["date"]:
            newest[results["gpu"]] = results
    return [results for _, results in sorted(newest.items())]


def mixed_speed():
    """What bench/mixed_table.py measured."""
    return "\n".join(map(mixed_table, newest_results("mixed-nvidia-*.json"))) or "Not measured yet.\n"


def mixed_table(results):
    """Images per second of one GPU's rows, and how much faster mixed precision is than fp32."""
    columns, rows = ("fp32", "tf32", "mixed", "torch"), []
    for row in results["rows"]:
        rates = row["images_per_second"]
        rows.append([row["network"], str(row["batch"]), *(f"{rates[each]:.0f}" if each in rates else "-"
                                                          for each in columns),
                     f"{rates['mixed'] / rates['fp32']:.2f}"])
    return (f"{results['gpu']}, torch {results['torch']}, {results['date']}, --low {results['low']}, "
            f"--tune {results['tune']}; images per second:\n\n" +
            table(["network", "batch", *columns, "mixed / fp32"], rows))


def mixed_error():
    """What `graft compare` says of the models that bench/mixed_table.py --errors converted."""
    return "\n".join(map(error_table, newest_results("mixed-error-*.json"))) or "Not measured yet.\n"


def error_table(results):
    """The errors of one device's rows."""
    rows = [[row["network"], str(row["batch"]), row["error"]] for row in results["rows"]]
    return (f"{results['gpu']}, {results['date']}, --low {results['low']}:\n\n" +
            table(["network", "batch", "the largest error, and what is judged wrong"], rows))


def accuracy():
    """What bench/accuracy.py measured."""
    return "\n".join(map(accuracy_table, newest_results("accuracy-*.json"))) or "Not measured yet.\n"


def accuracy_table(results):
    """What each form of a network gets right; the best of the static 8-bit ones in bold."""
    forms = list(results["rows"][0]["right"])
    static = [form for form in forms if "int8" in form]
    rows = []
    for row in results["rows"]:
        shown = {form: "-" if row["right"].get(form) is None else f"{row['right'][form]:.2f}" for form in forms}
        best = max(float(shown[form]) for form in static if shown[form] != "-")
        cells = [f"**{shown[form]}**" if form in static and shown[form] == f"{best:.2f}" else shown[form]
                 for form in forms]
        bound = "refused" if row["error"] is None else f"{row['error']:.3f}, {row['layers']} of {row['of']}"
        rows.append([row["network"], *cells, bound])
    return (f"{results['gpu']}, {results['date']}, ONNX Runtime {results['onnxruntime']}, NNCF {results['nncf']}, "
            f"seeds of those trained here: {results['seeds']}; right answers in percent, the best of the static int8 "
            f"ones in bold:\n\n" +
            table(["network", *forms, f"--max-error {results['bound']}"], rows))


# Page and name of the block: what makes it.
BLOCKS = {("DEBUGGING.md", "environment"): environment, ("ADDING_A_PASS.md", "pipeline"): pipeline,
          ("plugins.md", "plugins"): plugins, ("plugins.md", "plugin-speed"): plugin_speed,
          ("AMP.md", "mixed-speed"): mixed_speed, ("AMP.md", "mixed-error"): mixed_error,
          ("PRECISION.md", "accuracy"): accuracy, ("SUPPORT.md", "torch-versions"): torch_versions}


def with_block(text, name, content):
    """The page's text with the block replaced; raises ValueError when it has none."""
    start, end = f"<!-- derived: {name} -->\n", f"<!-- end: {name} -->\n"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"lacks the lines {start.strip()} and {end.strip()}")
    return before + start + content + end + after


def derived_pages():
    """Yields (path, text) for each page with blocks and each picture of committed text, as it should be."""
    yield from pictures.derived_pictures()
    for page in sorted({page for page, _ in BLOCKS}):
        text = (DOCS / page).read_text()
        for (where, name), make in BLOCKS.items():
            if where == page:
                text = with_block(text, name, make())
        yield DOCS / page, text
