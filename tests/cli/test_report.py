# SPDX-License-Identifier: Apache-2.0
"""`graft inspect --html`: one page that needs nothing beside itself, whatever the names in the model."""

import html.parser
import json

import onnx
import pytest
from conftest import two_layers

VOID = {"meta", "br", "img", "input", "link"}


class Page(html.parser.HTMLParser):
    """What a page holds; fails where elements are not closed in their order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.ids, self.texts = [], [], {}, []
        self.rows = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if "id" in attributes:
            assert attributes["id"] not in self.ids
            self.ids[attributes["id"]] = tag
        if tag not in VOID:
            self.open.append((tag, attributes.get("id")))
        if tag == "tr" and any(name == "tbody" for name, _ in self.open):
            table = [identity for name, identity in self.open if name == "table"][-1]
            self.rows.setdefault(table, []).append([])

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop()[0] == tag, tag

    def handle_data(self, data):
        self.texts.append(data)
        tables = [identity for name, identity in self.open if name == "table"]
        if tables and any(name == "td" for name, _ in self.open):
            self.rows[tables[-1]][-1].append(data)


@pytest.fixture
def report(graft, model, tmp_path):
    done = graft("inspect", "model.onnx", "--runs", "3", "--size", "batch=64", "--html", "page.html", "--json",
                 "facts.json", "--disable", "onednn")
    assert done.returncode == 0 and "page.html" not in done.stderr, done.stderr
    return Page((tmp_path / "page.html").read_text()), json.loads((tmp_path / "facts.json").read_text())


def test_the_page_shows_steps_graph_roofline_memory_and_candidates(report):
    page, facts = report
    assert {"steps": "table", "graph": "svg", "candidates": "table", "tensors": "table"}.items() <= page.ids.items()
    assert len(page.rows["steps"]) == len(facts["steps"]) > 0
    assert any("MatMul + Add + Relu" in "".join(row) for row in page.rows["steps"])
    lost = [candidate for step in facts["steps"] for candidate in step["candidates"]]
    assert len(page.rows.get("candidates", [])) == len(lost)
    if facts["peak"]:
        assert page.ids["roofline"] == "svg"
        assert sum(tag == "circle" for tag, _ in page.elements) >= 1


def test_the_page_needs_no_network(report):
    page, _ = report
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed"), tag
        assert not {"src", "href", "xlink:href"} & set(attributes), attributes
    text = "".join(page.texts)
    assert "http:" not in text and "https:" not in text and "@import" not in text and "url(" not in text


def test_cells_have_the_numbers_that_they_are_sorted_by(report, tmp_path):
    page, facts = report
    values = [float(attributes["data-value"]) for tag, attributes in page.elements
              if tag == "td" and attributes.get("data-value")]
    assert facts["steps"][0]["milliseconds"] == pytest.approx(values[1], rel=1e-6)
    assert "addEventListener" in (tmp_path / "page.html").read_text()


def test_names_of_a_model_are_only_text(graft, tmp_path):
    hostile = two_layers()
    evil = "</script><script>alert(1)</script>&\"'<img src=x>"
    for node in hostile.graph.node:
        node.name = evil + node.name
    hostile.graph.name = evil
    hostile.graph.input[0].name = evil
    hostile.graph.node[0].input[0] = evil
    onnx.save(hostile, tmp_path / "hostile.onnx")
    assert graft("inspect", "hostile.onnx", "--no-run", "--html", "page.html").returncode == 0
    page = Page((tmp_path / "page.html").read_text())
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(tag == "img" for tag, _ in page.elements)
    assert evil in "".join(page.texts)


def test_the_page_replaces_nothing_that_is_read(graft, model):
    before = model.read_bytes()
    assert graft("inspect", "model.onnx", "--html", "model.onnx").returncode == 2
    assert model.read_bytes() == before
