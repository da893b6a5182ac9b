# SPDX-License-Identifier: Apache-2.0
"""The page of `graft inspect --html` in a browser: it is complete, sorts, and reads well; pictures of it lie in the
build folder's report."""

import os
import subprocess
import sys
import zlib

import pytest
from browser import Browser, PageError, program
from conftest import COMMAND, ROOT

PICTURES = COMMAND.parent.parent / "report"
pytestmark = pytest.mark.skipif(program() is None, reason="there is no browser: apt install chromium-headless-shell")
COLUMN = """[...document.querySelectorAll("#{table} tbody tr")].map(row => row.cells[{column}].dataset.value ??
row.cells[{column}].textContent)"""


@pytest.fixture(name="page", scope="module")
def fixture_page(tmp_path_factory):
    """The page of a network with several ways, sizes and candidates, made by the command."""
    folder = tmp_path_factory.mktemp("report")
    subprocess.run([sys.executable, ROOT / "models/networks.py", "tiny_transformer", "-o", folder / "model.onnx"],
                   check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([COMMAND, "inspect", "model.onnx", "--runs", "3", "--size", "batch=4", "--size", "length=32",
                           "--tune", "fast", "--html", "page.html"], cwd=folder, capture_output=True, text=True,
                          timeout=300, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(name="browser", scope="module")
def fixture_browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def column(browser, table, number):
    """The cells of a column as they stand, by what they are sorted by."""
    return browser.evaluate(COLUMN.format(table=table, column=number))


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser, page):
    browser.open(page, 1400)
    assert browser.requests() == [page.as_uri()]
    assert not browser.complaints()
    with pytest.raises(PageError):  # so complaints would be seen
        browser.evaluate("nothing.at.all")
    browser.evaluate("console.error('seen')")
    assert browser.complaints()


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(browser, page):
    browser.open(page, 1400)
    steps = column(browser, "steps", 0)
    assert steps == [str(number) for number in range(len(steps))] and len(steps) > 5
    browser.click("#steps th:nth-child(2)")
    times = [float(cell) for cell in column(browser, "steps", 1)]
    assert times == sorted(times, reverse=True) != [float(cell) for cell in steps]
    assert column(browser, "steps", 0) != steps, "rows stay whole"
    browser.click("#steps th:nth-child(2)")
    assert [float(cell) for cell in column(browser, "steps", 1)] == sorted(times)
    browser.click("#steps th:nth-child(7)")
    names = column(browser, "steps", 6)
    assert names == browser.evaluate(f"{names}.sort((a, b) => a.localeCompare(b))")
    assert sorted(column(browser, "steps", 0), key=int) == steps
    assert browser.evaluate("document.querySelectorAll('#steps th[aria-sort]').length") == 1


def test_what_is_not_known_comes_last_both_ways(browser, page):
    browser.open(page, 1400)
    browser.evaluate("document.querySelector('#steps tbody tr').cells[1].dataset.value = ''")
    for _ in range(2):
        browser.click("#steps th:nth-child(2)")
        assert column(browser, "steps", 1)[-1] == ""


def test_the_keyboard_sorts_too(browser, page):
    browser.open(page, 1400)
    browser.evaluate("document.querySelector('#tensors th:nth-child(2)').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)
    sizes = [float(cell) for cell in column(browser, "tensors", 1)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]


def bytes_of_picture(path):
    """The decompressed lines of a PNG."""
    data, at, parts = path.read_bytes(), 8, []
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        length, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        parts += [data[at + 8:at + 8 + length]] if kind == b"IDAT" else []
        at += length + 12
    return zlib.decompress(b"".join(parts))


TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# Texts of the pictures that reach beyond them, or labels of the graph beyond their boxes.
OUTSIDE = """[...document.querySelectorAll("svg text")].filter(text => {
  const box = (text.parentNode.querySelector("rect:not(.bytes)") ?? text.ownerSVGElement).getBoundingClientRect();
  const own = text.getBoundingClientRect();
  return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
}).map(text => text.textContent)"""
# Headings and pictures that nobody can see.
UNSEEN = """[...document.querySelectorAll("h1, h2, svg, table")].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width < 100 || box.height < 10;
}).length"""


@pytest.mark.parametrize("width", [1400, 420])
def test_a_person_can_read_it(browser, page, width):
    browser.open(page, width)
    assert not browser.evaluate(TOO_WIDE), "parts scroll, the page does not"
    assert browser.evaluate(OUTSIDE) == []
    assert browser.evaluate(UNSEEN) == 0
    PICTURES.mkdir(exist_ok=True)
    browser.screenshot(picture := PICTURES / f"inspect-{width}.png")
    lines = bytes_of_picture(picture)
    assert len(lines) > 1000 * width and len(set(lines)) > 100, "the picture is not one colour"
