# SPDX-License-Identifier: Apache-2.0
"""Writes the folder that packaging/container/Containerfile is built in: the runtime, a plan with its kernels, and a
root of Debian made by debootstrap.

    python3 packaging/container/prepare.py model.graft -o context

The runtime is the command, libgraft and those library modules that the plan calls, each with the shared libraries that
it needs and their licences. The kernels are those of the machines that the plan was compiled for, which are made here
where the cache does not have them.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools/bundle"))

import libraries  # noqa: E402

SUITE = "bookworm"  # of the glibc that the build is made with, or newer


def build_folder():
    """The build that the runtime is taken from."""
    return pathlib.Path(os.environ.get("GRAFT_BUILD", ROOT / "build")).resolve()


def run(*command):
    """Runs a command, and ends with what it says where it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"prepare: {' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def modules_of(plan):
    """The names of the library modules that the plan calls."""
    report = json.loads(run(build_folder() / "bin/graft", "inspect", plan, "--no-run", "--json", "-"))
    return {step["library"] for step in report["steps"]} - {""}


def add_runtime(plan, target):
    """The command, the library and the plan's modules, with what they need, stripped."""
    wanted = ["bin/graft", "lib*/libgraft.so*", *(f"lib*/libgraft_{name}.so" for name in modules_of(plan))]
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch).resolve()
        run("cmake", "--install", build_folder(), "--prefix", tree, "--strip")
        found = [path for pattern in wanted for path in tree.glob(pattern)]
        own = [path for path in found if not path.is_symlink()]
        carried = {name: path for path in own for name, path in libraries.needed(path).items()
                   if name not in {each.name for each in found}}
        for path in found:
            place = target / path.relative_to(tree)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place, follow_symlinks=False)
        library_folder = next(target.glob("lib*"))
        for name, path in carried.items():
            shutil.copy(path.resolve(), library_folder / name)
            (library_folder / name).chmod(0o755)
        shutil.copytree(next(tree.glob("share/doc/graft")), target / "licences")
        for name, text in libraries.licences(
                path for path in carried.values() if not path.resolve().is_relative_to(tree)).items():
            shutil.copy(text.resolve(), target / "licences/licences" / f"{name}.txt")


def make_root(path, mirror):
    """A small Debian as an archive; it takes root's rights, and the network."""
    if not shutil.which("debootstrap") or os.geteuid() != 0:
        sys.exit("prepare: a root is made by debootstrap, as root: apt install debootstrap, or name one with --root")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "root"
        run("debootstrap", "--variant=minbase", SUITE, folder, *filter(None, [mirror]))
        run("tar", "--create", f"--directory={folder}", "--exclude=./var/cache/apt/archives/*.deb",
            "--exclude=./dev/*", f"--file={path}.partial", ".")
    os.replace(f"{path}.partial", path)


def main():
    """Writes the folder, and says how large its parts are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=pathlib.Path, help="what graft compile has written")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="context", help="the folder to write (context)")
    parser.add_argument("--root", type=pathlib.Path, help="an archive of a root that is there already")
    parser.add_argument("--mirror", help="the archive of Debian that debootstrap reads")
    options = parser.parse_args()
    if options.output.exists() and any(options.output.iterdir()):
        sys.exit(f"prepare: {options.output} is not empty: name another folder with -o, or remove it")
    options.output.mkdir(parents=True, exist_ok=True)
    add_runtime(options.plan, options.output / "graft")
    shutil.copy(options.plan, options.output / "model.graft")
    print(run(build_folder() / "bin/graft", "cache", "export", options.plan, "-o", options.output / "model.kernels"),
          end="")
    if options.root:
        os.symlink(options.root.resolve(), options.output / "root.tar")
    else:
        make_root(options.output / "root.tar", options.mirror)
    shutil.copy(HERE / "Containerfile", options.output / "Containerfile")
    for part in sorted(options.output.iterdir()):
        files = [path for path in [part, *part.rglob("*")] if path.is_file() and (path == part or not path.is_symlink())]
        print(f"{part.name}: {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
