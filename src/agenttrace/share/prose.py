"""Markdown that agents wrote, written again as HTML or Markdown in which nothing is loaded, run or left open.

It is parsed first; only the elements below are written, each text in them escaped. So what an agent said can neither
be an element of its own nor end the one that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from agenttrace.masking.rule import MARKER
from agenttrace.share.highlight import fence_language, html_code
from agenttrace.views.markdown import escaped, fenced
from agenttrace.views.transcript import visible

#: Parsing takes much longer than escaping: longer texts are written as they are.
LONGEST_PROSE = 20_000
_BLOCKS = {
    "paragraph": "p",
    "bullet_list": "ul",
    "list_item": "li",
    "blockquote": "blockquote",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_INLINE = {"strong": "strong", "em": "em", "s": "s"}
_ADDRESS = re.compile(r"(?:https?://|mailto:)[!-~]+", re.IGNORECASE)
_SIGNS = {"strong": "**", "em": "*", "s": "~~"}
#: What begins a heading, a list or an underline at the start of a line.
_LINE_START = re.compile(r"^(\s*)(?:([#+=-])|(\d{1,9})([.)]))", re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#_.-]{1,20}")


#: One line without signs, and not a list: it is not worth parsing, and many answers are such.
_PLAIN = re.compile(r"(?!\s|\d{1,9}[.)])[^\n\t\r\\`*_\[\]<>#~|!&+=-]*")


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _parsed(text: str) -> SyntaxTreeNode:
    return SyntaxTreeNode(_parser().parse(visible(text)))


def _is_plain(text: str) -> bool:
    """Whether it is one line in which nothing can be Markdown."""
    return _PLAIN.fullmatch(text) is not None


def html_text(text: str) -> str:
    """A text in HTML: escaped, what is hidden made visible, what is masked marked."""
    return MARKER.sub(lambda found: f"<mark>{found[0]}</mark>", escape(visible(text), quote=True))


def markdown_text(text: str) -> str:
    """The same in Markdown."""
    return _marked_in_markdown(escaped(text))


_ESCAPED_MARKER = re.compile(r"\\\[masked:[a-z0-9-]+\\\]")


def _marked_in_markdown(text: str) -> str:
    return _ESCAPED_MARKER.sub(lambda found: f"**{found[0]}**", text)


# -- HTML ---------------------------------------------------------------------------------------------------------


def html_prose(text: str) -> str:
    """Markdown as HTML."""
    if _is_plain(text):
        return f"<p>{html_text(text.rstrip())}</p>\n" if text else ""
    return "".join(map(_html_block, _parsed(text).children))


def _html_block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "inline":
            return "".join(map(_html_inline, node.children))
        case "heading":
            # A message cannot add headings to the page.
            return f'<p class="heading">{_html_children(node)}</p>\n'
        case "fence" | "code_block":
            return f"<pre>\n{html_code(node.content, fence_language(node.info))}</pre>\n"
        case "hr":
            return "<hr>\n"
        case "ordered_list":
            start = node.attrs.get("start")
            begin = f' start="{start}"' if isinstance(start, int) else ""
            return f"<ol{begin}>{_html_children(node)}</ol>\n"
        case "paragraph" if node.hidden:
            return _html_children(node)
        case kind if kind in _BLOCKS:
            tag = _BLOCKS[kind]
            return f"<{tag}>{_html_children(node)}</{tag}>\n"
        case _:
            return html_text(node.content)


def _html_children(node: SyntaxTreeNode) -> str:
    return "".join(map(_html_block, node.children))


def _html_inline(node: SyntaxTreeNode) -> str:
    inside = "".join(map(_html_inline, node.children)) if node.children else ""
    match node.type:
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "<br>\n"
        case "code_inline":
            return f"<code>{html_text(node.content)}</code>"
        case "link":
            address = _address(node, "href")
            told = escape(address or "", quote=True)
            return f'<a href="{told}" rel="noopener noreferrer nofollow">{inside}</a>' if address else inside
        case "image":
            return html_text(_image(node))
        case kind if kind in _INLINE:
            return f"<{_INLINE[kind]}>{inside}</{_INLINE[kind]}>"
        case _:
            return html_text(node.content)


def _address(node: SyntaxTreeNode, name: str) -> str | None:
    given = node.attrs.get(name)
    return given if isinstance(given, str) and _ADDRESS.fullmatch(given) else None


def _image(node: SyntaxTreeNode) -> str:
    """Loading a picture would tell its server who reads: it is named instead."""
    return f"[image: {node.content or node.attrs.get('src', '')}]"


# -- Markdown -----------------------------------------------------------------------------------------------------


def markdown_prose(text: str) -> str:
    """Markdown as Markdown without anything that is dangerous."""
    if _is_plain(text):
        return markdown_text(text.rstrip()) + "\n"
    return "\n".join(_joined(map(_markdown_block, _parsed(text).children))) + "\n"


def plain_lines(text: str) -> str:
    """A text without Markdown in it, with the line ends that it has."""
    lines = [_line_start(markdown_text(line.strip())) for line in visible(text).strip().split("\n")]
    return "\\\n".join(lines).replace("\\\n\\\n", "\n\n")


def _joined(blocks: Iterator[list[str]] | Sequence[list[str]]) -> list[str]:
    """Blocks with an empty line between them."""
    lines: list[str] = []
    for block in blocks:
        lines += ([""] if lines and block else []) + block
    return lines


def _markdown_block(node: SyntaxTreeNode) -> list[str]:
    match node.type:
        case "inline":
            return _line_start(_markdown_inline(node)).split("\n")
        case "paragraph":
            return [line for child in node.children for line in _markdown_block(child)]
        case "heading":
            return [f"**{' '.join(_plain_inline(node).split())}**"]
        case "fence" | "code_block":
            language = node.info.split(" ", 1)[0] if node.type == "fence" else ""
            known = language if _LANGUAGE.fullmatch(language) else "text"
            return fenced(node.content.removesuffix("\n"), known).rstrip("\n").split("\n")
        case "hr":
            return ["---"]
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "blockquote":
            return [f"> {line}".rstrip() for line in _joined([_markdown_block(child) for child in node.children])]
        case "table":
            return _table(node)
        case _:
            return [_line_start(markdown_text(line)) for line in node.content.split("\n")]


def _list(node: SyntaxTreeNode) -> list[str]:
    start = node.attrs.get("start", 1)
    lines: list[str] = []
    for number, item in enumerate(node.children, start if isinstance(start, int) else 1):
        sign = "- " if node.type == "bullet_list" else f"{number}. "
        inside = _joined([_markdown_block(child) for child in item.children]) or [""]
        lines += [sign + inside[0], *(f"{' ' * len(sign)}{line}".rstrip() for line in inside[1:])]
    return [line.rstrip() for line in lines]


def _table(node: SyntaxTreeNode) -> list[str]:
    rows = [row for part in node.children for row in part.children]
    told = [f"| {' | '.join(' '.join(_plain_inline(cell).split()) for cell in row.children)} |" for row in rows]
    width = len(rows[0].children) if rows else 0
    return [*told[:1], "|" + "---|" * width, *told[1:]]


def _markdown_inline(node: SyntaxTreeNode) -> str:
    return "".join(map(_markdown_span, node.children))


def _markdown_span(node: SyntaxTreeNode) -> str:
    match node.type:
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "\\\n"
        case "code_inline":
            return _code_span(node.content)
        case "link":
            address, told = _address(node, "href"), _markdown_inline(node)
            # The brackets in an address are encoded by the parser, its parentheses are not.
            return f"[{told}]({address.replace('(', '%28').replace(')', '%29')})" if address else told
        case "image":
            return markdown_text(_image(node))
        case kind if kind in _SIGNS:
            return f"{_SIGNS[kind]}{_markdown_inline(node)}{_SIGNS[kind]}"
        case _:
            told = markdown_text(node.content)
            # Before a link it would make a picture of it.
            return f"{told[:-1]}\\!" if told.endswith("!") else told


def _plain_inline(node: SyntaxTreeNode) -> str:
    """The texts of a heading or a cell, escaped; nothing else of them."""
    walk: Callable[[], Iterator[SyntaxTreeNode]] = node.walk
    told = (" " if each.type in ("softbreak", "hardbreak") else each.content for each in walk() if _is_said(each))
    return markdown_text("".join(told))


def _is_said(node: SyntaxTreeNode) -> bool:
    return node.type in ("text", "code_inline", "softbreak", "hardbreak", "image")


def _code_span(code: str) -> str:
    if not code.strip():
        return markdown_text(code)
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if code[0] in "` " or code[-1] in "` " else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def _line_start(text: str) -> str:
    """The text without signs at the start of its lines that would begin a heading or a list."""
    return _LINE_START.sub(lambda found: f"{found[1]}{found[3] or ''}\\{found[2] or found[4]}", text)
