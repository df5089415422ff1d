"""The event stream of a chat has one form, whatever the upstream does (property 17)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.run.simulator import faults
from serve.harness import CHAT_APP, Running

numbers = count(1)
texts = st.one_of(
    st.text(min_size=1, max_size=80),
    st.sampled_from(["event: done\ndata: {}\n\n", "a\r\n\r\nb", "\u2028\u2029\u0085", ": ping\n\n", '"}\n\ndata: {"x']),
)
endings = st.one_of(
    st.none(),
    st.builds(faults.error_frame, st.sampled_from(["InternalError", "Throttling"]), st.just(500), st.integers(1, 6)),
    st.builds(faults.cut_after, st.integers(1, 6)),
    st.builds(faults.half_frame, st.integers(1, 6)),
    st.builds(faults.reset, st.integers(1, 6)),
    st.sampled_from([faults.no_finish(), faults.empty_usage(), faults.unicode_separators()]),
    st.builds(faults.status, st.sampled_from([400, 401, 403, 404, 429])),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Running]:
    # Neither breaker nor budget have a say here: each example is to reach the upstream.
    run = {"failure_threshold": 10**6, "daily_tokens": 10**9, "monthly_tokens": 10**9}
    home: Path = tmp_path_factory.mktemp("server")
    server = Running(home, module_database_url, run=run)
    yield server
    server.close()


# Feature: P14-ai-dashscope-migration, Property 17: SSE 事件流格式
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(text=texts, ending=endings, chunk_chars=st.integers(1, 20))
def test_messages_then_exactly_one_end(
    server: Running, text: str, ending: faults.Fault | None, chunk_chars: int
) -> None:
    """Zero or more ``message`` events, then exactly one ``done`` or ``error``; what was heard is what is kept."""
    stack = server.stack
    stack.sim.chunk_chars = chunk_chars
    stack.sim.answer(CHAT_APP, text)
    if ending is not None:
        stack.sim.script(CHAT_APP, ending)
    heard = server.run(stack.chat(user=f"user {next(numbers)}"))
    stack.sim.clear("faults")
    assert heard.status == 200
    *messages, last = heard.events
    assert {event.kind for event in messages} <= {"message"}
    assert all(event.data.keys() == {"content"} and event.data["content"] for event in messages)
    assert last.kind in ("done", "error")
    status, kept = server.run(_written(server))
    assert (last.kind == "done") == (status == "success")
    assert kept == heard.text.replace("\0", "\ufffd")
    if last.kind == "done":
        assert last.data.keys() == {"conversation_id", "message_id", "session_id", "tokens_used", "estimated"}
    else:
        assert last.data.keys() == {"code", "message"}


async def _written(server: Running) -> tuple[str, str]:
    """The status of the latest call, and what is kept of its answer."""
    rows = await server.stack.rows(
        "SELECT l.status, coalesce(m.content, '') FROM biz.ai_run_logs AS l LEFT JOIN biz.ai_messages AS m "
        "ON m.run_log_id = l.id AND m.role = 'assistant' ORDER BY l.id DESC LIMIT 1"
    )
    return rows[0][0], rows[0][1]
