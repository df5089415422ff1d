"""Codex rollouts: real ones give the golden counts, and every known way to count twice is tried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Event, Usage
from agenttrace.record.formats.codex import Codex
from agenttrace.record.formats.contract import Content, Source, Unusable
from agenttrace.record.ingest import acts as a
from agenttrace.record.ingest.fold import Folder, StreamState

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "codex-0.166.0"
SAMPLES = ROOT.parent / "shared" / "samples"
ROLLOUT = next(DATA.rglob("rollout-*.jsonl"))
PARENT = "019b55c1-d022-7061-bbb9-b0c90708472b"
REVIEW = "019b5669-8da8-7bc3-bed8-e1c1b805dad5"

THREAD = "01a1de77-9240-7233-b378-7a1872f63de7"
OLD_THREAD = "01a1de70-0000-7000-8000-000000000001"
OLD_TURN = "01a1de71-0000-7000-8000-000000000001"
NEW_TURN = "01a1de78-0000-7000-8000-000000000001"

codex = Codex()


def shared_rollouts() -> list[Path]:
    """The real rollouts, where they are at hand, each version of a growing file."""
    return sorted((SAMPLES / "codex").rglob("rollout-*.jsonl"))


def golden(path: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((DATA / "expected.json").read_bytes())
    if not path.is_relative_to(DATA):
        everything = json.loads((SAMPLES / "EXPECTED.json").read_bytes())
        expected = everything[path.relative_to(SAMPLES).as_posix()]
    return expected


def version(thread: str, number: int) -> Path:
    """One of the versions of a real rollout; the test is skipped where the samples are missing."""
    found = sorted(path for path in shared_rollouts() if thread in path.name)
    if not found:
        pytest.skip("the real rollouts are not here")
    return found[number]


class Play:
    """A rollout played through the module, as the pipeline does it."""

    def __init__(self, rows: Iterable[bytes | dict[str, Any]], name: str = f"rollout-x-{THREAD}.jsonl") -> None:
        self.lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        source = codex.recognise(Path(name), b"\n".join(self.lines)[:65536])
        assert source is not None
        self.source = source
        self.memory: dict[str, Any] = {}
        self.events: list[Event] = []
        self.acts: list[a.Act] = []
        for line in self.lines:
            event = codex.decode(line, source)
            assert isinstance(event, Event)
            self.events.append(event)
            self.acts += codex.acts(event, source, self.memory)
            # What is remembered must survive being stored with the batch.
            self.memory = msgspec.msgpack.decode(msgspec.msgpack.encode(self.memory))

    def of(self, kind: type[a.Act]) -> list[Any]:
        return [act for act in self.acts if isinstance(act, kind)]

    @property
    def responses(self) -> dict[str, Usage]:
        """What the ledger would have of this file alone."""
        return {act.response: act.usage for act in self.of(a.ResponseUsage)}

    @property
    def total(self) -> int:
        return sum(usage.total for usage in self.responses.values())

    @property
    def content(self) -> list[Content]:
        return [piece for event in self.events for piece in codex.content(event, self.source)]


def play(path: Path) -> Play:
    return Play(path.read_bytes().splitlines(), path.name)


def row(kind: str, second: int, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": f"2026-11-15T09:{second // 60:02}:{second % 60:02}.000Z", "type": kind, "payload": payload}


def meta(thread: str = THREAD, **more: object) -> dict[str, Any]:
    return row("session_meta", 0, {"id": thread, "cwd": "/w", "cli_version": "0.100.0", "source": "cli", **more})


def event_msg(kind: str, second: int = 0, **payload: object) -> dict[str, Any]:
    return row("event_msg", second, {"type": kind, **payload})


def item(kind: str, second: int = 0, **payload: object) -> dict[str, Any]:
    return row("response_item", second, {"type": kind, **payload})


def said(text: str, second: int = 0) -> dict[str, Any]:
    return item("message", second, role="assistant", content=[{"type": "output_text", "text": text}])


def call(call_id: str, second: int = 0, name: str = "shell") -> dict[str, Any]:
    return item("function_call", second, name=name, arguments="{}", call_id=call_id)


def answer(call_id: str, output: object = "done", second: int = 0) -> dict[str, Any]:
    return item("function_call_output", second, call_id=call_id, output=output)


def breakdown(tokens: int) -> dict[str, int]:
    return {
        "input_tokens": tokens,
        "cached_input_tokens": tokens // 2,
        "output_tokens": tokens // 10,
        "reasoning_output_tokens": tokens // 20,
        "total_tokens": tokens + tokens // 10,
    }


def count(total: int, last: int, second: int = 0) -> dict[str, Any]:
    info = {"total_token_usage": breakdown(total), "last_token_usage": breakdown(last)}
    return event_msg("token_count", second, info=info, rate_limits={"primary": {"used_percent": second}})


def turn(turn_id: str, *rows: dict[str, Any], prompt: str = "do it") -> list[dict[str, Any]]:
    return [
        event_msg("task_started", turn_id=turn_id),
        event_msg("user_message", message=prompt),
        *rows,
        event_msg("task_complete", turn_id=turn_id),
    ]


# -- golden counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [ROLLOUT, *shared_rollouts()], ids=lambda path: path.name[-50:])
def test_golden_lines_and_types(path: Path) -> None:
    """Every line of a real rollout is an event of the golden type."""
    expected = golden(path)
    played = play(path)
    assert len(played.events) == expected["lines"]
    assert Counter(event.type for event in played.events) == expected["types"]
    assert all(event.at for event in played.events)


@pytest.mark.parametrize("path", [ROLLOUT, *shared_rollouts()], ids=lambda path: path.name[-50:])
def test_golden_usage(path: Path) -> None:
    """The responses of a real rollout add up to the golden sums."""
    expected = golden(path)["usage_dedup"]
    usages = list(play(path).responses.values())
    assert sum(u.input_tokens + u.cache_read_tokens for u in usages) == expected["input_tokens"]
    assert sum(u.cache_read_tokens for u in usages) == expected["cached_input_tokens"]
    assert sum(u.output_tokens for u in usages) == expected["output_tokens"]
    assert sum(u.reasoning_tokens for u in usages) == expected["reasoning_output_tokens"]
    assert sum(u.total for u in usages) == expected["total_tokens"]


def test_every_stretch_between_resets_adds_up_to_its_final_total() -> None:
    """In the real file that was resumed four times the thread's own responses are its totals, to the token."""
    path = version(PARENT, -1)
    finals, reviewing, total = [], False, 0
    for line in map(json.loads, path.read_bytes().splitlines()):
        payload = line["payload"]
        reviewing = {"entered_review_mode": True, "exited_review_mode": False}.get(payload.get("type"), reviewing)
        if payload.get("type") == "token_count" and payload["info"] and not reviewing:
            now = payload["info"]["total_token_usage"]["total_tokens"]
            if now < total:
                finals.append(total)
            total = now
    assert len(finals) == 4
    review = play(version(REVIEW, 0)).total
    assert play(path).total - review == sum(finals) + total == 28_350_172


