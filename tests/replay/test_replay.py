# SPDX-License-Identifier: Apache-2.0
"""What ./dev replay calls the same, changed, new and gone."""

import collection
import comparison
from comparison import Kernel


def kernel(step, tile, ir="ret"):
    """A kernel with two forms."""
    return Kernel(step, (("tile program", tile), ("LLVM IR", ir)))


def test_names_that_are_hashes_do_not_count():
    old = comparison.without_name("program k_1 {\n  call @k_1, @k_12\n}", "k_1")
    new = comparison.without_name("program k_2 {\n  call @k_2, @k_12\n}", "k_2")
    assert old == new and "k_12" in old


def test_equal_kernels_are_the_same_in_any_order():
    outcome = comparison.compare([kernel("a", "1"), kernel("b", "2")], [kernel("b", "2"), kernel("a", "1")])
    assert outcome.same == 2 and not outcome.differs()


def test_a_change_is_told_from_what_came_and_went():
    old = [kernel("a", "1"), kernel("b", "2"), kernel("c", "3")]
    new = [kernel("a", "1"), kernel("b", "9"), kernel("d", "4")]
    outcome = comparison.compare(old, new)
    assert (outcome.same, outcome.changed) == (1, [(old[1], new[1])])
    assert (outcome.new, outcome.gone) == ([new[2]], [old[2]])


def test_a_change_of_the_code_alone_shows():
    outcome = comparison.compare([kernel("a", "1", "fadd\nret")], [kernel("a", "1", "fsub\nret")])
    title, diff = comparison.first_difference(outcome, "old", "new")
    assert "step a, LLVM IR" in title
    assert diff.splitlines()[:2] == ["--- old", "+++ new"] and "-fadd" in diff and "+fsub" in diff


def test_without_a_pair_what_came_and_went_is_listed():
    outcome = comparison.compare([kernel("a", "1")], [kernel("b", "2")])
    assert comparison.first_difference(outcome, "old", "new")[1].splitlines() == \
        ["new: the kernel of step b", "gone: the kernel of step a"]


def test_kernels_are_read_from_a_dump_in_the_order_of_steps(tmp_path):
    (tmp_path / "plan.plan.txt").write_text(
        'step 0 "conv" generated of Conv\n  reads 0 writes 1\n  kernel k_f\nstep 1 "relu \\"x\\"" generated of Relu\n'
        '  kernel k_a\nstep 2 "again" generated of Conv\n  kernel k_f\nkernel k_a grid 1 scratch 0\n')
    for name in ("k_a", "k_f"):
        (tmp_path / f"{name}.tile.txt").write_text(f"program {name}")
        (tmp_path / f"{name}.kernels.txt").write_text(f"define @{name}")
    kernels = collection.read_kernels(tmp_path)
    assert [k.step for k in kernels] == ["conv", 'relu \\"x\\"']
    assert kernels[0].texts == (("tile program", "program kernel"), ("LLVM IR", "define @kernel"))
