"""The second part of the demo: applications against a simulator that answers and fails on demand.

All calls take the usual way: over HTTP, through server, queue and worker, into PostgreSQL and the trace log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.cli import output
from agenttrace.cli.invocation import program_line
from agenttrace.cli.serve import shown_link
from agenttrace.cli.token import signed_token
from agenttrace.config import Settings, load_settings
from agenttrace.views import figures
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    import aiohttp

    from agenttrace.client import AsyncTriggerClient
    from agenttrace.run.simulator import Simulator
    from agenttrace.serve.process import ServerReady

_SITE, _MEMBER, _COACH = 7, 4711, 5
_HOUR = 3600
#: Short, so that a breaker closes again within the demo, and the budget is used up.
_RECOVERY_SECONDS, _DAILY_TOKENS, _MAX_CALL_TOKENS = 2.0, 30_000, 600
_TRIGGERS: tuple[tuple[str, int | None, dict[str, Any] | None], ...] = (
    ("consumption", _MEMBER, {"amount": 268, "items": ["台费", "饮料"]}),
    ("consumption", _MEMBER + 1, {"amount": 530, "coach_id": _COACH}),
    ("note_created", _MEMBER, {"note": "客人说周末想约教练练走位"}),
    ("task_assigned", _MEMBER, {"task": "回访", "coach_id": _COACH}),
    ("dws_completed", None, None),
)
#: What a rule calls on a session, and how much of it.
_SESSION_APPS, _SESSION_CHARS = ("session-summary", "session-score"), 6_000
#: In the console: how long an application takes to answer, and how long it is until the next job. A job makes three
#: calls, so one is running nearly always, and an hour stays within the budget of the day.
_SLOW_SECONDS, _PAUSE_SECONDS = 3.0, 10.0
#: Jobs of one store, before the next one has its turn: a store may make 100 calls in an hour.
_JOBS_OF_STORE = 20
#: Users that ask at the same time: as many failures as open a breaker.
_CROWD = 5
#: The application that fails for good, what calls it, and after how many other jobs.
_FAILING_APP, _FAILING_EVENT, _FAILING_EVERY = "app6_note", "note_created", 3
#: Stores whose figures use up the rest of the day.
_STORES = 12


@dataclass
class Facts:
    """The results of the demo, for ``--json``."""

    chat: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    duplicate: str = ""
    #: What applications say of a recorded session, by their names.
    session: dict[str, str] = field(default_factory=dict)
    breaker: list[str] = field(default_factory=list)
    budget: str = ""


def settings_for_apps(*, port: int = 0, daily_tokens: int = _DAILY_TOKENS) -> Settings:
    """The demo's settings: any free port, and limits that are reached in seconds."""
    return load_settings(
        flags={
            "serve.port": port,
            "jwt.secret": "a secret of the demo alone, gone with its home",
            "run.recovery_seconds": _RECOVERY_SECONDS,
            "run.daily_tokens": daily_tokens,
            # The simulator's answers are short, so calls may run side by side until the end.
            "run.max_call_tokens": _MAX_CALL_TOKENS,
        }
    )


@dataclass(frozen=True)
class Stage:
    """Server, worker and simulator, and their clients."""

    url: str
    #: The address as it is shown: with the token that lets in, at a terminal.
    shown: str
    simulator: Simulator
    chat: _ChatUsers
    triggers: AsyncTriggerClient
    settings: Settings
    #: The variables that name the applications.
    environ: Mapping[str, str]


@asynccontextmanager
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    """Start all of them, until the block is left."""
    from agenttrace.client import AsyncTriggerClient
    from agenttrace.run.simulator import INTERNAL_TOKEN, Simulator, environment

    async with (
        Simulator(latency=0.05, chunk_delay=0.02) as simulator,
        process(settings, environ := environment(simulator.base_url)) as ready,
        _ChatUsers(url := ready.url or "", settings) as chat,
        AsyncTriggerClient(url, INTERNAL_TOKEN) as triggers,
    ):
        yield Stage(url, shown_link(ready), simulator, chat, triggers, settings, environ)


async def play(settings: Settings, *, quiet: bool) -> Facts:
    """Chat, a trigger of each kind, a breaker that opens and closes again, a budget that is used up."""
    facts, say = Facts(), (lambda *_: None) if quiet else output.say
    async with stage(settings) as on:
        say("")
        say("Applications with limits, a breaker and a budget (a simulated DashScope answers):", "bold")
        await _chat(on.chat, facts, say)
        await _triggers(on.triggers, facts, say)
        await _session(on, facts, say)
        await _breaker(on.chat, on.simulator, facts, say)
        await _budget(on.chat, on.triggers, facts, say)
    return facts