def test_records_are_used_where_there_are_any() -> None:
    """A file with ``token_usage_record`` lines counts those, under the provider's ids, and nothing twice."""
    played = play(ROLLOUT)
    assert sorted(played.responses) == sorted(
        f"codex:{json.loads(line)['payload']['response_id']}"
        for line in played.lines
        if b'"token_usage_record"' in line
    )
    assert len(played.of(a.ResponseUsage)) == 3
    assert played.total == golden(ROLLOUT)["token_usage_record"]["total_tokens"]


def test_a_growing_file_never_changes_its_mind() -> None:
    """What an earlier version of a real file gave is the beginning of what the later one gives."""
    earlier, later = play(version(PARENT, 0)), play(version(PARENT, 1))
    assert earlier.acts == later.acts[: len(earlier.acts)]
    assert [event.key for event in earlier.events] == [event.key for event in later.events][: len(earlier.events)]


# -- one response, one name -----------------------------------------------------------------------------------


def test_a_real_review_and_the_parents_copies_share_their_names() -> None:
    """All five responses of the review thread are in the parent's file under the same names and values."""
    parent, review = play(version(PARENT, -1)).responses, play(version(REVIEW, 0)).responses
    assert len(review) == 5
    assert {name: parent[name] for name in review} == review


def test_a_review_in_a_newer_log_shares_its_names_too() -> None:
    """The prompt connects a review with its copy, although both sides have different turn ids."""
    counts = [count(300, 300, 5), count(700, 400, 9)]
    prompt = event_msg("user_message", message="review this")
    parent = Play(
        [
            meta(OLD_THREAD),
            *turn(OLD_TURN, said("hello"), count(1000, 1000)),
            event_msg("task_started", turn_id=NEW_TURN),
            event_msg("entered_review_mode", user_facing_hint="current changes"),
            *(prompt, prompt, *counts),
            event_msg("exited_review_mode"),
            count(1000, 1000, 11),
        ]
    )
    review = Play(
        [meta(source={"subagent": "review"}), *turn(NEW_TURN[:-1] + "2", said("bad"), *counts, prompt="review this")]
    )
    assert set(review.responses) < set(parent.responses)
    # The count from before the review is written once more after it; no model answered.
    assert parent.total == 1100 + 770
    assert len(parent.of(a.ResponseUsage)) == 3
    assert {act.model for act in parent.of(a.ResponseUsage)[1:3]} == {"unknown"}


# -- counts before their items (0.36 to 0.65) -----------------------------------------------------------------


def counted_first(*rows: dict[str, Any], thread: str = THREAD, version: str = "0.46.0") -> Play:
    return Play([meta(thread, cli_version=version), *rows])


OLD_STYLE = (
    event_msg("user_message", 1, message="do it"),
    count(100, 100, 2),
    call("c1", 3),
    answer("c1", second=4),
    count(300, 200, 5),
    said("done", 6),
)


def test_a_count_before_its_items_belongs_to_them() -> None:
    """Two model calls with the tokens of each; the tool is the first one's, and the answer ends the turn."""
    played = counted_first(*OLD_STYLE)
    used = {act.step: act.usage.total for act in played.of(a.ResponseUsage)}
    assert list(used.values()) == [110, 220]
    (tool,) = played.of(a.ToolBegin)
    assert tool.step == next(iter(used))
    assert [type(act) for act in played.acts if isinstance(act, a.StepBegin | a.FinalAnswer)] == [
        a.StepBegin,
        a.StepBegin,
        a.FinalAnswer,
    ]


