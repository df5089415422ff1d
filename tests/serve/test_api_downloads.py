"""``/api/v1/sessions/{session}/export``: a session as a file that is harmless whatever was said in it."""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agenttrace.masking import Mask
from agenttrace.model import Session
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.share.document import ShareJob, share_name
from agenttrace.share.options import ShareFormat, ShareOptions
from agenttrace.views.markdown import fenced
from agenttrace.views.transcript import visible
from store_on import store_on

from .session_rig import CLAUDE, DATA, Store, call, result, said, turn

#: Said by agents, users and tools; each somewhere in the file, and nothing but text there.
HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></details></main><img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    "&lt;b&gt; &amp;",
    "'\"><svg/onload=alert(1)>",
    "javascript:alert(1) [link](javascript:alert(1)) ![](http://example.com/x.png)",
    "right to left \u202e\u2066 and back",
    "```\n# not a heading\n```",
    "````` many ```````` fences",
    "~~~\nother fence",
    "nul \x00 bell \x07 escape \x1b[31m red",
    "\ud83d".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "line\r\nends\rof\nall kinds",
    "    indented\n\ttabbed\n\n\nspaced",
    "你好，世界 👩‍👩‍👧‍👦",
)
#: Half a pair of surrogates, as agents write it that cut texts anywhere.
HALF = rb'{"v":1,"session":"s-1","type":"note","id":"half","turn":16,"text":"half \ud83d a pair"}' + b"\n"
_VOID = {"meta", "br", "hr", "img", "link", "input", "base"}
#: All that a shared page is made of.
ELEMENTS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "header", "h1", "dl", "dt", "dd", "bdi", "main", "section"),
        *("h2", "span", "div", "p", "pre", "details", "summary", "footer", "b", "code", "mark", "ul", "ol", "li", "br"),
        *("table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s", "a", "hr", "blockquote"),
    )
)
ATTRIBUTES = frozenset(
    ("lang", "charset", "http-equiv", "content", "name", "class", "dir", "open", "href", "rel", "start")
)


class Reader(HTMLParser):
    """Reads a page as a browser does: which elements, which attributes, which texts in ``pre``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.said: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.comments = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.addresses += [value or "" for name, value in attrs if name == "href"]
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "pre":
            self.said.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.said[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments += 1


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A session in which everything that can be said is hostile, titles and names as well."""
    store = Store(tmp_path_factory.mktemp("hostile"))
    store.write({"type": "session.begin", "id": "b", "title": HOSTILE[0] + "\n# x", "project": HOSTILE[1]})
    for number, text in enumerate(HOSTILE, 1):
        store.write(
            turn(number, text),
            said(number, 1, text),
            call(number, 1, text[:50] or "tool", text, spawns=None),
            result(number, 1, text),
        )
    with (store.logs / "a.jsonl").open("ab") as file:
        file.write(HALF)
    store.record()
    with store.served() as client:
        yield client


def exported(client: httpx.Client, name: str, ending: str) -> bytes:
    answer = client.get(f"/sessions/{name}/export", params={"format": ending})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer.content


def test_html_is_text(hostile: httpx.Client) -> None:
    """Nothing that was said is anything but text in the page; all of it is there, what is hidden made visible."""
    page = Reader()
    page.feed(exported(hostile, "s-1", "html").decode())
    page.close()
    assert not page.unbalanced
    assert not page.open
    assert page.comments == 0
    assert set(page.elements) <= ELEMENTS
    assert set(page.attributes) <= ATTRIBUTES
    assert page.addresses == []
    expected = Counter(visible(text) for text in HOSTILE)
    found = Counter(text.removeprefix("\n") for text in page.said)
    # As the prompt, the arguments and the result; what the agent said is prose.
    assert all(found[text] >= 3 * count for text, count in expected.items())
    assert any(re.fullmatch("half .+ a pair", text.strip()) for text in page.said)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x07\x1b]", "".join(page.said))


def test_html_loads_nothing(hostile: httpx.Client) -> None:
    """The page names no address and forbids itself to load or run anything."""
    page = exported(hostile, "s-1", "html").decode()
    head = page[: page.index("</head>")]
    assert "default-src 'none'" in head
    assert not re.search(r"url\(|@import|https?:", head)
    assert "prefers-color-scheme:dark" in head


def test_html_nests(tmp_path: Path) -> None:
    """Tools stand under the model calls that asked for them, subagents under the tools that started them."""
    store = Store(tmp_path)
    store.record(DATA / "claude-code-2.1.197")
    with store.served() as client:
        page = exported(client, CLAUDE, "html").decode()
    deepest = page[page.index("Subagent") :]
    before = page[: page.index("Subagent")]
    # The subagent's section is inside a details element, which is inside a step, which is inside a turn.
    for tag in ("section", "div", "details"):
        assert before.count(f"<{tag}") > before.count(f"</{tag}>")
        assert deepest.count(f"</{tag}>") > deepest.count(f"<{tag}")
    reader = Reader()
    reader.feed(page)
    assert not reader.unbalanced


