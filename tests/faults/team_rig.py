"""The rig of the team's fault tests: machines whose stores grow, are lost, copied and restored, and what a team's store
has to hold of them.

What is expected is computed from the stores of the machines alone: of every session the copy with the most events,
whole and with its machine; of every response the largest count among the machines whose copies are shown.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from agenttrace.model import Session, Usage
from agenttrace.store.questions import UsageQuery
from agenttrace.store.rows import ResponseRow, StoredSpan
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store
from faults import store_rig

_DAY = 86_400
_START = 1_789_200_000.0
#: Copies of homes that join, at most.
_MOST_COPIES = 4
#: So many rounds bring about everything.
_MOST_ROUNDS = 60
ACCIDENTS = ("fork", "carry", "back up", "restore", "rebuild", "copy")


class Machine:
    """A machine whose agents work; the real recorder records them."""

    def __init__(self, root: Path, name: str, seed: int, *, clock: float = 0.0, person: str = "") -> None:
        self.root, self.name, self.person = root / name, name, person or f"person of {name}"
        self.home, self.logs = self.root / "home", self.root / "logs"
        self.home.mkdir(parents=True, mode=0o700)
        self.logs.mkdir()
        #: By how many seconds its clock is wrong.
        self.clock = clock
        self._writer = store_rig.Writer(seed, pad=60)
        self._writer.at = _START + clock
        self._chance = random.Random(seed)
        #: Stores that it had before it was restored, and whether all of them had been sent.
        self.lost: list[tuple[Path, bool]] = []
        self._backups = 0

    # -- work -------------------------------------------------------------------------------------------------

    def work(self, turns: int = 1) -> None:
        """Append turns to logs, some of them new ones, and record them."""
        for _ in range(turns):
            self._turn()
        self.record()

    def _turn(self) -> None:
        names = sorted(self.logs.glob("projects/*/*.jsonl"))
        kind = self._chance.random()
        if kind < 0.2:
            session = f"own-{self._chance.randint(0, 2)}-{self.name}"
            self._append(self.logs / "own.jsonl", self._writer.own_turn(session))
        elif names and kind < 0.75:
            path = self._chance.choice(names)
            self._append(path, self._writer.claude_turn(path.stem))
        else:
            session = self._writer.uuid()
            self._append(self._claude(session), self._writer.claude_turn(session))

    def _claude(self, session: str) -> Path:
        return self.logs / "projects" / "-home-dev-work" / f"{session}.jsonl"

    def _append(self, path: Path, lines: Iterable[bytes]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.writelines(lines)

    def record(self) -> None:
        """Record what the logs have, by this machine's clock."""
        with self.wrong_clock():
            store_rig.record_once(self.home, self.logs)

    def wrong_clock(self) -> Any:  # noqa: ANN401 - a context
        """Its own time."""
        if not self.clock:
            return nullcontext()
        true, clock = time.time, self.clock

        def wrong() -> float:
            return true() + clock

        return mock.patch("time.time", wrong)

    # -- accidents --------------------------------------------------------------------------------------------

    def fork(self, other: Machine) -> None:
        """One of its sessions is carried to another machine, and forked there: the same responses again."""
        names = sorted(self.logs.glob("projects/*/*.jsonl"))
        if not names:
            return
        old, new = self._chance.choice(names), self._writer.uuid()
        lines = old.read_bytes().replace(old.stem.encode(), new.encode()).splitlines(keepends=True)
        other._append(other._claude(new), [self._writer.claude_note(new), *lines, *self._writer.claude_turn(new)])

    def carry(self, other: Machine) -> None:
        """The log of one of its sessions is copied to another machine, as it is."""
        names = sorted(self.logs.glob("projects/*/*.jsonl"))
        if names:
            old = self._chance.choice(names)
            target = other._claude(old.stem)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copyfile(old, target)

    def back_up(self) -> Path:
        """A copy of home and logs."""
        self._backups += 1
        target = self.root / f"backup-{self._backups}"
        shutil.copytree(self.home, target / "home")
        shutil.copytree(self.logs, target / "logs")
        return target

    def restore(self, backup: Path, *, sent: bool) -> None:
        """Put a backup in place of home and logs; ``sent``: the team has all of what is lost."""
        self.lost.append((self.back_up() / "home", sent))
        for name in ("home", "logs"):
            shutil.rmtree(self.root / name)
            shutil.copytree(backup / name, self.root / name)
        # Work that comes now is other work than what was lost.
        self._writer = store_rig.Writer(self._chance.getrandbits(30), pad=60)
        self._writer.at = _START + self.clock + _DAY * len(self.lost)
        self._writer._numbers = count(10_000 * len(self.lost))

    def rebuild(self) -> None:
        """The store is lost and recorded anew."""
        for path in self.home.glob("agenttrace.db*"):
            path.unlink()
        self.record()

    def copy_from(self, other: Machine) -> None:
        """Take over the whole home and the logs of another machine."""
        for name in ("home", "logs"):
            shutil.rmtree(self.root / name)
            shutil.copytree(other.root / name, self.root / name)
        self.record()

    # -- what is stored ---------------------------------------------------------------------------------------

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        """Its store."""
        with SqliteStore.open(self.home / "agenttrace.db") as store:
            yield store

    @property
    def has_store(self) -> bool:
        """Whether something was recorded."""
        return (self.home / "agenttrace.db").exists()