def test_a_resumed_copy_of_such_a_log_shares_its_names() -> None:
    """The copy has another thread id and new times; only what it adds has new names."""
    own = counted_first(*OLD_STYLE)
    later = [row | {"timestamp": "2026-11-16T09:00:00.000Z"} for row in OLD_STYLE]
    more = (event_msg("user_message", 90, message="and now?"), count(700, 400, 91), said("more", 92))
    copy = counted_first(*later, *more, thread=OLD_THREAD)
    assert set(own.responses) < set(copy.responses)
    assert (own.total, copy.total) == (330, 330 + 440)
    stranger = [row for row in OLD_STYLE if row["payload"].get("call_id") is None]
    other = counted_first(*stranger[:2], call("c9", 3), answer("c9", second=4), *stranger[2:], thread=OLD_THREAD)
    assert set(other.responses) != set(own.responses)


def test_a_preamble_does_not_end_the_turn() -> None:
    """The model says what it will do and calls a tool: the turn goes on, as one turn; the last answer ends it."""
    rows = [
        meta(cli_version="0.46.0"),
        event_msg("user_message", 1, message="do it"),
        count(100, 100, 2),
        said("let me look", 3),
        call("c1", 4),
        answer("c1", second=5),
        count(300, 200, 6),
        said("done", 7),
    ]
    folder = Folder(THREAD, "main", "codex", StreamState())
    source = Source(agent="codex", session_id=THREAD)
    for number, row in enumerate(rows):
        event = codex.decode(json.dumps(row).encode(), source)
        assert isinstance(event, Event)
        folder.feed(bytes([number]) * 16, event.at, codex.acts(event, source, folder.state.memory))
        if number == 4:
            assert folder.state.state == "working"
    kinds = Counter(span.kind for span in folder.changed.values())
    assert kinds == {"turn": 1, "step": 2, "tool": 1}
    assert {span.status for span in folder.changed.values()} == {"ok"}
    assert folder.state.state == "waiting"


@pytest.mark.parametrize(
    ("version", "first"), [("0.35.9", False), ("0.36.0", True), ("0.65.0", True), ("0.66.0", False)]
)
def test_only_some_versions_count_first(version: str, first: bool) -> None:
    """Others have the count behind the items: the same rows mean that the first count is of a call without items."""
    used = [act.step for act in counted_first(*OLD_STYLE, version=version).of(a.ResponseUsage)]
    assert (None not in used) == first


# -- ends -----------------------------------------------------------------------------------------------------


def test_a_turn_that_failed() -> None:
    """``task_complete.error`` is the reason."""
    error = {"message": "429 too many", "codex_error_info": "usage_limit_exceeded"}
    played = Play([meta(), *turn(OLD_TURN)[:-1], event_msg("task_complete", turn_id=OLD_TURN, error=error)])
    assert played.of(a.TurnEnd) == [a.TurnEnd("error", "429 too many", OLD_TURN)]


@pytest.mark.parametrize("command", ["/bin/bash -lc ls", "x" * 5_000, "cat <<'E'\nOutput:\nExit code: 0\nE"])
@pytest.mark.parametrize("code", [0, 3])
def test_exit_codes_behind_the_command(command: str, code: int) -> None:
    """0.115 to 0.119 repeat the command first; the exit code is after it."""
    header = f"Chunk ID: 1a2b3c\nWall time: 0.0521 seconds\nProcess exited with code {code}\nOriginal token count: 3"
    output = f"Command: {command}\n{header}\nOutput:\nProcess exited with code 9"
    played = Play([meta(), *turn(OLD_TURN, call("c1"), answer("c1", output))])
    (end,) = played.of(a.ToolEnd)
    assert (end.status, end.error) == (("error", "exit code 3") if code else ("ok", None))
    assert end.duration == 52_100


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/home/dev/work</cwd>\n  <shell>bash</shell>\n</environment_context>",
        "<environment_context>\nCurrent working directory: /home/dev/work\nSandbox: off\n</environment_context>",
    ],
)
def test_bare_logs_tell_their_directory_to_the_model(text: str) -> None:
    """It is in no header there; and it is no prompt."""
    head = {"id": THREAD, "timestamp": "2025-05-01T10:00:00.000Z", "instructions": None}
    context = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    played = Play([head, context])
    assert [act.cwd for act in played.of(a.SessionInfo) if act.cwd] == ["/home/dev/work"]
    assert played.of(a.TurnBegin) == []


# -- the review of 0.166 --------------------------------------------------------------------------------------


def recorded_reviews() -> dict[str, Play]:
    paths = sorted((ROOT / "tests" / "data" / "codex-0.166.0-review").rglob("rollout-*.jsonl"))
    return {path.name[-18:-6]: Play(path.read_bytes().splitlines(), path.name) for path in paths}


def test_the_turn_of_a_review_begins_and_ends() -> None:
    """It begins with an item and has the reviewer's ``task_started`` inside: one turn, ended, without tokens of its
    own; the reviewer's thread has them."""
    played = recorded_reviews()
    parent, review, failed = played["45b54a799014"], played["267eb69940fb"], played["29252df4494b"]
    (begin,), (end,) = parent.of(a.TurnBegin), parent.of(a.TurnEnd)
    assert begin.turn == end.turn is not None
    assert (begin.prompt, end.status) == ("/review current changes", "ok")
    assert (parent.responses, parent.of(a.StepBegin), parent.of(a.ToolBegin)) == ({}, [], [])
    assert review.total == 2003 + 43
    assert [end.status for end in review.of(a.TurnEnd)] == ["ok"]
    assert failed.of(a.TurnEnd)[0].status == "error"
    assert "bad request of test" in failed.of(a.TurnEnd)[0].error


