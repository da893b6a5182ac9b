# SPDX-License-Identifier: Apache-2.0
"""The pictures of README.md and of the tutorials, in docs/images.

`speed.svg` is drawn from the first table of docs/performance.md, the picture of a command's output from the file of its
name, such as docs/images/compare.txt: ./dev docs renews them, ./dev check compares them. All others are measured, so
that only this renews them, `roofline.svg` and `inspect.svg` without a name:

    build/bin/graft inspect minilm.onnx --size batch=1 --size length=128 --tune off --html page.html
    python3 tools/docs/pictures.py page.html [image_classifier | sentence_encoder]
"""

import html
import pathlib
import re
import sys

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "docs/images"
INK, MINOR, BLUE, RED = "#1c2430", "#5a6779", "#1665b3", "#b3461c"
FONT = "font-family='system-ui, sans-serif' font-size='13'"
FIXED = "font-family='ui-monospace, monospace' font-size='12'"


def picture(width, height, parts, style=FONT):
    """An SVG file with a white ground."""
    ground = f"<rect width='{width}' height='{height}' fill='#fff'/>"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {style}>"
    return "\n".join([head, ground, *parts, "</svg>\n"])


def words(x, y, text, fill=INK, more=""):
    """A line of text."""
    return f"<text x='{x}' y='{y}' fill='{fill}' xml:space='preserve' {more}>{html.escape(text)}</text>"


def speed_rows(page):
    """(family, where, peer, geometric mean) of the first table of docs/performance.md."""
    lines = page.partition("| family |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(family, where, peer, float(mean)) for family, where, peer, _, mean, _ in rows]


def speed_chart(page):
    """Bars of the geometric means, with a line where Graft is as fast as the peer."""
    left, unit, step = 470, 220, 24
    rows = speed_rows(page)
    height = 44 + step * len(rows)
    title = "speed against the fastest peer, geometric mean (above 1: Graft is faster)"
    parts = [words(12, 22, title, more="font-weight='600'")]
    for index, (family, where, peer, mean) in enumerate(rows):
        y = 36 + step * index
        colour = BLUE if mean >= 1 else RED
        parts += [words(12, y + 14, f"{family}, {where}"),
                  f"<rect x='{left}' y='{y + 3}' width='{mean * unit:.0f}' height='15' fill='{colour}'/>",
                  words(left + round(max(mean, 1) * unit) + 6, y + 15, f"{mean:.2f}  {peer}", MINOR)]
    parts.append(f"<line x1='{left + unit}' x2='{left + unit}' y1='32' y2='{height - 8}' stroke='{INK}'/>")
    return picture(1060, height, parts)


def terminal(text):
    """Printed lines; the first tensor that differs, which has the arrow, is red."""
    lines = text.splitlines()
    colours = [RED if line.startswith("->") else INK for line in lines]
    parts = [words(12, 22 + 17 * index, *line) for index, line in enumerate(zip(lines, colours))]
    return picture(24 + round(7.25 * max(map(len, lines))), 20 + 17 * len(lines), parts, FIXED)


def derived_pictures():
    """Yields (path, text) for the pictures of committed text."""
    yield IMAGES / "speed.svg", speed_chart((IMAGES.parent / "performance.md").read_text())
    for path in sorted(IMAGES.glob("*.txt")):
        yield path.with_suffix(".svg"), terminal(path.read_text())


def part_of(page, name):
    """One picture of a page of `graft inspect --html`: its elements and its size."""
    size, inside = re.search(rf'<svg id="{name}"[^>]*viewBox="0 0 (\d+ \d+)">(.*?)</svg>', page, re.S).groups()
    return inside, *map(int, size.split())


def styles(page):
    """The page's rules for its pictures."""
    rules = re.findall(r"(?:svg|#graph)[^{}]*{[^}]*}", page.partition("</style>")[0])
    return "<style>" + " ".join(rule for rule in rules if ".pictures" not in rule) + "</style>"


def inspect_page(page):
    """The head of the page, its roofline and memory side by side, and the slowest steps."""
    text = [re.sub("<.*?>", "", found) for found in re.findall(r"<h1>(.*?)</h1>\n<p>(.*?)</p>", page)[0]]
    table = page[page.index('<table id="steps"'):].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    heading = [html.unescape(cell) for cell in re.findall(r"<th(?: [^>]*)?>(.*?)</th>", table)]
    steps = [[html.unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<td.*?</td>", row)] for row in rows]
    steps = sorted((row for row in steps if row), key=lambda row: -float(row[1]))[:8]
    parts = [styles(page), words(16, 32, text[0], more="font-weight='600'"), words(16, 54, text[1], MINOR)]
    for x, name, title in ((16, "roofline", "Roofline"), (606, "memory", "Memory over time")):
        inside, width, height = part_of(page, name)
        parts += [words(x, 84, title, more="font-weight='600'"),
                  f"<svg x='{x}' y='92' width='{width}' height='{height}' id='{name}'>{inside}</svg>"]
    for index, row in enumerate([heading, *steps]):
        for x, cell in zip((16, 60, 110, 160, 230, 290, 380, 800), row):
            parts.append(words(x, 470 + 22 * index, cell, INK if index else MINOR))
    return picture(1200, 480 + 22 * (len(steps) + 1), parts)


def roofline(page):
    """The roofline alone."""
    inside, width, height = part_of(page, "roofline")
    return picture(width, height, [styles(page), inside])


def main():
    """Writes the measured pictures from a page."""
    page = pathlib.Path(sys.argv[1]).read_text()
    if len(sys.argv) > 2:
        (IMAGES / f"{sys.argv[2]}.svg").write_text(inspect_page(page))
        return
    (IMAGES / "roofline.svg").write_text(roofline(page))
    (IMAGES / "inspect.svg").write_text(inspect_page(page))


if __name__ == "__main__":
    main()
