# SPDX-License-Identifier: Apache-2.0
"""`./dev docs`: writes the pages that are derived from the registries, or says with --check which are out of date.

docs/operators.md comes from `graft ops --json -`, docs/commands.md and docs/graft.1 from the help of every command;
tables.py has what is read off the sources.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import tables


def graft(*words):
    """The output of the command as built."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", tables.ROOT / "build"))
    return subprocess.run([build / "bin/graft", *words], capture_output=True, text=True, check=True).stdout


def attribute_text(attribute):
    """`axis=-1`, `axis` when it is required, `axis?` when it may be absent."""
    if attribute["default"] is not None:
        default = attribute["default"]
        return f"{attribute['name']}={default if not isinstance(default, str) else default or '(empty)'}"
    return attribute["name"] + ("" if attribute["required"] else "?")


def operator_row(operator):
    """One operator as cells."""
    name = f"{operator['domain']}.{operator['name']}" if operator["domain"] else operator["name"]
    signature = f"{', '.join(operator['inputs'])} → {', '.join(operator['outputs'])}"
    return [tables.code(name), operator["computes"], signature,
            ", ".join(attribute_text(attribute) for attribute in operator["attributes"]), str(operator["since"]),
            " ".join(operator["forms"]), " ".join(operator["types"])]


def operators_page():
    """docs/operators.md."""
    operators = json.loads(graft("ops", "--json", "-"))
    operators.sort(key=lambda operator: (operator["domain"], operator["name"].lower()))
    rows = [operator_row(operator) for operator in operators]
    heading = ["operator", "computes", "inputs → outputs", "attributes", "opset", "forms", "types in samples"]
    return f"""<!-- Written by ./dev docs from the definitions in src/ops; edits here are lost. -->
# Operators

The {len(rows)} operators that Graft defines. Each is one definition in `src/ops`. Its shape rule, reference
result, kernels and tests derive from it ([how to add one](ADDING_AN_OPERATOR.md)). Names without a domain are
ONNX's own.

- **inputs → outputs**: `?` may be left out, `*` takes any number.
- **attributes**: `axis=-1` has a default, `axis` is required, `axis?` may be absent.
- **opset**: the version of ONNX that the definition follows. The importer converts models of opsets 7 to 28 to it.
- **forms**: the forms in the definitions of its samples ([the forms](ARCHITECTURE.md)). `compute` and `reduce` can
  fuse with their neighbours. `host`: plain C++ of `src/kernels`, for sequences, optionals, strings and images, on
  any device; it also has `Identity`, `Equal`, `Cast` and `CastLike` of these values.
- **types in samples**: the element types of inputs that the tests cover, in the interpreter and in generated kernels.

{tables.table(heading, rows)}
## com.microsoft

Operators of ONNX Runtime's own domain. Import replaces them by compositions of the operators above
(`src/import/onnx/contrib_*.cpp`), so they fuse and lower like these.

```
{graft("ops", "com.microsoft").strip()}
```

## ai.onnx.ml

The operators of classical machine learning, likewise (`src/import/onnx/learning_*.cpp`).

```
{graft("ops", "ai.onnx.ml").strip()}
```
"""


def help_text(*words):
    """The help of a command, single blank lines between its parts."""
    text = re.sub(r"\n{3,}", "\n\n", graft(*words, "--help").strip())
    if words not in ((), ("compile",)):
        text = re.sub(r"\nCompiling:\n(  .*\n)+", "\nCompiling: the choices of `graft compile`\n", text)
    return text


def help_block(*words):
    """The same as a block of Markdown."""
    return f"```\n{help_text(*words)}\n```\n"


def commands(*above):
    """The commands that a help lists, as words, each followed by those below it; but for `help` itself."""
    listed = graft(*above, "--help").partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0].rstrip(",") for line in listed.splitlines() if re.match(r"  \S", line)]
    return [words for name in names if name != "help" for words in [(*above, name), *commands(*above, name)]]


def commands_page():
    """docs/commands.md."""
    parts = [f"## graft {' '.join(words)}\n\n{help_block(*words)}" for words in commands()]
    head = "<!-- Written by ./dev docs from `graft --help`; edits here are lost. -->\n# The command `graft`\n\n"
    return head + "\n".join([help_block(), *parts])


def manual_page():
    """docs/graft.1, in the macros of man(7)."""
    def literal(text):
        lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
        return "\n".join([".nf", *("\\&" + line if line[:1] in ("'", ".") else line for line in lines), ".fi"])

    version = graft("--version").split()[-1]
    parts = [f'.SS "graft {" ".join(words)}"\n{literal(help_text(*words))}' for words in commands()]
    return f""".\\" Written by ./dev docs from `graft --help`; edits here are lost.
.TH GRAFT 1 "" "graft {version}" "User commands"
.SH NAME
graft \\- compile trained networks into engines, and run them
.SH SYNOPSIS
.B graft
.I COMMAND
[\\fIARGUMENT\\fR...]
.SH DESCRIPTION
{literal(help_text())}
.SH COMMANDS
{chr(10).join(parts)}
.SH EXIT STATUS
0 when the command did what it was asked for, 1 when it failed, 2 when it was called wrongly.
"""


