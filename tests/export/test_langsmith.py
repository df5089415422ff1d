"""LangSmith: requests equal those of its own client and follow its rules, and its answers are understood."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langsmith import Client
from langsmith import schemas as ls_schemas
from langsmith._internal._uuid import is_uuid_v7

from agenttrace.destinations import DestinationSettings
from agenttrace.export.langsmith import LangSmithDestination, multipart
from agenttrace.export.langsmith_runs import run_of, span_uuid
from agenttrace.export.span import ExportSpan, Text
from agenttrace.model import Usage
from export.fake_langsmith import KEY, FakeLangSmith, RefusedError, judge, read_runs
from export.faulty_server import Fault
from export.span_making import START, make_span, span_tree, trees

DAY = 24 * 3600 * 1_000_000
MULTIPART = "multipart/form-data; boundary=edge"
#: The first request reads ``/info``.
CAN_NOTHING = Fault(body=b"{}")


def settings(url: str = "http://127.0.0.1:1", **changes: Any) -> DestinationSettings:  # noqa: ANN401 - any setting
    fields: dict[str, Any] = {"name": "ls", "type": "langsmith", "url": url, "api_key": KEY, "project": "shop"}
    return DestinationSettings(**(fields | changes))


def now() -> int:
    return int(time.time() * 1_000_000)


def runs_of(spans: Sequence[ExportSpan], **changes: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 - any setting
    """The runs of spans, as a server reads them."""
    body = multipart((run_of(span, settings(**changes)) for span in spans), "edge")
    return read_runs(MULTIPART, body)


# -- ids ------------------------------------------------------------------------------------------------------------

_micros = st.integers(0, 9_000_000_000_000_000)


@given(trace=st.binary(min_size=16, max_size=16), span=st.binary(min_size=8, max_size=8), start=_micros)
def test_an_id_is_a_uuid_of_version_7_that_begins_with_the_start_and_never_changes(
    trace: bytes, span: bytes, start: int
) -> None:
    """Whenever and wherever it is made, the id of a span is the same, and LangSmith's own check takes it."""
    made = span_uuid("shop", trace, span, start)
    assert is_uuid_v7(made)
    assert made.variant == "specified in RFC 4122"
    assert made.int >> 80 == start // 1_000
    assert made == span_uuid("shop", trace, span, start)
    assert made != span_uuid("another project", trace, span, start)


@given(ids=st.lists(st.binary(min_size=8, max_size=8), min_size=2, max_size=2), starts=st.tuples(_micros, _micros))
def test_ids_are_in_the_order_of_the_starts(ids: list[bytes], starts: tuple[int, int]) -> None:
    """Of two spans, the one that began a microsecond earlier has the smaller id."""
    early, late = sorted(starts)
    first, second = (span_uuid("p", bytes(16), ids[0], early), span_uuid("p", bytes(16), ids[1], late))
    assert early == late or first < second


def test_the_id_of_a_known_span_stays_what_it_is() -> None:
    """Runs of an older version must be recognised: this id may never change."""
    assert span_uuid("shop", bytes(range(16)), bytes(range(8)), START) == UUID("01a1de69-725c-71f7-9594-1cd2e14395fc")


# -- trees ----------------------------------------------------------------------------------------------------------


@given(tree=trees())
def test_langsmith_accepts_every_tree(tree: list[ExportSpan]) -> None:
    """Any trace with any text in it: all runs are valid, unique, below their parents, and never before them."""
    found = runs_of(tree)
    assert len(found) == len(tree)
    root = next(iter(found.values()))
    for span, run in zip(tree, found.values(), strict=True):
        judge(run)
        assert run["trace_id"] == root["id"]
        if span.parent_id is not None:
            above = found[run["parent_run_id"]]
            assert run["dotted_order"].startswith(above["dotted_order"] + ".")
            assert above["id"] == str(list(found.values())[_index(tree, span.parent_id)]["id"])


def _index(tree: Sequence[ExportSpan], span_id: bytes) -> int:
    return next(index for index, span in enumerate(tree) if span.span_id == span_id)


@given(tree=trees())
def test_a_span_is_the_same_run_in_any_request(tree: list[ExportSpan]) -> None:
    """A span that is sent alone, again, or with others is the same run as in its tree."""
    together = runs_of(tree)
    apart = {run_id: run for span in reversed(tree) for run_id, run in runs_of([span]).items()}
    assert apart == together


