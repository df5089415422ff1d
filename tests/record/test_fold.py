"""Folding: acts become well-formed spans, and where batches begin and end changes nothing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agenttrace import ids
from agenttrace.model import Span, Usage
from agenttrace.record.ingest import acts as a
from agenttrace.record.ingest import fold
from agenttrace.record.ingest.fold import Folder, StreamState
from agenttrace.store.sqlite.ledger import weight

#: An event as the pipeline hands it over: when it was written, and what it means.
Happening = tuple[int | None, list[a.Act]]

_encode = msgspec.msgpack.Encoder().encode
_state = msgspec.msgpack.Decoder(StreamState)
_span = msgspec.msgpack.Decoder(Span)


class Folded:
    """What a store would have after some batches of one stream."""

    def __init__(self) -> None:
        self.state = StreamState()
        self.rows: dict[bytes, Span] = {}
        self.touched: list[bytes | None] = []
        #: What the ledger would make of the claims: tokens, whether estimated, earliest time, mentions.
        self.usage: dict[bytes, tuple[Usage, bool, int, int]] = {}
        self.counts: Counter[str] = Counter()
        self.fed = 0

    def feed(self, batch: Iterable[Happening], *, restart: bool = True) -> Folded:
        """Fold a batch; ``restart``: the state goes through the store, as after a kill."""
        if restart:
            self.state = _state.decode(_encode(self.state))
        folder = Folder("session", "main", "agent", self.state)
        for at, acts in batch:
            self.fed += 1
            span = folder.feed(self.fed.to_bytes(16, "big"), at, acts)
            self.touched.append(None if span is None else span.span_id)
        self.rows |= {span_id: _span.decode(_encode(span)) for span_id, span in folder.changed.items()}
        for response, fact in folder.usage.items():
            usage, estimated, at, mentions = self.usage.get(response, (fact.usage, fact.estimated, fact.at, 0))
            if weight(fact.usage, fact.estimated) > weight(usage, estimated):
                usage, estimated = fact.usage, fact.estimated
            self.usage[response] = (usage, estimated, min(at, fact.at), mentions + fact.copies + 1)
        self.counts["turn"] += folder.new_turns
        self.counts["step"] += folder.new_steps
        self.counts["tool"] += folder.new_tools
        self.counts["errors"] += folder.new_errors
        return self

    def spans(self, kind: str) -> list[Span]:
        """The spans of a kind, in the order in which they were opened."""
        return [span for span in self.rows.values() if span.kind == kind]

    def only(self, kind: str) -> Span:
        """The one span of this kind."""
        (span,) = self.spans(kind)
        return span

    def tool(self, call: str) -> Span:
        """The span of a tool call."""
        (span,) = (span for span in self.spans("tool") if span.attributes["call"] == call)
        return span

    def tokens(self, span: Span) -> Usage | None:
        """The tokens of a step."""
        return None if span.response is None else self.usage[span.response][0]

    def outcome(self) -> tuple[object, ...]:
        """Everything that a store would keep, comparable."""
        return self.rows, self.touched, self.usage, +self.counts, _encode(self.state)


def folded(*happenings: Happening) -> Folded:
    """All happenings, each in a separate batch."""
    result = Folded()
    for happening in happenings:
        result.feed([happening])
    return result


STEPS = st.sampled_from([None, "s1", "s2", "s3"])
CALLS = st.sampled_from(["c1", "c2", "c3"])
TURNS = st.sampled_from([None, "t1", "t2"])
STATUSES = st.sampled_from(["ok", "error", "cancelled"])
USAGES = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
ACTS: st.SearchStrategy[a.Act] = st.one_of(
    st.builds(a.TurnBegin, prompt=st.none() | st.just("p"), origin=st.sampled_from(["user", "task"]), turn=TURNS),
    st.builds(a.TurnEnd, status=STATUSES, error=st.none() | st.just("e"), turn=TURNS),
    st.builds(a.StepBegin, step=STEPS, n=st.none() | st.integers(1, 9), implied=st.booleans()),
    st.builds(a.StepEnd, step=STEPS, status=STATUSES, error=st.none() | st.just("e")),
    st.builds(a.ToolBegin, CALLS, st.just("Shell"), step=STEPS, subagent=st.booleans()),
    st.builds(a.ToolArguments, call=st.none() | CALLS),
    st.builds(a.ToolEnd, CALLS, status=STATUSES, duration=st.none() | st.integers(0, 9)),
    st.builds(
        a.ResponseUsage,
        st.sampled_from(["r1", "r2"]),
        USAGES,
        model=st.sampled_from([None, "m1", "m2"]),
        step=STEPS,
        estimated=st.booleans(),
        detached=st.booleans(),
    ),
    st.builds(a.Error, st.just("broken"), scope=st.sampled_from(["step", "turn"])),
    st.builds(a.Note, st.sampled_from(["retry", "compaction"])),
    st.builds(a.Waiting),
    st.builds(a.SessionInfo, model=st.none() | st.just("m1"), ended=st.sampled_from([None, None, True])),
)
HAPPENINGS = st.lists(st.tuples(st.none() | st.integers(0, 50), st.lists(ACTS, max_size=4)), min_size=1, max_size=30)
SPLITS = st.lists(st.integers(0, 30), max_size=8)


def cut(happenings: Sequence[Happening], places: Iterable[int]) -> list[Sequence[Happening]]:
    """The happenings in batches that end at these places."""
    ends = sorted({0, len(happenings), *(place for place in places if place < len(happenings))})
    return [happenings[start:end] for start, end in itertools.pairwise(ends)]


@given(HAPPENINGS, SPLITS, st.booleans())
def test_batches_change_nothing(happenings: list[Happening], places: list[int], restart: bool) -> None:
    """Any split into batches, with the state kept or stored in between, gives the spans of one single batch."""
    whole, parts = Folded().feed(happenings), Folded()
    for batch in cut(happenings, places):
        parts.feed(batch, restart=restart)
    assert parts.outcome() == whole.outcome()


@given(HAPPENINGS)
def test_spans_are_well_formed(happenings: list[Happening]) -> None:
    """Turns are roots, steps are in a turn, tools in a step, all in one trace, none ends before it starts."""
    result = Folded().feed(happenings)
    rows = result.rows
    for span in rows.values():
        assert span.end is None or span.end >= span.start
        assert (span.end is None) == (span.status == "open")
        if span.kind == "turn":
            assert span.parent_id is None
            continue
        assert span.parent_id is not None
        parent = rows[span.parent_id]
        assert parent.kind == {"step": "turn", "tool": "step"}[span.kind]
        assert (span.trace_id, span.turn_index) == (parent.trace_id, parent.turn_index)
    traces = Counter(span.trace_id for span in result.spans("turn"))
    assert set(traces.values()) <= {1}
    assert {span_id for span_id in result.touched if span_id is not None} <= set(rows)


@given(HAPPENINGS)
def test_counts_are_the_number_of_spans(happenings: list[Happening]) -> None:
    """What a session's row counts is what its spans show; a turn that failed with a model call adds no error."""
    result = Folded().feed(happenings)
    shown = Counter(span.kind for span in result.rows.values())
    failed = [span for span in result.rows.values() if span.status == "error"]
    shown["errors"] = sum("failed_step" not in span.attributes for span in failed)
    assert +result.counts == +shown
    for turn in (span for span in failed if "failed_step" in span.attributes):
        assert any(step.kind == "step" and step.parent_id == turn.span_id for step in failed)


