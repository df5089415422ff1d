"""Users, logins, failed logins and the audit log in their file."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import load_settings
from agenttrace.serve.access import audit, failed_logins, logins, passwords
from agenttrace.serve.access.access_store import AccessStore, open_access
from agenttrace.serve.access.database import MIGRATIONS
from agenttrace.serve.access.users import NoSuchUserError, UserError, name_of
from agenttrace.serve.problems import SlowDownError
from agenttrace.store.errors import StoreError

from .access_rig import Clock, password_hash


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[AccessStore]:
    with AccessStore(tmp_path / "access.db", now=clock) as opened:
        yield opened


def token_of(store: AccessStore, name: str, seconds: int = 3600) -> str:
    begun = store.logins.begin(name, password_hash(), seconds)
    assert begun is not None
    return begun[0]


# ── the file ──


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_only_its_owner_can_read_it(home: Path) -> None:
    """The file and what SQLite puts beside it, whatever the umask."""
    before = os.umask(0)
    try:
        with open_access(load_settings()) as store:
            store.users.add("anna", "viewer", "hash")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.glob("access.db*")}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("access.db", "access.db-wal", "access.db-shm"), 0o600)


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    """A file that is no database, or another program's, is refused with what to do, and not changed."""
    path = tmp_path / "access.db"
    path.write_bytes(b"no database " * 100)
    with pytest.raises(StoreError, match=r"access\.db is damaged.*Move it away"):
        AccessStore(path)
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    with pytest.raises(StoreError, match="is damaged"):
        AccessStore(path)


def test_a_newer_file_is_reported(tmp_path: Path) -> None:
    """Nothing is written to a file of a version that is not known yet."""
    path = tmp_path / "access.db"
    AccessStore(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="newer AgentTrace"):
        AccessStore(path)


def test_many_open_it_at_once(tmp_path: Path) -> None:
    """A server and commands may make the file at the same moment; all of them can use it."""
    path = tmp_path / "access.db"

    def add(number: int) -> None:
        with AccessStore(path) as store:
            store.users.add(f"user{number}", "viewer", "hash")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    with AccessStore(path) as store:
        assert len(store.users.all()) == 8


# ── passwords ──


def test_passwords_are_stored_as_argon2id() -> None:
    """Each hash has another salt; only the password matches."""
    kept = password_hash()
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert passwords.matches(kept, "correct horse battery staple")
    assert not passwords.matches(kept, "correct horse battery stapler")


def test_a_password_is_the_same_however_it_is_composed() -> None:
    """An ü typed as one letter or as two fits the same hash."""
    assert passwords.matches(passwords.hashed("fünf grüne Bäume"), "fu\u0308nf gru\u0308ne Ba\u0308ume")


def test_an_unknown_name_takes_the_same_work() -> None:
    """The hash for unknown names has the parameters of a real one, can be parsed, and matches nothing."""
    assert passwords.NOBODYS.split("$")[:4] == password_hash().split("$")[:4]
    assert [len(part) for part in passwords.NOBODYS.split("$")] == [len(part) for part in password_hash().split("$")]
    assert not passwords.matches(passwords.NOBODYS, "")


@pytest.mark.parametrize("password", ["", "elevenchars", "a" * 20, "x" * 2000, "ababababababab"])
def test_weak_passwords(password: str) -> None:
    """Short ones, endless ones and the same few letters are not taken."""
    with pytest.raises(passwords.WeakPasswordError):
        passwords.check_strength(password)


# ── users ──


@given(st.text(max_size=80))
def test_a_name_has_one_spelling(text: str) -> None:
    """Any text is no name, or has one stored form, which is stable; reserved names are refused."""
    name = name_of(text)
    assert name is None or name_of(name) == name
    assert name not in ("local", "nobody", "")
    assert name is None or not set(name) & set(" :/\\\"'<>;,\n\x00")


def test_users(store: AccessStore, clock: Clock) -> None:
    """They are added, found whatever the case, listed by name with when they were changed, and removed."""
    assert not store.users.exist()
    store.users.add("Ben", "admin", "hash")
    clock.advance(10)
    store.users.add("anna", "viewer", "hash")
    assert store.users.exist()
    assert [(user.name, user.role) for user in store.users.all()] == [("anna", "viewer"), ("ben", "admin")]
    with pytest.raises(UserError, match="already"):
        store.users.add("ANNA", "viewer", "hash")
    clock.advance(10)
    store.users.set_role("BEN", "viewer")
    ben = store.users.get("ben")
    assert (ben.role, ben.changed_at - ben.created_at) == ("viewer", 20_000_000)
    store.users.remove("Ben")
    assert [user.name for user in store.users.all()] == ["anna"]


