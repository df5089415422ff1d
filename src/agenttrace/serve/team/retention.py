"""Retention of a team: texts of old sessions are removed every day, by directory; sums stay."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agenttrace.store.errors import STORE_FAILURES

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore
    from agenttrace.serve.team.storing import Storing

logger = logging.getLogger(__name__)

_DAY_SECONDS, _RETRY_SECONDS = 86_400.0, 600.0
_MICROS = 1_000_000
#: Every session, also those without a directory.
_EVERYTHING = "*"
_SERVER = "server"


async def prune_daily(storing: Storing, access: AccessStore, days: Mapping[str, int], stop: asyncio.Event) -> None:
    """Remove what is too old now, and every day from now on, until ``stop`` is set."""
    while days and not stop.is_set():
        try:
            await prune_once(storing, access, days)
            wait = _DAY_SECONDS
        except STORE_FAILURES as error:
            logger.warning("what is too old could not be removed (%s); it is tried again", error)
            wait = _RETRY_SECONDS
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except TimeoutError:
            continue


async def prune_once(
    storing: Storing, access: AccessStore, days: Mapping[str, int], *, now: float | None = None
) -> int:
    """Remove what is too old at a moment; the audit log says what. How many sessions that were."""
    total, moment = 0, time.time() if now is None else now
    for glob, number in days.items():
        before = round((moment - number * _DAY_SECONDS) * _MICROS)
        removed = await storing.prune(before, None if glob == _EVERYTHING else glob)
        if removed:
            outcome = f"{removed} sessions older than {number} days"
            await asyncio.to_thread(access.audit.begin, _SERVER, "", "retention", glob, outcome)
        total += removed
    return total
