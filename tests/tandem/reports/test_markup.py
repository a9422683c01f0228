"""Text from files is never markup: what pages and reports show as HTML is made by one function, from literals.

The sources are read: a template of `markup` is a literal, `Markup` is made from text in one module alone (reports:
from literals, escaped values and figures), and no page takes markdown, or content that has not been through it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tandem.reports.html.markup import Markup, escape, joined, markup, paragraphs, show

ROOT = Path(__file__).resolve().parents[3]
MAKER = "tandem/reports/html/markup.py"
SOURCES = sorted(p for name in ("sync", "daq_service", "sim_service", "tandem") for p in (ROOT / name).rglob("*.py"))

EVIL = '<img src=x onerror="pwned()">\'&'


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


WORDS = ("add_", "arkup", "content", "_markdown")  # a text without any has no fault: it need not be parsed


def faults(source: str, name: str) -> Iterator[str]:
    """What in these sources could show text as markup."""
    if not any(word in source for word in WORDS):
        return
    for node in ast.walk(ast.parse(source)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            called = _called(node)
            if called == "add_markdown":
                yield f"{where}: markdown, which is HTML and reads files; use add_html and tandem.reports.html.markup"
            if called in ("add_html", "add_label", "add_modal", "add_3d_gui_container", "add_notification"):
                arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                if called != "add_html" or not all(_literal(argument) for argument in arguments):
                    yield f"{where}: {called} of anything but a literal; use tandem.reports.html.markup.show"
            if called == "markup" and isinstance(node.func, ast.Name) and not (node.args and _literal(node.args[0])):
                yield f"{where}: the template is no literal"
            if called == "Markup" and name != MAKER:
                yield f"{where}: Markup made outside of {MAKER}"
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        if name != MAKER and any(isinstance(t, ast.Attribute) and t.attr in ("content", "_markdown") for t in targets):
            yield f"{where}: content that is set directly; use tandem.reports.html.markup.show"


def test_pages_take_nothing_but_literals_and_escaped_values_as_markup() -> None:
    found = [f for p in SOURCES for f in faults(p.read_text(), str(p.relative_to(ROOT)))]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'gui.add_markdown("literal")', "gui.add_html(title)", 'gui.add_html(f"<b>{title}</b>")',
        "handle.content = title",
        'markup(f"<b>{title}</b>")', "markup(template, title)", 'markup("<b>" + title)', "Markup(title)", "markup()",
        'show(handle, Markup("x"))', 'handle.content += "x"', "gui.add_modal(title)",
    ],
)  # fmt: skip
def test_the_reader_of_the_sources_finds(source: str) -> None:
    assert list(faults(source, "tandem/view/x.py"))


# ---- reports: text with tags in it takes escaped values, figures, and parts that are made so -------------------------

# per file: parts that are markup already, and attributes that are literals of ours
OURS: dict[str, set[str]] = {
    "tandem/fmu/description.py": {"quoteattr", "unit", "step", "k", "written"},  # quoted by quoteattr, or numbers
    "tandem/fmu/layered.py": {"quoteattr", "prefix", "named", "scaled", "names"},  # likewise, of units
    "tandem/fmu/ssp.py": {"quoteattr", "kind", "unit"},
    "tandem/offline/model.py": {"self._machine.name", "len"},  # a repr, which is no page
    "tandem/offline/shown.py": {"above", "head", "body"},
    "tandem/reports/panels.py": {"inside", "high"},
    "tandem/reports/html/chart.py": {"_curve", "band", "colour"},
    "tandem/reports/html/page.py": {"STYLE"},
    "tandem/reports/html/scatter.py": {"_curve", "blue", "dots", "green", "red", "style"},
    "tandem/reports/html/sections.py": {"body", "colour", "head", "inside", "join", "key", "kind", "leads", "picture"},
    "tandem/reports/html/svg.py": {
        "_curve", "anchor", "band", "colour", "extra", "fill", "head", "join", "kind", "spot", "style", "thick",
        "title", "width", "y - 9",
    },
}  # fmt: skip


def _is_safe(part: ast.FormattedValue, ours: set[str]) -> bool:
    value = part.value
    if part.format_spec is not None or isinstance(value, ast.Constant):  # a figure
        return True
    if isinstance(value, ast.IfExp):
        return isinstance(value.body, ast.Constant) and isinstance(value.orelse, ast.Constant)
    return (_called(value) if isinstance(value, ast.Call) else ast.unparse(value)) in {"e", "escape", *ours}


def report_faults(source: str, name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _called(node) == "Raw" and isinstance(node.args[0], ast.Name | ast.Attribute):
            yield f"{name}:{node.lineno}: text is taken as markup: {ast.unparse(node)}"
        if isinstance(node, ast.JoinedStr):
            literal = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
            values = [part for part in node.values if isinstance(part, ast.FormattedValue)]
            if "</" in literal or "/>" in literal or "<p" in literal:
                wrong = [part for part in values if not _is_safe(part, OURS.get(name, set()))]
                yield from (f"{name}:{node.lineno}: {ast.unparse(part.value)} is not escaped" for part in wrong)


def test_reports_escape_what_they_put_between_tags() -> None:
    named = {str(p.relative_to(ROOT)): p for p in SOURCES if p.is_relative_to(ROOT / "tandem")}
    found = [f for name, p in named.items() for f in report_faults(p.read_text(), name)]
    assert found == []


@pytest.mark.parametrize("source", ['f"<p>{title}</p>"', 'f"<b>{run.name}</b>"', "Raw(title)", 'f"<td>{a(b)}</td>"'])
def test_the_reader_of_the_reports_finds(source: str) -> None:
    assert list(report_faults(source, "tandem/reports/html/page.py"))


# ---- the function itself ---------------------------------------------------------------------------------------------


def test_values_are_escaped_and_markup_is_not_escaped_again() -> None:
    made = markup("<b>{}</b>", EVIL)
    assert made == "<b>&lt;img src=x onerror=&quot;pwned()&quot;&gt;&#x27;&amp;</b>"
    assert markup("<i>{}</i>", made) == f"<i>{made}</i>"
    assert escape(made) is made and isinstance(made, Markup)
    assert "<img" not in joined([made, EVIL])  # type: ignore[list-item]
    assert "<img" not in paragraphs([markup("{}", EVIL)])


def test_braces_of_a_value_are_text() -> None:
    assert markup("{}{}", "{0.__class__}", "{}") == "{0.__class__}{}"


def test_a_page_shows_markup_only() -> None:
    handle = SimpleNamespace(content="")
    with pytest.raises(TypeError):
        show(handle, "<b>text</b>")  # type: ignore[arg-type]
    show(handle, markup("<b>{}</b>", EVIL))
    assert "<img" not in handle.content
