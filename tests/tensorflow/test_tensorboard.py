# SPDX-License-Identifier: Apache-2.0
"""A converted graph in TensorBoard: what its graph plugin serves, and in a browser what a person sees."""

import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import pytest
import tensorflow as tf
from conftest import FAST, engines_of, graph_of, weights
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

import graft.tensorflow

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from browser import Browser, program  # noqa: E402  pylint: disable=wrong-import-position

v1 = tf.compat.v1
HOST = "127.0.0.1"
ADDRESS = re.compile(r"http://[0-9.]+:\d+/")
LARGEST = 1024  # bytes of an attribute that the page asks for
SEARCH = """(() => {
  const found = {nodes: {}, text: ""};
  const visit = root => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) visit(each.shadowRoot);
      const box = each.getBoundingClientRect();
      if (each.matches("g.node[data-name]") && box.width) {
        const shape = each.querySelector(".nodeshape").getBoundingClientRect();
        found.nodes[each.dataset.name] = [shape.x + shape.width / 2, shape.y + shape.height / 2];
      }
      if (each.matches("tf-node-info")) found.text += each.shadowRoot.textContent;
    }
  };
  visit(document);
  return found;
})()"""


def network():
    """Two scopes of convolutions, around an operator that no engine has."""
    x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="image")
    with tf.name_scope("stem"):
        x = tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 3, 8), 1, "SAME", name="conv")) + 1.5
    x = tf.math.digamma(x, name="digamma")
    with tf.name_scope("head"):
        x = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(x, weights(3, 3, 8, 8), 2, "SAME")), [1, 2])
        tf.linalg.matmul(x, weights(8, 5), name="logits")


@pytest.fixture(name="converted", scope="module")
def fixture_converted():
    """Two engines in scopes, around an operator that stays."""
    return graft.tensorflow.create_inference_graph(graph_of(network), ["head/logits"], **FAST)


@pytest.fixture(name="address", scope="module")
def fixture_address(converted, tmp_path_factory):
    """Where TensorBoard serves the converted graph."""
    folder = tmp_path_factory.mktemp("events")
    with v1.Graph().as_default() as graph:
        tf.import_graph_def(converted, name="")
        v1.summary.FileWriter(str(folder), graph).close()
    words = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0", "--host", HOST,
             "--load_fast", "false"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                          env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := ADDRESS.search(line):
                break
        else:
            pytest.fail("".join(said))
        yield found[0]
        process.terminate()
        process.communicate(timeout=60)


def test_the_graph_plugin_serves_engines_in_their_scopes_with_what_is_inside(converted, address):
    query = f"data/plugin/graphs/graph?run=.&limit_attr_size={LARGEST}&large_attrs_key=_too_large_attrs"
    with urllib.request.urlopen(address + query, timeout=60) as answer:
        served = text_format.Parse(answer.read().decode(), graph_pb2.GraphDef())
    engines = {node.name: node for node in engines_of(served)}
    assert list(engines) == [node.name for node in engines_of(converted)]
    stem, head = engines.values()
    assert stem.name == "stem/graft_engine_0" and head.name == "head/graft_engine_1"
    assert "Conv2D" in stem.attr["contents"].s.decode() and "MatMul" in head.attr["contents"].s.decode()
    assert b"stem/conv" in stem.attr["nodes"].list.s
    assert list(stem.attr["_too_large_attrs"].list.s) == [b"plan"]  # so that plans are not sent to the page


class Page:
    """TensorBoard's graph in a browser."""

    def __init__(self, browser):
        self.browser = browser

    def wait_for(self, holds):
        """What the page shows when this holds, within half a minute."""
        until = time.monotonic() + 30
        while not holds(found := self.browser.evaluate(SEARCH)):
            assert time.monotonic() < until, found
            time.sleep(0.2)
        return found

    def click(self, name, times=1):
        """Presses the mouse on a node, when the page has come to rest."""
        places = [None]
        while places[-1] is None or places[-1] != places[-2]:
            places.append(self.wait_for(lambda found: name in found["nodes"])["nodes"][name])
            time.sleep(0.5)
        x, y = places[-1]
        for count in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.browser.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)


@pytest.mark.skipif(program() is None, reason="there is no browser: apt install chromium-headless-shell")
def test_a_person_sees_engines_in_their_scopes_and_what_is_inside(address, tmp_path):
    with Browser(tmp_path, HOST) as browser:
        browser.open(f"{address}#graphs", 1400)
        page = Page(browser)
        seen = page.wait_for(lambda found: "stem" in found["nodes"])["nodes"]
        assert {"image", "stem", "digamma", "head"} == set(seen)
        page.click("stem", times=2)
        page.click("stem/graft_engine_0")
        shown = page.wait_for(lambda found: "contents" in found["text"])["text"]
        assert "GraftEngine" in shown and "Conv2D" in shown and "stem/conv" in shown
