"""The client for programs that trigger chains: ETL jobs, back ends, scripts; sync and async, on httpx.

A trigger may be sent again without harm: the server runs one job for an event, a site, a member and a day, and answers
a repetition with ``skipped_duplicate``. So temporary errors are retried. A forced trigger runs each time it arrives; it
is only sent again when the connection was never made.

Both clients share their logic: generators that yield the next step (send this request, sleep so long) and receive its
outcome. The clients only execute the steps, blocking or not.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlencode

import httpx

DEFAULT_URL = "http://127.0.0.1:8317"
#: The statuses in which a job stays.
FINAL = frozenset({"completed", "failed", "skipped_duplicate", "budget_exceeded", "cancelled"})
#: The statuses of a job that did what it was there for, or whose work another one does.
GOOD = frozenset({"completed", "skipped_duplicate"})

_PREFIX = "/api/internal/ai"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_FIRST_LOOK, _LAST_LOOK = 0.1, 2.0
#: Nothing was sent yet when one of these is raised.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

T = TypeVar("T")


class TriggerError(Exception):
    """A request did not do what was asked: what went wrong, and what to do about it."""

    def __init__(self, problem: str, fix: str = "", *, status: int | None = None) -> None:
        super().__init__(f"{problem}. {fix}" if fix else problem)
        self.problem, self.fix = problem, fix
        #: The HTTP status; None when there was no answer.
        self.status = status


class TriggerRefusedError(TriggerError):
    """The server understood and said no; the same request will be refused again."""


class TriggerUnavailableError(TriggerError):
    """The server cannot be reached or cannot do it now; retries are used up."""


class TriggerUncertainError(TriggerUnavailableError):
    """A forced trigger was sent and the answer was lost: it may run, or may not. It is not sent twice."""


class JobTimeoutError(TriggerError):
    """The job is still running when the time to wait for it is over."""

    def __init__(self, job_id: int, status: str, timeout: float) -> None:
        super().__init__(
            f"job {job_id} is still {status} after {timeout:g} s", "It is still running; ask for it again later."
        )
        self.job_id, self.job_status = job_id, status


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerResult:
    """What the server says to a trigger."""

    trigger_job_id: int
    #: ``pending``, or ``skipped_duplicate`` when the same event of that day has its job already.
    status: str
    #: The job that does the work, where this one is its duplicate and the server names it.
    duplicate_of: int | None = None

    @property
    def working_job_id(self) -> int:
        """The job to wait for."""
        return self.trigger_job_id if self.duplicate_of is None else self.duplicate_of


@dataclass(frozen=True, kw_only=True, slots=True)
class _TriggerRequest:
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    #: Doing it twice is the same as doing it once.
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


_Outcome: TypeAlias = httpx.Response | httpx.RequestError | None
_Flow: TypeAlias = Generator[_TriggerRequest | _Pause, _Outcome, T]


class _Flows:
    """The logic of both clients, without sending and sleeping."""

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.base_url = _checked_url(base_url or os.environ.get("AGENTTRACE_URL") or DEFAULT_URL)
        self.retries = retries
        self._token = _checked_token(token or os.environ.get("INTERNAL_API_TOKEN") or "")
        self._timeout = timeout
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def _options(self, verify: ssl.SSLContext | bool) -> dict[str, Any]:
        # The token is for this server alone: it takes no way around through a proxy named in the environment.
        return {
            "base_url": self.base_url,
            "headers": {"Authorization": f"Internal-Token {self._token}", "User-Agent": "agenttrace"},
            "timeout": self._timeout,
            "trust_env": False,
            "verify": verify,
        }

    def _triggering(self, body: Mapping[str, Any]) -> _Flow[TriggerResult]:
        request = _TriggerRequest(
            method="POST", path=f"{_PREFIX}/trigger", body=body, repeatable=not body.get("is_forced", False)
        )
        answer = yield from self._exchange(request)
        try:
            duplicate = answer.get("duplicate_of")
            return TriggerResult(
                trigger_job_id=int(answer["trigger_job_id"]),
                status=str(answer["status"]),
                duplicate_of=None if duplicate is None else int(duplicate),
            )
        except (KeyError, TypeError, ValueError):
            raise self._not_ours(200) from None

    def _looking(self, job_id: int) -> _Flow[dict[str, Any]]:
        return (yield from self._exchange(_TriggerRequest(method="GET", path=f"{_PREFIX}/jobs/{int(job_id)}")))

    def _reading(self, what: str, **query: int | str) -> _Flow[dict[str, Any]]:
        return (yield from self._exchange(_TriggerRequest(method="GET", path=f"{_PREFIX}/{what}?{urlencode(query)}")))

    def _result(self, cache_type: str, site_id: int, target_id: str) -> _Flow[dict[str, Any] | None]:
        found = yield from self._reading("cache", cache_type=cache_type, site_id=site_id, target_id=target_id)
        results: list[dict[str, Any]] = found["results"]
        return results[0] if results else None

    def _clues(self, site_id: int, member_id: int, limit: int) -> _Flow[list[dict[str, Any]]]:
        found = yield from self._reading("clues", site_id=site_id, member_id=member_id, limit=limit)
        clues: list[dict[str, Any]] = found["clues"]
        return clues

    def _waiting(self, job_id: int, timeout: float) -> _Flow[dict[str, Any]]:
        until, pause = self._clock() + timeout, _FIRST_LOOK
        while True:
            job = yield from self._looking(job_id)
            if job.get("status") in FINAL:
                return job
            left = until - self._clock()
            if left <= 0:
                raise JobTimeoutError(job_id, str(job.get("status")), timeout)
            yield _Pause(min(pause, left))
            pause = min(pause * 1.5, _LAST_LOOK)

    def _exchange(self, request: _TriggerRequest) -> _Flow[dict[str, Any]]:
        """Send a request until there is an answer that stays."""
        for attempt in range(self.retries + 1):
            outcome = yield request
            if isinstance(outcome, httpx.Response) and not _passing(outcome.status_code):
                return self._answer(outcome)
            pause = _pause(attempt, outcome)
            if attempt == self.retries or pause > _LONGEST_PAUSE or not _may_repeat(request, outcome):
                raise self._given_up(request, outcome, pause, attempt + 1)
            yield _Pause(pause)
        raise AssertionError("a range of at least one ended")  # pragma: no cover

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        status = response.status_code
        if status >= 300:
            detail, fix = self._hidden(_detail(response)), _FIXES.get(status, "")
            raise TriggerRefusedError(f"the server answers {status}: {detail}", fix, status=status)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._not_ours(status)
        return answer

    def _not_ours(self, status: int) -> TriggerError:
        problem = f"{self.base_url} answers, but not as an agenttrace server"
        return TriggerError(problem, "Check the address and its port.", status=status)

    def _given_up(self, request: _TriggerRequest, outcome: _Outcome, pause: float, attempts: int) -> TriggerError:
        if isinstance(outcome, httpx.Response):
            status = outcome.status_code
            problem = f"the server answers {status}: {self._hidden(_detail(outcome))}"
            later = f"Try again in {math.ceil(pause)} s." if outcome.headers.get("Retry-After") else "Try again later."
            return TriggerUnavailableError(problem, later, status=status)
        reason = self._hidden(str(outcome) or type(outcome).__name__)
        if isinstance(outcome, _NOT_SENT) or request.repeatable:
            problem = f"no answer from {self.base_url} after {_times(attempts)} ({reason})"
            return TriggerUnavailableError(problem, "Is the server running there? agenttrace up starts one.")
        return TriggerUncertainError(
            f"the forced trigger was sent to {self.base_url}, but its answer was lost ({reason})",
            "Look before sending it again: agenttrace jobs",
        )

    def _hidden(self, text: str) -> str:
        """The text with the token masked."""
        return text.replace(self._token, "***")


class TriggerClient(_Flows):
    """Triggers chains and queries jobs, blocking.

    ``base_url`` and ``token`` come from ``AGENTTRACE_URL`` and ``INTERNAL_API_TOKEN`` when they are not given. Several
    threads may use it; close it, or use it in a ``with`` block.
    """

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        verify: ssl.SSLContext | bool = True,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(base_url, token, timeout=timeout, retries=retries, clock=clock)
        self._sleep = sleep
        self._http = httpx.Client(**self._options(verify))

    def trigger(
        self,
        event_type: str,
        site_id: int,
        member_id: int | None = None,
        payload: Mapping[str, Any] | None = None,
        connector_type: str | None = None,
        is_forced: bool = False,
    ) -> TriggerResult:
        """Report an event; the chain it starts runs on the server."""
        return self._do(self._triggering(_body(event_type, site_id, member_id, payload, connector_type, is_forced)))

    def job(self, job_id: int) -> dict[str, Any]:
        """A job with its steps and results."""
        return self._do(self._looking(job_id))

    def result(self, cache_type: str, site_id: int, target_id: str) -> dict[str, Any] | None:
        """The valid result of an application for a member, ``member:coach`` or time dimension; None: there is none."""
        return self._do(self._result(cache_type, site_id, target_id))

    def clues(self, site_id: int, member_id: int, limit: int = 30) -> list[dict[str, Any]]:
        """The retention clues of a member, the newest day first."""
        return self._do(self._clues(site_id, member_id, limit))

    def wait(self, job_id: int, timeout: float = 300.0) -> dict[str, Any]:
        """The job once it has ended, however it ended; ``JobTimeoutError`` when that takes longer."""
        return self._do(self._waiting(job_id, timeout))

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def __enter__(self) -> TriggerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, flow: _Flow[T]) -> T:
        outcome: _Outcome = None
        try:
            while True:
                step, outcome = flow.send(outcome), None
                if isinstance(step, _Pause):
                    self._sleep(step.seconds)
                else:
                    outcome = self._send(step)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, request: _TriggerRequest) -> httpx.Response | httpx.RequestError:
        try:
            return self._http.request(request.method, request.path, json=request.body)
        except httpx.RequestError as error:
            return error


class AsyncTriggerClient(_Flows):
    """Triggers chains and queries jobs without blocking the loop; otherwise as ``TriggerClient``."""

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        verify: ssl.SSLContext | bool = True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(base_url, token, timeout=timeout, retries=retries, clock=clock)
        self._sleep = sleep
        self._http = httpx.AsyncClient(**self._options(verify))

    async def trigger(
        self,
        event_type: str,
        site_id: int,
        member_id: int | None = None,
        payload: Mapping[str, Any] | None = None,
        connector_type: str | None = None,
        is_forced: bool = False,
    ) -> TriggerResult:
        """Report an event; the chain it starts runs on the server."""
        body = _body(event_type, site_id, member_id, payload, connector_type, is_forced)
        return await self._do(self._triggering(body))

    async def job(self, job_id: int) -> dict[str, Any]:
        """A job with its steps and results."""
        return await self._do(self._looking(job_id))

    async def result(self, cache_type: str, site_id: int, target_id: str) -> dict[str, Any] | None:
        """The valid result of an application for a member, ``member:coach`` or time dimension; None: there is none."""
        return await self._do(self._result(cache_type, site_id, target_id))

    async def clues(self, site_id: int, member_id: int, limit: int = 30) -> list[dict[str, Any]]:
        """The retention clues of a member, the newest day first."""
        return await self._do(self._clues(site_id, member_id, limit))

    async def wait(self, job_id: int, timeout: float = 300.0) -> dict[str, Any]:
        """The job once it has ended, however it ended; ``JobTimeoutError`` when that takes longer."""
        return await self._do(self._waiting(job_id, timeout))

    async def aclose(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncTriggerClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _do(self, flow: _Flow[T]) -> T:
        outcome: _Outcome = None
        try:
            while True:
                step, outcome = flow.send(outcome), None
                if isinstance(step, _Pause):
                    await self._sleep(step.seconds)
                else:
                    outcome = await self._send(step)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, request: _TriggerRequest) -> httpx.Response | httpx.RequestError:
        try:
            return await self._http.request(request.method, request.path, json=request.body)
        except httpx.RequestError as error:
            return error


_FIXES = {
    401: "Set INTERNAL_API_TOKEN to the token that the server was started with.",
    404: "Check the number of the job and the address of the server.",
    413: "Send a smaller payload.",
}


def _body(
    event_type: str,
    site_id: int,
    member_id: int | None,
    payload: Mapping[str, Any] | None,
    connector_type: str | None,
    is_forced: bool,
) -> dict[str, Any]:
    # Left out, it is what the server's catalog says.
    connector = {} if connector_type is None else {"connector_type": connector_type}
    return {
        "event_type": event_type,
        **connector,
        "site_id": site_id,
        "member_id": member_id,
        "payload": None if payload is None else dict(payload),
        "is_forced": is_forced,
    }


def _checked_url(url: str) -> str:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        parts = httpx.URL("")
    if parts.scheme not in ("http", "https") or not parts.host:
        raise TriggerError("the server's address is not one", f"Give something like {DEFAULT_URL}.")
    if parts.userinfo:
        raise TriggerError("the server's address has a password in it", "Leave it out: only the token is needed.")
    return str(parts).rstrip("/")


def _checked_token(token: str) -> str:
    token = token.strip()
    if not token:
        raise TriggerError("there is no token", "Set INTERNAL_API_TOKEN to the token of the server.")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise TriggerError(
            "the token has characters that no header can hold", "Use letters, digits and signs of ASCII, no spaces."
        )
    return token


def _passing(status: int) -> bool:
    """Whether it may be better the next time."""
    return status == 429 or status >= 500


def _may_repeat(request: _TriggerRequest, outcome: _Outcome) -> bool:
    return request.repeatable or isinstance(outcome, _NOT_SENT)


def _pause(attempt: int, outcome: _Outcome) -> float:
    pause: float = _FIRST_PAUSE * 2**attempt
    if isinstance(outcome, httpx.Response):
        return max(pause, _retry_after(outcome.headers.get("Retry-After", "")))
    return pause


def _retry_after(value: str) -> float:
    """Seconds, whether they were given as a number or as a date; 0 for anything else."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value).astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except ValueError:
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _detail(response: httpx.Response) -> str:
    """What the server says went wrong: the detail of problem+json, or the HTTP reason."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return response.reason_phrase
    detail = problem.get("detail") or problem.get("title") or response.reason_phrase
    return " ".join((detail if isinstance(detail, str) else str(detail)).split())[:500]


def _times(attempts: int) -> str:
    return "one attempt" if attempts == 1 else f"{attempts} attempts"
