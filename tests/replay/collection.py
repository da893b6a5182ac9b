# SPDX-License-Identifier: Apache-2.0
"""Where kernels come from: the networks, a build of Graft, and the dumps that it writes."""

import ctypes
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

from comparison import Kernel, without_name

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build-replay"
PYTHON_PREFIX = ROOT / ".deps/venv"
TARGETS = ("x86-64-v4", "x86-64-v3", "portable")
CUDA = "cuda"
CUDA_TARGET = "sm_90a"
# Fixed, and nothing is measured: kernels depend on the model, the target and Graft alone.
CHOICES = ("--threads", "2", "--tune", "off")
FORMS = (("tile", "tile program"), ("kernels", "LLVM IR"))


def networks():
    """The test networks by name, each a function that gives the path of its ONNX file.

    Transformers have three layers, the first, the last and one between, as more would only repeat their kernels."""
    sys.path.insert(0, str(ROOT / "models"))
    import bert
    import minilm
    import networks as models
    import vision_transformer
    from network_builder import cached

    def shallow_bert():
        config = bert.BertConfig(vocab_size=1000, num_hidden_layers=3)
        return cached("replay-bert", lambda: bert.bert("bert", config))

    def shallow_vit():
        config = vision_transformer.VisionTransformerConfig(layers=3)
        graph = vision_transformer.VisionTransformerGraph("vit", config, 0, False)
        return cached("replay-vit", graph.model)

    chosen = {name: (lambda name=name: models.cached_path(name)) for name in models.NETWORKS}
    return chosen | {"bert_base": shallow_bert, "vit_b16": shallow_vit, "minilm": minilm.cached_path}


def digest(path):
    """Identifies a file's contents."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def fail(message):
    """Ends the program with a message."""
    raise SystemExit(f"replay: {message}")


def dump(build, model, target, folder):
    """Compiles a model with a build and leaves plan, tile programs and kernels in the folder."""
    identity = digest(model)
    if (folder / "model").exists() and (folder / "model").read_text() == identity:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # What a person has set for debugging is not part of the comparison.
    usual = {key: value for key, value in os.environ.items() if not key.startswith("GRAFT_")}
    environment = usual | {"GRAFT_DUMP": "plan,tile,kernels", "GRAFT_DUMP_DIR": str(folder),
                           "GRAFT_CACHE": str(FOLDER / "cache")}
    command = [build / "bin/graft", "compile", model, "-o", folder / "plan.graft", "--target", target, *CHOICES]
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True)
    (folder / "plan.graft").unlink(missing_ok=True)
    if done.returncode:
        fail(f"{build}/bin/graft cannot compile {model} for {target}:\n{done.stdout}{done.stderr}")
    (folder / "model").write_text(identity)


def dump_cuda(build, folder):
    """Leaves the CUDA source of the generator's proof programs in the folder; no NVRTC is needed."""
    header = (ROOT / "tests/cuda/proof_programs.h").read_text()
    programs = re.findall(r'R"\((program (\w+) .*?)\)"', header, re.DOTALL)
    identity = hashlib.sha256(header.encode()).hexdigest()
    if (folder / "model").exists() and (folder / "model").read_text() == identity:
        return
    module = build / "lib/libgraft_cuda.so"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for text, name in programs:
        source = cuda_source(ctypes.CDLL(str(module)), text.encode())
        (folder / f"{name}.tile.txt").write_text(text)
        (folder / f"{name}.kernels.txt").write_text(source)
    (folder / "model").write_text(identity)


def cuda_source(module, program):
    """What the CUDA generator makes of a tile program, through its C interface (src/codegen/codegen.h)."""
    sent = {}
    sink_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

    def sink(_, kind, data, size):
        sent[kind.decode()] = ctypes.string_at(data, size).decode()
        return 0

    if module.graft_codegen_compile(program, ctypes.c_size_t(len(program)), CUDA_TARGET.encode(), b"source no-cubin",
                                    sink_type(sink), None):
        fail(f"the CUDA generator refuses a proof program: {sent.get('error', 'without a reason')}")
    return sent["source"]


def first_steps(plan):
    """The first step that uses each kernel, by the kernel's name, from the text of a plan."""
    steps, current = {}, "?"
    for line in plan.splitlines():
        if match := re.match(r'step \d+ "(.*?)" ', line):
            current = match[1]
        elif match := re.match(r"  kernel (\w+)$", line):
            steps.setdefault(match[1], current)
    return steps


def read_kernels(folder):
    """The kernels of a dump, in the order of their steps."""
    plan = folder / "plan.plan.txt"
    steps = first_steps(plan.read_text()) if plan.exists() else {}
    names = [path.name.removesuffix(".tile.txt") for path in sorted(folder.glob("*.tile.txt"))]
    order = {name: number for number, name in enumerate(steps)}
    kernels = []
    for name in sorted(names, key=lambda name: order.get(name, len(order))):
        files = [(form, folder / f"{name}.{suffix}.txt") for suffix, form in FORMS]
        texts = tuple((form, without_name(file.read_text(), name)) for form, file in files if file.exists())
        kernels.append(Kernel(steps.get(name, name), texts))
    return kernels


def run(*words, **options):
    """Runs a program; its output is shown only when it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode:
        fail(f"{' '.join(str(word) for word in words)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def resolve(revision):
    """The short hash of a revision."""
    return run("git", "-C", ROOT, "rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}").strip()


def build_revision(commit):
    """Builds a commit in a folder of its own, from its files as git has them; gives the build folder."""
    source, build = FOLDER / commit / "source", FOLDER / commit / "build"
    if not (build / "complete").exists():
        print(f"replay: building {commit} in {build.relative_to(ROOT)}, which takes minutes the first time", flush=True)
        source.mkdir(parents=True, exist_ok=True)
        archive = source.parent / "source.tar"
        run("git", "-C", ROOT, "archive", "-o", archive, commit)
        run("tar", "-xf", archive, "-C", source)
        archive.unlink()
        # Objects of equal sources are the same in every folder.
        environment = os.environ | {"CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"}
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DGRAFT_TESTS=OFF",
            f"-DGRAFT_PYTHON_PREFIX={PYTHON_PREFIX}", *launcher, env=environment)
        run("cmake", "--build", build, "--target", "graft_command", "modules", env=environment)
        (build / "complete").touch()
    return build
