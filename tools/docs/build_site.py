# SPDX-License-Identifier: Apache-2.0
"""`./dev docs --site`: a static site of all pages, with search, into build/site.

Pages keep their places, so that links between them hold. Files that pages link to lie beside them as they are, and a
folder gets a page that lists its files. docs/README.md decides the navigation: what it lists for users and for
contributors; pages that commands write have a section of their own.
"""

import argparse
import html.parser
import io
import json
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

import tables

sys.path.insert(0, str(tables.ROOT / "tools/checks"))

import check_pages  # noqa: E402
import check_words  # noqa: E402

ROOT = tables.ROOT
INDEX = "docs/README.md"
#: Kept at the top or the end of the navigation, whatever the index says.
OWN_PLACES = ("README.md", INDEX, "CHANGELOG.md")
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def place(path):
    """A path as seen from the repository."""
    return path.relative_to(ROOT).as_posix()


def sources():
    """{place: text} of all pages."""
    return {place(path): path.read_text() for path in check_pages.pages()}


def title(text):
    """The first heading, as plain text."""
    return re.search(r"^# (.*)$", text, re.MULTILINE)[1].replace("`", "")


def listing(folder):
    """The page of a folder without one: its files, and those of folders below, or their pages."""
    lines = [f"# {place(folder)}", ""]
    for path in sorted(folder.rglob("*")):
        above = [each for each in path.relative_to(folder).parents if (folder / each / "README.md").exists()]
        if path.is_dir() or "__pycache__" in path.parts or (above and path.name != "README.md"):
            continue
        name = path.relative_to(folder).as_posix()
        lines.append(f"- [{name}]({name})")
    return "\n".join(lines) + "\n"


class Staged:
    """Pages and files as the generator takes them: `pages` {place: text}, `files` the places of what is copied."""

    def __init__(self):
        self.pages, self.files = sources(), set()
        for name in list(self.pages):
            self.add(name, self.pages[name])

    def add(self, name, text):
        """Takes a page, with the files that it links to; links to folders become links to their pages."""
        parts = FENCED.split(text)
        self.pages[name] = "".join(part if number % 2 else check_pages.LINK.sub(
            lambda found: found[0].replace(f"({found[1]})", f"({self.target(name, found[1])})"), part)
            for number, part in enumerate(parts))

    def target(self, name, link):
        """The link as the site has it."""
        path, mark, fragment = link.partition("#")
        if re.match(r"\w+:", link) or not path:
            return link
        found = (ROOT / name).parent.joinpath(path).resolve()
        if found.is_dir():
            page = place(found / "README.md")
            if page not in self.pages:
                self.add(page, listing(found))
            return os.path.relpath(page, os.path.dirname(name)) + mark + fragment
        if place(found) not in self.pages:
            self.files.add(place(found))
        return link

    def write(self, folder):
        """Writes all of it below a folder."""
        for name, text in self.pages.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for name in self.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def listed(text, heading):
    """The pages that a section of the index links to, in order, each once."""
    section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    found = [(ROOT / INDEX).parent.joinpath(link.partition("#")[0]).resolve()
             for link in check_pages.LINK.findall(section)]
    return list(dict.fromkeys(place(path) for path in found if path.suffix == ".md"))


def navigation(pages):
    """The sections of the site as mkdocs takes them. Raises ValueError for a page that the index does not list."""
    def entries(names):
        return [{title(pages[name]): name} for name in names]

    users, contributors = listed(pages[INDEX], "For users"), listed(pages[INDEX], "For contributors")
    derived = [name for name in users + contributors if check_words.DERIVED_PAGE.match(pages[name])]
    folders = sorted(name for name in pages if name.endswith("/README.md") and name != INDEX)
    users, contributors = ([name for name in names if name not in (*derived, *folders, *OWN_PLACES)]
                           for names in (users, contributors))
    tutorials = [name for name in users if name.startswith("docs/tutorials/")]
    reached = {*users, *contributors, *derived, *folders, *OWN_PLACES}
    if missing := sorted(set(pages) - reached):
        raise ValueError(f"{INDEX} lists no {', '.join(missing)}")
    return [{"Graft": "README.md"}, {"All pages": INDEX}, {"Tutorials": entries(tutorials)},
            {"For users": entries(name for name in users if name not in tutorials)},
            {"Reference, written by commands": entries(derived)}, {"For contributors": entries(contributors)},
            {"Folders": entries(folders)}, {"Changes": "CHANGELOG.md"}]


class Links(html.parser.HTMLParser):
    """The links of a page, and the fragments that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.fragments = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.fragments |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def dead_links(folder):
    """Yields (page, link) for links of a built site that lead nowhere inside of it."""
    folder = folder.resolve()
    pages = {path: Links(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            address = urllib.parse.urlsplit(link)
            if address.scheme or address.netloc:
                continue
            name = urllib.parse.unquote(address.path)
            start = folder if name.startswith("/") else path.parent
            target = (start / name.lstrip("/")).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            fragment = urllib.parse.unquote(address.fragment)
            if not target.is_relative_to(folder) or not target.exists():
                yield path, link
            elif fragment and target in pages and fragment not in pages[target].fragments:
                yield path, link


def build(staged, nav, work, site):
    """Runs the generator; a warning of its is an error."""
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config

    staged.write(work)
    settings = {"site_name": "Graft", "docs_dir": str(work), "site_dir": str(site), "nav": nav, "strict": True,
                "use_directory_urls": False, "plugins": ["search"],
                "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 3},
                "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn"}}}
    headings = {"toc": {"slugify": lambda text, separator: check_pages.anchor(text), "permalink": "#"}}
    build_pages(load_config(io.BytesIO(json.dumps(settings).encode()), config_file_path=str(work.parent / "mkdocs.yml"),
                            markdown_extensions=["tables", "fenced_code", headings]))


def main():
    """Builds the site, and looks for dead links in it."""
    parser = argparse.ArgumentParser(prog="./dev docs --site", description="Make a static site of all pages.")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "build/site", help="folder of the site")
    options = parser.parse_args()
    work = options.output.with_name(options.output.name + "-pages")
    shutil.rmtree(work, ignore_errors=True)
    staged = Staged()
    build(staged, navigation(sources()), work, options.output)
    faults = list(dead_links(options.output))
    for page, link in faults:
        print(f"docs: {page}: a dead link: {link}")
    if not faults:
        print(f"docs: the site of {len(staged.pages)} pages is in {options.output}: open index.html, or, to search, "
              f"python3 -m http.server -d {options.output}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