def test_a_failure_counts_once() -> None:
    """A model call that fails and ends its turn is one failure; a turn that is taken up again is none."""
    failed = [a.TurnBegin(turn="t"), a.StepBegin("s"), a.StepEnd("s", "error", "away"), a.TurnEnd("error", "away", "t")]
    result = Folded().feed([(1, failed)])
    assert [span.status for span in result.rows.values()] == ["error", "error"]
    assert result.counts["errors"] == 1
    assert Folded().feed([(1, failed), (2, [a.TurnBegin(turn="t"), a.TurnEnd(turn="t")])]).counts["errors"] == 1


@given(HAPPENINGS)
def test_nothing_stays_open_after_the_end(happenings: list[Happening]) -> None:
    """When the session ends, whatever the log left open is closed, and marked where nothing said how it ended."""
    result = Folded().feed([*happenings, (50, [a.SessionInfo(ended=True)])])
    assert result.state.state == "ended"
    for span in result.rows.values():
        assert span.status != "open", span
        if span.status == "unclosed":
            assert span.kind == "step" or "closed_by" in span.attributes
        else:
            assert "closed_by" not in span.attributes


@given(HAPPENINGS, st.sampled_from([a.TurnBegin(turn="next"), a.TurnEnd()]))
def test_a_turn_leaves_nothing_open(happenings: list[Happening], end: a.Act) -> None:
    """After the end of a turn, or the beginning of the next, only that next turn is open."""
    result = Folded().feed([*happenings, (50, [end])])
    still_open = [span for span in result.rows.values() if span.status == "open"]
    assert [span.kind for span in still_open] == ["turn"] * isinstance(end, a.TurnBegin)


