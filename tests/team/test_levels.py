"""What leaves a machine at each level: with figures only, no byte of what was said, named or typed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.ids import session_number
from agenttrace.masking import Mask
from agenttrace.model import Session, Usage
from agenttrace.prices.table import PriceTable
from agenttrace.record.formats import FACTS
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.rows import EventRow, FileOfLines, Row, StoredSession, StoredSpan, TotalRow
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.totals import SCOPES
from agenttrace.team import figures as figures_module
from agenttrace.team.figures import Figures
from agenttrace.team.levels import Level, Sharing, masked_rows
from secret_planting import leaks, plant, secret, with_secret

from .making import rows
from .rig import Machine, team_server

#: A word that is in none of the lists of words that may be sent.
PLANTED = st.text(max_size=6).map(lambda text: f"Qzx{text}Jwv")
PRICES = PriceTable.load(Settings(home=Path("/nowhere")))


def made(key: bytes = b"k" * 32) -> Figures:
    return Figures(key, lambda number: ("codex", f"session {number}"), agents=FACTS, prices=PRICES)


def texts_in(value: object) -> set[str]:
    """All texts in a row, names of attributes included."""
    if isinstance(value, str):
        try:
            inner = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return {value}
        return {value} if isinstance(inner, int | float | str | None) else texts_in(inner)
    if isinstance(value, dict):
        return {text for pair in value.items() for part in pair for text in texts_in(part)}
    if isinstance(value, list | tuple):
        return {text for part in value for text in texts_in(part)}
    return texts_in(msgspec.to_builtins(value, builtin_types=(bytes,))) if isinstance(value, msgspec.Struct) else set()


#: Hashes, versions, and words of lists that end with the source code.
_SAID = re.compile(r"((agent|tool|model)-)?[0-9a-f]{16}|\d{1,5}(\.\d{1,5}){0,3}|")
_LISTED = (
    set(FACTS)
    | set(figures_module._TOOLS | figures_module._WORDS | figures_module._STATES | figures_module._KINDS)
    | set(figures_module._OWN_WORDS)
    | {price.model.removesuffix("*") for price in PRICES.shipped}
    | {"span", "unknown", "tool", "call", "subagent", "duration", "tokens", "attempt", "finish_reason", "origin"}
    | {"closed_by", "response", "session", "removed", "link", "total"}
    | {name for kind in Row.__args__ for name in kind.__struct_fields__}
    | {"type", *Session.__struct_fields__, *msgspec.structs.asdict(Session(id=1, agent="", session_id=""))}
    | {"input_tokens", "output_tokens"}
)


@settings(deadline=None, max_examples=150)
@given(st.lists(rows(), max_size=6))
def test_every_text_that_is_left_is_a_listed_word_or_a_hash(some: list[Row]) -> None:
    for row in made().rows(some):
        for text in texts_in(row):
            words = text.split() if hasattr(row, "terms") else [text]
            assert all(word in _LISTED or _SAID.fullmatch(word) for word in words), (text, row)


@settings(deadline=None, max_examples=150)
@given(st.lists(rows(PLANTED, states=PLANTED), max_size=6))
def test_nothing_planted_is_left_in_any_field(some: list[Row]) -> None:
    sent = msgspec.msgpack.encode(made().rows(some))
    assert b"Qzx" not in sent
    assert b"Jwv" not in sent


@settings(deadline=None, max_examples=50)
@given(st.lists(rows(), max_size=6))
def test_figures_of_a_row_are_the_same_each_time_and_others_on_another_machine(some: list[Row]) -> None:
    assert made().rows(some) == made().rows(some)
    hashed = [row for row in made().rows(some) if isinstance(row, StoredSession)]
    assert not {row.session.id for row in hashed} & {row.session.id for row in made(b"other").rows(hashed)}  # type: ignore[union-attr]


def test_numbers_of_sessions_fit_their_names_and_forks_stay_linked() -> None:
    one = Session(id=session_number("codex", "one"), agent="codex", session_id="one")
    fork = Session(id=session_number("codex", "two"), agent="codex", session_id="two", parent="one")
    parent, child = made().session(one), made().session(fork)
    assert child.parent == parent.session_id
    for found in (parent, child):
        assert found.id == session_number(found.agent, found.session_id)


def test_figures_have_totals_in_their_scopes() -> None:
    """A team's server checks sessions against them, too."""
    told = [TotalRow(1, scope, "telemetry", "n", 0, "m", 1, 0, b"t" * 16, None, -1, Usage(), 1) for scope in SCOPES]
    assert {row.scope for row in made().rows(told) if isinstance(row, TotalRow)} == SCOPES