class Deck:
    """Cards in any order, each of them once before one comes again: a few draws have all of them."""

    def __init__(self, chance: random.Random, cards: Sequence[str]) -> None:
        self._chance, self.cards = chance, cards
        self._left: list[str] = []

    def draw(self) -> str:
        """The next card."""
        if not self._left:
            self._left = self._chance.sample(self.cards, len(self.cards))
        return self._left.pop()


class Rounds:
    """Rounds of work, pushes and accidents, in any order."""

    #: All that has to happen before it is over.
    kinds: tuple[str, ...] = ACCIDENTS

    def __init__(self, root: Path, chance: random.Random, machines: int = 20) -> None:
        self.root, self.chance = root, chance
        clocks = (0.0, 0.0, _DAY, -_DAY)
        self.machines = [
            Machine(root, f"m{number:02}", number + 1, clock=chance.choice(clocks)) for number in range(machines)
        ]
        self._most = machines + _MOST_COPIES
        self._backups: dict[str, Path] = {}
        self._accidents = Deck(chance, ACCIDENTS)
        #: What really was done to machines, server and connections, in order.
        self.happened: list[str] = []

    def push(self, machine: Machine) -> None:
        """Push, or try to."""
        raise NotImplementedError

    def settle(self, machine: Machine) -> None:
        """Push everything, undisturbed."""
        raise NotImplementedError

    def restart(self) -> None:
        """The server ends and comes back."""
        raise NotImplementedError

    def run(self, least: int) -> None:
        """At least so many rounds, and as many as it takes until everything happened."""
        for number in range(least + _MOST_ROUNDS):
            missing = set(self.kinds) - set(self.happened)
            if number >= least and not missing:
                break
            self.round()
        else:
            raise AssertionError(f"never happened: {missing}")
        self.finish()

    def round(self) -> None:
        """A few machines do something."""
        for machine in self.chance.sample(self.machines, min(4, len(self.machines))):
            self._work(machine)
        actions = (self.push, self._accident)
        for machine in self.chance.sample(self.machines, min(3, len(self.machines))):
            self.chance.choices(actions, (5, 2))[0](machine)
        if self.chance.random() < 0.2:
            self.restart()

    def _work(self, machine: Machine) -> None:
        machine.work(self.chance.randint(1, 2))

    def _accident(self, machine: Machine) -> None:
        if not machine.has_store:
            return
        what = self._accidents.draw()
        if what == "copy" and len(self.machines) >= self._most:
            return
        self.happened.append(what)
        if what in ("fork", "carry"):
            other = self.chance.choice([each for each in self.machines if each is not machine])
            (machine.fork if what == "fork" else machine.carry)(other)
            other.record()
        elif what == "back up":
            self._backups[machine.name] = machine.back_up()
        elif what == "restore":
            self._restore(machine)
        elif what == "rebuild":
            machine.rebuild()
        else:
            self.join(machine)

    def _restore(self, machine: Machine) -> None:
        if machine.name not in self._backups:
            self._backups[machine.name] = machine.back_up()
            machine.work()
        if sent := self.chance.random() < 0.7:
            self.settle(machine)
        machine.restore(self._backups[machine.name], sent=sent)

    def join(self, machine: Machine) -> Machine:
        """A new machine, whose home and logs are copied from another one."""
        made = Machine(self.root, f"n{len(self.machines):02}", 1000 + len(self.machines), clock=machine.clock)
        made.copy_from(machine)
        self.machines.append(made)
        return made

    def finish(self) -> None:
        """Every machine pushes everything."""
        for machine in self.machines:
            if machine.has_store:
                self.settle(machine)