@given(HAPPENINGS)
def test_every_usage_reaches_the_ledger(happenings: list[Happening]) -> None:
    """Each mention is counted, and of one response's mentions the largest output is handed on, whole record."""
    result = Folded().feed(happenings)
    said: dict[bytes, list[Usage]] = {}
    for _, acts in happenings:
        for act in acts:
            if isinstance(act, a.ResponseUsage):
                said.setdefault(ids.response_key(act.response), []).append(act.usage)
    assert result.usage.keys() == said.keys()
    for response, (usage, _, _, mentions) in result.usage.items():
        assert usage in said[response]
        assert usage.output_tokens == max(mention.output_tokens for mention in said[response])
        assert mentions == len(said[response])


@given(HAPPENINGS)
def test_usage_sits_on_steps_alone(happenings: list[Happening]) -> None:
    """Every response of the ledger's is named by a step, and by nothing else."""
    result = Folded().feed(happenings)
    named = {span.response for span in result.spans("step")} - {None}
    assert named <= result.usage.keys()
    assert all(span.response is None for span in result.rows.values() if span.kind != "step")


# -- examples -----------------------------------------------------------------------------------------------------


def test_a_turn_with_a_tool() -> None:
    """The plain case: a prompt, a model call that asks for a tool, its answer, a second call, the end."""
    result = folded(
        (10, [a.TurnBegin("list the files")]),
        (11, [a.StepBegin("s1", 1, "kimi-k2.5")]),
        (13, [a.ToolBegin("c1", "Shell"), a.ResponseUsage("r1", Usage(output_tokens=7)), a.StepEnd("s1")]),
        (19, [a.ToolEnd("c1")]),
        (20, [a.StepBegin("s2", 2)]),
        (25, [a.StepEnd("s2", finish_reason="stop"), a.TurnEnd()]),
    )
    turn, (first, second) = result.only("turn"), result.spans("step")
    assert (turn.start, turn.end, turn.status, turn.turn_index) == (10, 25, "ok", 0)
    assert turn.attributes == {"prompt": "list the files"}
    assert (first.name, first.start, first.end, first.step_n) == ("chat kimi-k2.5", 11, 13, 1)
    assert result.tokens(first) == Usage(output_tokens=7)
    assert (second.start, second.end, second.attributes) == (20, 25, {"finish_reason": "stop"})
    tool = result.tool("c1")
    assert (tool.name, tool.start, tool.end, tool.status) == ("execute_tool Shell", 13, 19, "ok")
    assert (tool.parent_id, tool.trace_id) == (first.span_id, turn.trace_id)
    assert result.state.state == "waiting"


def test_a_killed_agent() -> None:
    """The log stops in mid-tool and goes on with a new prompt: everything is closed where the log stopped."""
    result = folded(
        (10, [a.TurnBegin("one")]),
        (11, [a.StepBegin("s1")]),
        (12, [a.ToolBegin("c1", "Shell")]),
        (90, [a.TurnBegin("two")]),
    )
    first, second = result.spans("turn")
    assert (first.status, first.end, first.attributes["closed_by"]) == ("unclosed", 12, "next turn")
    assert (result.only("step").status, result.only("step").end) == ("unclosed", 12)
    tool = result.tool("c1")
    assert (tool.status, tool.end, tool.attributes["closed_by"]) == ("unclosed", 12, "end of turn")
    assert (second.status, second.start, second.turn_index) == ("open", 90, 1)


def test_a_step_whose_usage_came_was_complete() -> None:
    """Agents that never write ends: a model call counts as complete when its usage is there."""
    result = folded(
        (10, [a.TurnBegin()]),
        (11, [a.StepBegin("s1")]),
        (12, [a.ResponseUsage("r", Usage(output_tokens=1))]),
        (90, [a.TurnBegin()]),
    )
    assert (result.only("step").status, result.only("step").end) == ("ok", 12)


def test_the_end_of_the_session_closes_the_turn() -> None:
    """A goodbye in mid-turn closes it and says by what; going on later opens it again, unmarked."""
    happenings: list[Happening] = [
        (10, [a.TurnBegin("one", turn="t")]),
        (12, [a.SessionInfo(ended=True)]),
    ]
    turn = folded(*happenings).only("turn")
    assert (turn.status, turn.attributes["closed_by"]) == ("unclosed", "end of session")
    again = folded(*happenings, (20, [a.TurnBegin(turn="t")])).only("turn")
    assert (again.status, again.end, again.attributes) == ("open", None, {"prompt": "one"})


