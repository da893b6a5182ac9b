# SPDX-License-Identifier: Apache-2.0
"""The site of all pages: every page is in it once, no link is dead. The generator itself is tried where it is installed
(`./dev docs --site` does that); all else needs no network."""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/docs"), str(ROOT / "tools/checks")]

import build_site  # noqa: E402
import check_pages  # noqa: E402
import check_words  # noqa: E402


@pytest.fixture(scope="module", name="staged")
def fixture_staged(tmp_path_factory):
    """The pages and files that the generator takes, with their folder."""
    staged, folder = build_site.Staged(), tmp_path_factory.mktemp("pages")
    staged.write(folder)
    return staged, folder


def names(entries):
    """The pages of a part of the navigation, in order."""
    if isinstance(entries, str):
        return [entries]
    return [name for entry in entries for value in entry.values() for name in names(value)]


def section(navigation, heading):
    [found] = [entry[heading] for entry in navigation if heading in entry]
    return names(found)


def test_links_between_pages_lead_to_pages_headings_and_files_of_the_site(staged):
    pages, folder = staged
    faults = []
    for name in pages.pages:
        page = folder / name
        text = build_site.FENCED.sub("", page.read_text())
        faults += [f"{name}: {fault}" for link in check_pages.LINK.findall(text)
                   if (fault := check_pages.link_fault(page, link))
                   or (not link.startswith(("http:", "https:", "#")) and
                       (page.parent / link.partition("#")[0]).is_dir() and (fault := f"a link to a folder: {link}"))]
    assert not faults


def test_each_page_has_one_place_in_the_navigation():
    pages = build_site.sources()
    found = names(build_site.navigation(pages))
    assert sorted(found) == sorted(pages) and len(found) > 60


def test_pages_of_commands_users_and_contributors_are_apart():
    pages = build_site.sources()
    navigation = build_site.navigation(pages)
    reference = section(navigation, "Reference, written by commands")
    assert reference == [name for name in names(navigation) if check_words.DERIVED_PAGE.match(pages[name])]
    users, contributors = section(navigation, "For users"), section(navigation, "For contributors")
    assert "docs/PYTHON.md" in users and "docs/ADDING_A_PASS.md" in contributors and "docs/commands.md" in reference
    assert not {*users} & {*contributors} and not {*reference} & {*users, *contributors}


def test_a_page_that_the_index_lacks_is_an_error_that_names_it():
    pages = build_site.sources() | {"docs/FORGOTTEN.md": "# Forgotten\n"}
    with pytest.raises(ValueError, match="docs/README.md lists no docs/FORGOTTEN.md"):
        build_site.navigation(pages)


def test_a_folder_that_pages_link_to_has_a_page_of_its_files(staged):
    pages, folder = staged
    text = (folder / "docs/schemas/README.md").read_text()
    assert "[run.json](run.json)" in text and (folder / "docs/schemas/run.json").exists()
    assert "(schemas/README.md)" in (folder / "docs/README.md").read_text()
    assert "docs/schemas/run.json" in pages.files
    assert "[plan/README.md](plan/README.md)" in (folder / "src/README.md").read_text()


@pytest.mark.parametrize("link, dead", [
    ("other.html", False), ("other.html#part", False), ("#top", False), ("/other.html", False), ("folder/", False),
    ("https://example.org/nothing.html", False), ("missing.html", True), ("other.html#missing", True),
    ("#missing", True), ("../outside.html", True),
])
def test_dead_links_of_a_built_site_are_found(tmp_path, link, dead):
    site = tmp_path / "site"
    (site / "folder").mkdir(parents=True)
    (tmp_path / "outside.html").write_text("")
    (site / "folder/index.html").write_text("<p>")
    (site / "other.html").write_text('<h2 id="part">part</h2>')
    (site / "index.html").write_text(f'<h1 id="top">top</h1><a href="{link}">a link</a>')
    assert [each for _, each in build_site.dead_links(site)] == ([link] if dead else [])


def test_the_generator_makes_pages_without_dead_links_and_an_index_for_searching(staged, tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: ./dev docs --site does that")
    pages, _ = staged
    build_site.build(pages, build_site.navigation(build_site.sources()), tmp_path / "pages", tmp_path / "site")
    assert not list(build_site.dead_links(tmp_path / "site"))
    found = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    assert any("dynamic dimension" in entry["text"] for entry in found)
    text = (tmp_path / "site/docs/ADDING_A_PASS.html").read_text()
    assert 'src="http' not in text and '<link href="http' not in text  # nothing comes from elsewhere
