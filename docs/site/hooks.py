"""What the site has besides docs/: the README as its first page, the reference, and every source that a page links to.

A link that leads out of docs/ leads to a copy of that file in the site; one that leads nowhere is a warning, and with
`strict` an error.
"""

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import reference  # noqa: E402  (mkdocs takes the path away again)

_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
_VALIDATION = ROOT / "build" / "validation.md"
_NOT_MEASURED = "# Validation\n\nNothing has been measured where this site was built: `make bench` makes this page.\n"
_MOVED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Files, config: Any) -> Files:
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    measured = _VALIDATION.read_text() if _VALIDATION.is_file() else _NOT_MEASURED
    files.append(File.generated(config, "results/validation.md", content=measured))
    for name, place in _MOVED.items():
        files.append(File.generated(config, place, content=_relinked((ROOT / name).read_text(), Path(), files, config)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    if page.file.generated_by is not None and page.file.abs_src_path is None:
        return markdown
    return _relinked(markdown, Path("docs", page.file.src_uri).parent, files, config)


def on_post_build(config: Any) -> None:
    """A heading that is found says which page it is of: many pages have one called `Parameters`."""
    index = Path(config["site_dir"], "search", "search_index.json")
    found = json.loads(index.read_text())
    titles = {entry["location"]: entry["title"] for entry in found["docs"] if "#" not in entry["location"]}
    for entry in found["docs"]:
        page, anchor, _ = entry["location"].partition("#")
        if anchor and entry["title"] != titles.get(page):
            entry["title"] = f"{titles.get(page, page)}: {entry['title']}"
    index.write_text(json.dumps(found))


def _relinked(markdown: str, folder: Path, files: Files, config: Any) -> str:
    """`folder`: where the page stands in the repository."""
    here = folder.relative_to("docs").as_posix() if folder.parts[:1] == ("docs",) else "."

    def link(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"\w+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder.as_posix(), target))
        if path.startswith("docs/"):
            goal = path.removeprefix("docs/")
        elif path in _MOVED:
            goal = _MOVED[path]
        elif (ROOT / path).is_file() and not path.startswith(".."):
            goal = f"source/{path}.txt"
            if files.get_file_from_path(goal) is None:
                files.append(File.generated(config, goal, content=(ROOT / path).read_bytes()))
        else:
            return found[0]
        return f"{found[1]}{posixpath.relpath(goal, here)}{found[3] or ''}{found[4]}"

    return _LINK.sub(link, markdown)