def test_parallel_tools() -> None:
    """Calls of one step are answered in any order, each answer closes its own."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1")]),
        (11, [a.ToolBegin("c1", "Read"), a.ToolBegin("c2", "Grep"), a.ToolBegin("c3", "Shell")]),
        (12, [a.ToolEnd("c3", "error", "exit 1")]),
        (15, [a.ToolEnd("c1")]),
        (16, [a.ToolEnd("c2", "cancelled")]),
    )
    ends = {call: (result.tool(call).status, result.tool(call).end) for call in ("c1", "c2", "c3")}
    assert ends == {"c1": ("ok", 15), "c2": ("cancelled", 16), "c3": ("error", 12)}
    assert result.tool("c3").attributes["error"] == "exit 1"
    assert {span.parent_id for span in result.spans("tool")} == {result.only("step").span_id}


def test_a_late_result() -> None:
    """An answer that comes after its turn ended, or two turns later, still closes its own call."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1"), a.ToolBegin("c1", "Shell")]),
        (20, [a.TurnEnd()]),
        (30, [a.TurnBegin(), a.StepBegin("s2"), a.ToolBegin("c2", "Shell")]),
        (40, [a.ToolEnd("c1", duration=7)]),
    )
    late = result.tool("c1")
    assert (late.status, late.end, late.attributes) == (
        "ok",
        40,
        {"call": "c1", "tool": "Shell", "duration": 7},
    )
    assert late.trace_id == result.spans("turn")[0].trace_id
    assert result.tool("c2").status == "open"
    assert result.touched[-1] == late.span_id


def test_the_same_call_id_in_two_steps() -> None:
    """Models that count their calls per conversation use an id again: two steps, two spans."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1"), a.ToolBegin("Shell:0", "Shell")]),
        (11, [a.ToolEnd("Shell:0")]),
        (12, [a.StepBegin("s2"), a.ToolBegin("Shell:0", "Shell")]),
        (13, [a.ToolEnd("Shell:0", "error")]),
    )
    assert [span.status for span in result.spans("tool")] == ["ok", "error"]


def test_a_call_that_is_logged_again_after_its_answer() -> None:
    """The call of an answered tool, logged once more, neither opens it again nor counts twice."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1"), a.ToolBegin("c1", "Shell")]),
        (11, [a.ToolEnd("c1")]),
        (12, [a.StepBegin("s1"), a.ToolBegin("c1", "Shell")]),
        (13, [a.TurnEnd()]),
    )
    assert (result.tool("c1").status, result.tool("c1").end) == ("ok", 11)
    assert result.counts["tool"] == 1


def test_an_orphan_result() -> None:
    """The answer to a call that is not in the log is noted on the turn and makes no span."""
    result = folded((10, [a.TurnBegin()]), (11, [a.ToolEnd("never begun")]))
    assert result.only("turn").attributes["notes"] == {"orphan result": 1}
    assert result.spans("tool") == []


