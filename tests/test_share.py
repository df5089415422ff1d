"""Shared files: what agents said stays text in HTML and Markdown, what is masked is counted, paths hide their users."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agenttrace.masking import Mask
from agenttrace.share import highlight, prose
from agenttrace.share.masks import MaskedPlaces, ShareMask, UserNames
from agenttrace.share.prose import html_prose, html_text, markdown_prose, plain_lines
from agenttrace.share.style import STYLE
from agenttrace.share.tool_calls import DiffLine, FileEdit, diff_lines, tool_call

#: Signs that mean something in Markdown or HTML, and pieces of attacks.
PIECES = st.sampled_from(
    (
        *(
            "`",
            "``",
            "```",
            "~~~",
            "*",
            "**",
            "_",
            "# ",
            "- ",
            "1. ",
            "> ",
            "    ",
            "\t",
            "\n",
            "\n\n",
            "---",
            "===",
            "|",
        ),
        *("<b>", "</p>", "<script>", "<!--", "-->", "</details>", "<details>", "</div>", "&lt;", "&#0;", "\\", "\\\n"),
        *("[a](", "[a](javascript:x)", "![](http://e.example/x)", "](", ")", "[", "]", "[a]: http://e.example/", "[a]"),
        *(
            "http://e.example/",
            "<http://e.example>",
            "[masked:password]",
            "[x](http://h/[masked:token])",
            "a",
            "b ",
            "é",
        ),
        *("\u202e", "\u200b", "\x1b[31m", "\x07", "\r", "|---|\n", "| a |\n", "~~", "text", "é", "|"),
    )
)
HOSTILE = st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=80)
BLOCKS = {"p", "pre", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "hr"}
INLINE = {"strong", "em", "s", "code", "a", "br", "mark", "span"}
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")


class Elements(HTMLParser):
    """Elements and attributes of a page, and whether each that begins also ends."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.open: list[str] = []
        self.odd: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.odd.append(tag)

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def handle_decl(self, decl: str) -> None:
        self.odd.append(decl)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)


@given(HOSTILE)
@example("<script>alert(1)</script>")
@example('[a](javascript:alert(1)) [b](data:text/html,x) [c](https://h/"onmouseover=x)')
def test_prose_in_html(text: str) -> None:
    """Whatever is said, the page has only known elements, each closed, and addresses of the web."""
    page = Elements(html_prose(text))
    assert not page.open
    assert not page.odd
    assert page.elements <= BLOCKS | INLINE
    for name, value in page.attributes:
        assert name in ("href", "rel", "start", "class")
        assert name != "href" or re.match("(?:https?://|mailto:)", value, re.IGNORECASE)
    assert not HIDDEN.search(html_prose(text))


PROGRAMS = st.lists(
    st.sampled_from(
        (*"'\"`#/*{}()<>&;:=\\\n\t ", "def f():", "if", "[masked:token]", "é你", "0x1", "--", "\r", "\u202e")
    )
).map("".join)


@given(PROGRAMS | HOSTILE, st.sampled_from(sorted({*highlight._LANGUAGES.values()})))
def test_colours_change_no_text(text: str, language: str) -> None:
    """A program text has the same characters and the same marks with and without colours, in elements that end."""
    coloured = highlight.html_code(text, language)
    page = Elements(coloured)
    assert not page.open
    assert not page.odd
    assert page.elements <= {"span", "mark"}
    assert re.sub(r"</?span[^>]*>", "", coloured) == html_text(text)


def _channels(colour: str) -> list[float]:
    pairs = re.findall("..", colour) if len(colour) == 6 else [digit * 2 for digit in colour]
    parts = [int(pair, 16) / 255 for pair in pairs]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _contrast(one: str, other: str) -> float:
    bright = sorted(
        sum(part * share for part, share in zip(_channels(each), (0.2126, 0.7152, 0.0722), strict=True))
        for each in (one, other)
    )
    return (bright[1] + 0.05) / (bright[0] + 0.05)


