"""A session as one document.

HTML for reading and printing: no script, nothing loaded from other addresses, every text escaped. In Markdown, texts
are in fences that nothing inside can close.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.views.markdown import DEEPEST_HEADING, escaped, fenced, label_of
from agenttrace.views.transcript import TranscriptSpan, heading_of, visible

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2126;--soft:#5b6670;--line:#d9dee3;--back:#fff;--card:#f6f7f9;--bad:#b3261e;
--ask:#eaf1fb}
@media (prefers-color-scheme:dark){:root{--ink:#dfe4e8;--soft:#98a3ad;--line:#353c43;--back:#15181b;--card:#1c2024;
--bad:#f2867e;--ask:#1d2a3a}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1rem 4rem;max-width:60rem;background:var(--back);color:var(--ink);
font:14px/1.5 system-ui,"Segoe UI","Noto Sans","Noto Sans SC","PingFang SC","Microsoft YaHei",sans-serif}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 1rem}
h2{font-size:1rem;margin:2rem 0 .5rem;border-top:1px solid var(--line);padding-top:1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:0 0 1rem}
dt,.figures,.label{color:var(--soft)} dd{margin:0;overflow-wrap:anywhere}
.figures{font-weight:400;font-size:.85em;margin-left:.75em;font-variant-numeric:tabular-nums}
.step>p{margin:.75rem 0 .25rem;font-size:.9em}
.label{font-size:.8em;margin:.5rem 0 .1rem}
pre{margin:0 0 .5rem;padding:.5rem .75rem;border-radius:6px;background:var(--card);white-space:pre-wrap;
overflow-wrap:anywhere;font:12.5px/1.5 ui-monospace,"Cascadia Mono",Menlo,Consolas,"Noto Sans Mono",monospace;
unicode-bidi:plaintext;tab-size:4}
pre.prompt,pre.text{font:inherit} pre.prompt{background:var(--ask)} pre.text{background:none;padding:.25rem 0}
pre>span{display:block;content-visibility:auto;contain-intrinsic-size:auto 40rem}
pre.thinking{font-style:italic;color:var(--soft)} pre.error{border-left:3px solid var(--bad)}
details{margin:.35rem 0;border:1px solid var(--line);border-radius:6px;padding:.3rem .75rem}
details[open]{padding-bottom:.6rem} summary{cursor:pointer;overflow-wrap:anywhere}
summary:focus-visible{outline:2px solid currentColor;outline-offset:2px}
.error>summary,.error>p{color:var(--bad)}
bdi{unicode-bidi:isolate} footer{margin-top:3rem;color:var(--soft);font-size:.85em}
@media print{body{max-width:none;padding:0} pre{background:none;border:1px solid var(--line)}
details::details-content,pre>span{content-visibility:visible;block-size:auto}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LABELS = {"thinking": "thinks", "arguments": "arguments", "result": "result", "error": "error", "note": "note"}
#: Neither question nor answer: folded where it is long.
_ASIDE, _LONG_ASIDE = ("thinking", "note"), 600
#: Characters of a block.
_PIECE = 10_000
#: Before and after a span and its children.
_FRAMES = {
    "turn": ('<section class="turn{state}">\n<h2>{head}</h2>\n', "</section>\n"),
    "step": ('<div class="step{state}">\n<p class="label">{head}</p>\n', "</div>\n"),
    "tool": ('<details class="tool{state}">\n<summary>{head}</summary>\n', "</details>\n"),
}


class _OpenSpans:
    """A page under construction; it remembers the ends of the spans that are open."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def _closed(self, depth: int) -> str:
        over, self._open = self._open[depth:], self._open[:depth]
        return "".join(reversed(over))


class HtmlPage(_OpenSpans):
    """A session in HTML."""

    def begin(self, session: Session, facts: Mapping[str, str]) -> str:
        """The head and the facts."""
        title = _text(heading_of(session))
        rows = "".join(f"<dt>{_text(name)}</dt><dd><bdi>{_text(value)}</bdi></dd>\n" for name, value in facts.items())
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            f'<header>\n<h1 dir="auto">{title}</h1>\n<dl>\n{rows}</dl>\n</header>\n<main>\n'
        )

    def span(self, told: TranscriptSpan) -> str:
        """A span, after the ends of those before it."""
        closed = self._closed(told.depth)
        state = " error" if told.row.status == "error" else ""
        name = f"<bdi>{_text(told.title)}</bdi>"
        figures = f'<span class="figures">{_text(" · ".join(told.figures))}</span>'
        opening, closing = _FRAMES.get(told.row.kind, _FRAMES["tool"])
        self._open.append("".join(map(_said_in_html, told.after)) + closing)
        return closed + opening.format(state=state, head=name + figures) + "".join(map(_said_in_html, told.before))

    def end(self) -> str:
        """The ends of all spans that are open."""
        return f"{self._closed(0)}</main>\n<footer>Recorded by AgentTrace.</footer>\n</body>\n</html>\n"


def _said_in_html(content: Content) -> str:
    # HTML ignores a line end right after the tag; without it the text would lose its own.
    body = f'<pre class="{content.kind}" dir="auto">\n{_in_pieces(content.text)}</pre>\n'
    label = _LABELS.get(content.kind)
    if label is None:
        return body
    if content.kind in _ASIDE and len(content.text) > _LONG_ASIDE:
        size = f'<span class="figures">{len(content.text):,} characters</span>'
        return f'<details>\n<summary class="label">{label}{size}</summary>\n{body}</details>\n'
    return f'<p class="label">{label}</p>\n{body}'


def _in_pieces(text: str) -> str:
    """A long text as blocks that a browser lays out when they are visible: it fails on one block of megabytes."""
    if len(text) <= _PIECE:
        return _text(text)
    pieces, start = [], 0
    while start < len(text):
        line = text.rfind("\n", start, start + _PIECE) if start + _PIECE < len(text) else -1
        end = line + 1 if line >= start else start + _PIECE
        pieces.append(f"<span>{_text(text[start:end])}</span>")
        start = end
    return "".join(pieces)


def _text(text: str) -> str:
    return escape(visible(text), quote=True)


class MarkdownPage(_OpenSpans):
    """A session in Markdown."""

    def begin(self, session: Session, facts: Mapping[str, str]) -> str:
        """The title and the facts."""
        rows = "".join(f"- {name}: {escaped(value)}\n" for name, value in facts.items())
        return f"# {escaped(heading_of(session))}\n\n{rows}"

    def span(self, told: TranscriptSpan) -> str:
        """A span, after the ends of those before it."""
        level = "#" * min(told.depth + 2, DEEPEST_HEADING)
        heading = " · ".join([escaped(told.title), *map(escaped, told.figures)])
        closed = self._closed(told.depth)
        self._open.append("".join(map(_said_in_markdown, told.after)))
        return f"{closed}\n{level} {heading}\n" + "".join(map(_said_in_markdown, told.before))

    def end(self) -> str:
        """The ends of all spans that are open."""
        return self._closed(0)


def _said_in_markdown(content: Content) -> str:
    return f"\n{label_of(content.kind)}:\n\n{fenced(visible(content.text))}"