def test_argument_fragments() -> None:
    """A fragment with its call's id goes to that call, one without to the latest call."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1"), a.ToolBegin("c1", "Read"), a.ToolBegin("c2", "Grep")]),
        (11, [a.ToolArguments()]),
        (12, [a.ToolArguments("c1")]),
        (13, [a.ToolArguments()]),
    )
    assert result.touched[1:] == [
        result.tool("c2").span_id,
        result.tool("c1").span_id,
        result.tool("c2").span_id,
    ]


def test_a_step_that_is_entered_again() -> None:
    """A line of an earlier model call goes back to it; both calls end with their turn."""
    result = folded(
        (10, [a.TurnBegin(), a.StepBegin("s1")]),
        (11, [a.StepBegin("s2")]),
        (12, [a.StepBegin("s1"), a.ToolBegin("c1", "Read")]),
        (13, [a.ToolEnd("c1"), a.TurnEnd()]),
    )
    first, second = result.spans("step")
    assert result.tool("c1").parent_id == first.span_id
    assert (first.status, second.status, second.end) == ("ok", "ok", 13)
    assert result.counts["step"] == 2


def test_work_before_any_prompt() -> None:
    """A file that begins in mid-turn: its work is turn -1, the next prompt is turn 0."""
    result = folded((10, [a.StepBegin("s1")]), (11, [a.TurnBegin("hello")]))
    assert [(turn.turn_index, turn.status) for turn in result.spans("turn")] == [(-1, "unclosed"), (0, "open")]
    assert result.spans("turn")[0].attributes["origin"] == "unknown"


def test_two_unnamed_calls_in_one_line() -> None:
    """One line may tell of several model calls; each has its own span and its own tokens."""
    usage = [Usage(output_tokens=number) for number in (3, 5)]
    result = folded(
        (10, [a.TurnBegin()]),
        (11, [a.ResponseUsage(f"r{tokens.output_tokens}", tokens, detached=True) for tokens in usage]),
    )
    assert [result.tokens(span) for span in result.spans("step")] == usage
    assert len({span.span_id for span in result.spans("step")}) == 2


def test_a_failed_turn_that_goes_on() -> None:
    """A turn that failed and was taken up again counts as an error only if it fails in the end."""
    happenings: list[Happening] = [
        (10, [a.TurnBegin("p", turn="t")]),
        (11, [a.TurnEnd("error", "overloaded", turn="t")]),
        (12, [a.TurnBegin(turn="t")]),
    ]
    good = folded(*happenings, (13, [a.TurnEnd(turn="t")]))
    bad = folded(*happenings, (13, [a.TurnEnd("error", "again", turn="t")]))
    assert (good.only("turn").status, good.counts["errors"]) == ("ok", 0)
    assert (bad.only("turn").status, bad.counts["errors"]) == ("error", 1)


def test_the_end_of_another_turn_is_ignored() -> None:
    """An end that names a turn which is not the open one closes nothing."""
    result = folded((10, [a.TurnBegin(turn="t1")]), (11, [a.TurnBegin(turn="t2")]), (12, [a.TurnEnd(turn="t1")]))
    assert [turn.status for turn in result.spans("turn")] == ["unclosed", "open"]


def test_usage_that_grows_while_streaming() -> None:
    """The largest output wins, with its whole record, whichever line it is on."""
    placeholder, final = Usage(input_tokens=9, output_tokens=1), Usage(input_tokens=8, output_tokens=40)
    for order in ([placeholder, final], [final, placeholder]):
        said: list[a.Act] = [a.ResponseUsage("r", usage, step="s1") for usage in order]
        result = folded((10, [a.TurnBegin(), a.StepBegin("s1")]), *((11, [act]) for act in said))
        assert result.tokens(result.only("step")) == final


def test_a_long_session_stays_small() -> None:
    """What a stream remembers is bounded however many calls, steps and turns it has; what it forgets is closed."""
    sizes = []
    result = Folded()
    for number in range(3_000):
        result.feed(
            [
                (number, [a.StepBegin(f"s{number}"), a.ToolBegin(f"c{number}", "Shell")]),
                (number, [a.StepBegin("the one that is always open")]),
            ],
            restart=False,
        )
        sizes.append(len(_encode(result.state)))
    assert max(sizes[1_000:]) < 1.1 * max(sizes[:1_000])
    assert len(result.state.steps) <= fold.REMEMBERED_STEPS
    assert result.counts["step"] == len(result.spans("step"))
    remembered = {span.span_id for span in (*result.state.calls.values(), *result.state.steps.values())}
    assert [span for span in result.spans("tool") if span.status == "open" and span.span_id not in remembered] == []
    assert [span for span in result.spans("step") if span.status == "open" and span.span_id not in remembered] == []


def test_spans_have_previews_only() -> None:
    """A long prompt or error is cut on its span; the raw line has the whole."""
    long = "x" * 10_000
    begun: list[a.Act] = [a.TurnBegin(long), a.StepBegin("s"), a.ToolBegin("c", "tool")]
    ended: list[a.Act] = [a.ToolEnd("c", "error", long), a.StepEnd("s", "error", long), a.TurnEnd("error", long)]
    folded = Folded().feed([(1, begun), (2, ended)])
    turn, step, tool = (folded.only(kind).attributes for kind in ("turn", "step", "tool"))
    assert turn["prompt"] == long[: fold.PROMPT_PREVIEW]
    assert turn["error"] == step["error"] == tool["error"] == long[: fold.ERROR_PREVIEW]


def test_a_compaction_between_turns_leaves_the_agent_waiting() -> None:
    """A model call of the agent itself after the turn is a turn that is over; within a turn it is part of it."""
    turn: list[Happening] = [(1, [a.TurnBegin("go")]), (2, [a.StepBegin("s")]), (3, [a.StepEnd("s"), a.TurnEnd()])]
    usage = a.ResponseUsage("r", Usage(input_tokens=5), detached=True)
    after = Folded().feed([*turn, (4, [usage])])
    assert (after.state.state, after.state.turns) == ("waiting", 2)
    assert {span.status for span in after.rows.values()} == {"ok"}
    within = Folded().feed([*turn[:2], (3, [usage])])
    assert (within.state.state, within.state.turns) == ("working", 1)
