"""Machines of a team, and the store that they push to, of each engine."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from agenttrace.record.texts.search_index import index_all
from agenttrace.store import open_team_store
from agenttrace.store.clickhouse.store import ClickHouseStore
from agenttrace.store.questions import UsageQuery
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import Page, TeamStore

from .data import NATIVE, Made, Response
from .machine import START, Logs, Machine, day_of, empty_database

#: The engines of a team's store.
TEAM_ENGINES = (
    "sqlite",
    pytest.param("clickhouse", marks=[pytest.mark.team, pytest.mark.xdist_group("clickhouse")]),
)
#: The one that is tested now.
team_engine = "sqlite"


class Member:
    """A machine of a team."""

    def __init__(self, root: Path, name: str, person: str = "amy") -> None:
        self.root, self.name, self.person = root, name, person
        #: The name of its store.
        self.store_name = f"store of {name}"
        self.cursor = START
        self._generation = 0
        root.mkdir()
        self.machine = Machine(root)

    def record(self, logs: Logs) -> None:
        """Append lines to its files, and record them."""
        self.machine.record(logs)

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        """Its own store."""
        with SqliteStore.open(self.machine.settings.home / "agenttrace.db") as store:
            yield store

    def rebuild(self) -> None:
        """Lose the store, and record all files anew."""
        self._generation += 1
        self.store_name, self.cursor = f"store {self._generation} of {self.name}", START
        for path in self.machine.settings.home.glob("agenttrace.db*"):
            path.unlink()
        self.machine.record({})

    def page(self, limit: int = 1000) -> tuple[list[Row], Page] | None:
        """The next page of changes."""
        with self.store() as store:
            found = store.changes_since(self.cursor, limit)
        return (found.rows, self.page_to(found.cursor)) if found.rows else None

    def page_to(self, until: ChangesCursor, after: ChangesCursor | None = None) -> Page:
        """A page that ends here, and begins where the last one ended."""
        start = self.cursor if after is None else after
        return Page(machine=self.name, person=self.person, store=self.store_name, after=start, until=until)

    def push(self, team: TeamStore, limit: int = 1000) -> int:
        """Send everything that changed; how many pages that were."""
        count = 0
        while self.push_page(team, limit):
            count += 1
        return count

    def push_page(self, team: TeamStore, limit: int = 1000) -> bool:
        """Send the next page; false where there is none."""
        found = self.page(limit)
        if found is None:
            return False
        team.take(*found, day_of=day_of)
        self.cursor = found[1].until
        return True


class Team:
    """Machines that push to one store."""

    def __init__(self, root: Path, store: TeamStore) -> None:
        self.root, self.store = root, store
        self.members: dict[str, Member] = {}

    def member(self, name: str, person: str = "amy") -> Member:
        """The machine of this name."""
        if name not in self.members:
            self.members[name] = Member(self.root / f"machine-{name}", name, person)
        return self.members[name]

    def push_some(self, chance: random.Random, steps: int, largest: int = 30) -> None:
        """Some pages of some machines."""
        for _ in range(-(-steps // rows_per_page())):
            chance.choice(list(self.members.values())).push_page(
                self.store, chance.randint(1, largest * rows_per_page())
            )

    def push_all(self, chance: random.Random, largest: int = 40) -> None:
        """Every machine sends everything, in pages of any size, some of them twice, in any order of the machines."""
        waiting = list(self.members.values())
        while waiting:
            one = chance.choice(waiting)
            found = one.page(chance.randint(1, largest * rows_per_page()))
            if found is None:
                waiting.remove(one)
                continue
            for _ in range(chance.choice((1, 1, 2))):
                self.store.take(*found, day_of=day_of)
            one.cursor = found[1].until
        self.index()

    def index(self) -> None:
        """Fill the search index, where the engine has one that is filled later."""
        index_all(self.store)


def rows_per_page() -> int:
    """How many times more rows a page has in a random test: ClickHouse takes one in the time of a hundred."""
    return 100 if team_engine == "clickhouse" else 1


def _opened(root: Path, stack: ExitStack) -> TeamStore:
    if team_engine == "sqlite":
        return open_team_store(root / "team.db")
    return cast("TeamStore", ClickHouseStore.open(stack.enter_context(empty_database())))


@contextmanager
def team(names: Iterable[str] = ()) -> Iterator[Team]:
    """A team whose store is empty."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = Team(root, stack.enter_context(_opened(root, stack)))
        for name in names:
            made.member(name)
        yield made


# -- logs, and figures of what is stored -----------------------------------------------------------------------------


ONE = Response(name="r1", model="gpt-5", input_tokens=100, output_tokens=10)
TWO = Response(name="r2", model="gpt-5", input_tokens=200, output_tokens=20)


def lines(name: str, *responses: Response, age: float = 1000.0, **facts: str) -> dict[str, list[dict[str, object]]]:
    """The log of a session."""
    made = Made(agent=NATIVE, session_id=name, age=age, responses=responses, **facts)  # type: ignore[arg-type]
    return {made.file: made.lines()}


def more(name: str, text: str, age: float = 900.0) -> dict[str, list[dict[str, object]]]:
    """A further line of a session."""
    made = Made(agent=NATIVE, session_id=name, age=age)
    return {made.file: [made._native("note", id=text, text=text)]}


def copies(made: Team) -> dict[str, tuple[int, int]]:
    """How many sessions of each machine are shown, and how many copies are not."""
    return {each.machine: (each.sessions, each.copies) for each in made.store.machines()}


def requests(made: Team) -> dict[str, int]:
    """How many responses count in each session."""
    names = {str(each.id): each.session_id for each in made.store.sessions()}
    return {names[row.group]: row.requests for row in made.store.usage(UsageQuery(by="session"))}
