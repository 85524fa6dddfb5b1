"""The index of the documentation lists every page, and pages stay short."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "README.md"
GROUPS = ["Start", "Servers", "Agents", "Review", "History", "Security", "Reference"]
MAX_LINES = 200


def linked_pages(page: Path) -> list[str]:
    return re.findall(r"\]\(([a-z-]+\.md)\)", page.read_text())


def test_the_index_links_every_page_once():
    assert sorted(linked_pages(INDEX)) == sorted(page.name for page in DOCS.glob("*.md") if page != INDEX)


def test_the_index_has_its_groups_in_order():
    assert re.findall(r"^## (.+)$", INDEX.read_text(), re.MULTILINE) == GROUPS


def test_the_readme_links_the_index():
    assert "](docs/README.md)" in (DOCS.parent / "README.md").read_text()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_is_short(page):
    assert len(page.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_link_to_a_section_leads_to_one(page):
    links = re.findall(r"\]\((?!https?:)([a-z-]*(?:\.md)?)#([^)]+)\)", page.read_text())
    broken = [f"{file}#{anchor}" for file, anchor in links if anchor not in anchors(DOCS / file if file else page)]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub gives the page's headings."""
    outside_code = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", outside_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
