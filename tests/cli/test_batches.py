# SPDX-License-Identifier: Apache-2.0
"""cmake/batches.py: files are compiled together only if each means the same as alone."""

import pathlib
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake/batches.py"


def batches(folder, **files):
    """The batches of files of src/part, by their names without the ending; headers end in _h."""
    (folder / "src/part").mkdir(parents=True)
    for name, text in files.items():
        path = f"src/part/{name[:-2]}.h" if name.endswith("_h") else f"src/part/{name}.cpp"
        (folder / path).write_text(text)
    output = folder / "batches.cmake"
    subprocess.run([sys.executable, SCRIPT, output, "src/part"], cwd=folder, check=True)
    return [set(re.findall(r"/(\w+)\.cpp", line)) for line in output.read_text().splitlines()[1:]]


def hidden(code):
    return f"namespace graft {{\nnamespace {{\n\n{code}\n\n}}  // namespace\n}}  // namespace graft\n"


def test_files_that_share_no_name_are_a_batch(tmp_path):
    assert batches(tmp_path, a=hidden("int f() { return 1; }"), b=hidden("int g() { return 2; }")) == [{"a", "b"}]


@pytest.mark.parametrize("a, b", [
    (hidden("int f(int x) { return x; }"), hidden("int f(long x) { return 2; }")),  # overloads of each other
    (hidden("[[noreturn]] void f() { throw 1; }"), hidden("void f() {}")),
    (hidden("int f(int x) { return x; }"), "int g() { return f(1.5); }\n"),  # the call would find another function
    (hidden("struct Row {};"), "Row* row();\n"),
    (hidden("enum class E { kA };"), hidden("enum class E { kB };")),
    ("#define WIDE 1\n", "int x = WIDE;\n"),
    ("constexpr int kMost = 1;\n", "constexpr int kMost = 2;\n"),
    ("using namespace std;\n", "int f();\n"),
    ("namespace graft {\nusing expr::Load;\n}\n", "Load load();\n"),
])
def test_files_of_which_one_could_change_the_other_are_apart(tmp_path, a, b):
    assert batches(tmp_path, a=a, b=b) == []


def test_members_and_qualified_names_are_no_clash(tmp_path):
    assert batches(tmp_path, a=hidden("int size() { return 1; }"),
                   b="int f(V v) { return v.size() + p->size() + other::size(); }\n") == [{"a", "b"}]


def test_a_header_that_one_alone_includes_may_not_hide_what_the_other_means(tmp_path):
    files = {"outer_h": "namespace graft {\nstruct Axis {};\n}\n",
             "inner_h": "namespace graft::tile {\nstruct Axis {};\n}\n",
             "a": '#include "inner.h"\n', "b": '#include "outer.h"\nnamespace graft::tile {\nAxis axis();\n}\n'}
    assert batches(tmp_path, **files) == []


def test_a_name_of_a_file_may_not_be_one_of_the_other_s_headers(tmp_path):
    files = {"pass_h": "struct Pass {};\nPass* first();\n", "a": hidden("struct Pass { int x; };"),
             "b": '#include "pass.h"\n'}
    assert batches(tmp_path, **files) == []


def test_the_file_is_written_only_if_it_changes(tmp_path):
    batches(tmp_path, a="int f();\n", b="int g();\n")
    output = tmp_path / "batches.cmake"
    before = output.stat().st_mtime_ns
    subprocess.run([sys.executable, SCRIPT, output], cwd=tmp_path, check=True)  # of the folders that it is about
    assert output.stat().st_mtime_ns == before
    (tmp_path / "src/part/b.cpp").write_text(hidden("int h() { return 1; }"))
    (tmp_path / "src/part/a.cpp").write_text(hidden("int h() { return 1; }"))
    subprocess.run([sys.executable, SCRIPT, output], cwd=tmp_path, check=True)
    assert "UNITY_GROUP" not in output.read_text()
