"""Machine and person as dimensions: the same store asked by every view, command and the library."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agenttrace
from agenttrace.calendar import day_finder
from agenttrace.config import Settings, UsageSettings, load_settings
from agenttrace.config.rules import BadRuleError, Where, parse_budget
from agenttrace.prices.costing import Cashier
from agenttrace.rules.budgets import budget_states
from agenttrace.rules.facts import Facts, mismatch
from agenttrace.rules.guard import Call, concerns
from agenttrace.rules.guard_state import budget_fields
from agenttrace.store import open_store, open_team_store
from agenttrace.store.questions import SearchQuery, UsageQuery
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.rules import RuleEvent
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import MachineFigures, Page
from agenttrace.views.hits import find
from agenttrace.views.team import team, team_now
from agenttrace.views.times import iso
from agenttrace.views.usage import usage_report
from agenttrace.views.usage_outcomes import with_outcomes
from cli.conftest import Program
from team_rig import MIDDAY, TEAM, team_rows, write_team

MICROS = 1_000_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A user whose data directory has the store of a team."""
    user = tmp_path_factory.mktemp("team")
    found = Program(user)
    write_team(Settings(home=found.home, usage=UsageSettings(timezone=MIDDAY)))
    return found


@pytest.fixture(scope="module")
def store(shared: Program) -> Iterator[SqliteStore]:
    with open_store(Settings(home=shared.home)) as found:
        yield found


def _cashier(home: Path) -> Cashier:
    return Cashier.load(Settings(home=home, usage=UsageSettings(timezone=MIDDAY)))


# -- views ----------------------------------------------------------------------------------------------------------


def test_who_works_on_what(store: SqliteStore) -> None:
    """Each session that works or waits under its person, those that work first; nothing else."""
    found = team_now(store.sessions())
    assert {each.person: [session.session_id for session in each.sessions] for each in found} == {
        "amy": ["login", "nightly", "prices"],
        "ben": ["parcels"],
        "陈晨": ["chen"],
    }
    by_name = {session.session_id: session for each in found for session in each.sessions}
    sessions = {session.session_id: session for session in store.sessions()}
    assert {name: each.machine for name, each in by_name.items()} == {name: sessions[name].machine for name in by_name}
    waits, works = by_name["prices"], by_name["login"]
    assert (waits.since, works.since) == (
        iso(sessions["prices"].last_at),
        iso(sessions["login"].started_at),
    )


def test_sums_of_persons_and_machines_are_those_of_usage(store: SqliteStore, shared: Program) -> None:
    """Today and seven days of every row, which together are all that was used."""
    cashier = _cashier(shared.home)
    found = team(store, cashier, "Checkout", versions={"laptop-amy": "2.0"})
    for rows, by in ((found.persons, "person"), (found.machines, "machine")):
        usage = {each.group: each.bill for each in usage_report(store, cashier, UsageQuery(by=by)).groups}  # type: ignore[arg-type]
        assert {row.name or "": row.week.tokens for row in rows} == {
            name: bill.all_tokens for name, bill in usage.items()
        }
        assert {row.name or "": row.week.costs for row in rows} == {name: bill.amounts for name, bill in usage.items()}
        assert sum(row.week.tokens for row in rows) == sum(each.tokens + 1000 for each in TEAM)
        assert sum(row.working for row in rows) == 3
        assert sum(row.waiting for row in rows) == 2
    amy = next(row for row in found.persons if row.name == "amy")
    assert amy.others == ["desktop-amy", "laptop-amy"]
    assert found.persons[-1].name is None
    assert {row.name: row.version for row in found.machines} == {
        name: "2.0" if name == "laptop-amy" else None
        for name in ("build-7", "desktop-amy", "laptop-amy", "laptop-ben", "mac-chen")
    }


