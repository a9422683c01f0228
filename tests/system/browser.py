"""A real browser, where this machine has one: Debian's Chromium, headless, its pictures drawn in software."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.system.conftest import PATIENCE_S, until

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

_MOMENT_MS = 5_000  # what is not there to be acted on is not waited for: by the next time the page may be another
_LOOK_S = 3.0  # for what an act does, before it is tried again; twice as long each time
_LOAD_S = 30.0  # the same for a page to come


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


# ---- what a person does ----------------------------------------------------------------------------------------------
# A page moves while it is read: figures arrive, and one whose socket was closed is built again, at its first tab; what
# is sent in between is lost. So an act goes to an element and not to a place, and is repeated until it has its effect.


def click(target: Any) -> None:
    """By one call in the page: what is measured first and clicked at then may have moved in between."""
    target.dispatch_event("click", timeout=_MOMENT_MS)


def press(target: Any, key: str) -> None:
    """By one call as well, whatever has the focus."""
    target.dispatch_event("keydown", {"key": key}, timeout=_MOMENT_MS)


def type_into(field: Any, text: str) -> None:
    field.fill(text, timeout=_MOMENT_MS)
    field.press("Enter", timeout=_MOMENT_MS)


def act_until(
    act: Callable[[], Any], seen: Callable[[], Any], why: Callable[[], str], look_s: float = _LOOK_S
) -> Any:  # fmt: skip
    """The first true value of `seen` after `act`, which is repeated, as a person does who sees nothing happen: it must
    not matter how often it is done. If none comes, the test fails with `why`."""
    from playwright.sync_api import Error

    end = time.monotonic() + PATIENCE_S
    failed = ""
    while True:
        try:
            act()
        except Error as error:  # nothing to act on yet, or not any more
            failed = f"; last tried in vain: {error}"
        left = end - time.monotonic()
        try:
            return until(seen, why, min(look_s, left))
        except AssertionError as missing:
            if look_s >= left:
                raise AssertionError(f"{missing}{failed}") from None
        look_s *= 2.0


def answer(page: Any, where: str) -> Any:
    """To a request for an address; asked again if none came, as from a server that stood still for too long."""
    answers: list[Any] = []
    return act_until(
        lambda: answers.append(page.goto(where)), lambda: answers and answers[-1], lambda: f"no answer from {where}"
    )


def visit(page: Any, where: str, text: Any) -> None:
    """Load an address until the page shows `text`."""
    shown = page.get_by_text(text).first
    act_until(
        lambda: answer(page, where), shown.is_visible, lambda: f"{page.url} does not show {text}: {words(page)}",
        _LOAD_S,
    )  # fmt: skip


def choose(page: Any, tab: str) -> None:
    """A tab of the panel, by its key: under a pointer that is not quite still it is dragged away instead."""
    press(page.get_by_role("tab", name=tab, exact=True), "Enter")


def open_tab(page: Any, tab: str) -> None:
    selected = page.get_by_role("tab", name=tab, exact=True, selected=True)
    act_until(lambda: choose(page, tab), selected.count, lambda: f"the tab {tab} does not open: {words(page)}")


# ---- what a person sees ----------------------------------------------------------------------------------------------


def words(page: Any) -> str:
    found: str = page.locator("body").inner_text()
    return found


def drawings(page: Any) -> int:
    """How often the page asked for something to be drawn, in a window that counts."""
    return int(page.evaluate("window.drawings"))


def picture(page: Any, file: str, **options: Any) -> None:
    """A screenshot; drawing in software beside a simulation takes its time."""
    page.screenshot(path=file, timeout=120_000, **options)