@pytest.mark.parametrize("number", range(3), ids=["light", "dark", "paper"])
def test_every_word_is_readable(number: int) -> None:
    """Colours of words have a contrast of 4.5 to 1 on each ground that program text has."""
    themes = [dict(re.findall(r"--(\w+):#(\w+)", block)) for block in re.findall(r":root\{(.*?)\}", STYLE, re.DOTALL)]
    colours = themes[0] | themes[number]
    for word in ("ink", "soft", "key", "str", "num", "fun"):
        for ground in ("card", "add", "cut", "back"):
            assert _contrast(colours[word], colours[ground]) >= 4.5, (word, ground)


@given(st.text(alphabet="ab .,:;'\"()é你", max_size=60))
@example("    code")
@example("a\u00a0")
@example("1. a")
def test_plain_prose(text: str) -> None:
    """A sentence without signs of Markdown is written without parsing it, as parsing it would write it."""
    written = [html_prose(text), markdown_prose(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prose, "_is_plain", lambda _: False)
        assert [html_prose(text), markdown_prose(text)] == written


@given(HOSTILE)
@example("- a\n\n      b\n1. c\n```\n<b>\n```")
@example("# ![x](http://e.example/x) `<b>`")
@example("\\![](http://e.example/x)")
def test_prose_in_markdown(text: str) -> None:
    """What is written again has no HTML, loads nothing, has no headings, and links only to the web."""
    page = markdown_prose(text)
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(page)
    kinds = {each.type for token in tokens for each in (token, *(token.children or ()))}
    assert not kinds & {"html_block", "html_inline", "image", "heading_open"}
    links = [
        each.attrs.get("href", "") for token in tokens for each in token.children or () if each.type == "link_open"
    ]
    assert all(re.match("(?:https?://|mailto:)", str(link), re.IGNORECASE) for link in links)
    assert not HIDDEN.search(page)


@given(HOSTILE, HOSTILE)
def test_prose_ends(first: str, second: str) -> None:
    """Nothing that was said swallows what follows: an open fence or list ends with its text."""
    page = f"{markdown_prose(first)}\n## Turn 7\n\n{markdown_prose(second)}"
    tokens = MarkdownIt("commonmark", {"html": True}).parse(page)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["Turn 7"]


@given(HOSTILE)
def test_prompts_in_markdown(text: str) -> None:
    """A prompt is a quote of plain text."""
    quoted = "".join(f"> {line}".rstrip() + "\n" for line in plain_lines(text).split("\n"))
    tokens = MarkdownIt("commonmark", {"html": True}).parse(quoted)
    kinds = {each.type for token in tokens for each in (token, *(token.children or ()))}
    assert kinds <= {
        *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close", "inline", "text"),
        *("hardbreak", "softbreak", "strong_open", "strong_close", "text_special"),
    }


# -- tool calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "command", "summary"),
    [
        ("Bash", {"command": "ls -l", "description": "list"}, "ls -l", "ls -l"),
        ("shell", {"command": ["bash", "-lc", "ls"]}, "ls", "ls"),
        ("Read", {"file_path": "/a.py"}, None, "/a.py"),
        ("edit", {"command": "view", "path": "/a.py"}, None, "/a.py"),
        ("x", {"n": 1}, None, ""),
        ("Grep", {"pattern": "a", "deep": {"b": ["c"]}}, None, "a"),
    ],
)
def test_commands(tool: str, arguments: dict[str, object], command: str | None, summary: str) -> None:
    """Commands are recognised, other calls are told by their most telling argument."""
    found = tool_call(tool, json.dumps(arguments))
    assert (found.command, found.summary) == (command, summary)
    assert len(found.arguments.splitlines()) == len(arguments)


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n same\n*** Add File: b.py\n+x\n*** End Patch\n"
PATCHED = [FileEdit("a.py", "old\nsame\n", "new\nsame\n"), FileEdit("b.py", "", "x\n")]