def test_markdown_is_text(hostile: httpx.Client) -> None:
    """Every prompt, argument and result is whole in its fence or quote, and only folds are HTML."""
    page = exported(hostile, "s-1", "md").decode()
    tokens = MarkdownIt("commonmark", {"html": True}).parse(page)
    found = Counter(token.content.removesuffix("\n") for token in tokens if token.type == "fence")
    assert all(found[visible(text)] >= 2 for text in HOSTILE)
    html = [line for token in tokens if token.type == "html_block" for line in token.content.splitlines() if line]
    assert all(re.fullmatch(r"<details( open)?>|</details>|<summary>[^\n]*</summary>", line) for line in html)
    inline = {child.type for token in tokens for child in token.children or ()}
    assert not inline & {"html_inline", "image"}


@given(st.text(alphabet=st.sampled_from("`~ \n\tab#"), max_size=60))
def test_fences(text: str) -> None:
    """A fence holds its text, however many backticks are in it."""
    (token,) = MarkdownIt("commonmark").parse(fenced(text))
    assert token.content == f"{text}\n"


def test_jsonl(tmp_path: Path) -> None:
    """The lines of a session are those of its files, byte for byte, whatever is in them."""
    store = Store(tmp_path)
    store.write(*(said(1, number, text) for number, text in enumerate(HOSTILE)), said(1, 99, "x" * 5_000_000))
    store.record()
    (path,) = store.logs.iterdir()
    with path.open("ab") as file:
        file.write(HALF)
    store.record()
    with store.served() as client:
        assert exported(client, "s-1", "jsonl") == path.read_bytes()


@pytest.mark.parametrize("sample", ["kimi-cli-1.49.0", "claude-code-2.1.197", "native"])
def test_jsonl_of_samples(sample: str, tmp_path: Path) -> None:
    """Together, the exports of all sessions are all recorded lines, each once."""
    store = Store(tmp_path)
    store.record(DATA / sample)
    with store.reading() as connection:
        (events,) = connection.execute("SELECT count(*) FROM processed_events").fetchone()
    written = {line for path in (DATA / sample).rglob("*.jsonl") for line in path.read_bytes().splitlines()}
    with store.served() as client:
        files = [exported(client, session.session_id, "jsonl") for session in store.sessions()]
    found = [line for file in files for line in file.splitlines()]
    assert len(found) == events
    assert set(found) <= written


@given(agent=st.text(max_size=30), name=st.text(max_size=200), ending=st.sampled_from(["html", "md", "jsonl"]))
def test_file_name(agent: str, name: str, ending: str) -> None:
    """No name of a session makes a file name that is more than a file name."""
    found = share_name(Session(id=1, agent=agent, session_id=name), ending)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.(html|md|jsonl)", found)
    assert len(found) <= 130


def test_hostile_name(tmp_path: Path) -> None:
    """A session whose id holds line ends and quotes adds nothing to the headers."""
    store = Store(tmp_path)
    store.write(turn(1, "ask") | {"session": 'a"\r\nX-Evil: 1\r\n\r\n<b>'})
    store.record()
    with store.served() as client:
        (row,) = client.get("/sessions").json()["items"]
        answer = client.get(f"/sessions/{row['key']}/export")
        assert answer.status_code == 200
        assert "x-evil" not in answer.headers
        assert answer.headers["content-disposition"] == 'attachment; filename="agenttrace-a-X-Evil-1-b.html"'


@given(st.text())
def test_visible(text: str) -> None:
    """What is made visible hides nothing, is stable, and can be written as UTF-8."""
    shown = visible(text)
    assert visible(shown) == shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode()


@pytest.mark.parametrize("ending", ["html", "md", "jsonl"])
def test_memory(ending: ShareFormat, tmp_path: Path) -> None:
    """An export of a session of many megabytes never holds more than a small part of it."""
    store, texts, mask = Store(tmp_path), SessionTexts(block_bytes=1 << 20), Mask()
    word = "words and more words, some of them < others & some > these; "
    store.write(turn(0, "go on"), *(said(number, 1, f"{number} {word * 1_500}") for number in range(250)))
    store.record()
    (session,) = store.sessions()
    size = 0
    with store.reading() as connection:
        texts.index.of(store_on(connection), session.id)
        tracemalloc.start()
        try:
            options = ShareOptions(format=ending)
            job = ShareJob(
                store_on(connection), session, options, mask=mask, prices=store.prices, texts=texts, places=20
            )
            while piece := job.more(store_on(connection)):
                size += len(piece)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > 250 * 90_000
    assert peak < size / 2


