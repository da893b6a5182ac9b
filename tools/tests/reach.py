# SPDX-License-Identifier: Apache-2.0
"""`./dev test --changed`: the tests that a change can reach.

Compiled files are followed through ninja's own data: what each object was made from (`ninja -t deps`), and build.ninja
from objects to programs. RULES says it of all other files. What runs and why, and what is left out, is said on stderr;
on stdout are the labels for ctest, and the targets to build.

    python3 tools/tests/reach.py BUILD [REV]              # against the merge base with REV (main)
    python3 tools/tests/reach.py BUILD --targets LABEL    # what has to be built for tests of a label
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILED = re.compile(r"(src|include|tests|tools/graft|python)/.*\.(cpp|h|inc|proto|fbs|cc)")
EVERYTHING = "everything"
FRAMEWORKS = ["torch", "mxnet", "tensorflow", "serving"]
# Builds of their own, and what only its own command runs.
ASKED_FOR = {"hidden", "fuzz", "thread-sanitizer", "source_package", "ray", "mutate"}
# Kinds that run the command, the library, modules or the Python package, whatever these are made of.
USES_BUILD = ["api", "bench", "bundle", "cli", "conformance", "container", "device", "docs", "e2e", "emulated",
              "export", "golden", "hostile", "import", "install", "kernels", "llvm", "losses", "memory", "models",
              "onednn", "ops", "plan", "plugin", "python", "random_networks", "replay", "soak", "threads", "unit",
              "wheel", *FRAMEWORKS]
# A pattern of paths, and the labels of ctest that files of it can reach; {} is what the group matched. The first that
# matches says it; no label means that `./dev check` alone reads the file.
RULES = [
    (r"CMake(?:Lists\.txt|Presets\.json)|cmake/.*|dev|tools/deps/.*|\.ci/.*|\.gitignore", EVERYTHING),
    (r"tests/support/.*\.py", " ".join(USES_BUILD)),
    (r"tests/golden/(?:cuda|cuda_lowered)/.*", "cuda"),
    (r"tests/golden/lower/.*", "golden cuda"),
    (r"tests/golden/(?:refusals|attributes)/.*", "ops"),
    (r"tests/golden/mxnet/.*", "unit"),
    (r"tests/fuzz/random_networks/.*", "random_networks"),
    (r"tests/README\.md", "docs cli"),
    (r"tests/(\w+)/.*", "{}"),
    (r"python/.*", "python wheel torch mxnet tensorflow docs"),
    (r"src/host/(torch|mxnet|tensorflow)/.*", "{} wheel"),
    (r"src/host/triton/.*|examples/demo/serve\.py", "serving"),
    (r"examples/.*", "cli python docs"),
    (r"models/.*", "models"),
    (r"bench/.*", "bench"),
    (r"packaging/.*", "container"),
    (r"tools/(bundle|wheel)/.*", "{}"),
    (r"tools/(?:docs|checks|completion|tests)/.*|docs/.*|[^/]*\.md|src/.*\.md|LICENSE", "docs cli"),
    (r"\.clang-format", ""),
]


def git(*words):
    """The lines that git prints."""
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.splitlines()


def changed_paths(against):
    """What differs from the merge base: committed, in the working tree, and files that git does not know yet."""
    base = git("merge-base", against, "HEAD")[0]
    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def parse_deps(text):
    """{file: the objects that were made from it} of `ninja -t deps`, and the objects that it knows."""
    users, known, made = collections.defaultdict(set), set(), None
    for line in text.splitlines():
        if ": #deps" in line:
            made = line.partition(": #deps")[0]
            known.add(made)
        elif line.startswith(" "):
            users[line.strip()].add(made)
    return users, known


def parse_edges(text):
    """{input: outputs} of build.ninja, without inputs that only have to be there before."""
    users = collections.defaultdict(set)
    for line in text.replace("$\n", "").splitlines():
        if line.startswith("build "):
            outputs, _, rest = line.removeprefix("build ").partition(": ")
            outputs = [word for word in outputs.split() if word != "|"]
            for one in rest.split(" || ")[0].split()[1:]:
                if one != "|":
                    users[one].update(outputs)
    return users


class Build:
    """What is made from what, in a build folder."""

    def __init__(self, folder, deps=None):
        self.folder = folder
        edges = parse_edges((folder / "build.ninja").read_text())
        if deps is None:
            deps = subprocess.run(["ninja", "-C", folder, "-t", "deps"], capture_output=True, text=True,
                                  check=False).stdout
        read, known = parse_deps(deps)
        self.users = collections.defaultdict(set)  # by path without links or dots
        for uses in (edges, read):
            for name, made in uses.items():
                self.users[self.at(name)].update(map(self.at, made))
        for batch in folder.glob("batches/*/*.cpp"):  # several files in one
            for name in re.findall(r'^#include "(.+)"', batch.read_text(), re.MULTILINE):
                self.users[self.at(batch.parent / name)].add(batch)
        objects = {name for outputs in edges.values() for name in outputs if name.endswith(".o")}
        self.unbuilt = {self.at(name) for name in objects - known}

    def at(self, name):
        """A path of ninja's, made absolute, without dots."""
        return pathlib.Path(os.path.normpath(self.folder / name))

    def made_from(self, paths):
        """All that is made from files, directly or not."""
        found, waiting = set(), list(paths)
        while waiting:
            for user in self.users.get(waiting.pop(), ()):
                if user not in found:
                    found.add(user)
                    waiting.append(user)
        return found

    def labels(self, paths):
        """The labels of ctest that compiled files reach."""
        labels = set()
        for made in self.made_from(paths):
            name = made.relative_to(self.folder).as_posix() if made.is_relative_to(self.folder) else ""
            if program := re.fullmatch(r"bin/graft_(\w+)_tests", name):
                labels.add({"op": "ops"}.get(program[1], program[1]))
                labels.update({"emulated"} if program[1] in ("device", "op") else ())
            elif name.startswith("emulator/"):
                labels.update(["emulator", "emulated"])
            elif "triton" in name and name.endswith(".so"):
                labels.add("serving")
            elif name == "bin/graft" or name.startswith(("lib/libgraft", "python/graft/")) and ".so" in name:
                labels.update(USES_BUILD)
        return labels


