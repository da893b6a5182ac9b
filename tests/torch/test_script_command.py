# SPDX-License-Identifier: Apache-2.0
"""graft-torch, with each of its flags."""

import subprocess
import sys

import pytest
import torch
from conftest import close, trained

import graft
import graft.torch
from graft.torch import command


@pytest.fixture(name="files")
def fixture_files(split, tmp_path):
    """A scripted net, and where to write to."""
    torch.jit.save(torch.jit.script(split), str(tmp_path / "net.pt"))
    return str(tmp_path / "net.pt"), str(tmp_path / "made.pt")


ONE = "(2,3,8,8)"


def kinds_of(path):
    """Operators of a file."""
    graft.torch.load_library()
    return [node.kind() for node in torch.jit.load(path).graph.nodes()]


def test_it_writes_a_module_that_agrees_and_says_how_far(files, split, image, capsys):
    assert command.main([*files, ONE, "--tune", "off"]) == 0
    assert "2 engines, 0 parts" in (said := capsys.readouterr().out) and "largest difference" in said
    close(torch.jit.load(files[1])(image), split(image))
    assert command.main([*files, ONE, "--tune", "off", "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_ranges_types_and_formats_of_inputs(files, split):
    text = "[(1,3,8,8);(2,3,8,8);(4,3,8,8)]@f32%channels_last"
    assert command.main([*files, text, "--tune", "off", "--strict"]) == 0
    for size in (1, 3, 4):
        x = torch.rand(size, 3, 8, 8)
        close(torch.jit.load(files[1])(x), split(x))
    assert command.input_of("(1,2)@half").dtype == torch.float16 and not command.input_of("(1,2)").dtype_given
    assert command.input_of("(1,2,3,4)%nhwc").memory_format == torch.channels_last
    for wrong, message in (("1,2", "is no shape"), ("(1,2)@f7", "'f7' is none of"), ("(1)%x", "'x' is none of"),
                           ("[(1);(2)]", "smallest")):
        with pytest.raises(graft.InvalidArgumentError, match=message):
            command.input_of(wrong)


def test_what_stays_is_chosen(files):
    assert command.main([*files, ONE, "--tune", "off", "--teo", "aten::conv2d"]) == 0
    assert kinds_of(files[1]).count("aten::conv2d") == 2
    assert command.main([*files, ONE, "--tune", "off", "--tem", "stem"]) == 0
    assert kinds_of(files[1]).count("aten::conv2d") == 1
    assert command.main([*files, ONE, "--tune", "off", "--only", "stem"]) == 0
    assert kinds_of(files[1]).count("aten::linear") == 1
    assert command.main([*files, ONE, "--tune", "off", "--min-block-size", "5"]) == 0
    assert kinds_of(files[1]).count("graft::execute_engine") == 1


def test_errors_say_what_to_do(files, capsys):
    assert command.main([*files, ONE, "--require-full-compilation"]) == 1
    assert "aten::digamma: there is no converter" in capsys.readouterr().err
    assert command.main([*files, ONE, "-p", "int8"]) == 1
    assert "int8 needs the ranges of activations" in capsys.readouterr().err
    assert command.main([files[0] + "x", files[1], ONE]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert command.main([files[0]]) == 1
    assert "OUTPUT is missing" in capsys.readouterr().err


def test_the_numeric_check_refuses_to_write(files, tmp_path, capsys):
    assert command.main([*files, ONE, "--tune", "off", "-p", "bf16", "--rtol", "1e-7"]) == 3
    assert "more than --rtol 1e-07" in capsys.readouterr().err and not (tmp_path / "made.pt").exists()
    assert command.main([*files, ONE, "--tune", "off", "-p", "bf16", "--rtol", "1e-7", "--atol", "1e9"]) == 0
    (tmp_path / "made.pt").unlink()
    assert command.main([*files, ONE, "--tune", "off", "-p", "bf16", "--rtol", "1e-7", "--no-threshold-check"]) == 0
    assert (tmp_path / "made.pt").exists()


def test_checks_build_nothing(files, capsys):
    before = graft._graft.compilation_count()
    assert command.main([files[0], "--check-method-support", "forward", ONE]) == 1
    assert "aten::digamma" in capsys.readouterr().out
    assert command.main([files[0], ONE, "--dry-run"]) == 0
    assert "segment 1: 4 operators" in capsys.readouterr().out
    assert graft._graft.compilation_count() == before


def test_plans_out_and_in(tmp_path):
    net = trained(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()))
    torch.jit.save(torch.jit.script(net), str(tmp_path / "net.pt"))
    plan, made = str(tmp_path / "net.graft"), str(tmp_path / "made.pt")
    assert command.main([str(tmp_path / "net.pt"), plan, "(2,4)", "--save-engine", "--tune", "off"]) == 0
    assert command.main([plan, made, "--embed-engine"]) == 0
    x = torch.rand(2, 4)
    close(torch.jit.load(made)(x), net(x))


def test_it_runs_as_a_program(files):
    done = subprocess.run([sys.executable, "-m", "graft.torch.command", *files, ONE, "--tune", "off", "--threads", "1"],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "2 engines" in done.stdout, done.stdout + done.stderr
