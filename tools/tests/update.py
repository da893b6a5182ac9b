# SPDX-License-Identifier: Apache-2.0
"""`./dev update [NAME...]`: renews what is derived: golden files and pages. A line says what changed for each
operator, pass, rewrite or page.

With names, only the golden cases of these operators, passes and rewrites are renewed, which takes seconds; pages
always. Programs of tests and pytest renew their files instead of comparing them where GRAFT_UPDATE_GOLDEN is set.

    python3 tools/tests/update.py BUILD [NAME...]
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DERIVED = ("tests/golden/**/*.graft", "tests/plugin/golden/*", "tests/torch/lowering/*", "docs/*.md", "docs/graft.1",
           "README.md", "src/**/README.md")
# Tests of pytest that keep files, by the folder of their Python below .deps.
PYTESTS = {"venv": ["tests/plugin/test_plugin.py::test_the_header_of_a_plugin_reads_well",
                    "tests/plugin/test_composed.py"],
           "torch": ["tests/torch/test_script_lowering.py"]}


def cases(text):
    """{name: text} of a golden file."""
    parts = re.split(r"^// case: (.*)\n", text, flags=re.MULTILINE)
    return {name: case.strip() for name, case in zip(parts[1::2], parts[2::2])}


def snapshot(root=ROOT):
    """{path: text} of all that is derived."""
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
            for pattern in DERIVED for path in root.glob(pattern) if path.is_file()}


def rows(before, after):
    """The first words of lines that differ: the machines of a digest."""
    old = set(before.splitlines())
    return list(dict.fromkeys(line.split()[0] for line in after.splitlines() if line not in old and line.split()))


def difference(before, after):
    """A line for each operator, pass, rewrite or page: where it changed, and how."""
    told = {}
    for path in sorted({*before, *after}):
        old, new = before.get(path, ""), after.get(path, "")
        if old == new:
            continue
        if not path.endswith(".graft"):
            count = sum(line not in set(old.splitlines()) for line in new.splitlines())
            told[path] = [f"{count} lines" if old else "new"]
            continue
        folder, stem = pathlib.PurePath(path).parent.name, pathlib.PurePath(path).stem
        old, new = cases(old), cases(new)
        for name in [*new, *(name for name in old if name not in new)]:
            if old.get(name) == new.get(name):
                continue
            how = "new" if name not in old else "gone" if name not in new else "changed"
            if folder == "kernels" and how == "changed":
                how = " ".join(rows(old[name], new[name]))
            by_case = folder in ("kernels", "refusals", "attributes")
            told.setdefault(name if by_case else stem, []).append(f"{stem if by_case else name} ({how})")
    return [f"{name}: {', '.join(what)}" for name, what in told.items()]


def filters(names):
    """(program, its tests) in an order in which each finds what it reads; cases of new operators come first."""
    golden = ":".join(f"{name}.*:*.{name}" for name in names) or "*"
    ops = ":".join(f"*{test}*/{name}" for test in ("Refusals", "OtherAttributes") for name in names or ["*"])
    return [("graft_golden_tests", "KernelDigests.*"), ("graft_golden_tests", golden), ("graft_op_tests", ops),
            ("graft_cuda_tests", "GoldenKernels.*-*compiler")]


def run(command, variables):
    """Whether a command succeeded; what it printed is shown if not."""
    done = subprocess.run(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        print(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}", file=sys.stderr)
    return done.returncode == 0


def main(folder, *names):
    """Renews, and says what changed; fails where a test fails for another reason than an old text."""
    build = pathlib.Path(folder).resolve()
    variables = {**os.environ, "GRAFT_UPDATE_GOLDEN": "1", "GRAFT_BUILD": str(build),
                 "PYTHONPATH": str(build / "python")}
    before, good = snapshot(), True
    for program, tests in filters(names):
        good &= run([build / "bin" / program, "--gtest_brief=1", f"--gtest_filter={tests}"], variables)
    for environment, tests in PYTESTS.items() if not names else ():
        python = ROOT / ".deps" / environment / "bin/python"
        if python.exists() and (build / "python/graft").exists():
            good &= run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], variables)
        else:
            print(f"update: left out, as .deps/{environment} is not installed: {' '.join(tests)}", file=sys.stderr)
    good &= run([sys.executable, ROOT / "tools/docs/run.py"], variables)
    changes = difference(before, snapshot())
    print("\n".join(changes) or "update: everything derived is up to date")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