@given(tree=trees())
def test_tokens_are_on_model_calls_only_and_add_up(tree: list[ExportSpan]) -> None:
    """The sum over all runs is the sum over all spans; cached tokens are part of the input."""
    runs = list(runs_of(tree).values())
    told = [run["extra"]["metadata"].get("usage_metadata") for run in runs]
    assert all(run["run_type"] == "llm" for run, usage in zip(runs, told, strict=True) if usage is not None)
    assert sum(usage["total_tokens"] for usage in told if usage) == sum(span.usage.total for span in tree if span.usage)
    for span, usage in zip(tree, told, strict=True):
        assert (usage is None) == (span.usage is None)
        if span.usage is not None:
            given_in = span.usage.input_tokens + span.usage.cache_read_tokens + span.usage.cache_write_tokens
            assert usage["input_tokens"] == given_in
            assert usage["input_token_details"] == {
                "cache_read": span.usage.cache_read_tokens,
                "cache_creation": span.usage.cache_write_tokens,
            }
            assert usage["output_token_details"] == {"reasoning": span.usage.reasoning_tokens}
            assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@given(tree=trees(with_texts=False))
def test_excluded_texts_are_not_sent(tree: list[ExportSpan]) -> None:
    """Spans without texts become runs whose inputs and outputs are empty, not absent: they are complete."""
    for run in runs_of(tree).values():
        assert (run["inputs"], run["outputs"]) == ({}, {})
        assert "events" not in run
        assert run["end_time"] >= run["start_time"]


def test_a_child_that_began_before_its_parent_begins_with_it() -> None:
    """Clocks and logs are not always in order; LangSmith refuses a run that begins before its parent."""
    root = make_span()
    step = make_span(root, start=root.start - 5_000, end=root.start - 4_000)
    tool = make_span(step, kind="tool", start=root.start - 4_500)
    for run in runs_of([root, step, tool]).values():
        judge(run)
        assert run["start_time"] == datetime.fromtimestamp(START // 1_000_000, UTC).replace(
            microsecond=START % 1_000_000
        ).isoformat(timespec="microseconds")


# -- fields of a run ------------------------------------------------------------------------------------------------


def test_texts_are_in_the_shapes_that_langsmith_shows() -> None:
    """Prompts and answers are messages, thinking is a separate block, a tool has its arguments as they are."""
    root, step, tool = span_tree(steps=1, tools=1)
    turn, call, work = runs_of([root, step, tool]).values()
    assert turn["inputs"] == {"messages": [{"role": "user", "content": "The basket forgets its last item."}]}
    assert turn["outputs"]["messages"][0]["content"] == [{"type": "text", "text": "It does no longer."}]
    assert call["outputs"]["messages"] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Where is the basket kept?"},
                {"type": "text", "text": "Step 1."},
            ],
        }
    ]
    assert work["inputs"] == {"input": {"command": "ls 0"}}
    assert work["outputs"] == {"output": "file0.py"}
    assert [run["run_type"] for run in (turn, call, work)] == ["chain", "llm", "tool"]
    assert work["name"] == "Bash"


def test_runs_have_the_keys_of_langsmiths_coding_agents() -> None:
    """The contract coding-agent-v1: on every run, and nothing in it that is not known."""
    spans = span_tree(steps=1, tools=1, subagents=1)
    for span, run in zip(spans, runs_of(spans, user="somebody").values(), strict=True):
        told = run["extra"]["metadata"]
        assert {
            "ls_agent_purpose": "coding",
            "ls_trace_schema_version": "coding-agent-v1",
            "ls_integration": "claude-code",
            "ls_agent_runtime": "Claude Code",
            "ls_agent_runtime_version": "2.1.7",
            "ls_agent_type": "subagent" if span.subagent else "root",
            "thread_id": span.session.session_id,
            "turn_id": spans[0].span_id.hex(),
            "turn_number": 1,
            "cwd": "/home/user/shop",
            "git_branch": "main",
            "user_id": "somebody",
        }.items() <= told.items()
        assert ("ls_subagent_type" in told) == (span.kind == "turn" and span.subagent)
        assert ("ls_model_name" in told) == (run["run_type"] == "llm")
        assert None not in told.values()