# -- what stores hold --------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A session as one store holds it."""

    machine: str
    row: dict[str, Any]
    spans: Counter[tuple[Any, ...]]
    lines: list[tuple[Any, ...]]
    #: What that store counts for each response of the session.
    usage: dict[bytes, Usage]
    #: Of a store that is lost: whether the team has all of it.
    lost: bool = False
    sent: bool = True

    @property
    def rank(self) -> tuple[int, str]:
        """By what copies are compared: the least is shown."""
        return (-int(self.row["events"]), self.machine)


_OF_SPAN = ("span_id", "trace_id", "parent_id", "stream", "kind", "name", "start", "end", "status", "model")
_OF_SPAN_TOO = ("turn_index", "step_n", "attributes")
#: What a team's store knows better than a machine: the original of a fork may be on another one.
_ADDED = ("machine", "person", "parent")


def held(store: Store, session: Session, machine: str = "", **facts: Any) -> Held:  # noqa: ANN401 - fields of Held
    """What a store has of a session, in terms that no store numbers."""
    spans = Counter(
        tuple(getattr(row, name) for name in (*_OF_SPAN, *_OF_SPAN_TOO))
        for row in store.span_rows(session, attributes=True)
    )
    lines = [
        (line.event_type, line.span_id, line.turn_index, line.step_n, line.offset, line.raw)
        for line in store.lines(session=session.id)
    ]
    row = {name: value for name, value in msgspec.structs.asdict(session).items() if name not in _ADDED}
    return Held(machine or session.machine or "", row, spans, lines, **{"usage": {}} | facts)


def all_held(store: SqliteStore, machine: str, **facts: bool) -> dict[int, Held]:
    """What the store of a machine has of all sessions."""
    usage = counted(store)
    return {session.id: held(store, session, machine, usage=usage[session.id], **facts) for session in store.sessions()}


def counted(store: SqliteStore) -> dict[int, dict[bytes, Usage]]:
    """What a machine counts for the responses of each session; a response may be in several."""
    usage: dict[bytes, Usage] = {}
    holders: dict[int, set[bytes]] = defaultdict(set)
    page = store.changes_since(limit=5000)
    while page.rows:
        for row in page.rows:
            if isinstance(row, ResponseRow):
                usage[row.response] = row.usage
            if isinstance(row, ResponseRow | StoredSpan) and row.response is not None:
                holders[row.session].add(row.response)
        page = store.changes_since(page.cursor, limit=5000)
    found: dict[int, dict[bytes, Usage]] = defaultdict(dict)
    for session, responses in holders.items():
        found[session] = {each: usage[each] for each in responses if each in usage}
    return found