def test_a_review_that_was_killed_does_not_swallow_the_next_turn() -> None:
    """The reviewer has one turn; the next one is the thread's own."""
    entered = {"type": "EnteredReviewMode", "id": "i", "user_facing_hint": "x"}
    played = Play(
        [
            meta(),
            event_msg("item_completed", thread_id=THREAD, turn_id=OLD_TURN, item=entered),
            event_msg("task_started", turn_id="reviewer"),
            *turn(NEW_TURN, said("hi"), count(100, 100)),
        ]
    )
    assert [act.turn for act in played.of(a.TurnBegin)] == [OLD_TURN, NEW_TURN, NEW_TURN]
    assert len(played.responses) == 1


def test_a_fork_shares_the_names_of_what_it_copied() -> None:
    """A fork has the parent's history with new times: only what follows has new names."""
    history = turn(OLD_TURN, call("c1"), count(100, 100), answer("c1"), said("done"), count(300, 200))
    parent = Play([meta(OLD_THREAD), *history], f"rollout-x-{OLD_THREAD}.jsonl")
    stamped = [{**line, "timestamp": "2026-11-15T11:00:00.000Z"} for line in history]
    own = turn(NEW_TURN, count(300, 200), said("more"), count(700, 400))
    fork = Play([meta(forked_from_id=OLD_THREAD), meta(OLD_THREAD), *stamped, *own])
    assert len(parent.responses) == 2
    assert parent.responses.items() < fork.responses.items()
    assert fork.total - parent.total == 440
    assert (fork.source.parent_session, fork.source.copied) == (OLD_THREAD, True)
    assert [info.parent for info in fork.of(a.SessionInfo)] == [OLD_THREAD]


def test_a_fork_from_before_turn_ids_shares_names_by_what_was_answered() -> None:
    """Old forks do not name their parent; the call ids and texts of the answers were copied all the same."""
    history = [
        event_msg("user_message", message="do it"),
        *(call("c1"), count(100, 100), answer("c1")),
        *(said("done"), count(300, 200)),
    ]
    parent = Play([meta(OLD_THREAD), *history], f"rollout-x-{OLD_THREAD}.jsonl")
    fork = Play([meta(), *({**line, "timestamp": "2026-11-15T11:00:00.000Z"} for line in history)])
    assert len(parent.responses) == 2
    assert fork.responses == parent.responses


def spawned(thread: str, turn_id: str, *prefix: dict[str, Any]) -> Play:
    """A thread spawned by ``OLD_THREAD``: the parent's events without its calls, then the thread's own work."""
    source = {"subagent": {"thread_spawn": {"parent_thread_id": OLD_THREAD, "depth": 1, "agent_role": "explorer"}}}
    own = turn(turn_id, count(300, 200, 7), said("found"), count(700, 400, 9))
    return Play([meta(thread, source=source), meta(OLD_THREAD), *prefix, *own], f"rollout-x-{thread}.jsonl")


@pytest.mark.parametrize("cut", [0, 3], ids=["whole history", "last turns"])
def test_a_spawned_thread_counts_only_its_own_responses(cut: int) -> None:
    """What was copied from the parent counts nothing, whole or cut, nor does the total it starts out with."""
    history = turn(OLD_TURN, count(100, 100), count(300, 200), count(300, 200, 3))
    child = spawned(THREAD, NEW_TURN, *history[cut:])
    assert [usage.total for usage in child.responses.values()] == [440]
    assert child.source.parent_session == OLD_THREAD
    assert child.source.name == "explorer"


def test_siblings_with_equal_numbers_stay_apart() -> None:
    """Two subagents of one parent that happen to use the same tokens are two responses."""
    one, other = spawned(THREAD, NEW_TURN), spawned(THREAD[:-1] + "8", NEW_TURN[:-1] + "9")
    assert len(one.responses) == len(other.responses) == 1
    assert not one.responses.keys() & other.responses.keys()


# -- which counts are responses -------------------------------------------------------------------------------


def test_repetitions_do_not_count() -> None:
    """The same total again, for new rate limits or at the start of a turn, is the same response."""
    played = Play(
        [
            meta(),
            *turn(OLD_TURN, said("a"), count(100, 100), count(100, 100, 2)),
            *turn(NEW_TURN, count(100, 100, 3), said("b"), count(200, 100, 4), count(200, 100, 5)),
        ]
    )
    assert [act.usage.total for act in played.of(a.ResponseUsage)] == [110, 110]


def test_two_equal_responses_in_a_row_are_two() -> None:
    """Equal ``last`` with a total that moved is another response."""
    played = Play([meta(), *turn(NEW_TURN, said("a"), count(100, 100), said("b"), count(200, 100))])
    assert len(played.responses) == 2


def test_a_resume_starts_the_total_anew() -> None:
    """After a resume the totals fall; nothing is subtracted and nothing lost."""
    played = Play(
        [
            meta(),
            *(event_msg("user_message", message="a"), said("x"), count(500, 500)),
            *(event_msg("user_message", message="b"), event_msg("token_count", info=None), said("y")),
            count(200, 200),
        ]
    )
    assert played.total == 550 + 220


def test_a_context_that_overflowed_costs_nothing() -> None:
    """The placeholder for a full window has no input and no output."""
    full = {"total_tokens": 258_400, "input_tokens": 0, "output_tokens": 0}
    filler = event_msg("token_count", info={"total_token_usage": full, "last_token_usage": full})
    played = Play([meta(), *turn(NEW_TURN, said("a"), count(100, 100), filler, said("b"), count(300, 300))])
    assert [usage.total for usage in played.responses.values()] == [110, 330]


