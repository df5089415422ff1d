"""Documents that agents write anew as a whole: each message once, half-written ones wait, broken ones are set aside."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder, Summary

NAME = "1794789911150_vwyis"


class Machine:
    """A home directory with a document of Cline, and the store of what was recorded from it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.path = self.home / ".cline" / "data" / "sessions" / NAME / f"{NAME}.messages.json"
        self.path.parent.mkdir(parents=True)
        self.settings = Settings(home=root / "data")
        ensure_home(self.settings)

    def document(self, messages: list[dict[str, Any]]) -> bytes:
        """The whole document, as the agent writes it."""
        head = {"version": 1, "sessionId": NAME, "origin": {"mode": "user"}, "updated_at": "now"}
        return json.dumps({**head, "messages": messages}, indent=2).encode()

    def record(self, recorder: Recorder | None = None) -> Summary:
        """Record what is there."""
        found = recorder or Recorder(self.settings, environ={"HOME": str(self.home)})
        try:
            return found.run_once()
        finally:
            if recorder is None:
                found.close()

    def recorded(self) -> list[dict[str, Any]]:
        """The messages that were recorded, in order."""
        recorder = Recorder(self.settings, environ={"HOME": str(self.home)})
        try:
            lines = [json.loads(line.raw) for line in recorder.store.lines()]
        finally:
            recorder.close()
        return [line for line in lines if "id" in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def message(number: int, text: str = "hello") -> dict[str, Any]:
    """A message; every second one is the model's."""
    role = "assistant" if number % 2 else "user"
    return {"id": f"m{number}", "role": role, "content": [{"type": "text", "text": text}], "ts": 1_790_000_000_000}


def settle(path: Path, age: float = 10.0) -> None:
    """Make a file look as if it was written some time ago."""
    at = path.stat().st_mtime - age
    os.utime(path, (at, at))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3)),
        st.tuples(st.just("change"), st.integers(0, 9)),
        st.tuples(st.just("tear"), st.integers(0, 200)),
        st.tuples(st.just("replace"), st.just(0)),
        st.tuples(st.just("record"), st.integers(0, 1)),
    ),
    max_size=14,
)


@settings(max_examples=40)
@given(steps=steps)
def test_every_message_once(steps: list[tuple[str, int]]) -> None:
    """Grown, changed, torn in the middle of writing, replaced by rename: every version of a message that a look could
    see whole is recorded once, by one recorder and by several."""
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(Path(root))
        messages: list[dict[str, Any]] = []
        seen: dict[str, dict[str, Any]] = {}
        torn = False
        versions = 0
        machine.path.write_bytes(machine.document(messages))
        recorder = Recorder(machine.settings, environ={"HOME": str(machine.home)})
        for step, number in steps:
            if step == "add":
                messages += [message(len(messages) + each) for each in range(number)]
            elif step == "change" and messages:
                versions += 1
                place = number % len(messages)
                messages[place] = {**messages[place], "metrics": {"outputTokens": versions}}
            whole = machine.document(messages)
            if step == "tear":
                machine.path.write_bytes(whole[: number % len(whole)])
                torn = True
            elif step == "replace":
                other = machine.path.with_suffix(".new")
                other.write_bytes(whole)
                os.replace(other, machine.path)
                torn = False
            elif step == "record":
                if number:
                    recorder.close()
                    recorder = Recorder(machine.settings, environ={"HOME": str(machine.home)})
                machine.record(recorder)
                if not torn:
                    seen |= {json.dumps(each): each for each in messages}
            else:
                machine.path.write_bytes(whole)
                torn = False
        machine.path.write_bytes(machine.document(messages))
        machine.record(recorder)
        recorder.close()
        seen |= {json.dumps(each): each for each in messages}
        found = machine.recorded()
        assert sorted(map(json.dumps, found)) == sorted(seen)


def test_a_document_that_stays_broken_is_quarantined_once(machine: Machine) -> None:
    """The agent died while it wrote: the document is set aside with a reason, and read when it is whole again."""
    whole = machine.document([message(0), message(1)])
    machine.path.write_bytes(whole[:-40])
    assert machine.record().quarantined == 0, "it may still be written"
    settle(machine.path)
    assert machine.record().quarantined == 1
    assert machine.record().quarantined == 0
    machine.path.write_bytes(whole)
    assert machine.record().recorded == 3


def test_a_document_that_did_not_change_is_not_read_again(machine: Machine) -> None:
    """Nothing is counted a second time, also by another recorder."""
    machine.path.write_bytes(machine.document([message(0), message(1)]))
    settle(machine.path)
    assert machine.record().recorded == 3
    again = machine.record()
    assert (again.lines, again.duplicate) == (0, 0)


def test_a_document_that_is_too_large(machine: Machine) -> None:
    """It is quarantined, not loaded."""
    record = msgspec.structs.replace(machine.settings.record, max_line_bytes=10_000)
    machine.settings = msgspec.structs.replace(machine.settings, record=record)
    machine.path.write_bytes(machine.document([message(0, "x" * 20_000)]))
    settle(machine.path)
    summary = machine.record()
    assert (summary.recorded, summary.quarantined) == (0, 1)
