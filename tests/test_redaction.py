"""Records are masked whole: no text of any field is passed over, and nothing else changes."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest
from fastapi import FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.export.span import ExportSession, ExportSpan
from agenttrace.masking import Mask
from agenttrace.model import Session
from agenttrace.record.formats import otlp
from agenttrace.record.ingest import fold
from agenttrace.redaction import CUT_LENGTHS, redacted, redacted_line, redacted_session, session_name, whole_words
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.visitor import Visitor
from agenttrace.serve.api.sessions.downloads import downloading
from agenttrace.serve.problems import ProblemError
from secret_planting import leaks, secret

hide = Mask().text


class Pair(NamedTuple):
    """Something with fields."""

    kind: str
    note: object


texts = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none() | st.integers() | st.booleans() | texts | texts.map(lambda text: f"{text} {secret(text)}"),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(texts, below, max_size=3)
        | below.map(lambda note: Pair("kind", note))
        | st.tuples(below, below)
    ),
    max_leaves=8,
)


@given(values)
def test_every_text_of_a_record_is_masked(value: object) -> None:
    """Wherever it stands; numbers, shapes and lengths stay."""
    masked = redacted(value, hide)
    assert leaks(repr(masked)) == []
    assert type(masked) is type(value)
    assert redacted(masked, hide) == masked


@pytest.mark.parametrize("record", [ExportSpan, ExportSession, Session])
def test_every_field_is_reached(record: type[msgspec.Struct]) -> None:
    """A secret in each field that can hold a text is masked; so is one in a field that is added tomorrow."""
    for field in msgspec.structs.fields(record):
        if str not in (field.type, *get_args(field.type)) or field.name == "state":
            continue
        made = _made(record, **{field.name: secret(field.name)})
        assert leaks(repr(made))
        assert leaks(repr(redacted(made, hide))) == [], field.name


def _made(record: type[msgspec.Struct], **given: Any) -> Any:  # noqa: ANN401 - any record
    samples: dict[Any, Any] = {str: "x", int: 1, bytes: b"x", Decimal: Decimal(1)}
    needed = [each for each in msgspec.structs.fields(record) if each.required]
    made = {each.name: samples.get(each.type, "x") for each in needed}
    return record(**made | given)


@given(texts, texts)
def test_sessions_keep_names_of_their_own(one: str, other: str) -> None:
    """An id with a secret in it gives way to a number: always the same, and another one for another session."""
    first = Session(id=1, agent="a", session_id=f"{one} {secret(one)}")
    second = Session(id=2, agent="a", session_id=f"{other} {secret(other)}")
    assert session_name(first, hide) == session_name(first, hide) == redacted_session(first, hide).session_id
    assert session_name(first, hide) != session_name(second, hide)
    plain = Session(id=3, agent="a", session_id="3f6c1c62-5f0e-4a53-9d7e-1f3c7ab05a11")
    assert session_name(plain, hide) == plain.session_id


def test_what_recording_cuts_is_known() -> None:
    """The lengths at which beginnings of texts are kept: what was cut there may end in a part of a key."""
    limits = [fold.PROMPT_PREVIEW, fold.ERROR_PREVIEW, otlp.PROMPT_LIMIT, otlp._NAME_LIMIT, otlp._ERROR_LIMIT]
    assert set(limits) <= CUT_LENGTHS


@given(st.text(max_size=600))
def test_whole_words(text: str) -> None:
    """Only a text that may have been cut loses anything, and then its last word alone."""
    shown = whole_words(text)
    if len(text) not in CUT_LENGTHS and not text.endswith("…"):
        assert shown == text
    assert text.startswith(shown.removesuffix("…"))
    chinese = "请修好购物车" * 50
    assert whole_words(chinese[:300]) == chinese[:300]


# -- lines ------------------------------------------------------------------------------------------------------------


@given(st.dictionaries(texts, st.none() | st.integers() | st.floats(allow_nan=False) | texts, max_size=4))
def test_a_line_without_secrets_stays_byte_for_byte(fields: dict[str, object]) -> None:
    """However it is written."""
    mask = Mask()
    for line in (json.dumps(fields), json.dumps(fields, ensure_ascii=False, indent=1)):
        if mask.value(fields) == fields:
            assert redacted_line(line.encode(), mask) == line.encode()


@pytest.mark.parametrize(
    "line",
    [
        '{"a": "SECRET", "b": 1e999}',
        '{"a": "SECRET", "a": "twice"}',
        '{"a": "SECRET", "b": NaN}',
        '{"a": "half \\ud83d SECRET"}',
        '{"a": "über SECRET"}',
        '{"a": "{\\"b\\": \\"SECRET\\"}"}',
        '{"SECRET": 1}',
        '{"a": "SECRET',
        "SECRET",
        "[" * 5_000 + '"SECRET"' + "]" * 5_000,
    ],
)
def test_a_line_with_a_secret(line: str) -> None:
    """It goes, whether the line is JSON, nearly JSON or neither; what was JSON stays JSON."""
    raw = line.replace("SECRET", secret("x")).encode()
    masked = redacted_line(raw, Mask())
    assert leaks(masked) == []
    assert b"[masked:" in masked
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return
    json.loads(masked)


def test_a_line_is_masked_by_field() -> None:
    """What a field is called decides, where its value alone tells nothing."""
    line = b'{"tool":"login","arguments":{"user":"anna","password":"ZqUbmkLCNPloWRlO"},"n":12345678901234567890123}'
    masked = b'{"tool":"login","arguments":{"user":"anna","password":"[masked:password]"},"n":12345678901234567890123}'
    assert redacted_line(line, Mask()) == masked


def test_bytes_that_are_no_text_stay() -> None:
    """A log may hold anything."""
    raw = b'\xff\xfe {"a": ' + secret("x").encode() + b"\x80"
    assert redacted_line(raw, Mask()) == b'\xff\xfe {"a": [masked:github-token]\x80'


# -- who may have everything ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "full", "fine"), [("viewer", False, True), ("viewer", True, False), ("admin", True, True)]
)
def test_who_may_have_everything(tmp_path: Path, role: Any, full: bool, fine: bool) -> None:  # noqa: ANN401
    """Everybody gets the masked file, admins the other one if they ask; all of it is in the audit log."""

    async def main(access: AccessStore) -> Mask | None:
        app = FastAPI()
        app.state.access = access
        visitor = Visitor(name="vera", role=role, address="10.0.0.1")
        request = Request({"type": "http", "app": app, "headers": [], "state": {"visitor": visitor}})
        async with downloading(request, Settings(home=tmp_path), f"session {secret('x')}", full=full) as mask:
            return mask

    with AccessStore(tmp_path / "access.db") as access:
        if fine:
            assert (asyncio.run(main(access)) is None) == full
        else:
            with pytest.raises(ProblemError) as caught:
                asyncio.run(main(access))
            assert caught.value.status == 403
        (entry,) = access.audit.page(10)
    assert (entry.user, entry.action) == ("vera", "download.full" if full else "download")
    assert (entry.outcome == "done") == fine
    assert leaks(entry.target) == []
