# SPDX-License-Identifier: Apache-2.0
"""What a machine builds that lacks something: the whole tree is configured and linked without a CUDA toolkit, and
without anything but the interpreter, and the tests that need nothing more pass there. Without a CUDA toolkit the demo
runs before the rest is built, as ./dev demo has it run on a new machine.

    python tests/hidden/run.py                # both
    python tests/hidden/run.py interpreter    # one of them

Each has a build folder of its own, build-without-*, with the compiler and the cache of the build under test: nearly all
objects are the same, and that they are is checked."""

import filecmp
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.command import run  # noqa: E402

# What is hidden, and the modules that are then not built.
VARIANTS = {
    "cuda": (["GRAFT_CUDA_TOOLKIT"], ["cublaslt", "cudnn"]),
    "interpreter": (["GRAFT_CUDA_TOOLKIT", "GRAFT_LLVM", "GRAFT_ONEDNN", "GRAFT_TEXT", "GRAFT_IMAGES"],
                    ["cublaslt", "cudnn", "llvm", "onednn", "text", "image"]),
}
# The kinds of tests that run, beside those of the hidden modules, which are skipped. What the other kinds test is the
# same objects as in the build under test.
KINDS = ["unit", "golden", "plan", "device", "rpath"]
COMMAND_TESTS = "a_plan_computes_what_the_model_means or inputs_come_from_archives or outputs_are_selected_by_name"
KEPT = ("CMAKE_CXX_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_BUILD_TYPE", "GRAFT_PYTHON_PREFIX")


def kept_settings(build):
    """How the build under test is configured, as arguments of cmake."""
    cache = (build / "CMakeCache.txt").read_text()
    found = (re.search(rf"^{name}:\w+=(.+)$", cache, re.MULTILINE) for name in KEPT)
    return [f"-D{match[0]}" for match in found if match]


def differing_objects(build, hidden):
    """The objects of ours that are not those of the build under test."""
    different = []
    for archive in ("graft_core", "graft_frameworks"):
        folder = pathlib.Path(f"CMakeFiles/{archive}.dir")
        objects = [path.relative_to(hidden) for path in (hidden / folder).rglob("*.o")]
        if not objects:
            sys.exit(f"hidden: {hidden / folder} holds no objects")
        different += [path for path in objects
                      if (build / path).exists() and not filecmp.cmp(build / path, hidden / path, shallow=False)]
    return different


def build_without(name, build):
    """Configures and links everything without what the variant hides; gives the build folder."""
    options, modules = VARIANTS[name]
    hidden = ROOT / f"build-without-{name}"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", hidden, *kept_settings(build),
        *[f"-D{option}=OFF" for option in [*options, "GRAFT_PYTHON"]])
    ccache = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
    if name == "cuda":
        run("cmake", "--build", hidden, "--target", "demo", env=ccache)
        run(sys.executable, ROOT / "examples/demo/demo.py", env={**os.environ, "GRAFT_BUILD": str(hidden)})
    run("cmake", "--build", hidden, env=ccache)
    if present := [module for module in modules if (hidden / f"lib/libgraft_{module}.so").exists()]:
        sys.exit(f"hidden: without {name} these modules were built all the same: {', '.join(present)}")
    if different := differing_objects(build, hidden):
        sys.exit(f"hidden: without {name} objects differ from those of {build}, "
                 "made by ./dev build:\n" + "\n".join(map(str, different)))
    return hidden


def main():
    """Builds and tests each variant."""
    build = pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")).resolve()
    for name in sys.argv[1:] or VARIANTS:
        start = time.monotonic()
        hidden = build_without(name, build)
        built = time.monotonic()
        text = run("ctest", "--test-dir", hidden, "--output-on-failure", "--no-tests=error", "-L",
                   f"^({'|'.join(KINDS + VARIANTS[name][1])})$", "-j", len(os.sched_getaffinity(0)))
        run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests/cli/test_cli.py", "-k",
            COMMAND_TESTS, env={**os.environ, "GRAFT_BUILD": str(hidden)})
        summary = re.search(r"\d+% tests passed.*", text)[0]
        print(f"without {name}: built in {built - start:.0f} s, tested in {time.monotonic() - built:.0f} s; {summary}, "
              f"{text.count('***Skipped')} of them skipped")


if __name__ == "__main__":
    main()
