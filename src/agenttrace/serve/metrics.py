"""``GET /metrics``: the counters of this process, and figures of all processes from the database."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from agenttrace.run.states import OPEN_JOBS, CircuitState
from agenttrace.serve.intake.signals import LOGS, METRICS, TRACES

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine
    from agenttrace.serve.api.trace_reader import TraceReader

logger = logging.getLogger(__name__)

#: Scrapes within this time share one read of the database.
CACHE_SECONDS = 2.0
_PATIENCE = 3.0
_QUEUE = "SELECT status, count(*) FROM biz.ai_trigger_jobs WHERE status IN ('pending', 'running') GROUP BY status"


class Metrics:
    """The counters and gauges of one server process, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        self.requests = counter("agenttrace_http_requests", "HTTP requests answered.", ["route", "method", "status"])
        self.streams = Gauge("agenttrace_streams_open", "Chat streams that are open.", registry=self.registry)
        self.turns = counter("agenttrace_chat_turns", "Chat turns by how they ended.", ["outcome"])
        self.triggers = counter("agenttrace_triggers", "Triggers accepted.", ["event_type", "status"])
        self.received = {
            TRACES: counter("agenttrace_intake_spans", "Spans received over OTLP.", ["outcome"]),
            LOGS: counter("agenttrace_intake_log_records", "Log records received over OTLP.", ["outcome"]),
            METRICS: counter("agenttrace_intake_data_points", "Data points received over OTLP.", ["outcome"]),
        }
        self.team_rows = counter("agenttrace_team_rows", "Rows received from machines of the team.", ["outcome"])
        self.team_slowed = counter("agenttrace_team_slowed", "Pages of machines over their limit.", ["limit"])
        self.shared = SharedGauges(self.registry)
        self.rules = RuleGauges(self.registry)


class RuleGauges:
    """What rules decided, read from the trace store when it is asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._firings = gauge("agenttrace_rule_firings", "Firings of rules by their state.", ["rule", "state"])
        self._paused = gauge("agenttrace_rule_paused", "1 for a rule that is paused after failures.", ["rule"])
        self._fresh_until = 0.0

    async def refresh(self, reader: TraceReader) -> None:
        """Read, unless it was just done; a store that cannot be read leaves the last values."""
        if time.monotonic() < self._fresh_until:
            return
        self._fresh_until = time.monotonic() + CACHE_SECONDS
        try:
            counts, states = await reader.query_rules(
                lambda store: (store.rules.totals(), store.rules.states()), empty=lambda: ({}, {})
            )
        except Exception as error:
            logger.warning("the rules could not be read for the metrics: %s", type(error).__name__)
            return
        self._firings.clear()
        for (rule, state), count in counts.items():
            self._firings.labels(rule, state).set(count)
        self._paused.clear()
        for name, known in states.items():
            self._paused.labels(name).set(known.paused is not None)


class SharedGauges:
    """Figures of all processes, read from the database when they are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._up = gauge("agenttrace_database_up", "Whether the database answered.")
        self._budget = gauge("agenttrace_budget_tokens", "Tokens of the business day and month.", ["period", "kind"])
        self._breakers = gauge("agenttrace_breaker_state", "1 for the state the breaker is in.", ["app_id", "state"])
        self._jobs = gauge("agenttrace_jobs", "Jobs that are not over.", ["status"])
        self._fresh_until = 0.0
        self._lock = asyncio.Lock()

    async def refresh(self, engine: Engine) -> None:
        """Read, unless it was just done; without a database the last values stay, and ``database_up`` is 0."""
        async with self._lock:
            if time.monotonic() < self._fresh_until:
                return
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._read(engine)
                self._up.set(1)
            except Exception as error:
                logger.warning("the database could not be read for the metrics: %s", type(error).__name__)
                self._up.set(0)
            self._fresh_until = time.monotonic() + CACHE_SECONDS

    async def _read(self, engine: Engine) -> None:
        status = await engine.budget.check_budget()
        for period in ("daily", "monthly"):
            for kind in ("used", "failed", "reserved", "ceiling", "limit"):
                self._budget.labels(period, kind).set(getattr(status, f"{period}_{kind}"))
        for breaker in await engine.breaker.states():
            for state in CircuitState:
                self._breakers.labels(breaker.app_id, state).set(breaker.state == state)
        counts = dict.fromkeys(map(str, OPEN_JOBS), 0) | dict(await engine.database.all(_QUEUE))
        for status_name, count in counts.items():
            self._jobs.labels(status_name).set(count)


def metrics_router(engine: Engine | None, metrics: Metrics, reader: TraceReader) -> APIRouter:
    """The endpoint."""
    router = APIRouter(tags=["operation"])

    @router.get(
        "/metrics",
        summary="Metrics for Prometheus",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus."}},
    )
    async def read_metrics() -> Response:
        await metrics.rules.refresh(reader)
        if engine is not None:
            await metrics.shared.refresh(engine)
            metrics.streams.set(0 if engine.chat is None else engine.chat.open_turns)
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
