"""Ids: golden values, the same content gives the same id, different content gives different ones."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from agenttrace import ids
from agenttrace.config import Settings
from agenttrace.record.recorder import Recorder

NUMBERS = st.integers(-5, 1000)
#: Lone surrogates included: agents cut texts in the middle of an emoji.
TEXTS = st.text(max_size=20)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def test_the_golden_value_of_the_specification() -> None:
    """Four arguments give the first 32 hex digits of the specified text's digest, bit for bit."""
    assert ids.generate_event_id("s", 1, 2, "ToolCall") == sha("s:turn:1:step:2:type:ToolCall")
    assert ids.generate_event_id("s", 1, 2, "ToolCall") == "6a644781f05063d5994d31e1fe1953c7"


def test_the_key_is_appended() -> None:
    """A key adds ``:key:<key>``, the empty key too; no key adds nothing."""
    assert ids.generate_event_id("s", 1, 2, "ToolCall", key="k") == sha("s:turn:1:step:2:type:ToolCall:key:k")
    assert ids.generate_event_id("s", 1, 2, "ToolCall", key="") == sha("s:turn:1:step:2:type:ToolCall:key:")
    assert ids.generate_event_id("s", 1, 2, "ToolCall", key=None) == ids.generate_event_id("s", 1, 2, "ToolCall")


@given(TEXTS, NUMBERS, NUMBERS, TEXTS, st.none() | TEXTS)
def test_event_ids_are_32_hex_digits(session: str, turn: int, step: int, kind: str, key: str | None) -> None:
    """Whatever the parts are, lone surrogates included, the id has the fixed length and alphabet."""
    made = ids.generate_event_id(session, turn, step, kind, key=key)
    assert len(made) == 32
    assert set(made) <= set("0123456789abcdef")
    assert made == ids.generate_event_id(session, turn, step, kind, key=key)


def test_a_recorded_event_has_the_public_id_of_turn_and_step_zero(tmp_path: Path) -> None:
    """What the store holds in bytes is what ``generate_event_id`` gives in hex digits for turn 0 and step 0.

    Turn and step stay out of a stored id: a file that was re-created in mid-session counts turns anew.
    """
    line = {"v": 1, "session": "s", "type": "tool.begin", "turn": 3, "step": 2, "id": "call-1", "ts": 1.0, "name": "x"}
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "s.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    recorder = Recorder(Settings(home=tmp_path), environ={"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path)})
    recorder.scan()
    recorder.drain()
    ((stored, kind),) = recorder.store.connection.execute("SELECT event_id, event_type FROM processed_events")
    recorder.close()
    assert stored.hex() == ids.generate_event_id("s", 0, 0, kind, key=f"{kind}:call-1")


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_span_ids_keep_their_parts_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Two lists of parts give one id only if they are equal, however the parts divide the same letters."""
    assume(not any("\x1f" in part for part in one + other))
    assert (ids.span_id(*one) == ids.span_id(*other)) == (one == other)
    assert (ids.trace_id(*one) == ids.trace_id(*other)) == (one == other)


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 9), st.integers(0, 9))
def test_a_line_key_tells_lines_and_occurrences_apart(one: bytes, other: bytes, first: int, second: int) -> None:
    """Equal keys mean the same line at the same place among its equals."""
    assert (ids.line_key(one, first) == ids.line_key(other, second)) == ((one, first) == (other, second))


@given(TEXTS, TEXTS)
def test_numbers_fit_into_sqlite(one: str, other: str) -> None:
    """Session and file numbers are positive, and a file's number leaves 20 bits for its blocks."""
    assert 0 <= ids.session_number(one, other) < 2**48
    assert 0 <= ids.file_number(one, 0) < 2**40


def test_ids_are_the_same_in_another_process() -> None:
    """No id depends on the process: hash randomisation changes nothing."""
    program = (
        "from agenttrace import ids\n"
        "print(ids.generate_event_id('会话', 1, 2, 'x', key='k'), ids.session_number('a', 's'),"
        " ids.file_number('/p', 1), ids.span_id('a', 'b').hex(), ids.trace_id('a').hex(),"
        " ids.response_key('r').hex(), ids.line_key(b'l', 3))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
