"""Traps in the logs of agents that no sample falls into by itself: made of samples, each with what must come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import Settings, ensure_home
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Source
from agenttrace.record.recorder import Recorder
from format_samples import LOGS, Log

Sums = tuple[int, ...]
SUMS = """
    SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
        coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_write_tokens), 0)
    FROM responses
"""


class Machine:
    """A home directory, and the store of what was recorded from it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        settings = Settings(home=root / "store")
        ensure_home(settings)
        self.recorder = Recorder(settings, environ={"HOME": str(self.home)})

    def record(self, log: Log, values: list[dict[str, Any]] | None = None) -> Sums:
        """The sums after a log was recorded, or a state of it with these records."""
        log.put(self.home, None if values is None else [json.dumps(value).encode() for value in values])
        self.recorder.run_once()
        return self.sums()

    def sums(self) -> Sums:
        found: Sums = self.recorder.connection.execute(SUMS).fetchone()
        return found

    def count(self, what: str) -> int:
        (found,) = self.recorder.connection.execute(f"SELECT count(*) FROM {what}").fetchone()
        return int(found)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    with closing(found.recorder):
        yield found


def alone(log: Log, tmp_path: Path) -> Sums:
    """The sums of a log as it is."""
    folder = tmp_path / "alone"
    folder.mkdir()
    other = Machine(folder)
    with closing(other.recorder):
        return other.record(log)


def log_of(agent: str, *words: str) -> Log:
    """The first log in which all these words stand."""
    return next(log for log in LOGS[agent] if all(word in str(log.records) for word in words))


def values_of(log: Log) -> list[dict[str, Any]]:
    return [json.loads(record) for record in log.records]


# -- Pi ------------------------------------------------------------------------------------------------------------


def test_a_branch_of_pi_is_in_the_same_file(machine: Machine, tmp_path: Path) -> None:
    """Another answer to the same prompt was paid as well: both count."""
    log = log_of("pi", "SCN:plain")
    values = values_of(log)
    answer = next(value for value in values if value.get("message", {}).get("role") == "assistant")
    other = {**answer, "id": "deadbeef", "message": {**answer["message"], "responseId": "msg_other"}}
    found, expected = machine.record(log, [*values, other]), alone(log, tmp_path)
    assert found == tuple(2 * number for number in expected)


def test_pi_without_ids_of_responses(machine: Machine, tmp_path: Path) -> None:
    """Not every provider gives them: a fork has the same entries, and they count once."""
    fork = log_of("pi", "parentSession")
    original = log_of("pi", "SCN:multi1")
    for log in (fork, original):
        values = values_of(log)
        for value in values:
            value.get("message", {}).pop("responseId", None)
        machine.record(log, values)
    assert machine.sums()[0] == 3, "two of the original, one of the fork"
    assert machine.count("sessions WHERE copied") == 1


def test_an_older_pi_writes_no_system_message(machine: Machine, tmp_path: Path) -> None:
    """Version 0.73: the same turns and tokens without it."""
    log = log_of("pi", "SCN:shell")
    values = [value for value in values_of(log) if value.get("message", {}).get("role") != "system"]
    assert len(values) < len(log.records)
    assert machine.record(log, values) == alone(log, tmp_path)
    assert machine.count("spans WHERE kind = 'turn'") == 1


# -- OpenCode ------------------------------------------------------------------------------------------------------


def test_an_empty_part_of_opencode_is_no_text() -> None:
    """Parts are written empty when they begin; those of a killed process stay so."""
    agent = next(agent for agent in AGENTS if agent.name == "opencode")
    source = Source(agent="opencode", session_id="x")
    empty = 0
    for log in LOGS["opencode"]:
        for record, value in zip(log.records, values_of(log), strict=True):
            part = value["data"].get("part", {})
            if part.get("type") in ("text", "reasoning") and not part["text"]:
                event = agent.decode(record, source)
                assert not agent.content(event, source)  # type: ignore[arg-type]  # all of them are whole
                empty += 1
    assert empty


def test_parts_that_opencode_removes_change_no_sum(machine: Machine, tmp_path: Path) -> None:
    """Kilo removes empty ones; the call that they belong to was paid."""
    log = log_of("opencode", "SCN:shell")
    values = values_of(log)
    parts = [value["data"]["part"] for value in values if "part" in value["data"]]
    last = values[-1]
    removed = [
        {**last, "id": f"evt_removed_{number}", "seq": last["seq"] + 1 + number, "type": "message.part.removed.1"}
        | {"data": {"messageID": part["messageID"], "partID": part["id"]}}
        for number, part in enumerate(parts)
    ]
    assert machine.record(log, [*values, *removed]) == alone(log, tmp_path)