def test_a_silent_machine_is_listed_where_the_store_notes_what_it_receives(
    store: SqliteStore, shared: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the time of its last page, although it has no session today and no usage in the week."""
    silent = MachineFigures(machine="silent", person="zoe", sessions=0, copies=0, events=0, received_at=1_700_000_000.0)
    monkeypatch.setattr(store, "machines", lambda: [silent], raising=False)
    found = team(store, _cashier(shared.home))
    row = next(row for row in found.machines if row.name == "silent")
    assert (row.others, row.sessions_today, row.heard_at) == (["zoe"], 0, iso(1_700_000_000 * MICROS))
    assert "zoe" in [row.name for row in found.persons]


def test_usage_with_outcomes_by_person_and_machine(store: SqliteStore, shared: Program) -> None:
    """Every group of usage has its outcomes."""
    cashier = _cashier(shared.home)
    for query in (UsageQuery(by="person"), UsageQuery(by="machine", split="person")):
        found = with_outcomes(store, cashier, query, usage_report(store, cashier, query), MIDDAY, read=True)
        assert {each.group for each in found.usage.groups} == set(found.groups)


def test_search_in_one_machine(store: SqliteStore) -> None:
    """Texts of other machines and persons are not found."""
    for query in (
        SearchQuery(text="carriers", machines=frozenset(["laptop-ben"])),
        SearchQuery(text="carriers", persons=frozenset(["ben"])),
    ):
        found = find(store, query)
        assert {match.event.session.session_id for match in found.matches} == {"parcels"}  # type: ignore[union-attr]
    assert not find(store, SearchQuery(text="carriers", persons=frozenset(["amy"]))).matches


# -- budgets and rules ----------------------------------------------------------------------------------------------


def test_budgets_of_persons_and_machines(store: SqliteStore, shared: Program) -> None:
    """By glob, of a month and of each session; a session without a person is of no person."""
    wanted: dict[str, tuple[dict[str, Any], int]] = {
        "amy": ({"person": "amy"}, 1_103_000),
        "laptops": ({"machine": "laptop-*"}, 503_000),
        "both": ({"machine": "laptop-*", "person": ["a*", "x"]}, 202_000),
        "anyone": ({"person": "*"}, 1_655_000),
        "none": ({"person": "zoe"}, 0),
    }
    tables = {
        name: parse_budget(name, {"period": "week", "tokens": 10**9, "where": where})
        for name, (where, _) in wanted.items()
    }
    tables |= {"each": parse_budget("each", {"period": "session", "tokens": 10**9, "where": {"person": "amy"}})}
    settings = Settings(home=shared.home, budgets=tables, usage=UsageSettings(timezone=MIDDAY))
    last = max(session.last_at or 0 for session in store.sessions())
    states = budget_states(store, settings, last)
    spent = {state.name: state.spent for state in states if state.session is None}
    assert spent == {name: tokens for name, (_, tokens) in wanted.items()}
    assert {state.session.session_id for state in states if state.session} == {"login", "prices", "nightly"}


def test_a_guard_does_not_apply_a_budget_of_other_persons(store: SqliteStore, shared: Program) -> None:
    """A hook knows the person of a session from the store; where there is none, the budget is not about it."""
    table = parse_budget("amy", {"period": "week", "tokens": 1, "where": {"person": "a*"}})
    settings = Settings(home=shared.home, budgets={"amy": table}, usage=UsageSettings(timezone=MIDDAY))
    (state,) = budget_states(store, settings, max(session.last_at or 0 for session in store.sessions()))
    budget, call = budget_fields(state, MIDDAY), Call("codex", {"session_id": "s"})
    assert concerns(budget, call, {"person": "amy"}) is True
    assert concerns(budget, call, {"person": "ben"}) is None
    assert concerns(budget, call, {}) is None


def test_a_budget_is_about_sessions_and_not_about_branches() -> None:
    """The error names what a budget can be about."""
    with pytest.raises(BadRuleError, match=r"where\.agent, project, model, machine, person"):
        parse_budget("b", {"tokens": 1, "where": {"branch": "main"}})


def test_rules_of_persons_and_machines(store: SqliteStore) -> None:
    """By glob; an event without a session, or a session without a person, does not match."""
    event = RuleEvent(kind="session.ended", key=b"", at=0, session=None, facts={})
    sessions = {session.session_id: session for session in store.sessions()}

    def matches(where: Where, name: str | None) -> bool:
        return mismatch(where, Facts(event, None if name is None else sessions[name])) is None

    assert matches(Where(person=("a*",)), "login")
    assert not matches(Where(person=("a*",)), "parcels")
    assert not matches(Where(person=("*",)), "build")
    assert not matches(Where(person=("*",)), None)
    assert matches(Where(machine=("desktop-*", "build-?")), "build")
    assert not matches(Where(machine=("desktop-*",)), "login")


# -- commands and the library ---------------------------------------------------------------------------------------


def test_lists_of_commands(shared: Program) -> None:
    """Filters by person and machine, as text and as JSON."""
    amy = shared.json("sessions", "--person", "amy")
    assert {row["session_id"] for row in amy} == {"login", "prices", "nightly"}
    assert {(row["machine"], row["person"]) for row in amy} == {("laptop-amy", "amy"), ("desktop-amy", "amy")}
    shown = shared.run("sessions", "--machine", "laptop-ben", env={"COLUMNS": "160"}).stdout
    assert "parcels" in shown
    assert "laptop-ben" in shown
    assert "login" not in shown
    assert "on laptop-amy by amy" in shared.run("show", "login").stdout
    assert "amy: shop, reports" in shared.run("overview").stdout


def test_columns_are_shown_where_some_session_has_a_value(shared: Program, tmp_path: Path) -> None:
    """The store of one machine looks as before; so does a part of a team's store without persons."""
    assert "person" not in shared.run("sessions", "--machine", "build-7", env={"COLUMNS": "160"}).stdout.splitlines()[0]
    own = Program(tmp_path)
    own.log("alone", {"type": "turn.begin", "prompt": "go"})
    own.run("record", "--once")
    head = own.run("sessions", env={"COLUMNS": "160"}).stdout.splitlines()[0]
    assert "machine" not in head
    assert "person" not in head


def test_groups_of_commands(shared: Program) -> None:
    """Usage, insights and outcomes by person and machine."""
    usage = shared.json("usage", "--by", "person")
    assert {row["person"]: row["requests"] for row in usage["rows"]} == {"amy": 3, "ben": 1, "陈晨": 1, None: 1}
    only = shared.json("usage", "--by", "machine", "--person", "amy")
    assert {row["machine"] for row in only["rows"]} == {"laptop-amy", "desktop-amy"}
    tools = shared.json("insights", "tools", "--by", "person", "--since", "all")
    assert {row["part"]: row["failures"] for row in tools["items"]} == {"amy": 1, "ben": 0, "陈晨": 0, "": 0}
    models = shared.json("insights", "models", "--by", "machine", "--person", "ben", "--since", "all")
    assert [row["part"] for row in models["items"]] == ["laptop-ben"]
    outcomes = shared.json("outcomes", "--by", "person")
    assert {row["person"]: row["sessions"] for row in outcomes} == {"amy": 3, "ben": 1, "陈晨": 1, None: 1}
    hits = shared.json("search", "carriers", "--machine", "laptop-ben")
    assert {(hit["machine"], hit["person"]) for hit in hits} == {("laptop-ben", "ben")}


def test_the_command_team_now(shared: Program) -> None:
    """As a table and as JSON; filtered, and where nothing works."""
    shown = shared.run("team", "now", env={"COLUMNS": "160"}).stdout
    for text in ("amy", "laptop-ben", "重试失败的支付", "working", "waiting"):
        assert text in shown
    assert [each["person"] for each in shared.json("team", "now")] == ["amy", "ben", "陈晨"]
    (ben,) = shared.json("team", "now", "--machine", "laptop-ben")
    assert (ben["person"], ben["sessions"][0]["project"]) == ("ben", "/home/ben/parcels")
    assert "No session works or waits." in shared.run("team", "now", "--person", "zoe").stdout


def test_a_store_that_takes_pages(shared: Program, tmp_path: Path) -> None:
    """Machine and person are those of the page, with its time; the command reads that store, too."""
    path = tmp_path / "team.db"
    page = Page(
        machine="laptop-zoe", person="zoe", store="s", after=ChangesCursor(), until=ChangesCursor((1, 1), (1, 1))
    )
    with open_team_store(path) as store:
        store.take(team_rows(), page, day_of=day_finder(MIDDAY))
        found = team(store, _cashier(shared.home), "Checkout")
        received = store.machines()[0].received_at
    assert [(row.name, row.others, row.sessions_today > 0) for row in found.machines] == [("laptop-zoe", ["zoe"], True)]
    assert found.machines[0].heard_at == iso(int(received * MICROS))
    (zoe,) = shared.json("team", "now", "--store", str(path))
    assert (zoe["person"], len(zoe["sessions"])) == ("zoe", 5)


def test_the_library(shared: Program) -> None:
    """Sessions have machine and person; sessions, usage and search are filtered by them."""
    with agenttrace.open_store(shared.home) as found:
        (parcels,) = found.sessions(person="ben")
        assert (parcels.machine, parcels.person) == ("laptop-ben", "ben")
        assert {each.id for each in found.sessions(machine="laptop-amy")} == {"login", "prices"}
        assert [row.group for row in found.usage("machine", person="amy")] == ["desktop-amy", "laptop-amy"]
        assert {hit.session.id for hit in found.search("carriers", machine="laptop-ben")} == {"parcels"}
        assert list(found.search("carriers", person="amy")) == []


def test_the_settings_have_the_name_of_the_team(tmp_path: Path) -> None:
    """From the file."""
    (tmp_path / "agenttrace.toml").write_text('[team]\nname = "Checkout"\n')
    assert load_settings(flags={"home": str(tmp_path)}, environ={}).team.name == "Checkout"
    shutil.rmtree(tmp_path)
    assert load_settings(flags={"home": str(tmp_path)}, environ={}).team.name is None