@pytest.mark.parametrize("name", ["", "local", "Nobody", "a b", "cli:root", "-x", "a" * 65, "x\n", "\ud800"])
def test_names_that_cannot_be(store: AccessStore, name: str) -> None:
    """They are refused with a reason, and not stored."""
    with pytest.raises(UserError):
        store.users.add(name, "viewer", "hash")
    with pytest.raises(NoSuchUserError):
        store.users.set_role(name, "admin")


@pytest.mark.parametrize("change", ["password", "role", "remove"])
def test_a_change_ends_the_logins_of_that_user(store: AccessStore, change: str) -> None:
    """Another password, another role and removal end all logins of that user, and no others."""
    for name in ("anna", "ben"):
        store.users.add(name, "viewer", password_hash())
    mine, other = [token_of(store, "anna") for _ in range(3)], token_of(store, "ben")
    changes = {
        "password": lambda: store.users.set_password("anna", "another"),
        "role": lambda: store.users.set_role("anna", "admin"),
        "remove": lambda: store.users.remove("anna"),
    }
    assert changes[change]() == 3
    assert [store.logins.find(token) for token in mine] == [None] * 3
    assert store.logins.find(other) is not None


# ── logins ──


def test_a_login_holds_until_it_expires(store: AccessStore, clock: Clock) -> None:
    """To the second; its token is unlike any other and not in the file."""
    store.users.add("anna", "admin", password_hash())
    token, another = token_of(store, "anna", 60), token_of(store, "anna", 3600)
    login = store.logins.find(token)
    assert login is not None
    assert (login.user, login.role) == ("anna", "admin")
    assert len({token, another, login.csrf}) == 3
    clock.advance(59.999)
    assert store.logins.is_open(login)
    clock.advance(0.001)
    assert store.logins.find(token) is None
    assert not store.logins.is_open(login)
    assert store.logins.find(another) is not None


def test_tokens_are_not_in_the_file(tmp_path: Path) -> None:
    """The content of the file is not enough to log in."""
    with AccessStore(tmp_path / "access.db") as store:
        store.users.add("anna", "admin", password_hash())
        token = token_of(store, "anna")
    assert token.encode() not in (tmp_path / "access.db").read_bytes()


def test_a_password_that_changed_meanwhile(store: AccessStore) -> None:
    """Who was checked against an old password does not get a login for the new one."""
    store.users.add("anna", "admin", "old")
    store.users.set_password("anna", "new")
    assert store.logins.begin("anna", "old", 60) is None
    assert store.logins.begin("anna", "new", 60) is not None