# -- Gemini CLI ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_tokens", [False, True])
def test_snapshots_of_gemini_erase_and_add_nothing(machine: Machine, tmp_path: Path, with_tokens: bool) -> None:
    """A resumed session repeats old messages, mostly without tokens and tools, with new times."""
    log = log_of("gemini-cli", "SCN:shell")
    values = values_of(log)
    messages = [{**value, "timestamp": "2026-11-16T23:00:00.000Z"} for value in values if "type" in value]
    for message in messages:
        message.pop("toolCalls", None)
        if not with_tokens:
            message.pop("tokens", None)
    tools = "spans WHERE kind = 'tool'"
    machine.record(log)
    before = machine.sums(), machine.count(tools), machine.count("spans")
    assert machine.record(log, [*values, values[0], {"$set": {"messages": messages}}]) == before[0]
    assert (machine.count(tools), machine.count("spans")) == before[1:]


def test_a_message_of_gemini_that_is_written_again_without_tokens(machine: Machine, tmp_path: Path) -> None:
    """The last version that has tokens counts."""
    log = log_of("gemini-cli", "SCN:shell")
    values = values_of(log)
    again = [{name: each for name, each in value.items() if name != "tokens"} for value in values if "tokens" in value]
    assert again
    assert machine.record(log, [*values, *again]) == alone(log, tmp_path)


def test_sessions_that_gemini_deletes_stay(machine: Machine) -> None:
    """Its next start deletes them, the real file together with a stub."""
    log = log_of("gemini-cli", "SCN:shell")
    before = machine.record(log)
    (machine.home / log.path).unlink()
    machine.recorder.run_once()
    assert machine.sums() == before
    assert before[0] > 0


# -- documents -----------------------------------------------------------------------------------------------------


def test_tokens_of_cline_that_come_later(machine: Machine, tmp_path: Path) -> None:
    """A message is written without its figures first, then with some, then with all: the last ones count, once."""
    log = log_of("cline", "SCN:shell")
    values = values_of(log)
    bare = [{name: each for name, each in value.items() if name != "metrics"} for value in values]
    assert machine.record(log, bare)[0] == 0
    fewer = [
        value | {"metrics": {name: each // 2 for name, each in value["metrics"].items()}}
        if "metrics" in value
        else value
        for value in values
    ]
    machine.record(log, fewer)
    assert machine.record(log, values) == alone(log, tmp_path)


def test_the_same_question_twice_in_continue(machine: Machine, tmp_path: Path) -> None:
    """Items have no ids: two that are equal are told apart by what was said before them."""
    log = log_of("continue", "SCN:plain")
    single = alone(log, tmp_path)
    assert machine.record(log, values_of(log) * 2) == tuple(2 * number for number in single)
    assert machine.count("spans WHERE kind = 'turn'") == 2
    assert machine.record(log, values_of(log) * 2) == tuple(2 * number for number in single)


# -- Copilot -------------------------------------------------------------------------------------------------------


def test_totals_of_copilot_are_never_added(machine: Machine, tmp_path: Path) -> None:
    """They are cumulative and repeated: however many there are, calls count by their own records."""
    log = log_of("copilot-cli", "SCN:multi1", "session.shutdown")
    values = values_of(log)
    ends = [value for value in values if value["type"] == "session.shutdown"]
    more = [end | {"id": f"{number:08}-0000-4000-8000-000000000000"} for number, end in enumerate(ends * 3)]
    assert machine.record(log, [*values, *more]) == alone(log, tmp_path)


def test_a_failed_compaction_of_copilot(machine: Machine, tmp_path: Path) -> None:
    """One without figures used nothing that is known; the one that worked is counted once."""
    log = log_of("copilot-cli", "session.compaction_complete")
    values = values_of(log)
    done = next(value for value in values if value["type"] == "session.compaction_complete")
    data = {name: each for name, each in done["data"].items() if name != "compactionTokensUsed"}
    failed = done | {"id": "0" * 8 + "-0000-4000-8000-000000000000", "data": data | {"success": False}}
    assert machine.record(log, [*values, failed]) == alone(log, tmp_path)
