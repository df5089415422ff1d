"""Secrets in what is recorded: each fires once in its session, and never says what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config.rules import parse_rule
from agenttrace.masking import Mask
from agenttrace.rules import secrets
from agenttrace.rules.actions.messages import message_fields
from agenttrace.rules.secrets import SecretSource, find_secrets, is_certain
from rules.rig import Rig

MASK = Mask().text
FIRST = "sk-ant-api03-" + "Zx9" * 31 + "AA"
SECOND = "ghp_" + "a1B2c3D4e5" * 4
HOOK = {"hook": {"type": "webhook", "url": "http://127.0.0.1:1/"}}

MakeRig = Callable[..., Rig]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes a rig with a rule that asks for secrets."""
    made: list[Rig] = []

    def make(**rule: Any) -> Rig:  # noqa: ANN401 - any setting
        tables = {"rules": {"r": {"on": "secret.found", "do": ["hook"], **rule}}, "actions": HOOK}
        sources = [lambda rig: SecretSource(rig.store, MASK, lambda: rig.steady)]
        made.append(Rig(tmp_path / str(len(made)), tables, sources=sources))
        return made[-1]

    yield make
    for each in made:
        each.close()


def say(rig: Rig, text: str, session: str = "s") -> None:
    """A line with this text, recorded."""
    rig.write("message", session, text=text, role="user")
    rig.record()


def found(rig: Rig) -> list[tuple[str, str]]:
    """The kinds of secrets that fired since the last look, with their sessions."""
    rig.wait(2)
    events = [facts for message in rig.look() for facts in message.events]
    return [(each.event.facts["kind"], each.session.session_id) for each in events if each.session is not None]


def test_once_in_a_session(rig: MakeRig) -> None:
    """An agent repeats what it was told in every request."""
    made = rig(start="all")
    say(made, f"Use {FIRST} for it.")
    assert found(made) == [("anthropic-key", "s")]
    say(made, f"You said: use {FIRST} for it.")
    assert found(made) == []
    made.restart()
    say(made, f"Again {FIRST}, and {SECOND}.")
    assert found(made) == [("github-token", "s")]
    say(made, f"Use {FIRST}.", "other")
    assert found(made) == [("anthropic-key", "other")]


def test_the_value_is_nowhere(rig: MakeRig) -> None:
    """Neither the event nor what is stored of it has the secret."""
    made = rig(start="all")
    say(made, f"Use {FIRST}.")
    made.wait(2)
    (message,) = made.look()
    fields = message_fields(message, Mask().value)
    assert fields["events"][0]["facts"]["kind"] == "anthropic-key"
    assert "anthropic-key" in fields["text"]
    assert FIRST[:20] not in repr(fields)
    for table in ("rule_firings", "rule_actions", "rule_events", "rule_cursors"):
        assert FIRST[:20] not in repr(made.store.connection.execute(f"SELECT * FROM {table}").fetchall())


def test_a_rule_starts_now(rig: MakeRig) -> None:
    """Neither what was recorded before nor old logs that are recorded later fire it; what comes between does."""
    made = rig()
    made.now -= 3600
    say(made, f"Use {FIRST}.", "old")
    made.now += 3600
    assert found(made) == []
    say(made, f"Use {SECOND}.")
    made.restart()
    assert found(made) == [("github-token", "s")]


def test_a_rule_for_all_that_comes_later(rig: MakeRig) -> None:
    """It begins at the beginning, although another rule is at the end."""
    made = rig()
    made.now -= 3600
    say(made, f"Use {FIRST}.")
    made.now += 3600
    assert found(made) == []
    rule = {"on": "secret.found", "do": ["hook"], "start": "all"}
    made.tables.rules["late"] = parse_rule("late", rule)
    made.restart()
    assert found(made) == [("anthropic-key", "s")]


def test_vague_kinds_are_asked_for(rig: MakeRig) -> None:
    """A field that is only named like a secret fires where the rule says so."""
    text = 'export DB_PASSWORD=hunter2hunter2 and {"api_key": "n0t-a-r34l-k3y"}'
    made = rig(start="all")
    say(made, text)
    assert found(made) == []
    made = rig(start="all", where={"secret": "*"})
    say(made, text)
    assert {kind for kind, _ in found(made)} == {"password", "key"}
    made = rig(start="all", where={"secret": "pass*"})
    say(made, text)
    assert {kind for kind, _ in found(made)} == {"password"}


def test_a_rebuilt_store(rig: MakeRig) -> None:
    """Numbers of another store mean nothing: the lines are read again, and nothing fires twice."""
    made = rig(start="all")
    say(made, f"Use {FIRST}.")
    assert len(found(made)) == 1
    made.store.connection.execute("UPDATE processed_events SET event_id = zeroblob(16) WHERE event_no = 1")
    say(made, f"Use {SECOND}.")
    made.restart()
    assert found(made) == [("github-token", "s")]


def test_work_is_bounded(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look reads so many bytes, and the next one goes on."""
    monkeypatch.setattr(secrets, "_BYTES", 1_000)
    made = rig(start="all")
    for number in range(20):
        made.write("message", text="x" * 300 + (f" {FIRST}" if number == 19 else ""), role="user")
    made.record()
    looks = 0
    while not (fired := found(made)):
        looks += 1
        assert looks < 30
    assert looks >= 5
    assert fired == [("anthropic-key", "s")]


def test_nothing_is_read_where_no_rule_asks(rig: MakeRig) -> None:
    made = rig(start="all", mode="off")
    say(made, f"Use {FIRST}.")
    assert found(made) == []
    assert made.store.rules.cursor("secrets") is None


# -- values -------------------------------------------------------------------------------------------------------


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(["text", "json", "nested"]))
def test_values_are_told_apart(before: str, after: str, form: str) -> None:
    """The same secret has the same digest, whatever stands around it; another one has another."""

    def digest(secret: str) -> set[str]:
        text = f"{before} {secret} {after}"
        if form != "text":
            text = json.dumps({"text": text}, ensure_ascii=False)
        if form == "nested":
            text = json.dumps({"line": text})
        return {each.digest for each in find_secrets(text, MASK) if each.kind == "anthropic-key"}

    (alone,) = find_secrets(FIRST, MASK)
    assert digest(FIRST) in ({alone.digest}, {""})
    assert digest(FIRST[:-3] + "qqq") != {alone.digest}


def test_markers_in_a_text_are_no_secrets() -> None:
    assert find_secrets("the export says [masked:anthropic-key] here", MASK) == set()
    (one,) = find_secrets(f"[masked:key] and {FIRST}", MASK)
    assert one.kind == "anthropic-key"


@pytest.mark.parametrize("kind", ["anthropic-key", "private-key", "slack-token", "api-key", "own", "webhook"])
def test_certain_kinds(kind: str) -> None:
    assert is_certain(kind)


@pytest.mark.parametrize(
    "kind", ["password", "key", "token", "secret", "authorization", "url-password", "jwt", "cookie"]
)
def test_vague_kinds(kind: str) -> None:
    assert not is_certain(kind)
