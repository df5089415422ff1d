"""An upstream that hangs, resets, lies or stops in the middle, and users who hang up: each ends as it should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from agenttrace.run.simulator import Fault, faults
from faults.run.audit import Row, audit, check_trace, check_windows
from faults.run.chats import hang_up, listen, speaking
from faults.run.rig import Lasting, Rig, lasting_rig, new_mark, until
from run.crew import APP_IDS

pytestmark = pytest.mark.slow

CHAT = APP_IDS["app1"]
DEADLINE = 2.0
FRIENDLY = "AI 服务出了点问题，请稍后再试"
_users = iter(f"user-{number}" for number in range(10_000))


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, module_database_url: str) -> Iterator[Lasting]:
    root = tmp_path_factory.mktemp("upstream")
    deadlines = {"deadline_seconds": DEADLINE, "stream_deadline_seconds": DEADLINE}
    with lasting_rig(root, module_database_url, "serve", "worker", **deadlines) as found:
        yield found


class Ending(NamedTuple):
    """How a fault ends for the user and in the run log."""

    fault: Fault
    code: str
    text: str
    status: str
    #: Calls of the application; a stream that has begun is never repeated.
    attempts: int
    #: Whether the breaker hears of it.
    counts: bool = True


ENDINGS = {
    "hangs": Ending(faults.hang(), "timeout", "AI 响应超时", "timeout", 1),
    "hangs in the middle": Ending(faults.hang(after_chunks=2), "timeout", "AI 响应超时", "timeout", 1),
    "resets": Ending(faults.reset(), "upstream", FRIENDLY, "failed", 2),
    "resets in the middle": Ending(faults.reset(after_chunks=2), "upstream", FRIENDLY, "failed", 1),
    "half a frame": Ending(faults.half_frame(after_chunks=2), "upstream", FRIENDLY, "failed", 1),
    "HTML": Ending(faults.html(502), "upstream", FRIENDLY, "failed", 2),
    "error frame": Ending(faults.error_frame("InternalError", 500, 2), "upstream", FRIENDLY, "failed", 1),
    "throttled in the middle": Ending(faults.error_frame(after_chunks=2), "upstream", FRIENDLY, "failed", 1, False),
    "no finish": Ending(faults.no_finish(), "upstream", FRIENDLY, "failed", 1),
    "key refused": Ending(faults.status(401), "auth", "AI 服务配置异常", "failed", 1, False),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_chat_with_a_broken_upstream(lasting: Lasting, ending: Ending) -> None:
    """The user gets exactly one error event, the last, with the text of the table; the row and the breaker agree."""

    async def check(rig: Rig) -> None:
        rig.simulator.clear("faults")
        rig.simulator.always(CHAT, ending.fault)
        user = next(_users)
        before = await _failures(rig, CHAT)
        events = await listen(rig, rig.members[0], "今天怎么样？", user=user)
        assert [event.kind for event in events].count("error") == 1
        assert (events[-1].kind, events[-1].data) == ("error", {"code": ending.code, "message": ending.text})
        await rig.closed()
        (row,) = [row for row in await audit(rig) if row.user_id == user]
        assert (row.status, row.attempts) == (ending.status, ending.attempts)
        assert row.error
        assert await _failures(rig, CHAT) - before == (ending.attempts if ending.counts else 0)

    lasting.run(check(lasting.rig))


async def _failures(rig: Rig, app_id: str) -> int:
    rows = await rig.rows("SELECT failure_count FROM biz.ai_breakers WHERE app_id = %s", app_id)
    return rows[0][0] if rows else 0


def test_a_chain_with_a_broken_upstream(lasting: Lasting) -> None:
    """Each step fails as the table says, is counted by its breaker, and the chain goes on to its end."""

    async def check(rig: Rig) -> None:
        rig.simulator.clear("faults")
        broken = {
            "app3": (faults.html(502), "failed", 2),
            "app8": (faults.hang(), "timeout", 1),
            "app4": (faults.half_frame(), "failed", 2),
            "app5": (faults.reset(), "failed", 2),
        }
        for key, (fault, _, _) in broken.items():
            rig.simulator.always(APP_IDS[key], fault)
        before = {key: await _failures(rig, APP_IDS[key]) for key in broken}
        (job,) = await rig.accepted(rig.members[0], 1)
        assert await rig.ended([job]) == {job: "completed"}
        rows = {row.step: row for row in await audit(rig) if row.job == job}
        assert {name: (row.status, row.attempts) for name, row in rows.items()} == {
            "app7": ("success", 1),
            **{name: (status, attempts) for name, (_, status, attempts) in broken.items()},
        }
        counted = {key: await _failures(rig, APP_IDS[key]) - before[key] for key in broken}
        assert counted == {key: attempts for key, (_, _, attempts) in broken.items()}

    lasting.run(check(lasting.rig))


def test_a_chain_whose_answers_are_no_answers(lasting: Lasting) -> None:
    """An error inside a 200, text that is no JSON, a refused key: what was billed counts, and a 401 ends the job."""

    async def check(rig: Rig) -> None:
        rig.simulator.clear("faults")
        rig.simulator.always(APP_IDS["app6"], faults.bad_json())
        rig.simulator.always(APP_IDS["app8"], faults.error_200())
        rig.simulator.always(APP_IDS["app4"], faults.status(401))
        (noted,) = await rig.accepted(rig.members[0], 1, event="note_created")
        (assigned,) = await rig.accepted(rig.members[0], 1, event="task_assigned")
        assert await rig.ended([noted, assigned]) == {noted: "failed", assigned: "failed"}
        rows = [row for row in await audit(rig) if row.job in (noted, assigned)]
        assert {row.step: (row.status, row.attempts, row.tokens > 0) for row in rows} == {
            "app6": ("failed", 2, True),
            "app8": ("failed", 2, False),
            "app4": ("failed", 1, False),
        }

    lasting.run(check(lasting.rig))


def test_a_user_who_hangs_up_in_mid_stream(lasting: Lasting) -> None:
    """The upstream is cancelled; the row is failed, with an estimate of the tokens; the part that came is kept."""

    async def check(rig: Rig) -> None:
        rig.simulator.clear("faults")
        rig.simulator.chunk_delay, user = 0.05, next(_users)
        async with speaking(rig, rig.members[0], "说点长的", user=user) as response:
            heard = await response.content.readuntil(b"\n\n")
        call = rig.simulator.calls[-1]
        await until(lambda: call.outcome != "running")
        assert (call.outcome, call.app_id) == ("hung_up", CHAT)
        await rig.closed()
        (row,) = [row for row in await audit(rig) if row.user_id == user]
        assert (row.status, row.error) == ("failed", "client hung up")
        assert row.tokens > 0
        assert call.text.startswith(row.text)
        assert row.text.startswith(_content(heard))
        kept = "SELECT content FROM biz.ai_messages WHERE run_log_id = %s AND role = 'assistant'"
        assert await rig.rows(kept, row.id) == [(row.text,)]

    lasting.run(check(lasting.rig))


def _content(frame: bytes) -> str:
    text: str = msgspec.json.decode(frame.partition(b"data: ")[2])["content"]
    return text


def test_many_users_who_hang_up_at_random_moments(lasting: Lasting) -> None:
    """Fifty connections closed before, within or after the answer: each call is in the run log once, is over on both
    sides, and whoever listens to the end still gets everything."""

    async def check(rig: Rig) -> None:
        rig.simulator.clear("faults")
        rig.simulator.chunk_delay, rig.simulator.latency = 0.02, 0.05
        chance, seen, users = random.Random(5), len(rig.simulator.calls), [next(_users) for _ in range(50)]
        patient = [asyncio.create_task(listen(rig, rig.members[0], "你好", user=next(_users))) for _ in range(3)]
        leaving = [
            hang_up(rig, rig.members[0], f"m{new_mark()}", after=chance.uniform(0, 0.7), user=user) for user in users
        ]
        await asyncio.gather(*leaving)
        assert [events[-1].kind for events in await asyncio.gather(*patient)] == ["done"] * 3
        await rig.closed()
        await until(lambda: all(call.outcome != "running" for call in rig.simulator.calls))
        logs = await audit(rig)
        rows = [row for row in logs if row.user_id in users]
        assert {(row.status, row.error) for row in rows} <= {("success", ""), ("failed", "client hung up")}
        assert len([row for row in rows if row.error]) > 10
        _check_against_upstream(rig, rows, seen)
        await check_windows(rig, logs)
        await check_trace(rig, logs)

    lasting.run(check(lasting.rig))


def _check_against_upstream(rig: Rig, rows: list[Row], seen: int) -> None:
    """A call that reached the application is billed, one that did not is not."""
    asked = {call.body["input"]["biz_params"]["user_prompt_params"]["user_id"] for call in rig.simulator.calls[seen:]}
    assert {row.user_id for row in rows if row.status == "success"} <= asked
    assert [row for row in rows if row.user_id in asked and row.tokens == 0] == []
