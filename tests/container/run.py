# SPDX-License-Identifier: Apache-2.0
"""The image of packaging/container, built and run without a container engine: the steps of the Containerfile are done
in empty folders by chroot, and the image's program then runs a compiled model, as its user, from the plan and the
kernels in it. Debian's root is made by debootstrap once, and stays in the build folder."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/cli"), str(ROOT / "packaging/container")]

import prepare  # noqa: E402
from support.command import run  # noqa: E402

# ROOT USER:GROUP PROGRAM...: with what engines give.
IN_ROOT = """mkdir -p "$1/proc" "$1/dev"
mount -t proc proc "$1/proc" 2>/dev/null
touch "$1/dev/null" && mount --bind /dev/null "$1/dev/null"
exec chroot --userspec="$2" "$1" "${@:3}"
"""


class Stage:
    """A root that steps fill, and what they say of its program."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.user, self.place = folder, "0:0", "/"
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.entry, self.arguments = [], []

    def inside(self, path):
        """A path of the root, as it is here."""
        return self.folder / path.lstrip("/")

    def run(self, *words):
        """Runs a program in the root, with mounts of its own; gives exit status, output and messages."""
        return subprocess.run(
            ["unshare", "--mount", "bash", "-c", IN_ROOT, "bash", self.folder, self.user, *words], text=True,
            capture_output=True, env=self.environment, check=False, timeout=300)


def instructions(text):
    """(word, rest) of each step; lines that end in a backslash go on."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for step in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, rest = step.split(maxsplit=1)
        yield word, rest


def copy_into(stage, sources, target):
    """COPY: a folder's contents, or files."""
    place = stage.inside(target)
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)


def build(context, scratch):
    """Does the steps; gives the last stage."""
    stages, names = [], {}
    for word, rest in instructions((context / "Containerfile").read_text()):
        words = rest.split()
        if word == "FROM":
            if words[0] != "scratch":
                sys.exit(f"container: there is no {words[0]} to begin from")
            stages.append(Stage(scratch / f"stage{len(stages)}"))
            names |= {words[-1]: stages[-1]} if len(words) == 3 else {}
            continue
        stage = stages[-1]
        if word == "ADD":
            run("tar", "--extract", f"--file={context / words[0]}", f"--directory={stage.inside(words[1])}")
        elif word == "COPY" and words[0].startswith("--from="):
            source = names[words[0].removeprefix("--from=")]
            copy_into(stage, [source.inside(path) for path in words[1:-1]], words[-1])
        elif word == "COPY":
            copy_into(stage, [context / path for path in words[:-1]], words[-1])
        elif word == "ENV":
            stage.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
        elif word == "RUN":
            done = stage.run("/bin/sh", "-c", rest)
            if done.returncode:
                sys.exit(f"container: RUN {rest}\n{done.stdout}{done.stderr}")
        elif word == "USER":
            stage.user = rest
        elif word == "WORKDIR":
            stage.inside(rest).mkdir(parents=True, exist_ok=True)
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(stage, "entry" if word == "ENTRYPOINT" else "arguments", json.loads(rest))
        else:
            sys.exit(f"container: {word} is not known to this test")
    return stages[-1]


def size_of(folder):
    """Megabytes of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


def try_image(image, data):
    """Runs the model in the image, without the interpreter, and looks at what is in it."""
    import numpy as np
    from conftest import expected, two_layers
    shutil.copytree(data, image.inside("/data"), dirs_exist_ok=True)
    image.inside("/data").chmod(0o777)
    done = image.run(*image.entry, *image.arguments)
    if done.returncode or done.stderr:
        sys.exit(f"container: {' '.join(image.entry + image.arguments)}\n{done.stdout}{done.stderr}")
    done = image.run(*image.entry, "run", "/opt/model/model.graft", "--input", "x=/data/x.npy", "-o", "/data/y.npy")
    if done.returncode or done.stderr:
        sys.exit(f"container: status {done.returncode}, and it said\n{done.stdout}{done.stderr}")
    x = np.load(data / "x.npy")
    np.testing.assert_allclose(np.load(image.inside("/data/y.npy")), expected(two_layers(), x), rtol=1e-5, atol=1e-5)
    if image.run("/bin/sh", "-c", "true").returncode == 0:
        sys.exit("container: there is a shell in the image")
    names = {path.name for path in image.folder.rglob("*")}
    for generator in ("libgraft_llvm.so", "libgraft_cuda.so"):
        if generator in names:
            sys.exit(f"container: {generator} is in the image")
    for wanted in ("libgraft.so", "THIRD_PARTY_NOTICES.md", "libspdlog-dev.txt"):
        if wanted not in names:
            sys.exit(f"container: the image has no {wanted}")


def main():
    """Compiles a model, builds the image and tries it."""
    if not shutil.which("debootstrap") or os.geteuid() != 0:
        print("SKIPPED: a root is made by debootstrap, as root")
        return 0
    build_folder = prepare.build_folder()
    root = build_folder / "container" / f"{prepare.SUITE}.tar"
    root.parent.mkdir(exist_ok=True)
    start = time.monotonic()
    if not root.exists():
        prepare.make_root(root, os.environ.get("GRAFT_TEST_MIRROR"))
    made = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        import numpy as np
        import onnx
        from conftest import two_layers
        onnx.save(two_layers(), scratch / "model.onnx")
        (scratch / "data").mkdir()
        np.save(scratch / "data/x.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
        os.environ["GRAFT_CACHE"] = str(scratch / "cache")
        run(build_folder / "bin/graft", "compile", "model.onnx", "-o", "model.graft", "--tune", "off", "--disable",
            "onednn", cwd=scratch)
        print(run(sys.executable, ROOT / "packaging/container/prepare.py", scratch / "model.graft", "--root", root,
                  "-o", scratch / "context"), end="")
        image = build(scratch / "context", scratch)
        parts = {part: size_of(image.inside(part)) for part in ("/opt/graft", "/opt/model", "/")}
        try_image(image, scratch / "data")
    print("image: " + ", ".join(f"{part} {size:.1f} MB" for part, size in parts.items())
          + f"; root made in {made - start:.0f} s, the rest in {time.monotonic() - made:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