def test_a_call_without_items_counts() -> None:
    """A compaction leaves no items, but the total moves by exactly its tokens."""
    played = Play([meta(), *turn(NEW_TURN, said("a"), count(100, 100), row("compacted", 0, {}), count(400, 300))])
    assert [act.usage.total for act in played.of(a.ResponseUsage)] == [110, 330]
    assert played.of(a.ResponseUsage)[1].detached
    assert played.of(a.Note) == [a.Note("compaction")]


def test_a_file_that_starts_in_the_middle_counts_what_it_shows() -> None:
    """A total that was not followed from the beginning counts when its answer is before it."""
    played = Play([said("a"), count(900, 100), said("b"), count(1100, 200)])
    assert [usage.total for usage in played.responses.values()] == [110, 220]


def test_records_take_over_in_a_resumed_file() -> None:
    """A file that an older version began counts its old responses and, from the first record on, records."""
    record = row(
        "token_usage_record", 4, {"response_id": "resp_1", "usage": {**breakdown(200), "cache_write_input_tokens": 40}}
    )
    old = turn(OLD_TURN, said("a"), count(100, 100))
    new = turn(NEW_TURN, count(100, 100, 3), call("c"), record, answer("c"), count(300, 200, 5))
    responses = Play([meta(), *old, *new]).responses
    assert [usage.total for usage in responses.values()] == [110, 220]
    assert responses["codex:resp_1"] == Usage(
        input_tokens=60, cache_read_tokens=100, cache_write_tokens=40, output_tokens=20, reasoning_tokens=10
    )


# -- turns, steps, tools --------------------------------------------------------------------------------------


def test_turns_of_a_real_old_log() -> None:
    """58 user messages, two of them the two copies of one review's prompt: 57 turns, one of them cancelled."""
    played = play(version(PARENT, -1))
    assert len(played.of(a.TurnBegin)) == 57
    assert [act.status for act in played.of(a.TurnEnd)].count("cancelled") == 1
    # The last turn was still going on when the file was read.
    assert len(played.of(a.TurnEnd)) == 56


def test_turns_of_the_generated_log() -> None:
    """A turn begins with its id, gets its prompt, and ends under the same id."""
    played = play(ROLLOUT)
    begun = [(act.turn, act.prompt) for act in played.of(a.TurnBegin)]
    first, second = "01a1de77-9281-7372-bced-6c7059659e22", "01a1de77-97b4-74f1-9eaf-e754d19a98de"
    assert begun == [
        (first, None),
        (first, "SCENARIO parallel please"),
        (second, None),
        (second, "SCENARIO plain please"),
    ]
    assert played.of(a.TurnEnd) == [a.TurnEnd(turn=first), a.TurnEnd(turn=second)]


def test_an_old_turn_is_over_when_the_model_only_speaks() -> None:
    """Words before a call are no final answer; words alone are, and so are words that never got a count."""
    asked = event_msg("user_message", message="go")
    played = Play([meta(), asked, said("let me see"), call("c"), count(100, 100), answer("c")])
    assert played.of(a.TurnEnd) == []
    assert Play([*played.lines, said("done"), count(300, 200)]).of(a.TurnEnd) == [a.TurnEnd()]
    again = event_msg("user_message", message="again")
    assert Play([*played.lines, said("done"), again]).of(a.TurnEnd) == [a.TurnEnd()]


def test_a_review_that_was_killed_ends_with_the_next_turn() -> None:
    """Without its end in the log, a review does not reach into the turns after it."""
    rows = [meta(), row("turn_context", 0, {"model": "m"}), event_msg("entered_review_mode"), count(100, 100)]
    used = Play([*rows, *turn(NEW_TURN, said("x"), count(900, 200))]).of(a.ResponseUsage)
    assert [act.model for act in used] == ["unknown", "m"]
    asked = [event_msg("user_message", message=text) for text in ("review it", "go on")]
    used = Play([*rows, *asked, said("x"), count(900, 200)]).of(a.ResponseUsage)
    assert [act.model for act in used] == ["unknown", "m"]


def test_what_is_remembered_stays_small() -> None:
    """Neither calls without answers nor ends of unknown calls add up over a long session."""
    turns = [(event_msg("user_message", message=f"turn {n}"), call(f"c{n}")) for n in range(300)]
    assert len(msgspec.msgpack.encode(Play([meta(), *(line for both in turns for line in both)]).memory)) < 1000
    ends = (event_msg("patch_apply_end", call_id=f"unknown {n}", success=True) for n in range(300))
    endless = Play([meta(), *(call(f"c{n}") for n in range(300)), *ends])
    assert len(endless.memory["calls"]) == 256


@pytest.mark.parametrize("late", [False, True], ids=["before the answers", "after the answers"])
def test_usage_lands_on_the_step_that_made_the_calls(late: bool) -> None:
    """With parallel tools the count may come after their answers: it still belongs to the calling step."""
    answers = [answer("c1"), answer("c2")]
    middle = [*answers, count(100, 100)] if late else [count(100, 100), *answers]
    played = Play([meta(), *turn(NEW_TURN, call("c1"), call("c2"), *middle, said("done"), count(300, 200))])
    first, second = (act.step for act in played.of(a.StepBegin))
    assert [act.step for act in played.of(a.ToolBegin)] == [first, first]
    assert [act.step for act in played.of(a.ResponseUsage)] == [first, second]
    assert [act.step for act in played.of(a.StepEnd)] == [first, second]


