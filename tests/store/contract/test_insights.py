"""Figures of tools and models are those that one gets by looking at every span of every session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agenttrace.model import Session
from agenttrace.store.insights import InsightCall, InsightQuery, InsightSplit, ModelFigures, ToolFigures
from agenttrace.store.questions import SessionFilter, SpanRow
from agenttrace.store.store import Store

from .machine import store_of
from .work import AGENT, BASE, MODELS, PROJECTS, TOOLS, random_work

#: A seed cannot be made simpler.
few = settings(max_examples=12, phases=(Phase.explicit, Phase.generate))
seeds = st.integers(0, 2**32)
_moments = st.none() | st.integers(0, 160_000).map(lambda second: (BASE + second) * 1_000_000)
_splits: st.SearchStrategy[InsightSplit] = st.sampled_from(("total", "agent", "project", "model"))


def _some(values: Iterable[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.just(frozenset[str]()) | st.frozensets(st.sampled_from(sorted(values)), max_size=2)


queries = st.builds(
    InsightQuery,
    since=_moments,
    until=_moments,
    agents=_some((AGENT, "codex")),
    projects=_some(project or "" for project in PROJECTS),
    project_contains=st.none() | st.sampled_from(("SHOP", "äpf", "nowhere")),
    models=_some((*(model for model in MODELS if model), "")),
)


class Call(NamedTuple):
    """A tool call or model call, and what it is grouped by."""

    session: Session
    row: SpanRow
    model: str
    ms: int | None
    error: str | None


def stored_rows(store: Store) -> Iterator[tuple[Session, list[SpanRow]]]:
    """All sessions, each with its spans."""
    for session in store.sessions():
        # Spans as they are stored: what a session that is over shows of those that its log left open is a guess.
        rows = store.span_rows(session, attributes=True)
        yield session, [row._replace(status="open") if row.ended_by else row for row in rows]


def _attributes(row: SpanRow) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(row.attributes) if row.attributes else {}
    return found


def _error(row: SpanRow) -> str | None:
    error = _attributes(row).get("error")
    return None if error is None else str(error)


def _milliseconds(micros: int | None) -> int | None:
    return micros // 1000 if micros else None


def every_tool_call(store: Store) -> Iterator[Call]:
    """Every tool call; those of a fork that only repeats them are left out."""
    for session, rows in stored_rows(store):
        steps = {row.span_id: row for row in rows}
        for row in rows:
            asker = steps.get(row.parent_id or b"")
            if row.kind != "tool" or (session.parent is not None and asker is not None and not asker.counted):
                continue
            facts = _attributes(row)
            length = facts.get("duration", None if row.end is None else row.end - row.start)
            assert length is None or isinstance(length, int)
            known = row.status in ("ok", "error")
            model = asker.model if asker is not None else None
            yield Call(session, row, model or "", _milliseconds(length) if known else None, _error(row))


def every_model_call(store: Store) -> Iterator[Call]:
    """Every model call whose response counts in its own session."""
    for session, rows in stored_rows(store):
        for row in rows:
            if row.kind == "step" and row.counted:
                tools = [each for each in rows if each.kind == "tool" and each.parent_id == row.span_id]
                length = None if row.status != "ok" else _answered_at(row, tools) - row.start
                model = row.billed_model or row.model or ""
                ms = _milliseconds(length) if length is not None and length > 0 else None
                yield Call(session, row, model, ms, _error(row))


def _answered_at(step: SpanRow, tools: Sequence[SpanRow]) -> int:
    """When the model had answered: at the latest when its last tool was called."""
    assert step.end is not None
    if not tools:
        return step.end
    first, last = min(each.start for each in tools), max(each.start for each in tools)
    ends = [each.end for each in tools if each.end is not None and each.status != "open"]
    return last if not ends or last <= min(ends) else first


def matches(query: InsightQuery, call: Call) -> bool:
    """Whether a call matches a query: the meaning of the query."""
    wanted = SessionFilter(agents=query.agents, projects=query.projects, project_contains=query.project_contains)
    return (
        wanted.matches(call.session, ())
        and (query.since is None or call.row.start >= query.since)
        and (query.until is None or call.row.start < query.until)
        and (not query.models or call.model in query.models)
    )


def _part(split: InsightSplit, call: Call) -> str:
    return {"total": "", "agent": call.session.agent, "project": call.session.project or "", "model": call.model}[split]


def percentile(values: Sequence[int], hundredths: int) -> int | None:
    """The smallest value that at least so many hundredths of the values do not exceed."""
    ranked = sorted(values)
    return next((each for place, each in enumerate(ranked, 1) if place * 100 >= hundredths * len(ranked)), None)


def _grouped(calls: Iterable[Call], key: Callable[[Call], tuple[str, str]]) -> list[tuple[tuple[str, str], list[Call]]]:
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call)
    return sorted(groups.items())


def tool_of(call: Call) -> str:
    """The tool of a call."""
    return call.row.name.removeprefix("execute_tool ")


def _tool_figures(key: tuple[str, str], calls: list[Call]) -> ToolFigures:
    lengths = [call.ms for call in calls if call.ms is not None]
    return ToolFigures(
        *key,
        calls=len(calls),
        failures=sum(call.row.status == "error" for call in calls),
        cancelled=sum(call.row.status == "cancelled" for call in calls),
        sessions=len({call.session.id for call in calls}),
        last_at=max(call.row.start for call in calls),
        timed=len(lengths),
        total_ms=sum(lengths) if lengths else None,
        p50_ms=percentile(lengths, 50),
        p95_ms=percentile(lengths, 95),
        max_ms=max(lengths, default=None),
    )


def _model_figures(key: tuple[str, str], calls: list[Call]) -> ModelFigures:
    timed = [(call.ms, call) for call in calls if call.ms is not None]
    lengths = [ms for ms, _ in timed]
    written = [(ms, call.row.output_tokens) for ms, call in timed if call.row.output_tokens and not call.row.estimated]
    return ModelFigures(
        *key,
        calls=len(calls),
        errors=sum(call.row.status == "error" for call in calls),
        sessions=len({call.session.id for call in calls}),
        turns=len({call.row.turn_index for call in calls}),
        last_at=max(call.row.start for call in calls),
        timed=len(lengths),
        p50_ms=percentile(lengths, 50),
        p95_ms=percentile(lengths, 95),
        max_ms=max(lengths, default=None),
        output_tokens=sum(tokens for _, tokens in written),
        output_ms=sum(ms for ms, _ in written),
    )


@few
@given(seed=seeds, asked=st.lists(st.tuples(queries, _splits), min_size=12, max_size=12))
def test_tools_are_those_of_all_calls(seed: int, asked: list[tuple[InsightQuery, InsightSplit]]) -> None:
    """However calls are filtered and divided, counts and percentiles are those of the calls themselves."""
    with store_of(random_work(seed)) as store:
        calls = list(every_tool_call(store))
        for query, split in [(InsightQuery(), "total"), *asked]:
            found = [call for call in calls if matches(query, call)]
            groups = _grouped(found, lambda call, split=split: (tool_of(call), _part(split, call)))  # type: ignore[misc]
            assert store.tool_figures(query, split) == [_tool_figures(key, group) for key, group in groups]


@few
@given(seed=seeds, asked=st.lists(st.tuples(queries, _splits), min_size=12, max_size=12))
def test_models_are_those_of_all_calls(seed: int, asked: list[tuple[InsightQuery, InsightSplit]]) -> None:
    """A model's figures are those of its calls; what only repeats another session is counted there."""
    with store_of(random_work(seed)) as store:
        calls = list(every_model_call(store))
        turns = {(call.session.id, call.row.stream, call.row.turn_index): index for index, call in enumerate(calls)}
        calls = [
            call._replace(
                row=call.row._replace(turn_index=turns[call.session.id, call.row.stream, call.row.turn_index])
            )
            for call in calls
        ]
        for query, split in [(InsightQuery(), "total"), *asked]:
            found = [call for call in calls if matches(query, call)]
            part: InsightSplit = "total" if split == "model" else split
            groups = _grouped(found, lambda call, part=part: (call.model, _part(part, call)))  # type: ignore[misc]
            assert store.model_figures(query, split) == [_model_figures(key, group) for key, group in groups]


