"""Texts of sessions for actions: never longer than asked for, whole messages, both ends, and no secret in them."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.cli import session_inputs
from agenttrace.cli.session_inputs import SessionInputs
from agenttrace.config import ensure_home, load_settings
from agenttrace.config.rules import ActionSettings, ChainInput, parse_action, parse_rule
from agenttrace.masking import Mask
from agenttrace.model import Session
from agenttrace.record.recorder import Recorder
from agenttrace.rules.actions.command import Command
from agenttrace.rules.actions.contract import Message
from agenttrace.rules.actions.inputs import fitted
from agenttrace.rules.facts import Facts
from agenttrace.store import open_store
from agenttrace.store.questions import SessionFilter
from agenttrace.store.rules import RuleEvent
from secret_planting import leaks, plant

INPUTS: tuple[ChainInput, ...] = get_args(ChainInput)
#: Each is tried on some of the events, and every event with one of them.
LENGTHS = (100, 1_500, 40_000)


# -- cutting ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 400), max_size=60), st.integers(100, 2_000), st.integers(0, 60), st.integers(0, 9_999))
def test_whole_messages_from_both_ends(lengths: list[int], limit: int, place: int, gone: int) -> None:
    """What is left is a beginning and an end of the messages, each whole, and the number between them is right."""
    texts = [f"<{number}{'x' * length}>" for number, length in enumerate(lengths)]
    messages: list[str | int] = [*texts[:place], gone, *texts[place:]]
    found = fitted(messages, limit)
    assert len(found) <= limit
    kept = [text for text in texts if text in found]
    left_out = len(texts) - len(kept) + gone
    note = f"\n[… {left_out:,} message{'' if left_out == 1 else 's'} left out …]\n" if left_out else ""
    head, mark, tail = found.partition(note) if note else (found, "", "")
    assert head + mark + tail == found
    begun = [text for text in texts if text in head]
    assert head == "".join(begun) == "".join(texts[: len(begun)])
    assert tail == "".join(texts[len(texts) - len(kept) + len(begun) :])


def test_everything_is_there_where_it_fits() -> None:
    """A short session is not cut, and nothing is said of left out messages."""
    assert fitted(["a" * 40, "b" * 60], 100) == "a" * 40 + "b" * 60
    assert fitted(["a" * 40, "b" * 61], 100) == "\n[… 1 message left out …]\n" + "b" * 61


# -- sessions ---------------------------------------------------------------------------------------------------------


class Shelf:
    """Recorded logs, and the texts of their sessions."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir(parents=True)
        self.settings = load_settings({"HOME": str(root), "AGENTTRACE_HOME": str(root / "home")})
        ensure_home(self.settings)
        self.texts = SessionInputs(self.settings, Mask(self.settings.export.mask).text)

    def record(self) -> list[Session]:
        with closing(Recorder(self.settings, paths=[str(self.logs)])) as recorder:
            recorder.scan()
            recorder.drain()
        with open_store(self.settings) as store:
            return store.sessions(SessionFilter())

    def event(self, session: Session, **fields: object) -> Facts:
        event = RuleEvent(key=b"k" * 16, kind="tool.failed", at=0, session=session.id, **fields)  # type: ignore[arg-type]
        return Facts(event, session)

    def text(self, facts: Facts, kind: ChainInput, most: int = 40_000) -> str:
        return self.texts(ActionSettings(name="a", type="chain", apps=("x",), input=kind, max_chars=most), facts)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shelf, list[Facts]]:
    """Sessions of all agents with a secret in every text, and an event for some spans of each."""
    shelf = Shelf(tmp_path_factory.mktemp("inputs"))
    plant(shelf.logs)
    found = []
    for session in shelf.record():
        with open_store(shelf.settings) as store:
            rows = list(store.span_rows(session))
        found += [
            shelf.event(session, span=row.span_id, turn=row.turn_index) for row in rows[:: max(1, len(rows) // 4)]
        ]
        found.append(shelf.event(session, turn=session.turns))
    assert len(found) > 30
    return shelf, found


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("most", LENGTHS)
def test_no_secret_leaves_and_no_text_is_longer_than_asked_for(
    planted: tuple[Shelf, list[Facts]], kind: ChainInput, most: int
) -> None:
    """For all agents, inputs and lengths, also where the cut goes through what had a secret in it."""
    shelf, events = planted
    for facts in events[LENGTHS.index(most) :: len(LENGTHS)]:
        text = shelf.text(facts, kind, most)
        assert len(text) <= most
        assert not leaks(text)
        assert text.strip()


def test_an_event_without_a_session_is_its_own_text(planted: tuple[Shelf, list[Facts]]) -> None:
    """A budget was crossed: its facts are the text, masked, too."""
    shelf, _ = planted
    event = RuleEvent(key=b"k" * 16, kind="budget.crossed", at=0, facts={"budget": "shop", "key": "ghp_" + "a1B2" * 9})
    text = shelf.text(Facts(event), "transcript")
    assert json.loads(text)["budget"] == "shop"
    assert not leaks(text)


def _talk(shelf: Shelf, turns: int, answer: str = "Answer {}.") -> Session:
    lines = []
    for turn in range(1, turns + 1):
        base = {"v": 1, "session": "s", "turn": turn, "ts": 1_794_700_000.0 + turn}
        lines += [
            base | {"type": "turn.begin", "id": f"t{turn}", "prompt": f"Question {turn}."},
            base | {"type": "tool.begin", "id": f"c{turn}", "name": "shell", "arguments": {"command": f"run {turn}"}},
            base | {"type": "tool.end", "id": f"c{turn}", "status": "error", "result": f"result {turn}"},
            base | {"type": "message", "id": f"m{turn}", "role": "assistant", "text": answer.format(turn)},
            base | {"type": "turn.end", "id": f"t{turn}", "status": "ok"},
        ]
    (shelf.logs / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (session,) = shelf.record()
    return session


def test_what_each_input_has(tmp_path: Path) -> None:
    """The outline has turns, the conversation what was said, the transcript results; a turn and a span are alone."""
    shelf = Shelf(tmp_path)
    session = _talk(shelf, 3)
    with open_store(shelf.settings) as store:
        tools = [row for row in store.span_rows(session) if row.kind == "tool"]
    whole = shelf.event(session, turn=3)
    failed = shelf.event(session, turn=1, span=tools[1].span_id)
    outline, talk, all_ = (shelf.text(whole, kind) for kind in ("outline", "conversation", "transcript"))
    assert "Question 3." in outline
    assert "Answer 1." not in outline
    assert all(f"{word} {turn}." in talk for word in ("Question", "Answer") for turn in (1, 2, 3))
    assert "result 2" not in talk
    assert all(f"result {turn}" in all_ for turn in (1, 2, 3))
    for facts, present, absent in ((whole, 3, 2), (failed, 2, 3)):
        turn = shelf.text(facts, "turn")
        assert f"result {present}" in turn
        assert f"result {absent}" not in turn
    span = shelf.text(failed, "span")
    assert "run 2" in span
    assert "Question 2." not in span
    assert "result 3" in shelf.text(whole, "span"), "without a span it is the turn"


def test_the_middle_of_a_long_session_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many turns the first and the last stay; of very many the texts of those between are not even read."""
    shelf = Shelf(tmp_path)
    facts = shelf.event(_talk(shelf, 60), turn=60)
    cut = shelf.text(facts, "conversation", 2_000)
    assert "Question 1." in cut
    assert "Answer 60." in cut
    assert "messages left out" in cut
    assert "Question 30." not in cut
    monkeypatch.setattr(session_inputs, "_MOST_ENTRIES", 20)
    fast = shelf.text(facts, "conversation", 40_000)
    assert "Question 1." in fast
    assert "Answer 60." in fast
    assert "messages left out" in fast


def test_one_long_message_does_not_push_out_the_others(tmp_path: Path) -> None:
    """A text that alone would fill the room is shortened in its middle, and says by how much."""
    shelf = Shelf(tmp_path)
    text = shelf.text(shelf.event(_talk(shelf, 3, "x" * 50_000 + "{}"), turn=3), "conversation", 8_000)
    assert "characters left out" in text
    assert "Question 1." in text
    assert "Question 3." in text


def test_a_command_gets_the_text_of_its_session(tmp_path: Path) -> None:
    """On its standard input, as a chain would get it."""
    shelf = Shelf(tmp_path)
    facts = shelf.event(_talk(shelf, 2), turn=2)
    table = {"type": "command", "argv": ["cat"], "stdin": "transcript", "input": "turn", "max_chars": 1_000}
    message = Message(
        1, parse_rule("r", {"on": "tool.failed", "do": ["c"]}), parse_action("c", table, {}), "k", [facts], {}, 1
    )
    mask = Mask(shelf.settings.export.mask)
    result = asyncio.run(Command(shelf.settings.home, mask.value, shelf.texts).run(message))
    assert result.outcome == "done"
    assert "result 2" in result.answer["text"]
    assert "result 1" not in result.answer["text"]