def test_usage_of_the_generated_log_lands_on_its_steps() -> None:
    """Three steps, three usages; the first step made the three parallel calls."""
    played = play(ROLLOUT)
    steps = [act.step for act in played.of(a.StepBegin)]
    assert [act.step for act in played.of(a.ResponseUsage)] == steps
    assert {act.step for act in played.of(a.ToolBegin)} == {steps[0]}
    assert {act.model for act in played.of(a.StepBegin)} == {"gpt-5.2-codex"}


def test_tools_of_the_generated_log() -> None:
    """Status and duration come from what the shell measured; each call ends once."""
    ends = {act.call: act for act in play(ROLLOUT).of(a.ToolEnd)}
    assert ends == {
        "call_1Ki3ylOjt6o0NpUmkVO8JmR8": a.ToolEnd("call_1Ki3ylOjt6o0NpUmkVO8JmR8", duration=38),
        "call_Hl7UeioEJP2NNern66nVberA": a.ToolEnd("call_Hl7UeioEJP2NNern66nVberA", duration=175_721),
        "call_c7bE6wSt9cbMOeEeUtuieeCI": a.ToolEnd("call_c7bE6wSt9cbMOeEeUtuieeCI", "error", "exit code 3", duration=5),
    }


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Exit code: 0\nWall time: 0.2 seconds\nOutput:\nExit code: 9", ("ok", None, 200_000)),
        ("Exit code: 127\nWall time: 0 seconds\nOutput:\n", ("error", "exit code 127", 0)),
        ("Exit code: a lot, said the program", ("ok", None, None)),
        ("Wall time: 0.1 seconds\nProcess running\nOutput:\nProcess exited with code 9", ("ok", None, 100_000)),
        (
            '{"output":"no","metadata":{"exit_code":2,"duration_seconds":1.5}}',
            ("error", "exit code 2", 1_500_000),
        ),
        ("apply_patch verification failed: no such file", ("error", None, None)),
        ("aborted by user after 3.1s", ("cancelled", None, None)),
        ({"content": "boom", "success": False}, ("error", None, None)),
        ([{"type": "input_text", "text": "Exit code: 1"}], ("ok", None, None)),
        (None, ("ok", None, None)),
    ],
)
def test_an_answer_tells_how_the_call_ended(output: object, expected: tuple[str, str | None, int | None]) -> None:
    """Exit codes and times are read from the header that Codex puts before what the tool printed."""
    line = json.dumps(answer("c", output), separators=(",", ":")).encode()
    end = Play([meta(), call("c"), line]).of(a.ToolEnd)[0]
    assert (end.status, end.duration) == (expected[0], expected[2])
    if expected[1] or expected[0] == "ok":
        assert end.error == expected[1]


def test_calls_of_every_kind_begin_and_end() -> None:
    """Named or not, answered by Codex or carried out by the provider."""
    played = Play(
        [
            meta(),
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c1"),
            item("local_shell_call", call_id="c2", action={"type": "exec", "command": ["ls"]}),
            item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
            item("function_call", namespace="mcp__x__", name="look", arguments="{}", call_id="c3"),
            call("c4", name="spawn_agent"),
            event_msg("patch_apply_end", call_id="c1", success=False),
            event_msg("mcp_tool_call_end", call_id="c3", duration={"secs": 1, "nanos": 5000}, result={"Ok": {}}),
            item("custom_tool_call_output", call_id="c1", output="Failed"),
            *(answer("c2"), answer("c3"), answer("c4")),
        ]
    )
    begun = [(act.name, act.subagent) for act in played.of(a.ToolBegin)]
    assert begun == [
        ("apply_patch", False),
        ("local_shell", False),
        ("web_search", False),
        ("mcp__x__look", False),
        ("spawn_agent", True),
    ]
    ended = {act.call: (act.status, act.duration) for act in played.of(a.ToolEnd)}
    assert len(ended) == 5
    assert ended["c1"] == ("error", None)
    assert ended["c3"] == ("ok", 1_000_005)


def test_responses_without_any_usage_are_still_apart() -> None:
    """Where a provider reports no usage, a tool's answer parts one response from the next."""
    played = Play([meta(), *turn(NEW_TURN, call("c1"), answer("c1"), call("c2"), answer("c2"), said("done"))])
    assert len(played.of(a.StepBegin)) == 3


def test_what_is_known_of_the_session() -> None:
    """The first ``session_meta`` tells; a copied parent's does not."""
    git = {"branch": "main", "commit_hash": "x"}
    played = Play([meta(git=git), meta(OLD_THREAD, cwd="/elsewhere"), row("turn_context", 0, {"model": "m"})])
    assert played.of(a.SessionInfo) == [
        a.SessionInfo(cwd="/w", branch="main", version="0.100.0"),
        a.SessionInfo(model="m"),
    ]


def test_the_prompt_is_what_the_user_asked() -> None:
    """Not what Codex says in the user's name, nor what an editor puts before the request."""
    texts = ["<environment_context>x", "# Context from my IDE setup:\nf\n## My request for Codex:\nfix it\n", "go"]
    played = Play([meta(), *(event_msg("user_message", message=text) for text in texts)])
    assert [act.prompt for act in played.of(a.TurnBegin)] == ["fix it", "go"]


# -- content --------------------------------------------------------------------------------------------------


