# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/sentence_encoder.md from its third step on, followed to the letter but for the ports. models.py
follows the steps before, in a Python that has onnx."""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD
from test_command import Serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import pages  # noqa: E402

BLOCKS = pages.blocks("tutorials/sentence_encoder.md")


@pytest.fixture(scope="module", name="serving")
def fixture_serving(tmp_path_factory):
    """What the tutorial's command serves."""
    folder = tmp_path_factory.mktemp("tutorial")
    name, serve, plan, *options = shlex.split(BLOCKS[2][1])
    assert (name, serve) == ("graft", "serve")
    serving = Serving(BUILD / "serving/tutorial" / plan, *options, folder=folder)
    serving.lines_until("Ctrl-C")
    yield serving
    assert serving.end() == 0


def with_ports(block, serving):
    """The block with the ports of this server."""
    for stated, port in zip(("8000", "8001", "8002"), serving.ports):
        block = block.replace(f"localhost:{stated}", f"127.0.0.1:{port}")
    return block


def test_the_page_has_the_blocks_that_are_followed():
    assert [language for language, _ in BLOCKS] == ["python", "", "", "python", "", ""]


def test_the_client_finds_the_lines_that_say_the_same(serving):
    done = subprocess.run([sys.executable, "-c", with_ports(BLOCKS[3][1], serving)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    score, pair = done.stdout.split("  ", 1)
    first, second = pair.split("|")
    assert "sofa" in first and "sofa" in second and 0.4 < float(score) < 1


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl here")
def test_curl_gets_an_embedding_and_the_metrics(serving):
    said = [subprocess.run(shlex.split(with_ports(block, serving)), capture_output=True, text=True, timeout=60,
                           check=True).stdout for _, block in BLOCKS[4:]]
    [output] = json.loads(said[0])["outputs"]
    assert output["shape"] == [1, 64] and abs(sum(x * x for x in output["data"]) - 1) < 1e-5
    assert "graft_joined_requests" in said[1]
