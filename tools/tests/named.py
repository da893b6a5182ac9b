# SPDX-License-Identifier: Apache-2.0
"""`./dev test NAME`: the tests of an operator, a converter row, a pass, a rewrite, or any other name.

A test belongs to NAME if its own name says it, as a word: `Softmax` is in `all/GeneratedSample.x/Softmax_axis_0` and in
`keeps_softmax_when_axis_is_dynamic`, not in `LogSoftmax`. Programs of tests are built only where a source of theirs
says the name, or where tests are made from definitions.

    python3 tools/tests/named.py BUILD NAME
"""

import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAMEWORKS = ("torch", "mxnet", "tensorflow", "serving", "ray")
NOT_ALONE = {"support", "fuzz", "mutate", "hidden", "source_package", "wheel", "bundle", "container", "install", "soak"}
MADE_FROM_DEFINITIONS = ("ops", "golden")  # a sample of an operator, or a golden file, makes a test


def pattern(name):
    """What a name looks like in the name of a test: words in one case or another, apart from letters and digits."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    return re.compile(rf"(?<![A-Za-z0-9]){'[^A-Za-z0-9]*'.join(map(re.escape, words))}(?![a-z0-9])", re.IGNORECASE)


def means(name, test):
    """Whether a test's name says it; a suite is named in one word, as `FoldConstants`."""
    looked_for = pattern(name)
    return bool(looked_for.search(test) or looked_for.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", test))
                and len(re.findall(r"[A-Za-z0-9]+", name)) > 1)


def defined_names():
    """Operators, rows of converters, passes and rewrites, as their sources and golden files name them."""
    names = {path.stem for folder in ("passes", "regions", "fuse", "lower") for path in
             (ROOT / "tests/golden" / folder).glob("*.graft")}
    for folder in ("src/ops", "src/import", "src/frontend", "src/fuse", "src/passes"):
        for path in (ROOT / folder).rglob("*.cpp"):
            for words in re.findall(r'"([A-Za-z_][\w.: ]*)["(]', path.read_text(encoding="utf-8")):
                names.update(word.removeprefix("aten::") for word in words.split())  # a row may have several
    return names


def kinds():
    """Folders of tests that can be run by name."""
    return sorted(path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name not in NOT_ALONE)


def says(name, folder, endings):
    """Whether a source in a folder has the name."""
    looked_for = pattern(name)
    return any(looked_for.search(path.read_text(encoding="utf-8")) for ending in endings
               for path in (ROOT / "tests" / folder).glob(f"*.{ending}"))


def listed(text):
    """The full names of `--gtest_list_tests`."""
    suite, names = "", []
    for line in text.splitlines():
        word = line.partition("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def run_programs(build, name, defined):
    """Builds and runs what C++ has; gives how many tests there were, and whether one failed."""
    chosen = [kind for kind in kinds() if list((ROOT / "tests" / kind).glob("*.cpp")) and
              (says(name, kind, ("cpp", "h")) or defined and kind in MADE_FROM_DEFINITIONS)]
    programs = {kind: f"graft_{'op' if kind == 'ops' else kind}_tests" for kind in chosen}
    known = (build / "build.ninja").read_text()
    programs = {kind: program for kind, program in programs.items() if f"bin/{program}:" in known}
    if not programs:
        return 0, False
    subprocess.run(["cmake", "--build", build, "--target", "modules", *programs.values()], check=True,
                   stdout=sys.stderr)
    count, failed = 0, False
    for kind, program in programs.items():
        path = build / "bin" / program
        tests = listed(subprocess.run([path, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout)
        if tests := [test for test in tests if means(name, test)]:
            print(f"{kind}: {len(tests)} tests of {program}", flush=True)
            count += len(tests)
            failed |= subprocess.run([path, "--gtest_brief=1", "--gtest_filter=" + ":".join(tests)],
                                     check=False).returncode != 0
    return count, failed


def run_python(build, name):
    """Runs what pytest has; the same answer. What is not installed is said."""
    count, failed = 0, False
    folders = [kind for kind in kinds() if list((ROOT / "tests" / kind).glob("test_*.py")) and says(name, kind, ["py"])]
    for kind in folders:
        prefix = ROOT / ".deps" / (kind if kind in FRAMEWORKS else "venv")
        if not (prefix / "bin/python").exists():
            print(f"{kind}: left out, as it is not installed; ./dev test {kind} installs it")
            continue
        variables = {**os.environ, "GRAFT_BUILD": str(build), "PYTHONPATH": str(build / "python")}
        word = " and ".join(re.findall(r"[A-Za-z0-9]+", name))
        pytest = [prefix / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        tests = subprocess.run([*pytest, ROOT / "tests" / kind, "-k", word, "--collect-only"], env=variables, cwd=ROOT,
                               capture_output=True, text=True, check=False)
        found = [line for line in tests.stdout.splitlines() if "::" in line and means(name, line.partition("::")[2])]
        if not found and kind in FRAMEWORKS:  # cases without names
            found = [path for path in (ROOT / "tests" / kind).glob("test_*.py")
                     if pattern(name).search(path.read_text(encoding="utf-8"))]
        if tests.returncode not in (0, 5):
            print(f"{kind}: its tests cannot be collected\n{tests.stdout[-2000:]}")
            failed = True
        elif found:
            print(f"{kind}: {len(found)} tests or files of pytest", flush=True)
            count += len(found)
            failed |= subprocess.run([*pytest, *found], env=variables, cwd=ROOT, check=False).returncode != 0
    return count, failed


def main(folder, name):
    """Returns the exit status: 2 when nothing is called so."""
    build = pathlib.Path(folder).resolve()
    defined = defined_names()
    exact = {one.lower(): one for one in defined}.get(name.lower(), name)
    programs, programs_failed = run_programs(build, exact, exact in defined)
    scripts, scripts_failed = run_python(build, exact)
    if programs + scripts == 0 and not (programs_failed or scripts_failed):
        near = difflib.get_close_matches(name, [*defined, *kinds()], n=3)
        print(f"dev: no test, operator, converter row, pass or folder of tests is called {name}" +
              (f": did you mean {' or '.join(near)}?" if near else ""), file=sys.stderr)
        return 2
    print(f"{name}: {programs + scripts} tests" + (", some failed" if programs_failed or scripts_failed else " passed"))
    return int(programs_failed or scripts_failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