def test_content_of_the_generated_log() -> None:
    """Every text once, although two or three lines say it."""
    content = play(ROLLOUT).content
    texts = [(piece.kind, piece.text) for piece in content if piece.kind in ("prompt", "text", "thinking")]
    assert texts == [
        ("prompt", "SCENARIO parallel please"),
        ("thinking", "**Planning two commands**"),
        ("text", "Done. parallel"),
        ("prompt", "SCENARIO plain please"),
        ("text", "Done. plain"),
    ]
    assert next((piece.text, piece.call) for piece in content if piece.kind == "arguments") == (
        '{"cmd": "echo first"}',
        "call_1Ki3ylOjt6o0NpUmkVO8JmR8",
    )
    results = {piece.call: piece.text for piece in content if piece.kind == "result"}
    assert len(results) == 3
    assert results["call_Hl7UeioEJP2NNern66nVberA"].endswith("Output:\nsecond\n")


def test_content_of_other_lines() -> None:
    """Objects as arguments, JSON in a string as an answer, compaction, errors and plans."""
    plan = {"type": "Plan", "text": "1. look"}
    content = Play(
        [
            meta(),
            item("local_shell_call", call_id="c", action={"command": ["ls"]}),
            answer("c", '{"output":"a\\nb","metadata":{"exit_code":0}}'),
            row("compacted", 0, {"message": "so far", "replacement_history": [{"x": 1}]}),
            event_msg("error", message="no network"),
            event_msg("item_completed", item=plan),
            event_msg("agent_message", message="said already"),
        ]
    ).content
    assert content == [
        Content("arguments", '{"command": ["ls"]}', "c"),
        Content("result", "a\nb", "c"),
        Content("note", "so far"),
        Content("error", "no network"),
        Content("text", "1. look"),
    ]


# -- files ----------------------------------------------------------------------------------------------------


def test_homes_follow_codex_home(tmp_path: Path) -> None:
    """Both directories, wherever ``CODEX_HOME`` is."""
    assert codex.homes({}, tmp_path) == [tmp_path / ".codex/sessions", tmp_path / ".codex/archived_sessions"]
    assert codex.homes({"CODEX_HOME": "/c"}, tmp_path) == [Path("/c/sessions"), Path("/c/archived_sessions")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("rollout-x.jsonl", True), ("rollout-x.jsonl.zst", True), ("history.jsonl", False), ("rollout-x.txt", False)],
)
def test_logs_are_known_by_name(name: str, expected: bool) -> None:
    """Rollouts, plain or compressed, and nothing else in the home."""
    assert codex.is_log(Path(name)) is expected


def test_the_file_names_the_thread() -> None:
    """The uuid in the name wins over a copied ``session_meta``; without one the first ``session_meta`` does."""
    head = json.dumps(meta(OLD_THREAD)).encode()
    named = codex.recognise(Path(f"rollout-2026-11-15T09-09-00-{THREAD}.jsonl"), head)
    unnamed = codex.recognise(Path("copy.jsonl"), head)
    assert named is not None
    assert unnamed is not None
    assert (named.session_id, unnamed.session_id) == (THREAD, OLD_THREAD)


def test_a_first_line_longer_than_the_head_is_recognised() -> None:
    """Instructions can be longer than what is read for recognition."""
    text = meta(THREAD, forked_from_id=OLD_THREAD, base_instructions={"text": "x" * 70_000})
    head = json.dumps(text, separators=(",", ":")).encode()[:65536]
    source = codex.recognise(Path("renamed.jsonl"), head)
    assert source is not None
    assert (source.session_id, source.parent_session) == (THREAD, OLD_THREAD)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","uuid":"u","sessionId":"s","timestamp":"2026-11-15T09:09:00.684Z","message":{}}',
        b'{"timestamp":1794733740.7,"message":{"type":"TurnBegin","payload":{}}}',
        b'{"v":1,"session":"s","type":"turn.begin","ts":1}',
        b'{"type":"event_msg","payload":{}}',
        b"",
        b"not json",
        b"[1]",
    ],
)
def test_other_files_are_not_claimed(line: bytes) -> None:
    """Content decides: another agent's line is no rollout."""
    assert codex.recognise(Path("rollout.jsonl"), line) is None


def test_a_file_that_starts_in_the_middle_is_recognised() -> None:
    """A file that was deleted and created again begins with any line."""
    source = codex.recognise(Path(f"rollout-x-{THREAD}.jsonl"), json.dumps(said("x")).encode())
    assert source is not None
    assert source.session_id == THREAD


