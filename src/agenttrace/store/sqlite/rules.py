"""``store.rules``: events that rules are asked about, what each rule decided, and the actions of its firings.

A rule decides about an event once: the pair is unique. What it fires once for (a session, a turn, a span) is unique
among the firings that were passed on. Every change of state is one transaction, so a process that is killed at any
moment is continued by the next one.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agenttrace.store.rule_reasons import Reason, read, why, written
from agenttrace.store.rules import (
    OPEN_STATES,
    ActionState,
    Answered,
    Attempt,
    ChainUse,
    Firing,
    FiringAction,
    FiringCounts,
    FiringState,
    QueuedEvent,
    RuleEvent,
    RuleState,
)
from agenttrace.store.sqlite.database import marks, transaction
from agenttrace.store.sqlite.rule_events import note_events
from agenttrace.store.sqlite.rule_past import RulePast
from agenttrace.store.sqlite.rule_retention import forget_texts, old_firings, prune_firings

_EVENT = "kind, session_id, span_id, turn_index, at, facts"
_FIRING = (
    f"firing_no, rule, once_key, event_key, {_EVENT}, state, reason, due_at, created_at, fired_at, ended_at, message, "
    "tokens"
)
_ACTION = (
    "firing_no, place, action, idempotency_key, state, attempts, due_at, started_at, ended_at, answer, error, tokens"
)
_OPEN = f"state IN ({', '.join(repr(state) for state in OPEN_STATES)})"

#: The name of the cursor of a rule's look back.
_PAST = "past:"
_KEEP = """
INSERT INTO rule_states (rule, since, added_at, kinds) VALUES (?, ?, ?, ?)
ON CONFLICT (rule) DO UPDATE SET kinds = excluded.kinds, since = excluded.since
WHERE kinds <> excluded.kinds OR since <> excluded.since
"""
_SWITCHED = """
INSERT INTO rule_states (rule, since, added_at, kinds, mode) VALUES (?1, 0, ?2, '', ?3)
ON CONFLICT (rule) DO UPDATE SET mode = excluded.mode WHERE mode IS NULL
"""
_DECIDE = f"""
INSERT OR IGNORE INTO rule_firings (rule, event_key, once_key, {_EVENT}, state, reason, due_at, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
#: Times further away than any rule waits are from before the clock was set back.
_DUE = f"""
SELECT {_FIRING} FROM rule_firings INDEXED BY rule_firings_due
WHERE {_OPEN} AND (due_at <= ? OR due_at > ?) AND {{only}} ORDER BY due_at, firing_no LIMIT ?
"""
#: What is to be decided, and actions to be run; those of a paused rule wait.
_TO_DECIDE = "state IN ('settling', 'held')"
_TO_RUN = "state IN ('queued', 'running') AND rule NOT IN (SELECT rule FROM rule_states WHERE paused IS NOT NULL)"
_NEXT_DUE = f"SELECT min(due_at) FROM rule_firings INDEXED BY rule_firings_due WHERE {_OPEN} AND due_at > ?"
_FIRED = """
SELECT firing_no FROM rule_firings INDEXED BY rule_firings_once
WHERE rule = ? AND once_key = ? AND state NOT IN ('skipped', 'dry', 'settling') AND firing_no <> ?
"""
_DRY = "SELECT firing_no FROM rule_firings WHERE rule = ? AND once_key = ? AND state = 'dry' AND firing_no <> ?"
#: Telemetry and log count turns in their own ways, and have one moment a little apart.
_SOURCE = "coalesce(json_extract(facts, '$.source'), '')"
_APART = 10_000_000
#: Within one of them waits are counted; times may go back, as the clock may be set.
_LATER_WAIT = f"""
SELECT 1 FROM rule_firings WHERE session_id = :session AND rule = :rule AND kind = :kind AND firing_no <> :number
    AND iif({_SOURCE} = :source, coalesce(json_extract(facts, '$.wait'), 0) > :wait, at > :at + {_APART}) LIMIT 1
"""
_TOLD_OTHERWISE = f"""
SELECT firing_no FROM rule_firings WHERE session_id = :session AND rule = :rule AND kind = :kind
    AND firing_no <> :number AND state NOT IN ('skipped', 'settling') AND {_SOURCE} <> :source
    AND abs(at - :at) <= {_APART} AND coalesce(json_extract(facts, '$.tool'), '') = :tool
ORDER BY abs(at - :at) LIMIT 1
"""
_DAY = """
SELECT count(*), coalesce(sum(tokens), 0) FROM rule_firings INDEXED BY rule_firings_day
WHERE rule = ? AND day = ? AND message IS NULL
"""
_FIRE = (
    "UPDATE rule_firings SET state = ?, due_at = ?, fired_at = ?, day = ?, message = ?, reason = ? WHERE firing_no = ?"
)
_COLLECTED = f"""
SELECT {_FIRING} FROM rule_firings WHERE firing_no = ? OR message = ? ORDER BY message NOTNULL, firing_no
"""
_ADD_ACTION = """
INSERT OR IGNORE INTO rule_actions (firing_no, place, action, idempotency_key, state, due_at)
VALUES (?, ?, ?, ?, 'queued', ?)
"""
_ADD_ATTEMPT = "INSERT INTO rule_attempts (firing_no, place, at, seconds, outcome, detail) VALUES (?, ?, ?, ?, ?, ?)"
_RESTORE = f"""
INSERT OR IGNORE INTO rule_firings (rule, event_key, once_key, {_EVENT}, state, reason, due_at, created_at)
VALUES (?, ?, ?, '', NULL, NULL, -1, 0, NULL, 'done', 'known from the journal', 0, ?)
"""
_STORED_FROM = "SELECT event_no, processed_at FROM processed_events WHERE event_no >= ? ORDER BY event_no LIMIT 1"
#: A call belongs to the response that asked for it, a turn has responses; those of a fork that it copied are another's.
_COPY = """
SELECT 1 FROM spans own JOIN spans step ON step.session_id = own.session_id
    AND step.span_id IN (own.span_id, own.parent_id) JOIN responses ON responses.response = step.response
WHERE own.session_id = :session AND (own.span_id = :span OR :turn AND own.parent_id = :span)
    AND responses.session_id <> :session LIMIT 1
"""

#: The sessions of a chain's traces are in its answer, also where that is not complete.
_USED = """
SELECT firing_no, place, rule_actions.tokens, json_extract(each.value, '$.run_session')
FROM rule_actions JOIN rule_firings USING (firing_no)
LEFT JOIN json_each(rule_actions.answer, '$.events') AS each
WHERE rule_actions.tokens > 0 AND {only} ORDER BY firing_no, place
"""

#: Of all actions, notify ones answer with a title.
_NOTICES = f"""
SELECT done.attempt_no, taken.action, taken.idempotency_key, taken.answer,
    {", ".join(f"fired.{name}" for name in _FIRING.split(", "))}
FROM rule_attempts AS done JOIN rule_actions AS taken USING (firing_no, place)
JOIN rule_firings AS fired USING (firing_no)
WHERE done.attempt_no > ? AND done.outcome = 'done' AND json_extract(taken.answer, '$.title') IS NOT NULL
ORDER BY done.attempt_no DESC LIMIT ?
"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Rules:
    """The bookkeeping of rules, through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.past = RulePast(connection)

    # -- rules ------------------------------------------------------------------------------------------------

    def states(self) -> dict[str, RuleState]:
        """What is stored of each rule."""
        rows = self._connection.execute(
            "SELECT rule, since, added_at, kinds, mode, paused, failures FROM rule_states ORDER BY rule"
        )
        return {
            rule: RuleState(rule, since, added, tuple(kinds.split()), mode, paused, failures)
            for rule, since, added, kinds, mode, paused, failures in rows
        }

    def keep(
        self, wanted: Mapping[str, tuple[int, Sequence[str]]], *, modes: Mapping[str, str | None] | None = None
    ) -> None:
        """Note events for these rules: since this time, and of these kinds. For no other rules.

        ``modes``: what rules that this store does not know were switched to.
        What is recorded after this is noted. What was before, a rule whose kinds are new has to look back for.
        """
        now = time.time()
        with transaction(self._connection):
            known = self.states()
            new = [name for name, (_, kinds) in wanted.items() if name not in known or known[name].kinds != (*kinds,)]
            forget = "DELETE FROM rule_cursors WHERE name = ?"
            self._connection.executemany(forget, ((_PAST + name,) for name in new))
            self._connection.executemany(
                _KEEP, ((rule, since, now, " ".join(kinds)) for rule, (since, kinds) in wanted.items())
            )
            self._connection.executemany(
                _SWITCHED, ((rule, now, mode) for rule, mode in (modes or {}).items() if mode is not None)
            )
            gone = [rule for rule in known if rule not in wanted]
            self._connection.executemany("UPDATE rule_states SET kinds = '' WHERE rule = ?", ((each,) for each in gone))

    def switch(self, rule: str, mode: str | None, *, since: int) -> None:
        """Switch a rule ``on``, ``dry`` or ``off``, whatever the settings say; one that was off starts anew."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT OR IGNORE INTO rule_states (rule, since, added_at, kinds) VALUES (?, ?, ?, '')",
                (rule, since, time.time()),
            )
            self._connection.execute(
                "UPDATE rule_states SET mode = ?, since = iif(kinds = '', ?, since), paused = NULL, failures = 0 "
                "WHERE rule = ?",
                (mode, since, rule),
            )

    def pause(self, rule: str, reason: str) -> None:
        """Run no more actions of a rule until it is switched on again; its events are still noted."""
        with transaction(self._connection):
            self._connection.execute("UPDATE rule_states SET paused = ? WHERE rule = ?", (reason, rule))

    # -- events -----------------------------------------------------------------------------------------------

    def note(self, events: Iterable[RuleEvent]) -> None:
        """Note events that are derived from what is stored, each once."""
        with transaction(self._connection):
            note_events(self._connection, events, time.time())

    def events(self, limit: int) -> list[QueuedEvent]:
        """The oldest events that rules are to be asked about."""
        query = f"SELECT event_no, key, {_EVENT} FROM rule_events ORDER BY event_no LIMIT ?"
        return [QueuedEvent(row[0], _event(row[1:])) for row in self._connection.execute(query, (limit,))]

    def is_copy(self, event: RuleEvent) -> bool:
        """Whether the span of an event was copied from another session, as forks do."""
        if event.span is None or event.kind not in ("tool.failed", "turn.failed"):
            return False
        values = {"session": event.session, "span": event.span, "turn": event.kind == "turn.failed"}
        return self._connection.execute(_COPY, values).fetchone() is not None

    def decide(
        self, numbers: Sequence[int], decided: Iterable[tuple[str, bytes, RuleEvent, FiringState, Reason | None, float]]
    ) -> None:
        """Store what rules decided about these events: rule, once-key, event, state, reason and when it is due."""
        now = time.time()
        with transaction(self._connection):
            self._connection.executemany(
                _DECIDE,
                (
                    (rule, event.key, once, *_values(event), state, written(reason), due, now)
                    for rule, once, event, state, reason, due in decided
                ),
            )
            self._connection.executemany("DELETE FROM rule_events WHERE event_no = ?", ((each,) for each in numbers))

    def touched(self, limit: int) -> list[tuple[int, float]]:
        """Sessions of which something was recorded, the longest ago first, and when."""
        query = "SELECT session_id, touched_at FROM rule_sessions ORDER BY touched_at LIMIT ?"
        return self._connection.execute(query, (limit,)).fetchall()

    def untouch(self, sessions: Iterable[tuple[int, float]]) -> None:
        """These need no further look, unless they were touched meanwhile."""
        with transaction(self._connection):
            query = "DELETE FROM rule_sessions WHERE session_id = ? AND touched_at = ?"
            self._connection.executemany(query, sessions)

    def first_event_since(self, since: int) -> int:
        """The number of the first recorded event that was stored at or after this time (microseconds), or the next."""
        (last,) = self._connection.execute("SELECT coalesce(max(event_no), 0) FROM processed_events").fetchone()
        low, high = 1, last + 1
        while low < high:
            middle = (low + high) // 2
            row = self._connection.execute(_STORED_FROM, (middle,)).fetchone()
            if row is None or row[1] * 1_000_000 >= since:
                high = middle
            else:
                low = row[0] + 1
        return low

    def cursor(self, name: str) -> str | None:
        """How far something was looked through."""
        row = self._connection.execute("SELECT value FROM rule_cursors WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def looked_back(self, rule: str) -> str | None:
        """How far a rule has looked back."""
        return self.cursor(_PAST + rule)

    def look_back(self, rule: str, value: str, events: Iterable[RuleEvent], working: Iterable[int]) -> None:
        """Note what a rule found in the past, and how far it looked; silence may end sessions that work."""
        self.advance(_PAST + rule, value, events, working)

    def advance(self, name: str, value: str, events: Iterable[RuleEvent], working: Iterable[int] = ()) -> None:
        """Note what was found, and how far was looked."""
        now = time.time()
        with transaction(self._connection):
            note_events(self._connection, events, now)
            self._connection.executemany(
                "INSERT OR IGNORE INTO rule_sessions (session_id, touched_at) VALUES (?, ?)",
                ((number, now) for number in working),
            )
            self._connection.execute("INSERT OR REPLACE INTO rule_cursors (name, value) VALUES (?, ?)", (name, value))

    # -- firings ----------------------------------------------------------------------------------------------

    def to_decide(self, now: float, longest: float, limit: int) -> list[Firing]:
        """Firings to be decided now; ``longest``: what a rule may wait for at most, in seconds."""
        return self._due(_TO_DECIDE, now, longest, limit)

    def to_run(self, now: float, longest: float, limit: int) -> list[Firing]:
        """Firings whose actions are to be run now; those of a paused rule wait."""
        return self._due(_TO_RUN, now, longest, limit)

    def _due(self, only: str, now: float, longest: float, limit: int) -> list[Firing]:
        return [_firing(row) for row in self._connection.execute(_DUE.format(only=only), (now, now + longest, limit))]

    def next_due(self, now: float) -> float | None:
        """When the next firing is due."""
        found: float | None = self._connection.execute(_NEXT_DUE, (now,)).fetchone()[0]
        return found

    def fired(self, firing: Firing) -> int | None:
        """Another firing of the rule for the same session, turn or span."""
        row = self._connection.execute(_FIRED, (firing.rule, firing.once_key, firing.number)).fetchone()
        return None if row is None else int(row[0])

    def fired_dry(self, firing: Firing) -> int | None:
        """The same among those that were only noted."""
        row = self._connection.execute(_DRY, (firing.rule, firing.once_key, firing.number)).fetchone()
        return None if row is None else int(row[0])

    def is_superseded(self, firing: Firing) -> bool:
        """Whether the rule knows of a later event of the kind in the session."""
        return self._connection.execute(_LATER_WAIT, _place_of(firing)).fetchone() is not None

    def told_otherwise(self, firing: Firing) -> int | None:
        """Another firing of the rule for the same, which telemetry told of and then the log, or the reverse."""
        row = self._connection.execute(_TOLD_OTHERWISE, _place_of(firing)).fetchone()
        return None if row is None else int(row[0])

    def last_message_at(self, rule: str) -> float | None:
        """When the last message of a rule was due to be sent."""
        query = "SELECT max(fired_at) FROM rule_firings WHERE rule = ? AND day IS NOT NULL"
        found: float | None = self._connection.execute(query, (rule,)).fetchone()[0]
        return found

    def of_day(self, rule: str, day: str) -> tuple[int, int]:
        """How many messages of a rule a day has, and the tokens of their chains."""
        messages, tokens = self._connection.execute(_DAY, (rule, day)).fetchone()
        return messages, tokens

    def held(self, rule: str) -> list[Firing]:
        """What waits for the end of a rule's cooldown."""
        query = f"SELECT {_FIRING} FROM rule_firings WHERE rule = ? AND state = 'held' ORDER BY firing_no"
        return [_firing(row) for row in self._connection.execute(query, (rule,))]

    def postpone(
        self, number: int, due_at: float, state: FiringState | None = None, reason: Reason | None = None
    ) -> None:
        """Look at a firing again later."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE rule_firings SET due_at = ?, state = coalesce(?, state), reason = ? WHERE firing_no = ?",
                (due_at, state, written(reason), number),
            )

    def drop(self, number: int) -> None:
        """Forget that a rule was asked; only where it was not decided yet."""
        with transaction(self._connection):
            query = "DELETE FROM rule_firings WHERE firing_no = ? AND state IN ('settling', 'held')"
            self._connection.execute(query, (number,))

    def close(self, number: int, state: FiringState, reason: Reason | None = None) -> None:
        """A firing needs nothing more: it is skipped, or was only noted."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE rule_firings SET state = ?, reason = ?, ended_at = ? WHERE firing_no = ?",
                (state, written(reason), time.time(), number),
            )

    def fire(
        self, number: int, collected: Sequence[int], *, actions: Sequence[tuple[str, str]], day: str, now: float
    ) -> None:
        """Queue the actions of a firing (name and idempotency key each); ``collected`` ones are in its message."""
        with transaction(self._connection):
            self._connection.execute(_FIRE, ("queued", now, now, day, None, None, number))
            self._connection.executemany(
                _FIRE,
                (
                    ("collected", now, now, None, number, written(why("collected", firing=number)), each)
                    for each in collected
                ),
            )
            self._connection.executemany(
                _ADD_ACTION, ((number, place, name, key, now) for place, (name, key) in enumerate(actions))
            )

    def restore(self, rule: str, once_keys: Iterable[bytes]) -> None:
        """Enter firings that are known from elsewhere."""
        now = time.time()
        with transaction(self._connection):
            self._connection.executemany(_RESTORE, ((rule, key, key, now) for key in once_keys))

    # -- actions ----------------------------------------------------------------------------------------------

    def actions(self, numbers: Sequence[int]) -> dict[int, list[FiringAction]]:
        """The actions of these firings, in order."""
        found: dict[int, list[FiringAction]] = {}
        query = f"SELECT {_ACTION} FROM rule_actions WHERE firing_no IN {marks(numbers)} ORDER BY firing_no, place"
        for row in self._connection.execute(query, numbers):
            found.setdefault(row[0], []).append(FiringAction._make(row))
        return found

    def collected(self, number: int) -> list[Firing]:
        """The firings in the message of this one, itself first."""
        query = (
            f"SELECT {_FIRING} FROM rule_firings WHERE firing_no = ? OR message = ? ORDER BY message NOTNULL, firing_no"
        )
        return [_firing(row) for row in self._connection.execute(query, (number, number))]

    def begin(self, firing: int, place: int) -> None:
        """An action starts."""
        now = time.time()
        with transaction(self._connection):
            self._connection.execute("UPDATE rule_firings SET state = 'running' WHERE firing_no = ?", (firing,))
            self._connection.execute(
                "UPDATE rule_actions SET state = 'running', attempts = attempts + 1, "
                "started_at = coalesce(started_at, ?) WHERE firing_no = ? AND place = ?",
                (now, firing, place),
            )

    def end(
        self,
        attempt: Attempt,
        state: ActionState,
        *,
        due_at: float = 0.0,
        answer: str | None = None,
        error: str | None = None,
        tokens: int = 0,
    ) -> None:
        """What came of an attempt of an action; ``queued``: it is tried again at ``due_at``."""
        with transaction(self._connection):
            self._connection.execute(_ADD_ATTEMPT, attempt)
            self._connection.execute(
                "UPDATE rule_actions SET state = ?, due_at = ?, answer = coalesce(?, answer), error = ?, "
                "tokens = tokens + ?, ended_at = iif(? IN ('done', 'failed'), ?, NULL) "
                "WHERE firing_no = ? AND place = ?",
                (state, due_at, answer, error, tokens, state, time.time(), attempt.firing, attempt.place),
            )
            # When the firing is due again depends on all of its actions.
            self._connection.execute(
                "UPDATE rule_firings SET tokens = tokens + ? WHERE firing_no = ?", (tokens, attempt.firing)
            )

    def finish(self, firing: Firing, state: FiringState, reason: str | None = None) -> int:
        """All actions of a firing have ended; how many firings of its rule in a row have failed."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE rule_firings SET state = ?, reason = ?, ended_at = ? WHERE firing_no = ?",
                (state, reason, time.time(), firing.number),
            )
            self._connection.execute(
                "UPDATE rule_states SET failures = iif(?, failures + 1, 0) WHERE rule = ?",
                (state == "failed", firing.rule),
            )
            row = self._connection.execute("SELECT failures FROM rule_states WHERE rule = ?", (firing.rule,)).fetchone()
        return 0 if row is None else int(row[0])

    # -- retention --------------------------------------------------------------------------------------------

    def prune(self, cutoff: float, now: float) -> Iterator[int]:
        """Remove from the log what ended before ``cutoff``, in pieces; how many firings each."""
        return prune_firings(self._connection, cutoff, now)

    def measure(self, cutoff: float, now: float) -> int:
        """How many firings that would remove."""
        return old_firings(self._connection, cutoff, now)

    def forget_texts(self, sessions: Iterable[int]) -> None:
        """Remove what was written of sessions whose texts are removed; what fired stays known."""
        with transaction(self._connection):
            for session in sessions:
                forget_texts(self._connection, session)

    # -- what users ask for -----------------------------------------------------------------------------------

    def firings(
        self,
        *,
        rule: str | None = None,
        states: Sequence[FiringState] = (),
        session: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Firing]:
        """What rules decided, the latest first."""
        tests, values = ["kind <> ''"], list[str | int]()
        for test, value in (("rule = ?", rule), ("session_id = ?", session), ("firing_no < ?", before)):
            if value is not None:
                tests.append(test)
                values.append(value)
        if states:
            tests.append(f"state IN {marks(states)}")
            values += states
        query = f"SELECT {_FIRING} FROM rule_firings WHERE {' AND '.join(tests)} ORDER BY firing_no DESC LIMIT ?"
        return [_firing(row) for row in self._connection.execute(query, (*values, limit))]

    def firing(self, number: int) -> Firing | None:
        """One of them."""
        query = f"SELECT {_FIRING} FROM rule_firings WHERE firing_no = ? AND kind <> ''"
        row = self._connection.execute(query, (number,)).fetchone()
        return None if row is None else _firing(row)

    def last_attempt(self) -> int:
        """The number of the last attempt of any action."""
        row = self._connection.execute("SELECT coalesce(max(attempt_no), 0) FROM rule_attempts").fetchone()
        return int(row[0])

    def notices_since(self, attempt: int, limit: int) -> list[Answered]:
        """The answers of notify actions in attempts after this one, the latest ``limit`` of them, in order."""
        rows = self._connection.execute(_NOTICES, (attempt, limit)).fetchall()
        return [
            Answered(number, _firing(firing), action, key, _decode(answer))
            for number, action, key, answer, *firing in rows[::-1]
        ]

    def totals(self) -> dict[tuple[str, FiringState], int]:
        """How many firings of each rule are in each state."""
        query = "SELECT rule, state, count(*) FROM rule_firings WHERE kind <> '' GROUP BY rule, state"
        return {(rule, state): count for rule, state, count in self._connection.execute(query)}

    def attempts(self, firing: int) -> list[Attempt]:
        """The attempts of the actions of a firing, in order."""
        query = (
            "SELECT firing_no, place, at, seconds, outcome, detail FROM rule_attempts WHERE firing_no = ? "
            "ORDER BY attempt_no"
        )
        return [Attempt._make(row) for row in self._connection.execute(query, (firing,))]

    def counts(self, rule: str, day: str) -> FiringCounts:
        """How often a rule fired, and did not."""
        query = "SELECT state, count(*) FROM rule_firings WHERE rule = ? AND kind <> '' GROUP BY state"
        states = dict(self._connection.execute(query, (rule,)).fetchall())
        return FiringCounts(states, *self.of_day(rule, day), self.last_message_at(rule))

    def used(self, numbers: Sequence[int]) -> list[ChainUse]:
        """What the actions of these firings used, where it was tokens."""
        return self._used(f"firing_no IN {marks(numbers)}", numbers)

    def used_on(self, rule: str, day: str) -> list[ChainUse]:
        """The same of the firings of a rule on one day."""
        return self._used("rule_firings.rule = ? AND day = ?", (rule, day))

    def used_by(self, actions: Sequence[str], rule: str | None, limit: int) -> list[ChainUse]:
        """The same of the latest runs of actions of these names, of one rule or of all."""
        latest = (
            "SELECT firing_no, place FROM rule_actions JOIN rule_firings USING (firing_no) WHERE "
            f"rule_actions.tokens > 0 AND rule_actions.state = 'done' AND action IN {marks(actions)} "
            "AND rule = coalesce(?, rule) ORDER BY firing_no DESC LIMIT ?"
        )
        return self._used(f"(firing_no, place) IN ({latest})", (*actions, rule, limit))

    def _used(self, only: str, values: Sequence[Any]) -> list[ChainUse]:
        found: dict[tuple[int, int, int], list[str]] = {}
        for *place, session in self._connection.execute(_USED.format(only=only), values):
            found.setdefault(tuple(place), []).extend([] if session is None else [session])
        return [ChainUse(*place, tuple(sessions)) for place, sessions in found.items()]

    def retry(self, numbers: Sequence[int], actions: Mapping[int, Sequence[tuple[str, str]]], *, day: str) -> int:
        """Run failed actions of these firings again, or fire those that were skipped; how many firings."""
        now, retried = time.time(), 0
        with transaction(self._connection):
            for number in numbers:
                done = self._connection.execute(
                    "UPDATE OR IGNORE rule_firings SET state = 'queued', reason = NULL, due_at = ?, ended_at = NULL, "
                    "fired_at = coalesce(fired_at, ?), day = coalesce(day, ?) "
                    "WHERE firing_no = ? AND state IN ('failed', 'skipped', 'dry')",
                    (now, now, day, number),
                ).rowcount
                if done:
                    retried += 1
                    self._connection.execute(
                        "UPDATE rule_actions SET state = 'queued', due_at = ?, attempts = 0, error = NULL, "
                        "ended_at = NULL WHERE firing_no = ? AND state = 'failed'",
                        (now, number),
                    )
                    self._connection.executemany(
                        _ADD_ACTION,
                        ((number, place, name, key, now) for place, (name, key) in enumerate(actions[number])),
                    )
        return retried


def _place_of(firing: Firing) -> dict[str, Any]:
    event = firing.event
    names = ("session", "kind", "at")
    place = {name: getattr(event, name) for name in names}
    facts = {name: event.facts.get(name, "") for name in ("source", "tool")}
    wait = event.facts.get("wait", 0)
    return {**place, **facts, "wait": wait, "rule": firing.rule, "number": firing.number}


def _values(event: RuleEvent) -> tuple[Any, ...]:
    facts = _encode(event.facts).decode() if event.facts else None
    return event.kind, event.session, event.span, event.turn, event.at, facts


def _event(row: Sequence[Any]) -> RuleEvent:
    key, kind, session, span, turn, at, facts = row
    known = {} if facts is None else _decode(facts)
    return RuleEvent(key=key, kind=kind, at=at, session=session, span=span, turn=turn, facts=known)


def _firing(row: Sequence[Any]) -> Firing:
    names = ("state", "reason", "due_at", "created_at", "fired_at", "ended_at", "message", "tokens")
    number, rule, once, *event = row[:10]
    known = dict(zip(names, row[10:], strict=True))
    known["reason"], reason = read(known["reason"])
    return Firing(number=number, rule=rule, once_key=once, event=_event(event), why=reason, **known)