@pytest.mark.parametrize(
    ("tool", "arguments", "edits"),
    [
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y"}, [FileEdit("a", "x", "y")]),
        ("Write", {"file_path": "a", "content": "y"}, [FileEdit("a", "", "y")]),
        ("Note", {"content": "y"}, []),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}, [FileEdit("a", "x", "y")]),
        (
            "apply_patch",
            {"input": PATCH},
            [FileEdit("a.py", "old\nsame\n", "new\nsame\n"), FileEdit("b.py", "", "x\n")],
        ),
        ("shell", {"command": ["apply_patch", PATCH]}, PATCHED),
    ],
)
def test_edits(tool: str, arguments: dict[str, object], edits: list[FileEdit]) -> None:
    """The edits of all agents are read: replacements, whole files, patches as an argument or in a command."""
    assert tool_call(tool, json.dumps(arguments)).edits == edits


LINES = st.lists(st.sampled_from("abc"), max_size=30).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(LINES, LINES)
def test_diff_lines(before: str, after: str) -> None:
    """A diff has every removed and every added line, and all lines between them in order."""
    lines = list(diff_lines(FileEdit("a", before, after)))
    unchanged = sum(int(line.text.split()[0]) if line.change == "skipped" else line.change == "same" for line in lines)
    counts = {change: sum(line.change == change for line in lines) for change in ("added", "removed")}
    assert unchanged + counts["removed"] == before.count("\n")
    assert unchanged + counts["added"] == after.count("\n")


def test_diff_of_long_texts() -> None:
    """Long texts are compared by what they begin and end with, in linear time."""
    before = "same\n" * 5000 + "old\n" + "same\n" * 5000
    lines = list(diff_lines(FileEdit("a", before, before.replace("old", "new"))))
    assert [line for line in lines if line.change in ("added", "removed")] == [
        DiffLine("removed", "old"),
        DiffLine("added", "new"),
    ]


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_arguments(tool: str, arguments: str) -> None:
    """Any arguments are told somehow."""
    assert "\n" not in tool_call(tool, arguments).summary


# -- masking ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("cat /home/annlee/x.py", "cat /home/[masked:user]/x.py"),
        ("/Users/annlee", "/Users/[masked:user]"),
        (r"C:\Users\Ann Lee\x", r"C:\Users\[masked:user]\x"),
        (r'"C:\\Users\\annlee\\x"', r'"C:\\Users\\[masked:user]\\x"'),
        ("/mnt/c/Users/annlee/x", "/mnt/c/Users/[masked:user]/x"),
        ("~/.claude/projects/-home-annlee-work", "~/.claude/projects/-home-[masked:user]-work"),
        ("file:///home/annlee/x", "file:///home/[masked:user]/x"),
        ("/data/annlee/models", "/data/[masked:user]/models"),
        ("annlee@laptop:~$ ls", "[masked:user]@laptop:~$ ls"),
        ("/home/ben/y", "/home/[masked:user]/y"),
        ("annlee wrote it", "annlee wrote it"),
        ("/Users/Shared/x /home/linuxbrew/y", "/Users/Shared/x /home/linuxbrew/y"),
        ("/api/home/page and /dev/null", "/api/home/page and /dev/null"),
    ],
)
def test_names_in_paths(text: str, hidden: str) -> None:
    """Names of users are masked in paths and logins, whoever they belong to; elsewhere they stay."""
    names = UserNames(["/home/annlee/work"])
    assert names.text(text) == hidden
    assert names.text(hidden) == hidden


@given(st.text(alphabet=st.sampled_from("/\\home Users dev-:C\"' \nx"), max_size=80))
def test_names_stay_stable(text: str) -> None:
    """Masking names again changes nothing."""
    names = UserNames(["/home/dev/x"])
    assert names.text(names.text(text)) == names.text(text)


def test_places() -> None:
    """Each kind is counted; places have the text around them, and never what was masked."""
    masked = MaskedPlaces(1)
    hide = ShareMask(Mask(), None)
    masked.note(hide.text("PASSWORD=hunter2xyz curl\nAPI_TOKEN=tok3nv4lue99 x"), "Turn 1, prompt", b"\x01" * 8)
    masked.note(hide.text("PASSWORD=hunter2xyz"), "Facts")
    assert masked.kinds["password"] == 2
    assert masked.kinds.total() == 3
    (first, *_) = masked.places
    assert (first.where, first.span_id, first.before) == ("Turn 1, prompt", "01" * 8, "PASSWORD=")
    assert "hunter2" not in str(masked.places)
    assert [place.kind for place in masked.places].count("password") == 1