def test_logins_are_bounded(store: AccessStore, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make room, and those that have expired are gone."""
    monkeypatch.setattr(logins, "MOST", 3)
    store.users.add("anna", "admin", password_hash())
    tokens = []
    for _ in range(5):
        tokens.append(token_of(store, "anna", 60))
        clock.advance(1)
    assert [store.logins.find(token) is not None for token in tokens] == [False, False, True, True, True]
    clock.advance(60)
    token_of(store, "anna")
    assert store.users.get("anna").logins == 1


def test_when_a_login_was_seen(store: AccessStore, clock: Clock) -> None:
    """It is due to be noted once a minute, and shown with its user."""
    store.users.add("anna", "admin", password_hash())
    login = store.logins.find(token_of(store, "anna"))
    assert login is not None
    clock.advance(59)
    assert not store.logins.is_stale(login)
    clock.advance(1)
    assert store.logins.is_stale(login)
    store.logins.seen(login)
    assert store.users.get("anna").seen_at == clock()


# ── failed logins ──


def outcome(store: AccessStore, name: str, address: str) -> float:
    """0 for an attempt that is let through, else how long it has to wait."""
    try:
        store.failed_logins.begin(name, address)
    except SlowDownError as error:
        return error.seconds
    return 0.0


def test_five_are_free_then_the_pause_grows(store: AccessStore, clock: Clock) -> None:
    """For an address it doubles up to a quarter of an hour, whatever names are tried; and ends to the second."""
    assert [outcome(store, f"user{number}", "10.0.0.9") for number in range(5)] == [0.0] * 5
    for pause in (15, 30, 60, 120, 240, 480, 900, 900):
        assert outcome(store, "someone else", "10.0.0.9") == pause
        clock.advance(pause - 0.5)
        assert outcome(store, "someone else", "10.0.0.9") == 0.5
        clock.advance(0.5)
        assert outcome(store, f"next{pause}{clock()}", "10.0.0.9") == 0.0


def test_a_name_is_protected_from_many_addresses(store: AccessStore, clock: Clock) -> None:
    """Five from anywhere, then pauses of a minute at most, so that its owner has a turn."""
    assert [outcome(store, "anna", f"10.0.0.{number}") for number in range(5)] == [0.0] * 5
    waits = []
    for number in range(6):
        waits.append(outcome(store, "anna", f"10.0.1.{number}"))
        clock.advance(waits[-1])
        assert outcome(store, "anna", f"10.0.2.{number}") == 0.0
    assert waits == [15, 30, 60, 60, 60, 60]
    assert outcome(store, "ben", "10.0.3.1") == 0.0


def test_a_network_of_ipv6_is_one_address(store: AccessStore) -> None:
    """Who has one address of IPv6 has 2**64, and they count together; one of IPv4 is one in both forms."""
    assert [outcome(store, f"u{number}", f"2001:db8::{number:x}") for number in range(5)] == [0.0] * 5
    assert outcome(store, "other", "2001:db8::ffff") == 15
    assert outcome(store, "other", "2001:db8:0:1::1") == 0.0
    assert [outcome(store, f"v{number}", "10.0.0.1") for number in range(5)] == [0.0] * 5
    assert outcome(store, "w", "::ffff:10.0.0.1") == 15


def test_success_forgets_the_name_and_not_the_address(store: AccessStore) -> None:
    """Logging in once does not buy free guesses at other names."""
    for number in range(4):
        outcome(store, f"other{number}", "10.0.0.9")
    store.failed_logins.succeeded(store.failed_logins.begin("mine", "10.0.0.9"))
    assert outcome(store, "fifth", "10.0.0.9") == 0.0
    assert outcome(store, "sixth", "10.0.0.9") == 15


def test_an_hour_later_all_is_forgotten(store: AccessStore, clock: Clock) -> None:
    """And nothing of it is stored in the file."""
    for number in range(20):
        outcome(store, "anna", f"10.0.0.{number}")
    clock.advance(failed_logins.WINDOW_SECONDS)
    assert outcome(store, "anna", "10.0.0.1") == 0.0
    with store._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM failures").fetchone() == (2,)


def test_failures_are_bounded(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names and addresses there are."""
    monkeypatch.setattr(failed_logins, "MOST_ROWS", 20)
    for number in range(50):
        outcome(store, f"user{number}", f"10.0.{number}.1")
    with store._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM failures").fetchone()[0] <= 22


def test_a_clock_that_was_wrong(store: AccessStore, clock: Clock) -> None:
    """Failures from a year ahead do not lock a user out for a year."""
    clock.advance(365 * 86_400)
    for _ in range(10):
        outcome(store, "anna", "10.0.0.1")
    clock.advance(-365 * 86_400)
    assert outcome(store, "anna", "10.0.0.1") == 0.0


def test_attempts_at_the_same_moment_are_not_all_the_first(store: AccessStore) -> None:
    """Of forty at once, five are let through."""
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: outcome(store, "anna", "10.0.0.1"), range(40)))
    assert waits.count(0.0) == failed_logins.FREE


@given(gaps=st.lists(st.floats(0, 900), min_size=1, max_size=40))
def test_no_rhythm_gets_more_guesses(tmp_path_factory: pytest.TempPathFactory, gaps: list[float]) -> None:
    """However attempts are spaced, within any hour no address has more than five and one for each doubled pause."""
    clock = Clock()
    passed: list[int] = []
    with AccessStore(tmp_path_factory.mktemp("rhythm") / "access.db", now=clock) as store:
        for number, gap in enumerate(gaps):
            clock.advance(gap)
            if outcome(store, f"user{number}", "10.0.0.1") == 0.0:
                passed.append(clock())
    hour = failed_logins.WINDOW_SECONDS * 1_000_000
    for begin in passed:
        within = [at for at in passed if begin <= at < begin + hour]
        # 15 + 30 + 60 + 120 + 240 + 480 + 900 + 900 + 900 is more than an hour.
        assert len(within) <= failed_logins.FREE + 8
        for count, at in enumerate(within[1:], 1):
            pause = failed_logins.pause_seconds(count, failed_logins.LONGEST_FOR_ADDRESS)
            assert at - within[count - 1] >= pause * 1_000_000