async def rehearse(on: Stage) -> None:
    """The same for the console: without output, the budget is not used up, and one application fails for good."""
    from agenttrace.run.simulator import BUILTIN_APP_IDS, faults

    facts, say = Facts(), lambda *_: None
    await _chat(on.chat, facts, say)
    await _triggers(on.triggers, facts, say)
    await _session(on, facts, say)
    await _breaker(on.chat, on.simulator, facts, say)
    app = BUILTIN_APP_IDS["app4_analysis"]
    on.simulator.always(app, faults.status("InvalidParameter", http=400))
    failing = await on.triggers.trigger("task_assigned", _SITE + 1, _MEMBER, {"task": "回访", "coach_id": _COACH})
    await on.triggers.wait(failing.trigger_job_id)
    on.simulator.always(app, None)
    for site in range(_SITE + 1, _SITE + 4):
        await on.triggers.trigger("dws_completed", site)
    on.simulator.always(BUILTIN_APP_IDS[_FAILING_APP], faults.status("InternalError", http=500))
    for number in range(_CROWD):
        await _note(on, number)


async def _note(on: Stage, number: int) -> None:
    """A job whose application fails."""
    await on.triggers.trigger(_FAILING_EVENT, _SITE + 1, _MEMBER + number, {"note": f"备注 {number}"})


async def keep_busy(on: Stage, stop: asyncio.Event) -> None:
    """Trigger a job every few seconds, on applications that take their time, until ``stop`` is set."""
    on.simulator.latency = _SLOW_SECONDS
    for number in itertools.count(1):
        site = _SITE + math.ceil(number / _JOBS_OF_STORE)
        await on.triggers.trigger("consumption", site, _MEMBER + 100 + number, {"amount": 100 + number})
        if number % _FAILING_EVERY == 0:
            # Its breaker lets one call through, which fails, and is open again.
            await _note(on, _CROWD + number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PAUSE_SECONDS)
            return


@asynccontextmanager
async def process(settings: Settings, variables: Mapping[str, str]) -> AsyncIterator[ServerReady]:
    """Server and worker of the demo, as ``agenttrace up`` would run them; ``variables`` name the applications."""
    from agenttrace.serve.process import run_process

    stop = asyncio.Event()
    ready: asyncio.Future[ServerReady] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        run_process(
            settings,
            role="demo",
            server=True,
            worker=True,
            stop=stop,
            on_ready=ready.set_result,
            environ={**os.environ, **variables},
            program=program_line(anywhere=True),
        )
    )
    try:
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield await ready
    finally:
        stop.set()
        await task