def _listed(calls: Iterable[Call]) -> list[InsightCall]:
    return [
        InsightCall(
            call.session.id, call.row.span_id, call.row.start, call.row.turn_index, call.ms, call.row.status, call.error
        )
        for call in calls
    ]


@few
@given(seed=seeds, query=queries, limit=st.integers(1, 5))
def test_the_calls_behind_the_figures(seed: int, query: InsightQuery, limit: int) -> None:
    """The latest failures and the longest calls, of a tool and of models."""
    with store_of(random_work(seed)) as store:
        for tool in (*sorted(set(TOOLS)), None):
            every = every_model_call(store) if tool is None else every_tool_call(store)
            found = [call for call in every if matches(query, call) and (tool is None or tool_of(call) == tool)]
            failed = [call for call in found if call.row.status == "error"]
            failed.sort(key=lambda call: (-call.row.start, call.row.span_id))
            slow = [call for call in found if call.ms is not None]
            slow.sort(key=lambda call: (-(call.ms or 0), -call.row.start, call.row.span_id))
            for order, expected in (("failed", failed), ("slow", slow)):
                if tool is None:
                    assert store.model_calls(query, order, limit) == _listed(expected[:limit])  # type: ignore[arg-type]
                else:
                    assert store.tool_calls(query, tool, order, limit) == _listed(expected[:limit])  # type: ignore[arg-type]
