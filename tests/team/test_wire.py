"""The wire format: what is sent comes back, other versions are read leniently, bad input is refused with a reason."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.model import Session, Usage
from agenttrace.store.rows import (
    AnnotationRow,
    ChangesCursor,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.team import wire

from .making import rows

PAGE = wire.SentPage(
    protocol=wire.PROTOCOL, store="s", after=ChangesCursor(), until=ChangesCursor((1, 2), (3, 4)), rows=[]
)
SPAN = StoredSpan(
    1, b"12345678", b"1234567890123456", None, 5, "main", "tool", "Bash", 1, 2, "ok", None, 1, 1, None, "{}", 7
)


def page(*rows: Row) -> wire.SentPage:
    return msgspec.structs.replace(PAGE, rows=list(rows))


def sent(value: object) -> bytes:
    """Any value as a body."""
    return zstandard.compress(msgspec.msgpack.encode(value))


def plain(**changes: object) -> dict[str, Any]:
    """A page as another program might write it."""
    return {**msgspec.to_builtins(page(SPAN), builtin_types=(bytes,)), **changes}


@settings(deadline=None, max_examples=60)
@given(st.lists(rows(), max_size=8))
def test_rows_come_back_as_they_were_sent(some: list[Row]) -> None:
    found = wire.unpacked(wire.packed(page(*some)))
    assert found == (page(*some), 0)


def test_file_names_that_are_no_text_are_sent_all_the_same() -> None:
    found = wire.unpacked(wire.packed(page(FileOfLines(1, "/tmp/\udcff.jsonl", None, 1))))
    assert isinstance(found.page.rows[0], FileOfLines)
    assert found.page.rows[0].path == "/tmp/?.jsonl"


def test_unknown_fields_and_kinds_of_rows_are_ignored_and_counted() -> None:
    """A newer version may say more."""
    body = plain()
    body["note"] = "from a newer version"
    body["rows"][0]["color"] = "blue"
    body["rows"] += [{"type": "color", "name": "blue"}, {"type": "color"}]
    assert wire.unpacked(sent(body)) == (page(SPAN), 2)


def test_a_row_of_an_older_version_lacks_fields_that_have_a_default() -> None:
    session = StoredSession(Session(id=1, agent="codex", session_id="x"), 3)
    body = plain(rows=[msgspec.to_builtins(session)])
    for name in ("machine", "person", "events", "born"):
        del body["rows"][0]["session"][name]
    assert wire.unpacked(sent(body)).page.rows == [session]


@pytest.mark.parametrize("spoken", [1, 2])
def test_a_server_serves_its_version_and_the_one_before(monkeypatch: pytest.MonkeyPatch, spoken: int) -> None:
    monkeypatch.setattr(wire, "PROTOCOL", 2)
    monkeypatch.setattr(wire, "OLDEST", 1)
    assert wire.unpacked(sent(plain(protocol=spoken))).page.rows == [SPAN]
    for other in (0, 3):
        with pytest.raises(wire.OtherProtocolError, match="1 to 2"):
            wire.unpacked(sent(plain(protocol=other)))


BAD_ROWS: list[dict[str, Any]] = [
    {"number": "one"},
    {"number": -1},
    {"number": 2**63},
    {"start": 2**64 - 1},
    {"span_id": b"short"},
    {"trace_id": b""},
    {"kind": "Not A Kind"},
    {"status": "x" * 100},
    {"attributes": "{"},
    {"attributes": "[]"},
    {"attributes": '{"a":' * 5000},
    {"attributes": 7},
    {"session": None},
]


@pytest.mark.parametrize("wrong", BAD_ROWS, ids=str)
def test_a_row_with_a_wrong_value_is_refused_with_the_whole_page(wrong: dict[str, Any]) -> None:
    body = plain()
    body["rows"][0] |= wrong
    with pytest.raises(wire.BadPageError):
        wire.unpacked(sent(body))


@pytest.mark.parametrize(
    "row",
    [
        EventRow(1, 2, b"", 0, 0, "t", None, 0.0, 1, 0, 0, b""),
        EventRow(1, 2, b"x" * 65, 0, 0, "t", None, 0.0, 1, 0, 0, b""),
        EventRow(1, 2, b"x", 0, 0, "t", None, math.nan, 1, 0, 0, b""),
        EventRow(1, 2, b"x", 0, 0, "t", None, math.inf, 1, 0, 0, b""),
        FileOfLines(1, "/p", b"{", 1),
        ResponseRow(b"1" * 16, 1, 1, "m", False, 0, "", Usage(input_tokens=-1), 1),
        ResponseRow(b"1", 1, 1, "m", False, 0, "", Usage(), 1),
        StoredSession(Session(id=-1, agent="a", session_id="b"), 1),
        StoredSession(Session(id=1, agent="a", session_id="b", state="?"), 1),
    ],
    ids=repr,
)
def test_values_that_no_store_can_hold_are_refused(row: Row) -> None:
    with pytest.raises(wire.BadPageError):
        wire.unpacked(wire.packed(page(row)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no zstd",
        zstandard.compress(b""),
        zstandard.compress(b"\xc1"),
        zstandard.compress(b"\xdf\xff\xff\xff\xff"),
        zstandard.compress(b"\x91" * 100_000),
        sent([]),
        sent({"protocol": 1}),
        sent(plain(rows={})),
        sent(plain(rows=[1, 2])),
        sent(plain(rows=[{"type": 5}])),
        sent(plain(store="")),
        sent(plain(store="x" * 65)),
        sent(plain(after=[[1], [2]])),
        sent(plain(until="now")),
        wire.packed(page(SPAN))[:-3],
    ],
    ids=lambda body: body[:12].hex(),
)
def test_a_body_that_is_no_page_is_refused(body: bytes) -> None:
    with pytest.raises(wire.BadPageError):
        wire.unpacked(body)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = zstandard.compress(b"\0" * (wire.MOST_UNPACKED + 1))
    assert len(bomb) < 100_000
    with pytest.raises(wire.TooLargeError):
        wire.unpacked(bomb)


def test_a_page_with_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_ROWS", 3)
    link = LinkRow(1, "a", "b", "c")
    with pytest.raises(wire.TooLargeError):
        wire.unpacked(wire.packed(page(*[link] * 4)))
    with pytest.raises(wire.TooLargeError):
        wire.unpacked(sent(plain(rows=[{"type": "color"}] * 4)))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(zstandard.compress))
def test_no_bytes_make_it_fail_in_another_way(body: bytes) -> None:
    with pytest.raises(wire.BadPageError):
        wire.unpacked(body)


def test_all_kinds_of_rows_are_generated() -> None:
    """The generator of these tests knows every kind."""
    kinds = (
        StoredSession,
        StoredSpan,
        LinkRow,
        ResponseRow,
        TotalRow,
        FileOfLines,
        EventRow,
        AnnotationRow,
        RemovedRow,
    )
    assert set(kinds) == set(Row.__args__)