def by_rule(path):
    """The labels that RULES says, or None where no rule is about the path."""
    for pattern, labels in RULES:
        if match := re.fullmatch(pattern, path):
            return set(labels.format(*match.groups()).split())
    return None


def reach(paths, build, known):
    """{label: why}; `known`: all labels. A path without a rule, or a build without data, reaches everything."""
    why = {}

    def add(labels, reason):
        for label in sorted(known if EVERYTHING in labels else labels & known):
            why.setdefault(label, reason)

    for path in paths:
        labels = by_rule(path)
        if COMPILED.fullmatch(path) and not path.startswith("src/host/") and not path.startswith("tests/fuzz/"):
            if build is None:
                add({EVERYTHING}, f"{path} changed, and nothing is built that says what it reaches")
                continue
            labels = build.labels([ROOT / path])
        add({EVERYTHING} if labels is None else labels, f"{path} changed")
    if build is not None:
        add(build.labels(build.unbuilt) if build.unbuilt and any(map(COMPILED.fullmatch, paths)) else set(),
            "it was never built here")
    return why


def all_labels():
    """Folders of tests, and what has no folder of its own there."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"support"}
    return folders | {"models", "bench", "docs", "emulated", "random_networks", "thread-sanitizer"}


def targets(labels):
    """What has to be built for tests of these labels."""
    named = {"graft", "modules", "graft_command"}
    for label in labels:
        if label not in ASKED_FOR and list((ROOT / "tests" / label).glob("*.cpp")):
            named.add(f"graft_{'op' if label == 'ops' else label}_tests")
        if label in ("emulated", "emulator"):
            named.update(["graft_device_tests", "graft_op_tests", "graft_emulated_cuda", "graft_emulated_nvrtc"])
        if label == "serving":
            named.add("triton_graft")
    if labels & {*FRAMEWORKS, "python", "wheel", "bundle", "docs", "e2e", "cli", "bench", "models", "plugin", "ray"}:
        named.add("graft_python")
    return sorted(named)


def main(folder, against="main"):
    """Says what is reached. With everything, all targets are built: an empty list."""
    paths = changed_paths(against)
    built = (folder / "build.ninja").exists() and (folder / ".ninja_deps").exists()
    known = all_labels() - ASKED_FOR
    why = reach(paths, Build(folder) if built else None, known)
    print(f"{len(paths)} files differ from the merge base with {against}", file=sys.stderr)
    for reason in dict.fromkeys(why.values()):
        reached = sorted(label for label in why if why[label] == reason)
        print(f"  {reason}: {EVERYTHING if set(reached) == known else ', '.join(reached)}", file=sys.stderr)
    if left := sorted(known - why.keys()):
        print(f"  left out, as nothing that changed reaches them: {', '.join(left)}", file=sys.stderr)
    print(f"  left out, as ./dev test long and commands of their own run them: {', '.join(sorted(ASKED_FOR))}",
          file=sys.stderr)
    print(f"^({'|'.join(sorted(why))})$" if why else "")
    print("" if known <= why.keys() else " ".join(targets(why.keys())))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--targets"]:
        print(" ".join(targets(set(sys.argv[3:]))))
        sys.exit()
    main(pathlib.Path(sys.argv[1]).resolve(), *sys.argv[2:])
