"""Everything that a process of the run half needs, put together once: database, guards, services and heartbeat.

The only place that reads the settings; what it makes takes plain values.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from agenttrace.config import Settings, ensure_home
from agenttrace.run.background import ended
from agenttrace.run.catalog.catalog import AppCatalog, load_catalog, missing_variables
from agenttrace.run.catalog.config import usable_token
from agenttrace.run.chat.conversation import ConversationService
from agenttrace.run.chat.turn import ChatService
from agenttrace.run.guards.admission import Admissions
from agenttrace.run.guards.breaker import BreakerRule, CircuitBreaker
from agenttrace.run.guards.budget import BudgetTracker
from agenttrace.run.guards.guarded import GuardedClient
from agenttrace.run.guards.rate_limit import RateLimiter
from agenttrace.run.jobs.dispatch import AIDispatcher, use_dispatcher
from agenttrace.run.jobs.queue import JobQueue
from agenttrace.run.jobs.schedules import Scheduler
from agenttrace.run.jobs.sweeper import Sweeper
from agenttrace.run.postgres import EmbeddedPostgres, PostgresError
from agenttrace.run.postgres.pool import Database, migrate
from agenttrace.run.presence import BEAT_SECONDS, Presence
from agenttrace.run.results.cache import AICacheService
from agenttrace.run.results.clues import RetentionClues
from agenttrace.run.results.run_log import AIRunLogService
from agenttrace.run.results.trace_log import TraceLog
from agenttrace.run.upstream.client import UpstreamClient
from agenttrace.run.upstream.providers import providers_of

logger = logging.getLogger(__name__)

#: A probe of a breaker without a result this long after its deadline is given up.
_PROBE_GRACE = 10.0
_SWEEP_SECONDS = 5.0
#: More than one process can usefully have open; each stream holds one.
_CONNECTIONS = 4096


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The parts, all connected; open it with :func:`open_engine`."""

    settings: Settings
    #: What the process was started with.
    environ: Mapping[str, str] = field(repr=False)
    #: The variables that are not set of all that the catalog and the internal interface need.
    missing: tuple[str, ...]
    #: The token of programs that trigger events; empty while it is not set.
    internal_token: str = field(repr=False)
    catalog: AppCatalog
    database: Database
    presence: Presence
    breaker: CircuitBreaker
    limiter: RateLimiter
    budget: BudgetTracker
    run_logs: AIRunLogService
    cache: AICacheService
    clues: RetentionClues
    queue: JobQueue
    dispatcher: AIDispatcher
    sweeper: Sweeper
    #: None while no application has all its variables: nothing can be called then, everything else works.
    calls: GuardedClient | None
    #: None while the application for it cannot be called, or there is none.
    chat: ChatService | None


@asynccontextmanager
async def open_engine(
    settings: Settings, role: str, *, sweep: bool = True, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Engine]:
    """Start or join the database, bring it up to date, and put everything together.

    ``role`` is shown beside the process: ``server``, ``worker``, ``up`` or ``cli``. With ``sweep`` this process also
    looks after what others left behind.
    """
    async with AsyncExitStack() as stack:
        embedded = _embedded(settings)
        url = await _database_url(settings, embedded, stack)
        await asyncio.to_thread(migrate, url)
        database = await stack.enter_async_context(Database(url))
        await database.execute("SELECT biz.ai_set_business_zone(%s)", [settings.run.timezone])
        engine = await _assembled(settings, role, database, stack, environ)
        use_dispatcher(engine.dispatcher)
        stack.callback(use_dispatcher, None)
        if sweep:
            await stack.enter_async_context(engine.presence)
            stack.push_async_callback(ended, asyncio.create_task(_sweeping(engine, embedded)))
        yield engine


def _embedded(settings: Settings) -> EmbeddedPostgres | None:
    return None if settings.database.url is not None else EmbeddedPostgres(ensure_home(settings))


async def _database_url(settings: Settings, embedded: EmbeddedPostgres | None, stack: AsyncExitStack) -> str:
    if embedded is None:
        return settings.database.url or ""
    url = await asyncio.to_thread(embedded.start)
    stack.push_async_callback(asyncio.to_thread, embedded.stop)
    return url


