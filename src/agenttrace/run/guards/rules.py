"""When a circuit breaker opens, and for how long: for all applications, and what one of them has otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakerRule:
    """Consecutive failures that open the breaker, and the seconds until a probe is let through."""

    failure_threshold: int = 5
    recovery_seconds: float = 60.0

    @property
    def recovery(self) -> str:
        """How long it stays open, as PostgreSQL reads an interval."""
        return f"{self.recovery_seconds} seconds"


class BreakerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[apps.NAME.breaker]``: what is not given is as for all."""

    failure_threshold: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    recovery_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None

    def over(self, rule: BreakerRule) -> BreakerRule:
        """The rule of the application."""
        return BreakerRule(
            failure_threshold=self.failure_threshold or rule.failure_threshold,
            recovery_seconds=self.recovery_seconds or rule.recovery_seconds,
        )


class _App(Protocol):
    @property
    def app_id(self) -> str: ...
    @property
    def breaker(self) -> BreakerTable | None: ...


def breaker_rules(apps: Iterable[_App], rule: BreakerRule) -> Mapping[str, BreakerRule]:
    """The rules of the applications that have one of their own, by id."""
    return {app.app_id: app.breaker.over(rule) for app in apps if app.breaker is not None and app.app_id}