def test_a_program_that_is_no_coding_agent_is_not_called_one() -> None:
    """Spans that were received from elsewhere keep their own names."""
    session = make_span().session
    other = make_span(session=type(session)(session_id="s", agent="checkout"))
    (run,) = runs_of([other]).values()
    told = run["extra"]["metadata"]
    assert told["ls_integration"] == "checkout"
    assert "ls_agent_purpose" not in told


@pytest.mark.parametrize(
    ("status", "error", "texts", "told"),
    [
        ("ok", None, (), None),
        ("unclosed", None, (), None),
        ("error", "exit 1", (), "exit 1"),
        ("error", None, (Text("error", "no such file"),), "no such file"),
        ("error", None, (), "error"),
        ("cancelled", None, (), "Cancelled"),
    ],
)
def test_the_status_of_a_run(status: str, error: str | None, texts: tuple[Text, ...], told: str | None) -> None:
    """A failed or cancelled span is an error there; the metadata has the exact status."""
    root = make_span()
    (run,) = runs_of([make_span(root, kind="tool", status=status, error=error, texts=texts)]).values()
    assert run.get("error") == told
    assert run["extra"]["metadata"]["status"] == status


def test_only_a_cost_in_dollars_is_a_total_cost() -> None:
    """LangSmith sums up dollars; yuan must not be counted as dollars."""
    root, dollars, _ = span_tree(steps=1, tools=1)
    yuan = make_span(root, usage=Usage(input_tokens=1), cost=dollars.cost, currency="CNY")
    first, second = [run["extra"]["metadata"] for run in runs_of([dollars, yuan]).values()]
    assert first["usage_metadata"]["total_cost"] == 0.0123
    assert "total_cost" not in second["usage_metadata"]
    assert (second["cost"], second["cost_currency"]) == (0.0123, "CNY")


# -- the official client as the judge -------------------------------------------------------------------------------


def _for_the_client(run: dict[str, Any]) -> dict[str, Any]:
    """A run as a program would give it to the official client."""
    given = dict(run)
    for name in ("id", "trace_id", "parent_run_id"):
        if name in given:
            given[name] = UUID(given[name])
    for name in ("start_time", "end_time"):
        given[name] = datetime.fromisoformat(given[name])
    return given


@pytest.mark.parametrize("zstd", [False, True])
def test_the_official_client_sends_the_same_parts(zstd: bool) -> None:
    """The same runs through the SDK and through us: the same parts with the same JSON, and the same headers."""

    async def both() -> tuple[FakeLangSmith, FakeLangSmith]:
        ours, theirs = FakeLangSmith(zstd=zstd), FakeLangSmith()
        spans = span_tree(steps=2, tools=2, subagents=1)
        async with ours, theirs:
            destination = LangSmithDestination(settings(ours.url))
            assert (await destination.send(spans)).verdict == "accepted"
            await destination.close()
            client = Client(api_url=theirs.url, api_key=KEY, auto_batch_tracing=False, omit_traced_runtime_info=True)
            given = [_for_the_client(run) for run in ours.runs.values()]
            await asyncio.to_thread(client.multipart_ingest, create=given)
            return ours, theirs

    ours, theirs = asyncio.run(both())
    assert list(ours.runs) == list(theirs.runs)
    assert ours.runs == theirs.runs
    for name in ("x-api-key",):
        assert ours.received[-1].headers[name] == theirs.received[-1].headers[name]
    assert ours.received[-1].headers.get("content-encoding") == ("zstd" if zstd else None)


@given(tree=trees())
def test_the_official_schemas_read_our_runs(tree: list[ExportSpan]) -> None:
    """Every run is one for the SDK's own types."""
    for run in runs_of(tree).values():
        read = ls_schemas.RunBase(**_for_the_client(run))
        assert str(read.id) == run["id"]
        assert read.metadata == run["extra"]["metadata"]


# -- the server's answers -------------------------------------------------------------------------------------------


