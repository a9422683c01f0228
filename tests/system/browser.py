"""A real browser, where this machine has one: Debian's Chromium, headless, its pictures drawn in software."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--disable-dev-shm-usage", "--hide-scrollbars",
]  # fmt: skip


def lacking() -> str:
    """Why there is no browser; empty if there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no browser tests: Playwright is not installed (pip install playwright)"
    if _chromium() is None:
        return "no browser tests: Chromium is not installed (apt-get install chromium)"
    return ""


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=_chromium(), headless=True, args=_OPTIONS)
        try:
            yield opened
        finally:
            opened.close()


def picture(page: Any, file: str, **options: Any) -> None:
    """A screenshot; drawing in software beside a simulation takes its time."""
    page.screenshot(path=file, timeout=120_000, **options)
