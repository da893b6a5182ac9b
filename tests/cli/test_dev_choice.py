# SPDX-License-Identifier: Apache-2.0
"""Which tests ./dev chooses: those that a change can reach (`test --changed`), and those of a name (`test NAME`)."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/tests"))

import named  # noqa: E402
import reach  # noqa: E402

BUILD_NINJA = f"""
rule CXX
build a/unit.o: CXX {ROOT}/tests/unit/size_test.cpp | a/headers.gch || generated.h
build a/core.o: CXX batches/core/src.cpp
build a/module.o: CXX {ROOT}/src/codegen/cuda/tma.cpp
build a/cudnn.o: CXX {ROOT}/tests/cudnn/x_test.cpp
build lib/libcore.a: AR a/core.o
build bin/graft_unit_tests: LINK a/unit.o $
    lib/libcore.a || lib/libgraft_cuda.so
build lib/libgraft_cuda.so: LINK a/module.o
build bin/graft_cudnn_tests: LINK a/cudnn.o
build bin/graft: LINK lib/libcore.a
"""
DEPS = f"""a/unit.o: #deps 2, deps mtime 1 (VALID)
    {ROOT}/tests/unit/size_test.cpp
    {ROOT}/src/expr/size.h

a/core.o: #deps 1, deps mtime 1 (VALID)
    {ROOT}/src/expr/size.h

a/module.o: #deps 1, deps mtime 1 (VALID)
    {ROOT}/src/codegen/cuda/tma.cpp

a/cudnn.o: #deps 1, deps mtime 1 (VALID)
    {ROOT}/tests/cudnn/x_test.cpp
"""


@pytest.fixture(name="build")
def fixture_build(tmp_path):
    """A build folder with one unit of two files."""
    (tmp_path / "build.ninja").write_text(BUILD_NINJA)
    sources = os.path.relpath(ROOT / "src/expr", tmp_path / "batches/core")
    (tmp_path / "batches/core").mkdir(parents=True)
    (tmp_path / "batches/core/src.cpp").write_text(f'#include "{sources}/size.cpp"\n#include "{sources}/new.cpp"\n')
    return tmp_path


KNOWN = reach.all_labels() - reach.ASKED_FOR


def reached(build, *paths, deps=DEPS):
    """The labels that changes of these paths reach."""
    return set(reach.reach(paths, reach.Build(build, deps), KNOWN))


def test_a_file_of_tests_reaches_its_program_alone(build):
    assert reached(build, "tests/unit/size_test.cpp") == {"unit"}
    assert reached(build, "tests/cudnn/x_test.cpp") == {"cudnn"}


def test_a_header_reaches_what_was_made_from_it(build):
    assert reached(build, "src/expr/size.h") == {"unit", *reach.USES_BUILD}


@pytest.mark.parametrize("path", ["src/expr/size.cpp", "src/expr/new.cpp"])
def test_a_file_compiled_with_others_reaches_as_much(build, path):
    assert {"unit", "cli", "torch"} <= reached(build, path)
    assert "cudnn" not in reached(build, path)


def test_a_module_reaches_all_that_may_open_it(build):
    assert {"ops", "cli", "emulated"} <= reached(build, "src/codegen/cuda/tma.cpp")


def test_a_header_that_nothing_includes_reaches_nothing(build):
    assert reached(build, "src/expr/unused.h") == set()


def test_an_object_that_was_never_built_is_reached(build):
    without = DEPS.partition("a/cudnn.o")[0]
    assert reached(build, "tests/unit/size_test.cpp", deps=without) == {"unit", "cudnn"}
    assert reached(build, "docs/LIMITS.md", deps=without) == {"docs", "cli"}


def test_without_a_build_a_source_reaches_everything():
    assert set(reach.reach(["src/expr/size.h"], None, KNOWN)) == KNOWN
    assert set(reach.reach(["docs/LIMITS.md"], None, KNOWN)) == {"docs", "cli"}


@pytest.mark.parametrize("path, labels", [
    ("tests/golden/lower/lowered_maps.graft", {"golden", "cuda"}),
    ("tests/golden/refusals/refusals.graft", {"ops"}),
    ("tests/torch/test_rows.py", {"torch"}),
    ("src/host/torch/engine.cpp", {"torch", "wheel"}),
    ("src/host/triton/model.cpp", {"serving"}),
    ("bench/run.py", {"bench"}),
    (".clang-format", set()),
])
def test_files_that_are_not_compiled_here_go_by_the_table(build, path, labels):
    assert reached(build, path) == labels


@pytest.mark.parametrize("path", ["CMakeLists.txt", "dev", "tools/deps/apt.txt", "some/new/folder.txt"])
def test_what_no_rule_is_about_and_the_build_itself_reach_everything(build, path):
    assert reached(build, path) == KNOWN


def test_each_file_of_the_project_has_a_rule_or_is_compiled():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=False)
    paths = listed.stdout.splitlines()
    if len(paths) < 2:
        pytest.skip("this tree is not a clone")
    without = [path for path in paths if path and reach.by_rule(path) is None and not reach.COMPILED.fullmatch(path)]
    assert not without


def test_each_label_of_the_table_is_one_of_ctests():
    labels = {label for _, text in reach.RULES for label in text.split()} | set(reach.USES_BUILD)
    assert labels - reach.all_labels() <= {reach.EVERYTHING, "{}", "ray"}


def test_targets_are_the_programs_of_the_labels():
    assert {"graft_op_tests", "modules"} <= set(reach.targets({"ops"}))
    assert "graft_python" not in reach.targets({"unit"})
    assert "graft_python" in reach.targets({"torch"})


@pytest.mark.parametrize("name, test", [
    ("Softmax", "all/GeneratedSample.agrees/Softmax_axis_0"), ("Softmax", "digests.Softmax"),
    ("softmax", "Pass.keeps_softmax_when_axis_is_dynamic"), ("fold_constants", "fold_constants.folds_a_sum"),
    ("fold_constants", "FoldConstants.leaves_a_draw"), ("kthvalue", "tests/torch/test_rows.py::test_a_row[kthvalue_2]"),
])
def test_a_name_means_tests_that_say_it(name, test):
    assert named.means(name, test)


@pytest.mark.parametrize("name, test", [("Softmax", "digests.LogSoftmax"), ("Add", "Pads.AddPadding"),
                                        ("Add", "Pads.adds_one"), ("fold_constants", "fold_constant.x")])
def test_a_name_inside_of_another_word_is_another(name, test):
    assert not named.means(name, test)


def test_operators_rows_and_passes_are_known_by_name():
    assert {"Softmax", "kthvalue", "ResizeBilinear", "SoftmaxOutput", "fold_constants"} <= named.defined_names()


def test_names_of_a_program_are_read():
    text = "Suite.\n  one\nall/Case.\n  two/Add  # GetParam() = 3\n"
    assert named.listed(text) == ["Suite.one", "all/Case.two/Add"]


def test_a_name_that_nothing_has_is_said(tmp_path):
    (tmp_path / "build.ninja").write_text("")
    done = subprocess.run([sys.executable, ROOT / "tools/tests/named.py", tmp_path, "Sofmaxx"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2
    assert re.search("no test, operator, .* is called Sofmaxx: did you mean .*Softmax", done.stderr)
