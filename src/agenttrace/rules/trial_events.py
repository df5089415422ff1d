"""The events of a trial: of every kind, as far as what is stored tells of them, with what cannot be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, NamedTuple

from agenttrace.calendar import zone
from agenttrace.config.rules import RuleSettings
from agenttrace.config.settings import Settings
from agenttrace.prices.costing import Cashier
from agenttrace.rules.budgets import past_crossings
from agenttrace.rules.crossings import BUDGET, LIMIT, budget_event, limit_event, with_highest
from agenttrace.rules.limits import limit_crossings_since
from agenttrace.rules.past import PastEvent, past_events
from agenttrace.rules.secrets import KIND as SECRET
from agenttrace.rules.secrets import MaskText, past_secrets
from agenttrace.store.sqlite.store import SqliteStore

RemarkCode = Literal[
    "costs_of_now",
    "permission_waits",
    "span_silence",
    "budgets_of_now",
    "last_reports",
    "latest_lines",
    "tokens_of_firings",
    "tokens_of_input",
]
_SENTENCES: dict[RemarkCode, str] = {
    "costs_of_now": "Sessions are judged by what they cost by now.",
    "permission_waits": "Waits for permissions are not stored: the rule is tried on the ends of turns.",
    "span_silence": "Silence is measured between the beginnings and ends of recorded calls; a wait for a permission "
    "counts as silence.",
    "budgets_of_now": "Budgets, prices and exchange rates are those of now.",
    "last_reports": "Of each window of a limit only the last report is stored, for 40 days, and of Claude Code only "
    "the latest windows: a threshold counts from that report, and windows that were not recorded are missing.",
    "latest_lines": "Only the latest {megabytes} MB of recorded lines were searched.",
    "tokens_of_firings": "Tokens and cost are estimated from earlier runs of the same applications.",
    "tokens_of_input": "Tokens and cost are estimated from the size of the input, at four bytes a token: the "
    "applications did not run before, and their prompts and answers are not included.",
}


class Remark(NamedTuple):
    """What a trial cannot know, or how it was estimated: a code with its facts."""

    code: RemarkCode
    facts: Mapping[str, str | int | None] = MappingProxyType({})

    @property
    def sentence(self) -> str:
        """In English."""
        return _SENTENCES[self.code].format(**self.facts)


class TrialEvents:
    """Reads what happened in a period, and collects what is to be said about that."""

    def __init__(self, store: SqliteStore, settings: Settings, cashier: Cashier, mask: MaskText) -> None:
        self._store, self._settings, self._cashier, self._mask = store, settings, cashier, mask
        self._zone = zone(settings.usage.timezone)
        self.remarks: list[Remark] = []

    def read(self, rule: RuleSettings, since: int, until: int) -> Iterator[PastEvent]:
        """The events of the kind that a rule asks for (microseconds), in any order."""
        if rule.on == BUDGET:
            yield from self._budgets(since, until)
        elif rule.on == LIMIT:
            yield from self._limits(since, until)
        elif rule.on == SECRET:
            yield from self._secrets(since, until)
        else:
            if rule.on == "session.waiting":
                self.remarks.append(Remark("permission_waits"))
            if rule.on == "session.stuck":
                self.remarks.append(Remark("span_silence"))
            yield from past_events(self._store, rule.on, since, until, rule.settle)

    def _budgets(self, since: int, until: int) -> Iterator[PastEvent]:
        self.remarks.append(Remark("budgets_of_now"))
        found = past_crossings(self._store, self._settings, since, until, self._cashier)
        for at, together in groupby(found, key=itemgetter(0)):
            events = [budget_event(crossing, at, self._zone) for _, crossing in together]
            yield from (PastEvent(event, float("inf")) for event in with_highest(events))

    def _limits(self, since: int, until: int) -> Iterator[PastEvent]:
        self.remarks.append(Remark("last_reports"))
        found = limit_crossings_since(self._store, self._settings, since)
        events = [limit_event(each, until, self._zone) for each in found if each.state.at < until]
        yield from (PastEvent(event, float("inf")) for event in with_highest(events))

    def _secrets(self, since: int, until: int) -> Iterator[PastEvent]:
        found = past_secrets(self._store, self._mask, since)
        if found.cut_at is not None:
            self.remarks.append(Remark("latest_lines", {"megabytes": found.cut_at // 1_000_000}))
        for event in found.events:
            if since <= event.at < until:
                yield PastEvent(event, float("inf"))