def delivered(fake: FakeLangSmith, *batches: Sequence[ExportSpan], **changes: Any) -> list[Any]:  # noqa: ANN401
    """The outcome of each batch."""

    async def send() -> list[Any]:
        async with fake:
            destination = LangSmithDestination(settings(fake.url, **changes))
            try:
                return [await destination.send(batch) for batch in batches]
            finally:
                await destination.close()

    return asyncio.run(send())


def test_known_runs_count_as_accepted() -> None:
    """A batch that was stored without an answer gets 409 the next time, and counts as accepted."""
    fake = FakeLangSmith()
    fake.faults.extend([CAN_NOTHING, Fault("close", handled=True)])
    spans = span_tree(steps=2)
    first, second = delivered(fake, spans, spans)
    assert (first.verdict, second.verdict) == ("unknown", "accepted")
    assert second.reason.startswith("409 ")
    assert len(fake.runs) == len(spans)


def test_new_runs_are_stored_beside_known_ones() -> None:
    """Overlapping batches: nothing is there twice, nothing is missing."""
    fake = FakeLangSmith()
    spans = span_tree(steps=4)
    assert [each.verdict for each in delivered(fake, spans[:5], spans[3:])] == ["accepted", "accepted"]
    assert len(fake.runs) == len(spans)


@pytest.mark.parametrize(
    ("fault", "verdict", "retry_after"),
    [
        (Fault(status=429, headers=(("Retry-After", "17"),)), "retry", 17.0),
        (Fault(status=429), "retry", None),
        (Fault(status=503), "retry", None),
        (Fault(status=502), "retry", None),
        (Fault(status=500), "unknown", None),
        (Fault(status=504), "unknown", None),
        (Fault(status=413), "too_large", None),
        (Fault(status=422, body=b'{"error":"schema validation failed"}'), "refused", None),
        (Fault(status=400, body=b'{"detail":"invalid dotted_order"}'), "refused", None),
        (Fault(status=401), "blocked", None),
        (Fault(status=403), "blocked", None),
        (Fault(status=404), "blocked", None),
        (Fault("close"), "unknown", None),
    ],
)
def test_the_meaning_of_every_answer(fault: Fault, verdict: str, retry_after: float | None) -> None:
    """The outcome follows from the answer, and the key is in none of the reasons."""
    fake = FakeLangSmith()
    fake.faults.extend([CAN_NOTHING, fault])
    (delivery,) = delivered(fake, span_tree())
    assert (delivery.verdict, delivery.retry_after) == (verdict, retry_after)
    assert delivery.reason
    assert KEY not in repr(delivery)
    assert fake.runs == {}


def test_no_server_listens() -> None:
    """A server that is not there has accepted nothing."""

    async def send() -> Any:  # noqa: ANN401 - a delivery
        destination = LangSmithDestination(settings("http://127.0.0.1:1"))
        try:
            return await destination.send(span_tree()), await destination.check()
        finally:
            await destination.close()

    delivery, checked = asyncio.run(send())
    assert delivery.verdict == "retry"
    assert "does not answer" in checked


def test_runs_outside_the_window_are_refused_alone() -> None:
    """The cloud refuses a whole request for one old run; the others arrive, the old ones are refused."""
    fake = FakeLangSmith(window=True)
    fresh, old = span_tree(start=now()), span_tree(start=now() - 2 * DAY)
    mixed, only_old, only_fresh = delivered(fake, [*fresh, *old], old, span_tree(start=now()))
    assert mixed.verdict == "accepted"
    assert set(mixed.rejected) == {span.span_id for span in old}
    assert all("24 hours" in reason for reason in mixed.rejected.values())
    assert set(only_old.rejected) == {span.span_id for span in old}
    assert (only_fresh.verdict, dict(only_fresh.rejected)) == ("accepted", {})
    assert len(fake.runs) == 2 * len(fresh)
    # Once it is known, old runs are not sent any more.
    assert len([request for request in fake.received if request.path == "/runs/multipart"]) == 3


def test_old_runs_are_sent_where_they_are_accepted() -> None:
    """A self-hosted server accepts runs of any age."""
    fake = FakeLangSmith()
    old = span_tree(start=now() - 400 * DAY)
    (delivery,) = delivered(fake, old)
    assert (delivery.verdict, len(fake.runs)) == ("accepted", len(old))


