# SPDX-License-Identifier: Apache-2.0
"""graft embed: engines in a frozen graph, where there is no TensorFlow."""

import pytest
from conftest import frozen_graph

QUICK = ["--tune", "off"]


@pytest.fixture(autouse=True)
def frozen(tmp_path):
    """A graph around an operator that nobody knows."""
    path = tmp_path / "frozen.pb"
    path.write_bytes(frozen_graph())
    return path


def embed(graft, *words):
    return graft("embed", "frozen.pb", *words, "-o", "fast.pb", *QUICK)


def test_the_parts_around_it_become_engines_and_the_file_stays(graft, frozen, tmp_path):
    done = embed(graft, "--outputs", "y", "--report", "report.txt")
    assert done.returncode == 0 and done.stdout == "fast.pb: 2 engines\n", done.stderr
    made, report = (tmp_path / "fast.pb").read_bytes(), (tmp_path / "report.txt").read_text()
    assert made.count(b"GraftEngine") == 2 and b"Relu" in made and b"Mystery" in made
    assert "stays: Mystery net/mystery: there is no converter for Mystery" in report
    assert frozen.read_bytes() == frozen_graph()
    assert embed(graft, "--outputs", "y").returncode == 0 and (tmp_path / "fast.pb").read_bytes() == made


def test_choices_divide_it(graft):
    for words, engines in (["--only", "net"], 1), (["--exclude-op", "Neg"], 1), (["--minimum-size", "2"], 0):
        assert embed(graft, "--outputs", "y", *words).stdout.startswith(f"fast.pb: {engines} engine")


@pytest.mark.parametrize("words, status, message", [
    (["--outputs", "z"], 1, "the graph has no node 'z'"), ([], 2, "--outputs"),
    (["--outputs", "y", "--exclude", "nothing"], 1, "'nothing'"),
    (["--outputs", "y", "--minimum-size", "few"], 2, "--minimum-size"),
    (["--outputs", "y", "--shapes", "w:3x4"], 1, "no placeholder 'w'"),
    (["--outputs", "y", "--dim", "x_0=4"], 1, "no input of the graph has an open size 'x_0'"),
    (["--outputs", "y", "--max-shapes", "x:3x4"], 1, "dim"),
])
def test_what_does_not_fit_is_an_error(graft, tmp_path, words, status, message):
    done = embed(graft, *words)
    assert done.returncode == status and message in done.stderr, done.stderr
    assert not (tmp_path / "fast.pb").exists()


def test_a_damaged_graph_is_told_with_its_file(graft, frozen):
    frozen.write_bytes(frozen_graph()[:40])
    done = embed(graft, "--outputs", "y")
    assert done.returncode == 1 and "frozen.pb" in done.stderr and "cut short" in done.stderr, done.stderr
    assert graft("embed", "frozen.pb", "--outputs", "y", "-o", "frozen.pb").returncode == 2