# ── the audit log ──


def test_the_audit_log(store: AccessStore, clock: Clock) -> None:
    """Entries are newest first, in pages, and say that they are under way until their end is known."""
    numbers = []
    for number in range(5):
        numbers.append(store.audit.begin("anna", "10.0.0.1", "job.cancel", str(number)))
        clock.advance(1)
    store.audit.end(numbers[1], "done")
    first = store.audit.page(3)
    assert [entry.target for entry in first] == ["4", "3", "2"]
    rest = store.audit.page(3, before=first[-1].id)
    assert [(entry.target, entry.outcome) for entry in rest] == [("1", "done"), ("0", "under way")]
    assert first[0].at - rest[-1].at == 4_000_000


@given(st.text(st.characters(), max_size=2000))
def test_any_text_can_be_in_the_log(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Surrogates, control characters and endless texts lose no entry."""
    with AccessStore(tmp_path_factory.mktemp("audit") / "access.db") as store:
        store.audit.end(store.audit.begin(text, text, text, text), text)
        (entry,) = store.audit.page(10)
    assert len(entry.target) <= 500
    assert text.encode("utf-8", "replace").decode().startswith(entry.outcome)


def test_refused_logins_do_not_push_changes_out(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client can fail to log in: only the newest failures are stored, but all changes."""
    monkeypatch.setattr(audit, "MOST_REFUSED", 3)
    store.audit.begin("anna", "10.0.0.1", "job.cancel", "1", "done")
    for number in range(10):
        store.audit.begin("nobody", "10.0.0.9", "login", str(number), audit.REFUSED)
    store.audit.begin("anna", "10.0.0.1", "login", "anna", "done")
    assert [entry.target for entry in store.audit.page(100)] == ["anna", "9", "8", "7", "1"]


# ── members ──


def test_a_file_of_the_version_before_keeps_its_users_and_logins(tmp_path: Path) -> None:
    """Users keep role and password, browsers and API tokens stay logged in."""
    path = tmp_path / "access.db"
    with sqlite3.connect(path) as older:
        for statements in MIGRATIONS[:3]:
            for statement in statements:
                older.execute(statement)
        older.execute("PRAGMA user_version = 3")
        older.execute("INSERT INTO users VALUES ('anna', 'admin', ?, 1, 2)", (password_hash(),))
        older.executemany(
            "INSERT INTO logins VALUES (?, ?, ?, ?, 'csrf', 1, NULL, NULL)",
            [(logins.digest_of("one"), "user", "anna", None), (logins.digest_of("agt_two"), "token", "ci", "viewer")],
        )
    older.close()
    with AccessStore(path) as store:
        assert [(user.name, user.role, user.has_password) for user in store.users.all()] == [("anna", "admin", True)]
        assert store.users.password_hash("anna") == password_hash()
        known = [store.logins.find("one"), store.logins.find("agt_two")]
        assert [(each.user, each.role, each.person) for each in known if each] == [
            ("anna", "admin", "anna"),
            ("token:ci", "viewer", None),
        ]
        store.users.set_role("anna", "member")
        assert store.users.get("anna").role == "member"


def test_a_token_that_acts_for_a_person_ends_with_the_user(store: AccessStore) -> None:
    """It has the person's sessions as its own; another token stays when the user is removed."""
    store.users.add("Amy", "member", "hash")
    with pytest.raises(NoSuchUserError, match="ben"):
        store.tokens.create("bens", "member", None, "ben")
    token, made = store.tokens.create("amys", "member", None, "AMY")
    other, _ = store.tokens.create("ci", "viewer", None)
    found = store.logins.find(token)
    assert made.person == "amy"
    assert found is not None
    assert (found.user, found.role, found.person) == ("token:amys", "member", "amy")
    store.users.remove("amy")
    assert store.logins.find(token) is None
    assert store.logins.find(other) is not None