class _ChatUsers:
    """Users who talk to App1 over HTTP."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url, self._secret = f"{url}/api/xcx/chat/stream", settings.jwt.secret or ""
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> _ChatUsers:
        import aiohttp

        # A connection for each question, as users have: one that was idle may be closed while it is used again.
        connector = aiohttp.TCPConnector(force_close=True)
        self._session: aiohttp.ClientSession = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=connector)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def ask(self, user: str, message: str) -> tuple[str, str]:
        """How the stream ended (``done``, or the error's message), and the text."""
        now = int(time.time())
        token = signed_token(self._secret, user, _SITE, now, now + _HOUR)
        body = {"message": message, "entry": "general"}
        text, event = [], ""
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.post(self._url, json=body, headers=headers) as response:
            response.raise_for_status()
            async for raw in response.content:
                line = raw.decode().rstrip()
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = msgspec.json.decode(line.removeprefix("data: "))
                    if event == "message":
                        text.append(data["content"])
                    elif event == "error":
                        event = data["message"]
        return event, "".join(text)


Say = Callable[..., None]


async def _chat(chat: _ChatUsers, facts: Facts, say: Say) -> None:
    question = "今天店里生意怎么样？"
    _, facts.chat = await chat.ask("amy", question)
    say(f"  chat     amy: {question}")
    say(f"           AI:  {one_line(facts.chat, 100)}")


async def _triggers(triggers: AsyncTriggerClient, facts: Facts, say: Say) -> None:
    for event, member, payload in _TRIGGERS:
        accepted = await triggers.trigger(event, _SITE, member, payload)
        job = await triggers.wait(accepted.trigger_job_id)
        tokens = sum(step["tokens_used"] or 0 for step in job["steps"])
        shown = {"event_type": event, "app_chain": job["app_chain"], "status": job["status"], "tokens": tokens}
        facts.jobs.append(shown)
        say(f"  trigger  {event:<14} {job['app_chain']:<26} {job['status']}, {figures.count(tokens)} tokens")
    event, member, payload = _TRIGGERS[0]
    facts.duplicate = (await triggers.trigger(event, _SITE, member, payload)).status
    say(f"           {event:<14} again on the same day    {facts.duplicate}")


async def _session(on: Stage, facts: Facts, say: Say) -> None:
    """What a rule does with a session that has ended: a summary and a score, stored beside it."""
    from agenttrace.cli import opening
    from agenttrace.cli.chain_jobs import ChainJobs
    from agenttrace.cli.rules_run import make_actions
    from agenttrace.config.rules import parse_action, parse_rule
    from agenttrace.prices.costing import Cashier
    from agenttrace.rules.actions.contract import Message
    from agenttrace.rules.facts import read_facts
    from agenttrace.store.questions import title_of
    from agenttrace.store.sqlite.rule_events import ended_event

    table = {"type": "chain", "apps": list(_SESSION_APPS), "input": "conversation", "keep": ["note", "score"]}
    action = parse_action("demo", table | {"max_chars": _SESSION_CHARS}, {})
    rule = parse_rule("demo", {"on": "session.ended", "do": ["demo"]})
    with opening.opened_store(on.settings, read_only=False) as store:
        recorded = [each for each in store.sessions() if each.agent != "agenttrace"]
        if not recorded:
            return
        session = max(recorded, key=lambda each: each.errors)
        about = read_facts(store, Cashier.load(on.settings), ended_event(session))
        async with ChainJobs(on.settings, {**os.environ, **on.environ}) as jobs:
            chain = make_actions(on.settings, store, jobs)["chain"]
            result = await chain.run(Message(0, rule, action, "demo", [about], {}, 1))
    answers = result.answer["events"][0]["answers"] if result.outcome == "done" else {}
    facts.session = {app: one_line(text, 300) for app, text in answers.items()}
    ended = f"{figures.count(result.tokens)} tokens" if result.outcome == "done" else result.detail
    say(f"  rule     {one_line(title_of(session), 60)}: {ended}")
    for app, text in facts.session.items():
        say(f"           {app:<16} {one_line(text, 100)}")


async def _breaker(chat: _ChatUsers, simulator: Simulator, facts: Facts, say: Say) -> None:
    from agenttrace.run.simulator import BUILTIN_APP_IDS, faults

    app = BUILTIN_APP_IDS["app1_chat"]
    simulator.always(app, faults.status("InternalError", http=500))
    say(f"  breaker  DashScope fails for {_CROWD} users at once")
    await asyncio.gather(*(chat.ask(f"user-{number}", "你好") for number in range(_CROWD)))
    refused, _ = await chat.ask("ben", "你好")
    say(f"           open: the next one is refused at once: {refused}")
    simulator.always(app, None)
    await asyncio.sleep(_RECOVERY_SECONDS + 0.1)
    healed, _ = await chat.ask("ben", "你好")
    say(f"           DashScope is well again; after {_RECOVERY_SECONDS:g} s one probe goes through: {healed}")
    facts.breaker = [refused, healed]


async def _budget(chat: _ChatUsers, triggers: AsyncTriggerClient, facts: Facts, say: Say) -> None:
    async def figures_of(site: int) -> str:
        accepted = await triggers.trigger("dws_completed", site)
        return str((await triggers.wait(accepted.trigger_job_id))["status"])

    ends = await asyncio.gather(*(figures_of(site) for site in range(_SITE + 1, _SITE + 1 + _STORES)))
    say(f"  budget   {_STORES} more stores want their figures: {_counted(ends)}")
    for number in range(_STORES):
        # The last few hundred tokens are enough for a short chat, and then they are not.
        facts.budget, _ = await chat.ask(f"cleo-{number}", "你好")
        if facts.budget != "done":
            break
    say(f"           {figures.count(_DAILY_TOKENS)} tokens a day are spent; the chat says: {facts.budget}")


def _counted(words: list[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in Counter(words).most_common())
