"""What is wrong with a destination that does not take a request, and how to put it right."""

from __future__ import annotations

from agenttrace.destinations import shown_address
from agenttrace.export.destination import Delivery
from agenttrace.export.posting import Answer

_PATH_STATUSES = (404, 405)


def problem(answer: Answer | None, delivery: Delivery, *, key: str, address: str) -> str:
    """What happened, and as the last sentence what to do; ``key`` and ``address`` say which settings are meant."""
    if answer is None:
        return f"{delivery.reason}. {_unanswered(delivery, address)}"
    if answer.status in (401, 403):
        return f"it refuses the key ({delivery.reason}). Check {key}."
    if answer.status in _PATH_STATUSES:
        return f"nothing takes spans there ({delivery.reason}). Check {address}."
    if 300 <= answer.status < 400:
        place = shown_address(answer.hide(answer.headers.get("Location", "somewhere else")))
        return f"it redirects to {place}, which is not followed. Set url to where it really is."
    if delivery.verdict in ("retry", "unknown"):
        return f"it cannot take anything now ({delivery.reason}). Try again later, or look at its log."
    return f"it refuses a request without spans ({delivery.reason}). Check {address}, and that it takes OTLP over HTTP."


def _unanswered(delivery: Delivery, address: str) -> str:
    if delivery.verdict == "retry":
        return f"Start it, or check {address}."
    if delivery.verdict == "unknown":
        return "Look at its log, or raise timeout_seconds."
    return f"Check {address} and headers."