def mxnet_operators():
    """{operator of MXNet: its other names}, as tests/mxnet/registry.py wrote them."""
    names = {}
    for line in (tables.ROOT / "tools/docs/mxnet_operators.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        other, _, name = line.partition(" = ")
        names.setdefault(name or other, []).extend([other] if name else [])
    return names


def mxnet_operators_page():
    """docs/mxnet_operators.md."""
    listed = graft("ops", "--front-end", "mxnet").splitlines()[1:-1]
    arguments = {line.split()[0]: line.partition("  built in")[2].strip() for line in listed}
    names = mxnet_operators()
    rows = [[tables.code(name), " ".join(map(tables.code, others)), "yes" if name in arguments else "no",
             arguments.get(name, "")] for name, others in sorted(names.items(), key=lambda row: row[0].lower())]
    spellings = sum(1 + len(others) for others in names.values())
    converted = [name for name in names if name in arguments]
    reached = sum(1 + len(names[name]) for name in converted)
    return f"""<!-- Written by ./dev docs from `graft ops --front-end mxnet`; edits here are lost. -->
# Operators of MXNet

MXNet 1.9.1 has {spellings} names for {len(names)} operators, those of backward passes aside
(`tools/docs/mxnet_operators.txt`). {len(converted)} operators ({reached} names) have a converter
([MXNET.md](MXNET.md)). The others stay with MXNet, and so does a node with attributes or types that its converter
refuses: `graft.mxnet.report()` has the reason.

{tables.table(["operator", "other names", "converted", "inputs and attributes"], rows)}"""


def aten_operators_page():
    """docs/aten_operators.md."""
    listed = graft("ops", "--front-end", "aten").splitlines()[1:-1]
    arguments = {line.split()[0]: line.partition("  built in")[2].strip() for line in listed}
    lines = (tables.ROOT / "tools/docs/core_aten_operators.txt").read_text().splitlines()
    core = dict((line.split(" = ") + [""])[:2] for line in lines if not line.startswith("#"))
    names = sorted({*(f"aten::{name}" for name in core), *arguments}, key=lambda name: (name.lower(), name))
    reason = {f"aten::{name}": why for name, why in core.items()}
    rows = [[tables.code(name), "yes" if name in reason else "",
             "yes" if name in arguments else f"no: {reason[name]}", arguments.get(name, "")] for name in names]
    reached = sum(1 for name in core if f"aten::{name}" in arguments)
    return f"""<!-- Written by ./dev docs from `graft ops --front-end aten`; edits here are lost. -->
# Operators of PyTorch

{len(arguments)} operators of torch 2.11 have a converter, for TorchScript, `torch.compile` and `.pt2` files alike
([PYTORCH.md](PYTORCH.md)). They include {reached} of the {len(core)} operators that torch tags as core ATen
(`tools/docs/core_aten_operators.txt`); the table has the reason for each other one, which stays with torch. So
does a node with arguments or types that its converter refuses: `graft.torch.dry_run` has the reason. `prim::` and
`python::` are numbers and lists of TorchScript and of Python, which are evaluated symbolically. `prim::If`,
`prim::Loop` and `higher_order::` are branches and loops; captured values of their functions are further arguments.

{tables.table(["operator", "core", "converted", "arguments"], rows)}"""


def tensorflow_operators_page():
    """docs/tensorflow_operators.md."""
    lines = (tables.ROOT / "tools/docs/tensorflow_operators.txt").read_text().splitlines()
    described = {line[2:] for line in lines if line.startswith("- ")}
    before = dict((line.split(" = ") + [""])[:2] for line in lines if line[0] not in "#-")
    listed = graft("ops", "--front-end", "tensorflow").splitlines()[1:-1]
    arguments = {line.split()[0]: line.partition("  built in")[2].strip() for line in listed}
    converted = {name: each for name, each in arguments.items() if name not in described}
    names = sorted({*before, *converted}, key=lambda name: (name.lower(), name))
    rows = [[tables.code(name), "yes" if name in before else "",
             "yes" if name in converted else before[name] or "no", converted.get(name, "")] for name in names]
    reached = sum(1 for name in before if name in converted or before[name])
    return f"""<!-- Written by ./dev docs from `graft ops --front-end tensorflow`; edits here are lost. -->
# Operators of TensorFlow

{len(converted)} operators have a converter, in graphs and in whole models alike
([TENSORFLOW.md](TENSORFLOW.md)). They include {reached} of the {len(before)} operators of TF-TRT
(`tools/docs/tensorflow_operators.txt`), counting those that become constants. A node with attributes or
types that its converter refuses stays with TensorFlow: `graft embed --report -` has the reason.

{tables.table(["operator", "TF-TRT", "converted", "inputs and attributes"], rows)}"""


def pages():
    """Yields (path, text) for every derived page."""
    yield tables.DOCS / "operators.md", operators_page()
    yield tables.DOCS / "commands.md", commands_page()
    yield tables.DOCS / "graft.1", manual_page()
    yield tables.DOCS / "mxnet_operators.md", mxnet_operators_page()
    yield tables.DOCS / "aten_operators.md", aten_operators_page()
    yield tables.DOCS / "tensorflow_operators.md", tensorflow_operators_page()
    yield from tables.derived_pages()


def main():
    """Writes or checks the pages."""
    parser = argparse.ArgumentParser(prog="./dev docs", description="Write the pages that derive from the registries.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is out of date")
    options = parser.parse_args()
    stale = 0
    for path, text in pages():
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        print(f"docs: {path.relative_to(tables.ROOT)} " + ("is out of date: ./dev docs writes it" if options.check
                                                            else "written"))
        if not options.check:
            path.write_text(text)
    if not stale:
        print("docs: all derived pages are up to date")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