def test_a_refusal_that_is_not_about_time_is_not_explained_away() -> None:
    """Old spans in a request that was refused for another reason: the request was refused."""
    fake = FakeLangSmith()
    fake.faults.extend([CAN_NOTHING, Fault(status=422, body=b'{"error":"schema validation failed: name"}')])
    (delivery,) = delivered(fake, span_tree(start=now() - 2 * DAY))
    assert (delivery.verdict, dict(delivery.rejected)) == ("refused", {})


def test_too_much_for_one_request_is_not_sent() -> None:
    """A body above the limit is to be sent in portions; a single run is sent with any size."""
    fake = FakeLangSmith()
    root = make_span()
    large = [make_span(root, texts=(Text("text", "x" * 30_000),)) for _ in range(2)]
    both, one = delivered(fake, large, large[:1], max_body_bytes=40_000)
    assert (both.verdict, one.verdict) == ("too_large", "accepted")
    assert len(fake.runs) == 1


def test_a_request_has_no_more_runs_than_langsmith_accepts() -> None:
    """100 at most, fewer where the settings say so."""
    assert LangSmithDestination(settings()).max_spans == 100
    assert LangSmithDestination(settings(batch_spans=10_000)).max_spans == 100
    assert LangSmithDestination(settings(batch_spans=7)).max_spans == 7
    full = [make_span() for _ in range(100)]
    fake = FakeLangSmith()
    assert delivered(fake, full)[0].verdict == "accepted"
    assert len(fake.runs) == 100


def test_headers_of_the_settings_are_sent() -> None:
    """A key for several workspaces needs the id of one beside it."""
    fake = FakeLangSmith()
    delivered(fake, span_tree(), headers={"x-tenant-id": "w1"})
    assert fake.received[-1].headers["x-tenant-id"] == "w1"


def test_zstd_is_used_where_the_server_accepts_it() -> None:
    """The server is asked before the first large body, and no second time."""
    fake = FakeLangSmith(zstd=True)
    plain = FakeLangSmith()
    spans = span_tree(steps=10, tools=3)
    small = delivered(fake, spans, spans)[0].sent_bytes
    large = delivered(plain, spans)[0].sent_bytes
    assert [request.path for request in fake.received] == ["/info", "/runs/multipart", "/runs/multipart"]
    assert fake.runs == plain.runs
    assert small < large / 3


def test_a_check_needs_a_valid_key_and_stores_nothing() -> None:
    """An empty text, or the problem and its fix."""

    async def check(key: str) -> str:
        fake = FakeLangSmith()
        async with fake:
            destination = LangSmithDestination(settings(fake.url, api_key=key))
            try:
                return await destination.check()
            finally:
                assert fake.runs == {}
                await destination.close()

    assert asyncio.run(check(KEY)) == ""
    wrong = asyncio.run(check("lsv2_wrong"))
    assert "api_key" in wrong
    assert "lsv2_wrong" not in wrong


@pytest.mark.parametrize(
    "spoilt",
    [
        {"id": "00000000-0000-4000-8000-000000000000"},
        {"trace_id": "01a1de69-725c-71f7-9594-1cd2e14395fc"},
        {"parent_run_id": None},
        {"dotted_order": "20261115T204154473327Zx"},
        {"start_time": "2026-01-01T00:00:00+00:00"},
        {"end_time": "2026-01-01T00:00:00+00:00"},
        {"name": ""},
        {"run_type": "step"},
        {"outputs": []},
        {"inputs": {"messages": "\0"}},
    ],
)
def test_the_fake_refuses_what_the_server_refuses(spoilt: dict[str, Any]) -> None:
    """The judge itself: a run that breaks one rule is refused, so that passing it means something."""
    run = list(runs_of(span_tree(steps=1, tools=1)).values())[-1]
    judge(run)
    with pytest.raises(RefusedError):
        judge(run | spoilt)


def test_the_fake_refuses_a_body_that_is_not_well_formed() -> None:
    """A length that is wrong, a part without its run, no end: each is refused."""
    body = multipart([run_of(make_span(), settings())], "edge")
    for wrong in (
        body.replace(b"Content-Length: ", b"Content-Length: 1"),
        body[:-4],
        body.replace(b"post.", b"patch."),
    ):
        with pytest.raises(RefusedError):
            read_runs(MULTIPART, wrong)