async def _assembled(
    settings: Settings, role: str, database: Database, stack: AsyncExitStack, environ: Mapping[str, str]
) -> Engine:
    run = settings.run
    catalog = load_catalog(settings, environ)
    # Several heartbeats within the time after which a process is taken for dead.
    presence = Presence(database, role, every=min(BEAT_SECONDS, run.lost_after_seconds / 4))
    rule = BreakerRule(failure_threshold=run.failure_threshold, recovery_seconds=run.recovery_seconds)
    breaker = CircuitBreaker(
        database,
        rules={app.app_id: app.breaker.over(rule) for app in catalog.apps.values() if app.breaker and app.app_id},
        failure_threshold=run.failure_threshold,
        recovery_timeout=run.recovery_seconds,
        probe_lease=run.stream_deadline_seconds + _PROBE_GRACE,
    )
    run_logs = AIRunLogService(database)
    cache = AICacheService(database, zone=run.timezone)
    clues = RetentionClues(database)
    limiter = RateLimiter(database)
    conversations = ConversationService(database)
    trace = TraceLog(settings.home / "logs")
    stack.callback(trace.close)
    calls = None
    if any(not app.missing for app in catalog.apps.values()):
        client = UpstreamClient(
            providers_of(catalog.apps.values(), environ),
            deadline=run.deadline_seconds,
            stream_deadline=run.stream_deadline_seconds,
            connections=_CONNECTIONS,
            retries=run.retries,
            interval=run.retry_seconds,
        )
        stack.push_async_callback(client.aclose)
        admissions = Admissions(
            database,
            process_id=presence.process_id,
            daily_limit=run.daily_tokens,
            monthly_limit=run.monthly_tokens,
            breaker=breaker,
        )
        calls = GuardedClient(client, admissions, breaker, run_logs, trace)
    queue = await stack.enter_async_context(JobQueue(database))
    return Engine(
        settings=settings,
        environ=environ,
        missing=missing_variables(catalog, environ),
        internal_token=usable_token(environ),
        catalog=catalog,
        database=database,
        presence=presence,
        breaker=breaker,
        limiter=limiter,
        budget=BudgetTracker(database, daily_limit=run.daily_tokens, monthly_limit=run.monthly_tokens),
        run_logs=run_logs,
        cache=cache,
        clues=clues,
        queue=queue,
        dispatcher=AIDispatcher(
            database,
            catalog,
            calls,
            cache=cache,
            run_logs=run_logs,
            clues=clues,
            queue=queue,
            trace=trace,
            zone=run.timezone,
            step_concurrency=run.step_concurrency,
        ),
        sweeper=Sweeper(
            run_logs=run_logs,
            cache=cache,
            limiter=limiter,
            lost_after=run.lost_after_seconds,
            cache_rows=run.cache_rows,
            log_days=run.log_days,
            trace=trace,
        ),
        calls=calls,
        chat=None if calls is None else _chat(database, calls, conversations, catalog),
    )


def _chat(
    database: Database, calls: GuardedClient, conversations: ConversationService, catalog: AppCatalog
) -> ChatService | None:
    app = catalog.chat
    return None if app is None or app.missing else ChatService(database, calls, conversations, catalog, app)


async def _sweeping(engine: Engine, embedded: EmbeddedPostgres | None) -> None:
    scheduler = Scheduler(
        engine.database, engine.catalog.schedules.values(), engine.dispatcher, zone=engine.settings.run.timezone
    )
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        try:
            await scheduler.fire_due()
            await engine.sweeper.sweep()
        except Exception as error:
            # The database may be away for a while; the next sweep finds the same rows.
            logger.warning("sweeping failed: %s", type(error).__name__)
            if embedded is not None:
                await _started_again(embedded)


async def _started_again(embedded: EmbeddedPostgres) -> None:
    """Start the embedded server again if it has died; one that runs is only checked."""
    try:
        await asyncio.to_thread(embedded.start)
    except PostgresError as error:
        logger.warning("the database does not start: %s", error.problem)
