"""Control of the simulator over HTTP: faults, answers, delays and counts, for tests in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from aiohttp import web

from agenttrace.run.simulator import delivery, faults
from agenttrace.run.simulator.calls import SimulatedCall
from agenttrace.run.simulator.faults import Fault

if TYPE_CHECKING:
    from agenttrace.run.simulator.simulator import Simulator

#: A fault as JSON: its name, or its name as ``fault`` beside its options, or null.
FaultOrder = str | dict[str, Any] | None

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Standing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A fault for every call to an app, or for a share of them."""

    app: str | None = None
    fault: FaultOrder
    rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class Script(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Faults for the next calls to an app."""

    app: str | None = None
    faults: list[FaultOrder]


class FixedAnswer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer of an app; null: its generated answers."""

    app: str
    value: dict[str, Any] | str | None


class Order(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One ``POST /__control``: the given fields are applied in this order."""

    clear: list[Literal["faults", "calls", "sessions", "answers"]] = []
    always: Standing | None = None
    script: Script | None = None
    answer: FixedAnswer | None = None
    latency: Seconds | None = None
    chunk_delay: Seconds | None = None


async def handle(simulator: Simulator, request: web.BaseRequest) -> web.Response | None:
    """The answer to a control request; None for any other path."""
    if request.path == "/__control" and request.method == "POST":
        try:
            apply(simulator, msgspec.json.decode(await request.content.read(), type=Order))
        except ValueError as wrong:
            return delivery.whole(msgspec.json.encode({"error": str(wrong)}), http=400)
        return delivery.whole(b'{"ok":true}')
    if request.path == "/__calls" and request.method == "GET":
        return delivery.whole(msgspec.json.encode(report(simulator, request.query)))
    return None


def apply(simulator: Simulator, order: Order) -> None:
    """Apply the order, or nothing of it where a fault in it is unknown."""
    standing = _fault(order.always.fault) if order.always else None
    queued = [_fault(fault) for fault in order.script.faults] if order.script else []
    for name in order.clear:
        simulator.clear(name)
    if order.always:
        simulator.always(order.always.app, standing, rate=order.always.rate)
    if order.script:
        simulator.script(order.script.app, *[fault for fault in queued if fault is not None])
    if order.answer:
        simulator.answer(order.answer.app, order.answer.value)
    simulator.latency = simulator.latency if order.latency is None else order.latency
    simulator.chunk_delay = simulator.chunk_delay if order.chunk_delay is None else order.chunk_delay


def _fault(order: FaultOrder) -> Fault | None:
    if order is None or isinstance(order, str):
        return None if order is None else faults.named(order)
    options = dict(order)
    return faults.named(str(options.pop("fault", "")), options)


def report(simulator: Simulator, query: Mapping[str, str]) -> dict[str, Any]:
    """The counts of calls and outcomes by app; ``last=N`` and ``app=ID`` add the calls themselves."""
    counts = simulator.log.counts()
    found: dict[str, Any] = {"total": sum(count["calls"] for count in counts.values()), "apps": counts}
    last, app = query.get("last", ""), query.get("app")
    if last.isdecimal() and int(last):
        calls = [call for call in simulator.calls if app in (None, call.app_id)]
        found["calls"] = [_shown(call) for call in calls[-int(last) :]]
    return found


def _shown(call: SimulatedCall) -> dict[str, Any]:
    names = ("app_id", "at", "stream", "outcome", "session_id", "body", "context", "text")
    return {name: getattr(call, name) for name in names} | {"headers": dict(call.headers)}
