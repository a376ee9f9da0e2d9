#!/usr/bin/env python3
"""The parts of the site that mdBook does not make: its table of contents, its sources, and a check of its links.

    scripts/site.py summary          the table of contents
    scripts/site.py sources FOLDER   docs/ with the table of contents; links that leave it become text
    scripts/site.py check FOLDER     every link of the built pages leads to a file, and to an anchor in it

Invariant: a page is in the site when docs/README.md links to it, or a page that is linked there.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

DOCS = Path(__file__).resolve().parent.parent / "docs"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def title(page: str) -> str:
    """The first heading of a page, without what follows a colon."""
    heading = next(line[2:].strip() for line in (DOCS / page).read_text().splitlines() if line.startswith("# "))
    return heading.removeprefix("Reference: ").split(": ")[0]


def is_page(name: str) -> bool:
    """Whether a link of docs/README.md leads to a page below docs/. One that leads nowhere is found in the built site."""
    return name.endswith(".md") and not name.startswith("..") and (DOCS / name).is_file()


def below(page: str, seen: set[str]) -> Iterator[str]:
    """The pages that `page` links to and that were not `seen`."""
    for _, _, target, _ in LINK.findall((DOCS / page).read_text()):
        path = (DOCS / page).parent.joinpath(target).resolve()
        if path.suffix == ".md" and path.is_file() and path.is_relative_to(DOCS):
            name = str(path.relative_to(DOCS))
            if name not in seen:
                seen.add(name)
                yield name


def summary() -> str:
    """The sections of docs/README.md with their pages, and below an overview the pages of its folder."""
    seen, lines = {"README.md"}, ["# Summary", "", "[Switchyard](README.md)", ""]
    sections = (DOCS / "README.md").read_text().split("\n## ")[1:]
    linked = [[name for _, _, name, _ in LINK.findall(section) if is_page(name)] for section in sections]
    seen.update(name for pages in linked for name in pages)
    for section, pages in zip(sections, linked, strict=True):
        lines += ["", f"# {section.splitlines()[0]}", ""] if pages else []
        for page in dict.fromkeys(pages):
            lines.append(f"- [{title(page)}]({page})")
            lines += [f"  - [{title(name)}]({name})" for name in below(page, seen)] if page.endswith("README.md") else []
    rest = [name for page in sorted(seen) for name in below(page, seen)]
    lines += ["", "# More", "", *(f"- [{title(name)}]({name})" for name in rest)] if rest else []
    return "\n".join(lines) + "\n"


def sources(folder: Path) -> None:
    """Copies docs/. README.md becomes index.md, and a link to a file outside of docs/ its text and the path of the file."""
    shutil.copytree(DOCS, folder, dirs_exist_ok=True)
    for page in list(folder.rglob("*.md")):
        original = DOCS / page.relative_to(folder)

        def replaced(found: re.Match[str]) -> str:
            path = original.parent.joinpath(found[3]).resolve()
            if "://" in found[3] or path.is_relative_to(DOCS) or not path.exists():
                return found[0].replace("README.md", "index.md")
            name = path.relative_to(DOCS.parent)
            return found[2] if name.name in found[2] else f"{found[2]} (`{name}`)"

        page.write_text(LINK.sub(replaced, page.read_text()))
        if page.name == "README.md":
            page.rename(page.with_name("index.md"))
    (folder / "SUMMARY.md").write_text(summary().replace("README.md", "index.md"))


class Page(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        self.links.extend(value for name in ("href", "src", "srcset") if (value := values.get(name)))


def check(folder: Path) -> int:
    """Prints the links that lead nowhere, and returns the exit code."""
    folder = folder.resolve()
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    broken, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            if path.name in ("404.html", "toc.html") or re.match(r"[a-z]+:|//", link):
                continue
            count += 1
            name, _, anchor = link.partition("#")
            target = (path.parent / unquote(name)).resolve() if name else path
            is_there = target.exists() and (not anchor or target not in pages or unquote(anchor) in pages[target].anchors)
            broken += [] if is_there else [f"{path.relative_to(folder)}: {link}"]
    print("\n".join(f"leads nowhere: {link}" for link in broken) or f"{count} links of {len(pages)} pages lead somewhere")
    return 1 if broken or count < 1000 else 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["summary"]:
            print(summary(), end="")
        case ["sources", folder]:
            sources(Path(folder))
        case ["check", folder]:
            return check(Path(folder))
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
