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

# What a page asks to be drawn is counted instead of drawn: in software one page keeps both cores busy
# for minutes, and its own script does not come to anything. The script, and all it asks for, is the real one.
_COUNT_DRAWINGS = """
window.drawings = 0;
for (const kind of [WebGLRenderingContext, WebGL2RenderingContext])
    for (const call of ["drawArrays", "drawElements", "drawArraysInstanced", "drawElementsInstanced"])
        if (call in kind.prototype)
            kind.prototype[call] = function () { window.drawings += 1; };
"""


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


def window(opened: Any, timeout_s: float, drawn: bool) -> Any:
    """A window of its own; `drawn` where somebody wants to look at pictures of it."""
    context = opened.new_context(viewport={"width": 800, "height": 450})
    context.set_default_timeout(1e3 * timeout_s)
    if not drawn:
        context.add_init_script(_COUNT_DRAWINGS)
    return context


def drawings(page: Any) -> int:
    """How often the page asked for something to be drawn, in a window that counts."""
    return int(page.evaluate("window.drawings"))


def picture(page: Any, file: str, **options: Any) -> None:
    """A screenshot; drawing in software beside a simulation takes its time."""
    page.screenshot(path=file, timeout=120_000, **options)