class Expected:
    """What the team's store has to hold, by the stores of the machines."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.copies: dict[int, list[Held]] = defaultdict(list)
        for machine in machines:
            if not machine.has_store:
                continue
            with machine.store() as store:
                for number, each in all_held(store, machine.name).items():
                    self.copies[number].append(each)
            for home, sent in machine.lost:
                with SqliteStore.open(home / "agenttrace.db") as store:
                    for session, each in all_held(store, machine.name, lost=True, sent=sent).items():
                        self.copies[session].append(each)

    def differences(self, team: Store) -> list[str]:
        """What is wrong in the team's store; empty where it is what is expected."""
        found = {session.id: held(team, session) for session in team.sessions()}
        wrong = [f"session {number} is missing" for number in self._required() - found.keys()]
        wrong += [f"session {number} is of no machine" for number in found.keys() - self.copies.keys()]
        for number in found.keys() & self.copies.keys():
            what = self._compare(number, found[number])
            wrong += (f"session {number} of {found[number].machine}: {each}" for each in what)
        return wrong + list(self._usage(team, found))

    def _required(self) -> set[int]:
        return {number for number, copies in self.copies.items() if any(not copy.lost for copy in copies)}

    def _shown(self, number: int, found: Held) -> list[Held]:
        """The copies that the team's store may show, of which this is one, whole; none if it is none of them."""
        copies = self.copies[number]
        current = [copy for copy in copies if not copy.lost]
        best = min(current, key=lambda copy: copy.rank) if current else None
        if best is not None and not _unlike(best, found):
            return [best]
        former = [copy for copy in copies if copy.lost and (best is None or copy.rank <= best.rank)]
        return [copy for copy in former if not _unlike(copy, found)]

    def _parts(self, number: int, found: Held) -> list[Held]:
        """The copies which were lost before all of them was sent, and of which this may be a part."""
        return [copy for copy in self.copies[number] if copy.lost and not copy.sent and _is_part(found, copy)]

    def _compare(self, number: int, found: Held) -> Iterator[str]:
        if self._shown(number, found) or self._parts(number, found):
            return
        current = [copy for copy in self.copies[number] if not copy.lost]
        if not current:
            yield "not as it was before it was lost"
            return
        best = min(current, key=lambda copy: copy.rank)
        yield f"expected the copy of {best.machine} with {-best.rank[0]} events: {', '.join(_unlike(best, found))}"

    def _usage(self, team: Store, found: Mapping[int, Held]) -> Iterator[str]:
        """Each response once, by the largest count among the copies that are shown.

        What a machine lost before all of it was sent may be counted or not: between these bounds it is right.
        """
        least: dict[bytes, Usage] = {}
        most: dict[bytes, Usage] = {}
        for number, each in found.items():
            shown = self._shown(number, each)
            for copy in shown[:1]:
                _count(least, copy)
            for copy in shown or self._parts(number, each):
                _count(most, copy)
        rows = team.usage(UsageQuery())
        counts = [sum(row.requests for row in rows), *_sums(row.usage for row in rows)]
        lower, upper = [len(least), *_sums(least.values())], [len(most), *_sums(most.values())]
        if any(not low <= count <= high for low, count, high in zip(lower, counts, upper, strict=True)):
            yield f"usage is {counts}, not {lower} to {upper} (requests, output, input)"


def _count(usage: dict[bytes, Usage], copy: Held) -> None:
    for response, each in copy.usage.items():
        usage[response] = max(usage.get(response, Usage()), each, key=lambda used: used.output_tokens)


def _sums(usage: Iterable[Usage]) -> list[int]:
    """Output and input."""
    kept = list(usage)
    return [sum(each.output_tokens for each in kept), sum(each.input_tokens + each.cache_read_tokens for each in kept)]


def _unlike(one: Held, other: Held) -> list[str]:
    """In what two copies differ."""
    found = [f"{name} {one.row[name]!r} != {other.row[name]!r}" for name in one.row if one.row[name] != other.row[name]]
    if one.machine != other.machine:
        found.append(f"machine {other.machine}")
    if one.lines != other.lines:
        found.append(f"{len(other.lines)} lines instead of {len(one.lines)}")
    if one.spans != other.spans:
        found.append(
            f"spans: {list((one.spans - other.spans).items())[:2]} / {list((other.spans - one.spans).items())[:2]}"
        )
    return found


def _is_part(found: Held, whole: Held) -> bool:
    """Whether a copy has nothing but what a store had that was lost before all of it was sent."""
    return found.machine == whole.machine and not Counter(found.lines) - Counter(whole.lines)


def rounds(few: int) -> int:
    """How many rounds: a few, or as many as ``TEAM_ROUNDS`` says."""
    return int(os.environ.get("TEAM_ROUNDS", few))