def test_bare_lines_of_2025() -> None:
    """Before the envelope: a header, then response items, with user messages that open turns."""
    rows: list[dict[str, Any]] = [
        {"id": THREAD, "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None, "git": {"branch": "dev"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list files"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one file"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "thanks"}]},
    ]
    played = Play(rows)
    assert [event.type for event in played.events[:4]] == [
        "session_meta",
        "unknown",
        "response_item/message",
        "response_item/reasoning",
    ]
    assert played.of(a.SessionInfo) == [a.SessionInfo(branch="dev")]
    assert [act.prompt for act in played.of(a.TurnBegin)] == ["list files", "thanks"]
    assert played.of(a.TurnEnd) == [a.TurnEnd()]
    assert len(played.of(a.StepBegin)) == 2
    assert [piece.text for piece in played.content] == [
        "list files",
        "hm",
        '{"command":["ls"]}',
        "a",
        "one file",
        "thanks",
    ]


# -- keys and odd lines ---------------------------------------------------------------------------------------

SOURCE = Source(agent="codex", session_id=THREAD)


def test_ordinals_are_keys() -> None:
    """In paginated mode every line has a unique key; an ordinal that is used again is another line."""
    keys = [event.key for event in play(ROLLOUT).events]
    assert None not in keys
    assert len(set(keys)) == len(keys) == 37
    again = codex.decode(json.dumps({**said("x", 59), "ordinal": 3}).encode(), SOURCE)
    assert isinstance(again, Event)
    assert again.key not in keys


def test_lines_without_an_ordinal_have_no_key() -> None:
    """Nothing in them is unique: equal lines with equal times are real, and each is an event."""
    assert {event.key for event in Play([meta(), said("x"), said("x")]).events} == {None}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"timestamp":5,"type":"event_msg","payload":{"type":"token_count"}}', "event_msg/token_count"),
        (b'{"type":"event_msg","payload":"text"}', "event_msg"),
        (b'{"type":7,"payload":{"type":"x"}}', "unknown/x"),
        (b'{"type":"brand_new","payload":{}}', "brand_new"),
        (b'{"type":"response_item","payload":{"type":"message","role":5}}', "response_item/message"),
        (b'{"type":"event_msg","payload":{"type":"error","message":"\\ud83d"}}', "event_msg/error"),
        (b"{}", "unknown"),
    ],
)
def test_odd_objects_are_events(line: bytes, kind: str) -> None:
    """One odd field costs that field, not the line; unknown types are events."""
    event = codex.decode(line, SOURCE)
    assert isinstance(event, Event)
    assert event.type == kind


def test_a_torn_line_gives_back_the_whole_one_inside() -> None:
    """Two processes on one thread: the second one's line is saved."""
    whole = json.dumps(said("x"))
    torn = codex.decode(f'{{"timestamp":"2026-11-15T09:0{whole}'.encode(), SOURCE)
    assert torn == Unusable("not a JSON object", harmless=False, salvaged=(whole.encode(),))


def run(line: bytes, memory: dict[str, Any]) -> None:
    event = codex.decode(line, SOURCE)
    assert event == codex.decode(line, SOURCE)
    if isinstance(event, Event):
        list(codex.acts(event, SOURCE, memory))
        codex.content(event, SOURCE)
        msgspec.msgpack.encode(memory)
    codex.recognise(Path("rollout-x.jsonl"), line)


@given(st.binary(max_size=300))
def test_no_bytes_raise(line: bytes) -> None:
    """Whatever the bytes of a line, it is an event or unusable, the same each time."""
    run(line, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def distorted(value: object, draw: st.DrawFn) -> object:
    """The same object with some of its values replaced by any others."""
    if draw(st.integers(0, 7)) == 0:
        return draw(JSON)
    if isinstance(value, dict):
        return {key: distorted(inner, draw) for key, inner in value.items()}
    if isinstance(value, list):
        return [distorted(inner, draw) for inner in value[:3]]
    return value


SHAPES: list[dict[str, Any]] = [
    meta(source={"subagent": {"thread_spawn": {"parent_thread_id": OLD_THREAD}}}, git={"branch": "b"}),
    *turn(NEW_TURN, said("x"), call("c"), count(100, 100), answer("c")),
    event_msg("entered_review_mode", user_facing_hint="h"),
    event_msg("exited_review_mode"),
    event_msg("turn_aborted", turn_id=NEW_TURN, reason="interrupted"),
    event_msg("item_completed", item={"type": "CommandExecution", "id": "c", "duration": {"secs": 1, "nanos": 1}}),
    event_msg("thread_settings_applied", thread_settings={"model": "m"}),
    row("token_usage_record", 1, {"response_id": "r", "usage": breakdown(100)}),
    row("compacted", 1, {"message": "m", "replacement_history": []}),
]


@st.composite
def distorted_logs(draw: st.DrawFn) -> list[bytes]:
    shapes = draw(st.lists(st.sampled_from(SHAPES), max_size=8))
    return [json.dumps(distorted(shape, draw)).encode() for shape in shapes]


@given(distorted_logs())
def test_no_object_raises(log: list[bytes]) -> None:
    """Lines that almost fit, in any order, never raise, and what is remembered can always be stored."""
    memory: dict[str, Any] = {}
    for line in log:
        run(line, memory)


def steps_of_a_thread(draw: st.DrawFn) -> Iterator[tuple[int, int]]:
    total = 0
    for _ in range(draw(st.integers(1, 12))):
        last = draw(st.integers(1, 5)) * 100
        total = last if draw(st.integers(0, 5)) == 0 else total + last
        yield total, last


@st.composite
def threads(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Responses as (total, last, how often the count is written), with resets."""
    return [(total, last, draw(st.integers(1, 3))) for total, last in steps_of_a_thread(draw)]


@given(threads())
def test_every_response_counts_once(thread: list[tuple[int, int, int]]) -> None:
    """However often counts are repeated and totals reset, the sum is that of the responses."""
    rows = [meta(), event_msg("user_message", message="go")]
    for number, (total, last, times) in enumerate(thread):
        rows += [call(f"c{number}"), *(count(total, last, second) for second in range(times)), answer(f"c{number}")]
    before: int | None = None
    expected = 0
    for total, last, _ in thread:
        expected += 0 if total == before else last + last // 10
        before = total
    assert Play(rows).total == expected
