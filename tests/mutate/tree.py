# SPDX-License-Identifier: Apache-2.0
"""The instrumented copy of the sources: all chosen faults in one build, each behind its switch."""

import json
import os
import pathlib
import re
import shutil
import subprocess

from choose import choose

HERE = pathlib.Path(__file__).resolve().parent
COPIED = ("CMakeLists.txt", "cmake", "docs", "examples", "include", "models", "src", "tests", "tools", "LICENSE",
          "THIRD_PARTY_NOTICES.md", "README.md")
KINDS = {"unit": "graft_unit_tests", "golden": "graft_golden_tests", "llvm": "graft_llvm_tests",
         "cuda": "graft_cuda_tests", "plan": "graft_plan_tests", "emulator": "graft_emulator_tests",
         "gpu": "graft_op_tests", "ops": "graft_op_tests"}  # gpu: the samples as kernels of the emulated GPU
LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13")
ROUNDS = 12


class Tree:
    """Folder `work` holds the copy (tree/), its build (build/) and what is known from earlier runs."""

    def __init__(self, root, work):
        self.root, self.work = root, work
        self.sources, self.build = work / "tree", work / "build"
        self.impossible = set(self._read("impossible.json", []))
        self.numbers = self._read("numbers.json", {})

    def _read(self, name, default):
        path = self.work / name
        return json.loads(path.read_text()) if path.exists() else default

    def _write(self, name, value):
        (self.work / name).write_text(json.dumps(value, indent=0))

    def make(self, count, seed):
        """Copies, instruments and builds; gives the faults that the build holds."""
        self.work.mkdir(parents=True, exist_ok=True)
        for _ in range(ROUNDS):
            faults = self.choose(count, seed)
            self._write_sources(faults)
            self._configure()
            errors = self._compile()
            if not errors:
                return faults
            self._exclude(faults, errors)
        raise SystemExit("mutate: the instrumented copy does not compile: see " + str(self.work / "build.log"))

    def choose(self, count, seed):
        """The faults as far as it is known which of them compile, each with its number."""
        faults = choose(self.root, count, seed, self.impossible)
        for fault in faults:
            fault.number = self.numbers.setdefault(fault.key, len(self.numbers) + 1)
        return faults

    def _write_sources(self, faults):
        self._write("numbers.json", self.numbers)
        by_path = {}
        for fault in faults:
            by_path.setdefault(fault.path, []).append(fault)
        wanted = {}
        for path in self._project_files():
            relative = str(path.relative_to(self.root))
            data = path.read_bytes()
            if relative in by_path:
                data = instrument(data.decode(), by_path[relative]).encode()
            wanted[relative] = data
        switch = HERE / "switch"
        wanted["src/base/fault_switch.h"] = (switch / "fault_switch.h").read_bytes()
        wanted["src/base/fault_switch.cpp"] = (switch / "fault_switch.cpp").read_bytes()
        for kind in KINDS.keys() - {"gpu"}:
            wanted[f"tests/{kind}/reach_listener.cpp"] = (switch / "reach_listener.cpp").read_bytes()
        wanted["tests/ops/solve_reference.py"] = wanted["tests/ops/reference.py"]
        wanted["tests/ops/reference.py"] = (switch / "reference.py").read_bytes()
        for path in [path for path in self.sources.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.sources)) not in wanted:
                path.unlink()
        for relative, data in wanted.items():
            path = self.sources / relative
            if not path.exists() or path.read_bytes() != data:  # the build goes by time
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def _project_files(self):
        for name in COPIED:
            top = self.root / name
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.is_file() and "__pycache__" not in path.parts and HERE not in path.parents:
                    yield path

    def variables(self, kind):
        """What a kind of tests wants in its environment."""
        if kind != "gpu":
            return {}
        preload = ":".join(str(self.build / "emulator" / name) for name in LIBRARIES)
        return {"LD_PRELOAD": preload, "GRAFT_TEST_DEVICE": "cuda"}

    def _configure(self):
        if (self.build / "build.ninja").exists():
            return
        # Indices beyond the end of a vector end the run instead of reading what happens to be there.
        command = ["cmake", "-G", "Ninja", "-S", self.sources, "-B", self.build,
                   "-DCMAKE_CXX_FLAGS=-w -D_GLIBCXX_ASSERTIONS",
                   f"-DGRAFT_PYTHON_PREFIX={self.root}/.deps/venv", "-DGRAFT_PYTHON=OFF"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _compile(self):
        """The places (path, line) of the compiler's errors, or from where a template was instantiated that has one;
        none when all is built."""
        targets = [*dict.fromkeys(KINDS.values()), "graft_emulated_cuda", "graft_emulated_nvrtc", "modules"]
        command = ["cmake", "--build", self.build, "-j", str(os.cpu_count()), "--target", *targets, "--", "-k", "0"]
        with open(self.work / "build.log", "w", encoding="utf-8") as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 0:
            return []
        text = (self.work / "build.log").read_text(errors="replace")
        place = r"^([^\s:]+):(\d+):\d+:\s+(?:(?:fatal )?error:|required from here)"
        return [(os.path.relpath(os.path.normpath(self.build / path), self.sources), int(line))
                for path, line in re.findall(place, text, re.MULTILINE)]

    def _exclude(self, faults, errors):
        """Notes the faults that the errors stand in; all of a file when they stand in none."""
        before = len(self.impossible)
        for path, line in errors:
            here = [fault for fault in faults if fault.path == path]
            hit = [fault for fault in here if fault.line <= line <= fault.last_line]
            self.impossible.update(fault.key for fault in hit)
            if not hit and not any(fault.key in self.impossible for fault in here):
                self.impossible.update(fault.key for fault in here)
        if len(self.impossible) == before:
            raise SystemExit("mutate: the copy does not build, and not for a fault: see "
                             + str(self.work / "build.log"))
        self._write("impossible.json", sorted(self.impossible))
        print(f"mutate: {len(self.impossible) - before} places cannot be guarded; others are taken", flush=True)


def instrument(text, faults):
    """The text with each fault behind its switch; every line keeps its number."""
    for fault in sorted(faults, key=lambda fault: -fault.begin):
        text = text[:fault.begin] + fault.guarded(text[fault.begin:fault.end]) + text[fault.end:]
    first, rest = text.split("\n", 1)
    if not first.startswith("//"):
        raise SystemExit("mutate: the first line of a source file should be its licence")
    return '#include "base/fault_switch.h"\n' + rest
