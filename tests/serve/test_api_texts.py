"""``/api/v1/sessions/{session}/texts``: what was said in some spans, read without the rest of the session."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Session
from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.contents import span_contents
from agenttrace.record.texts.line_index import LineIndex
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.serve.api.sessions.spans import MOST_CHARS, Cutter
from agenttrace.store.line_cache import LineCache
from agenttrace.store.sqlite.span_rows import session_spans
from store_on import store_on

from .session_rig import DATA, Store, call, result, said, samples, turn


def everything(store: Store, session: Session) -> dict[bytes, list[Content]]:
    """The texts of all spans, from one pass over the whole session."""
    with store.reading() as connection:
        spans = session_spans(connection, session)
        found = span_contents(store_on(connection), session, spans)
        return {span.span_id: found.get(span.span_id, []) for span in spans}


def some(store: Store, session: Session, texts: SessionTexts, wanted: list[bytes]) -> dict[bytes, list[Content]]:
    with store.reading() as connection:
        return texts.contents(store_on(connection), session, wanted)


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_every_sample(sample: Path, tmp_path: Path) -> None:
    """A few spans at a time, in any order, have the texts that one pass over the whole session gives them."""
    store, texts = Store(tmp_path), SessionTexts()
    store.record(sample)
    for session in store.sessions():
        whole = everything(store, session)
        names = list(whole)
        random.Random(1).shuffle(names)
        for start in range(0, len(names), 3):
            part = names[start : start + 3]
            assert some(store, session, texts, part) == {name: whole[name] for name in part}


@pytest.mark.parametrize("sample", ["kimi-cli-1.49.0", "claude-code-2.1.197"])
def test_growing(sample: str, tmp_path: Path) -> None:
    """Texts that are recorded after a session was read are found, too."""
    store, texts = Store(tmp_path), SessionTexts()
    for path in sorted((DATA / sample).rglob("*.jsonl")):
        copy = store.logs / path.relative_to(DATA / sample)
        copy.parent.mkdir(parents=True, exist_ok=True)
        for companion in path.parent.glob("*.json"):
            (copy.parent / companion.name).write_bytes(companion.read_bytes())
        lines = path.read_bytes().splitlines(keepends=True)
        for half in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):
            with copy.open("ab") as file:
                file.write(b"".join(half))
            store.record()
            for session in store.sessions():
                whole = everything(store, session)
                assert some(store, session, texts, list(whole)) == whole


def test_rebuilt(tmp_path: Path) -> None:
    """In a rebuilt store, with other numbers for the same events, the same texts are found."""
    store, texts = Store(tmp_path), SessionTexts()
    first = store.write(turn(1, "first"), said(1, 1, "one"))
    second = store.write(
        {**turn(1, "second"), "session": "s-2"}, {**said(1, 1, "two"), "session": "s-2"}, name="b.jsonl"
    )
    before: dict[int, dict[bytes, list[Content]]] = {}
    for paths in ((first, second), (second, first)):
        for path in store.settings.home.glob("agenttrace.db*"):
            path.unlink()
        for path in paths:
            store.record(path)
        for session in store.sessions():
            whole = everything(store, session)
            assert some(store, session, texts, list(whole)) == whole
            assert before.setdefault(session.id, whole) == whole


def test_reused_names(tmp_path: Path) -> None:
    """A call whose name was used in an earlier turn has its own arguments and result, and so has the earlier one."""
    store, texts = Store(tmp_path), SessionTexts()
    for number in (1, 2):
        store.write(
            turn(number, f"ask {number}"),
            {**call(number, 1, "Bash", f"command {number}"), "call": "Bash:0"},
            {**result(number, 1, f"result {number}"), "call": "Bash:0"},
        )
    store.record()
    (session,) = store.sessions()
    with store.reading() as connection:
        tools = [span for span in session_spans(connection, session) if span.kind == "tool"]
        found = texts.contents(store_on(connection), session, [tool.span_id for tool in tools])
    assert [[content.text for content in found[tool.span_id]] for tool in tools] == [
        ["command 1", "result 1"],
        ["command 2", "result 2"],
    ]


def test_threads(tmp_path: Path) -> None:
    """Many threads that read many spans at once all find what one finds."""
    store, texts = Store(tmp_path), SessionTexts(block_bytes=20_000)
    store.record(DATA / "kimi-cli-1.49.0")
    jobs = [(session, span_id) for session in store.sessions() for span_id in everything(store, session)] * 3
    random.Random(2).shuffle(jobs)
    whole = {session.id: everything(store, session) for session in store.sessions()}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda job: some(store, job[0], texts, [job[1]]), jobs))
    assert all(each == {name: whole[session.id][name]} for (session, name), each in zip(jobs, found, strict=True))


def test_bounded_index(tmp_path: Path) -> None:
    """However many sessions are read, only the latest few are cached, and none is refused."""
    store, index = Store(tmp_path), LineIndex(most_sessions=3, most_lines=10)
    for number in range(6):
        name = f"s-{number}"
        store.write(
            *({**said(1, step, f"{number} {step}"), "session": name} for step in range(4)), name=f"{name}.jsonl"
        )
    store.record()
    with store.reading() as connection:
        sessions = store.sessions()
        for session in [*sessions, *sessions]:
            assert index.of(store_on(connection), session.id).count == 4
            assert len(index.sessions) <= 2
            assert index.sessions[-1] == session.id


def test_bounded_blocks(tmp_path: Path) -> None:
    """Decompressed lines are held up to a limit, and are the same lines with it as without."""
    store, small, large = Store(tmp_path), LineCache(30_000), LineCache(1 << 30)
    for number in range(20):
        store.write(said(1, number, f"{number} " * 5_000), name=f"{number}.jsonl")
    store.record()
    with store.reading() as connection:
        for _ in range(2):
            lines = [line.raw for line in store_on(connection).lines_by_number(range(1, 21), small)]
            assert len(lines) == 20
            assert lines == [line.raw for line in store_on(connection).lines_by_number(range(1, 21), large)]
            assert 0 < small.bytes <= 30_000
    assert large.bytes > 200_000


@given(texts=st.lists(st.text(max_size=30), max_size=8), chars=st.integers(0, 40), in_all=st.integers(0, 100))
def test_cut(texts: list[str], chars: int, in_all: int) -> None:
    """Each text is a beginning of the whole, as long as asked for while there is room, and tells the whole length."""
    pieces = Cutter(chars, in_all).pieces([Content("text", text) for text in texts])
    assert [piece.chars for piece in pieces] == [len(text) for text in texts]
    assert [piece.index for piece in pieces] == list(range(len(texts)))
    left = in_all
    for piece, text in zip(pieces, texts, strict=True):
        assert piece.text == text[: min(chars, left)]
        left -= len(piece.text)


def test_long_text(tmp_path: Path) -> None:
    """A text of five megabytes is shown cut, and all of it can be had a part at a time."""
    store = Store(tmp_path)
    text = "".join(f"{number:09d}é" for number in range(500_000))
    store.write(turn(1, "ask"), call(1, 1, "Read", {"path": "x"}), result(1, 1, text))
    store.record()
    (session,) = store.sessions()
    with store.reading() as connection:
        (tool,) = (span.span_id.hex() for span in session_spans(connection, session) if span.kind == "tool")
    with store.served() as client:
        pieces = client.get("/sessions/s-1/texts", params={"span": [tool]}).json()["spans"][tool]
        (piece,) = (piece for piece in pieces if piece["kind"] == "result")
        assert (piece["text"], piece["chars"]) == (text[:2_000], len(text))
        path, found, asked = f"/sessions/s-1/spans/{tool}/texts/{piece['index']}", "", 0
        while len(found) < len(text):
            part = client.get(path, params={"start": len(found), "chars": MOST_CHARS}).json()
            assert (part["start"], part["chars"]) == (len(found), len(text))
            found, asked = found + part["text"], asked + 1
        assert found == text
        assert asked == len(text) // MOST_CHARS
        assert client.get(path, params={"start": len(text) + 5}).json()["text"] == ""
        # The same texts have the same tag.
        tag = client.get(path).headers["etag"]
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_refused(tmp_path: Path) -> None:
    """An unknown span or text and too many of them are errors in one sentence; lists leave unknown spans out."""
    store = Store(tmp_path)
    store.write(turn(1, "ask"))
    store.record()
    unknown = "0123456789abcdef"
    with store.served() as client:
        (known,) = client.get("/sessions/s-1/timeline").json()["span_id"]
        for path, status in (
            ("/sessions/s-1/texts?span=xyz", 404),
            ("/sessions/s-1/texts?span=" + "&span=".join([known] * 201), 422),
            (f"/sessions/s-1/texts?span={known}&chars=200001", 422),
            (f"/sessions/s-1/spans/{unknown}", 404),
            (f"/sessions/s-1/spans/{unknown}/texts/0", 404),
            (f"/sessions/s-1/spans/{known}/texts/9", 404),
            (f"/sessions/s-1/spans/{known}/texts/-1", 404),
            ("/sessions/s-1/spans/%F0%9F%98%80", 404),
        ):
            answer = client.get(path)
            assert answer.status_code == status, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]
        several = client.get("/sessions/s-1/texts", params={"span": [unknown, known]}).json()
        assert list(several["spans"]) == [known]
        assert client.get("/sessions/s-1/texts").json() == {"spans": {}}