def test_figures_have_no_lines_files_and_notes() -> None:
    event = EventRow(1, 2, b"x", 0, 0, "t", None, 0.0, 1, 0, 0, b"{}")
    assert made().rows([event, FileOfLines(1, "/home/ann", None, 1)]) == []


@settings(deadline=None, max_examples=80)
@given(st.lists(rows(st.sampled_from([with_secret("word"), "plain", with_secret("other")])), max_size=6))
def test_no_secret_is_left_where_everything_is_masked(some: list[Row]) -> None:
    assert leaks(msgspec.msgpack.encode(masked_rows(some, Mask()))) == []


def test_masking_changes_nothing_else() -> None:
    event = EventRow(1, 2, b"x", 0, 0, "t", None, 0.0, 1, 0, 0, b'{"text": "nothing to hide"}')
    span = StoredSpan(
        1, b"12345678", b"6" * 16, None, 5, "main", "tool", "B", 1, 2, "ok", None, 1, 1, None, '{"a":1}', 7
    )
    assert masked_rows([event, span], Mask()) == [event, span]


def test_the_level_of_a_session_is_the_strictest_until_its_project_is_known() -> None:
    sharing = Sharing(level="full", projects={"*/secret/*": "figures", "shop": "masked"})
    found = [sharing.of(project) for project in (None, "/a/secret/b", "/projects/shop", "/elsewhere")]
    assert found == ["figures", "figures", "masked", "full"]
    assert Sharing(level="masked").of(None) == "masked"


def pushed_bytes(root: Path, level: Level) -> list[bytes]:
    """Everything that a machine sent of logs of all agents, with a secret in every text, and of its notes."""

    async def main() -> list[bytes]:
        machine = Machine(root)
        plant(machine.logs)
        machine.say("branchy", with_secret("prompt"), project=f"/home/{secret('user')}/{secret('project')}")
        machine.record()
        with machine.store(read_only=False) as store:
            for session in store.sessions(limit=5):
                store.annotation_table.put(
                    NewAnnotation(
                        session=session.id,
                        kind="note",
                        text=with_secret("note"),
                        source="person",
                        author=secret("author"),
                    )
                )
            assert store.sessions()
        async with team_server(root) as server:
            await machine.join(server, sharing=Sharing(level=level))
            assert await machine.push() == {}
            with server.store() as team, machine.store() as own:
                assert len(team.sessions()) == len(own.sessions())
                mine = {row.response: row for row in _responses(own)}
                assert _tokens(team) == _tokens(own)
                assert mine
        return server.faults.heard

    return asyncio.run(main())


def _responses(store: SqliteStore) -> list[Any]:
    rows, page = [], store.changes_since()
    while page.rows:
        rows += [row for row in page.rows if hasattr(row, "response") and hasattr(row, "terms")]
        page = store.changes_since(page.cursor)
    return rows


def _tokens(store: SqliteStore) -> int:
    return sum(row.usage.total for row in store.usage())


def test_a_machine_of_figures_sends_no_byte_of_any_text(tmp_path: Path) -> None:
    """Looks at every byte that was sent: addresses, headers, and pages as they came and unpacked."""
    sent = pushed_bytes(tmp_path, "figures")
    assert sum(map(len, sent)) > 10_000
    for part in sent:
        assert leaks(part) == []
        assert str(tmp_path).encode() not in part
        for word in (b"/home/", b"alpha", b"prompt", b"jsonl"):
            assert word not in part.replace(b"first_prompt", b""), word


def test_a_masked_machine_sends_no_secret(tmp_path: Path) -> None:
    for part in pushed_bytes(tmp_path, "masked"):
        assert leaks(part) == []


def test_the_look_at_bytes_finds_what_a_full_machine_sends(tmp_path: Path) -> None:
    """The same look, where there is something to find."""
    assert any(leaks(part) for part in pushed_bytes(tmp_path, "full"))