def test_refused(tmp_path: Path) -> None:
    """An unknown format or session is an error in one sentence, before anything is sent."""
    store = Store(tmp_path)
    store.write(turn(1, "ask"))
    store.record()
    with store.served() as client:
        assert client.get("/sessions/s-1/export", params={"format": "pdf"}).status_code == 422
        assert client.get("/sessions/none/export").status_code == 404


SECRET, NAME = "hunter2-and-more", "annlee"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A session with a password in a command, a key in a prompt, an edit, and the name of a user in paths."""
    store = Store(tmp_path_factory.mktemp("private"))
    edit = {"file_path": f"/home/{NAME}/work/a.py", "old_string": "a\nb\n", "new_string": "a\nc\n"}
    store.write(
        {"type": "session.begin", "id": "b", "title": "Look", "project": f"/home/{NAME}/work"},
        turn(1, "the key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"),
        said(1, 1, "I *run* it"),
        call(1, 1, "Bash", {"command": f"cd /home/{NAME}/work && PASSWORD={SECRET} make"}),
        result(1, 1, "done"),
        call(1, 2, "Edit", edit),
        result(1, 2, "edited"),
    )
    store.record()
    with store.served() as client:
        token = {"X-CSRF-Token": client.get("/me").json()["csrf"]}
        for note in ({"kind": "note", "text": "look again"}, {"kind": "score", "name": "quality", "value": 3}):
            assert client.post("/sessions/s-1/annotations", json=note, headers=token).status_code == 200
        yield client


def _export(client: httpx.Client, **params: object) -> str:
    answer = client.get("/sessions/s-1/export", params={name: str(value).lower() for name, value in params.items()})
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize(("ending", "marked"), [("html", "<mark>[masked:"), ("md", "[masked:")])
def test_shared_like_the_page(private: httpx.Client, ending: str, marked: str) -> None:
    """Commands after a dollar sign, diffs line by line, answers rendered, notes and scores; secrets marked."""
    page = _export(private, format=ending)
    assert SECRET not in page
    assert marked in page
    assert "$ cd /home/annlee/work" in page.replace("&#x27;", "'")
    assert ('<span class="removed">− b' if ending == "html" else "\n-b\n+c\n") in page
    assert ("<em>run</em>" if ending == "html" else "*run*") in page
    assert "look again" in page
    assert "quality = 3" in page
    assert "<details" in page
    assert "Masked: " in page


def test_shared_with_secrets(private: httpx.Client) -> None:
    """An admin may ask for everything; the file says that secrets are in it."""
    page = _export(private, full=True)
    assert SECRET in page
    assert "[masked:" not in page
    assert "includes secrets" in page


@pytest.mark.parametrize("ending", ["html", "md", "jsonl"])
def test_shared_without_names(private: httpx.Client, ending: str) -> None:
    """Names of users in paths are masked where that is asked for, also together with secrets that are not."""
    assert NAME in _export(private, format=ending)
    hidden = _export(private, format=ending, hide_paths=True, full=ending == "jsonl")
    assert NAME not in hidden
    assert "/home/[masked:user]/" in re.sub(r"</?mark>|\*\*|\\(?=[\[\]])", "", hidden)
    assert (SECRET in hidden) == (ending == "jsonl")


@pytest.mark.parametrize("ending", ["html", "md"])
def test_shared_without_tools(private: httpx.Client, ending: str) -> None:
    """Without tool calls only prompts, answers and notes are left."""
    page = _export(private, format=ending, tools=False)
    assert "make" not in page
    assert "a.py" not in page
    assert "run" in page
    assert "look again" in page


@pytest.mark.parametrize("ending", ["html", "md", "jsonl"])
def test_preview(private: httpx.Client, ending: str) -> None:
    """The preview has the name and size of the file, and counts and places of what is masked in it."""
    found = private.get("/sessions/s-1/share", params={"format": ending, "hide_paths": "true"}).json()
    page = private.get("/sessions/s-1/export", params={"format": ending, "hide_paths": "true"})
    assert found["bytes"] == len(page.content)
    assert found["name"] in page.headers["content-disposition"]
    kinds = {each["kind"]: each["count"] for each in found["kinds"]}
    assert {"anthropic-key", "password", "user"} <= set(kinds)
    assert found["masked"] == sum(kinds.values())
    if ending != "jsonl":
        assert f"{kinds['user']} user" in page.text
    password = next(place for place in found["places"] if place["kind"] == "password")
    assert password["before"].endswith("PASSWORD=")
    assert password["after"].startswith(" make")
    assert SECRET not in str(found)
