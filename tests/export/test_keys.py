"""The keys of a destination are shown nowhere, even if a server repeats them."""

from __future__ import annotations

import asyncio
import html
import json
import sqlite3
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.destinations import BadDestinationError, keys_hidden, parse_destination, shown_address
from agenttrace.export.kinds import destination_of
from agenttrace.views.exports import exports_fields, keys_hidden_of, span_fields

from .faulty_server import Fault, FaultyServer
from .rig import World, target

#: No key that a mask would recognise by itself.
KEY = "correct/horse battery+staple"
words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=4, max_size=20)


def secured(kind: str, url: str, key: str = KEY) -> Any:  # noqa: ANN401 - settings
    """A destination with a key wherever one can be."""
    written = quote(key, safe="")
    # Destinations with a header for the key use no login in the address.
    address = url.replace("//", f"//anna:{written}@", 1) if kind in ("otlp", "langsmith") else url
    keys: dict[str, Any] = {"api_key": key, "secret_key": key, "headers": {"x-key": f"Bearer {key}"}}
    return target(type=kind, url=f"{address}/?token={written}", project="73", public_key="pk-lf-1", **keys)


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/v1/traces", "https://example.com/v1/traces"),
        ("https://example.com:4318", "https://example.com:4318"),
        ("https://example.com/v1/traces?key=abcd#part", "https://example.com/v1/traces?…"),
        ("https://anna:pass@word@example.com/x", "https://example.com/x"),
        ("https://anna:p@ss@w@rd@[::1]:4318/x?key=abcd", "https://[::1]:4318/x?…"),
        ("https://anna:pass/word@example.com/x", "https://…"),
        ("https://anna:12/34@example.com/x", "https://…"),
        ("https://[broken", "…"),
    ],
)
def test_an_address_without_its_keys(url: str, shown: str) -> None:
    """Neither login nor password nor parameters; shown twice it is the same."""
    assert shown_address(url) == shown
    assert target(url=url).address == shown


@given(words, words)
def test_no_address_shows_its_password(user: str, password: str) -> None:
    """Also one that was not written as addresses are."""
    for written in (password, quote(password, safe="")):
        shown = shown_address(f"https://{user}:{written}@example.com/v1/traces?key={written}")
        assert shown in ("https://example.com/v1/traces?…", "https://…", "…")


@pytest.mark.parametrize("url", ["https://anna:pass/word@example.com", "https://[broken", "https://", "https://h:x/"])
def test_an_invalid_address(url: str) -> None:
    """Is refused when settings are read, with what to write instead, and is not repeated."""
    with pytest.raises(BadDestinationError) as caught:
        parse_destination("there", {"type": "otlp", "url": url}, {})
    assert "%2F" in str(caught.value)
    assert "word" not in str(caught.value).replace("password", "")


# -- answers ----------------------------------------------------------------------------------------------------------


@given(words)
def test_keys_are_hidden_however_they_are_written(key: str) -> None:
    """As they are, in an address, in JSON, in HTML, as a basic login."""
    hide = keys_hidden(secured("langfuse", "https://example.com", key))
    basic = b64encode(f"pk-lf-1:{key}".encode()).decode()
    for form in (key, quote(key, safe=""), json.dumps(key)[1:-1], html.escape(key), basic, f"Bearer {key}"):
        assert form not in hide(f"wrong key <{form}>, see {form}").replace("[masked:key]", "").replace("wrong key", "")


def test_a_destination_without_keys() -> None:
    """Has nothing to hide."""
    assert keys_hidden(target())("wrong key") == "wrong key"


def echoes() -> list[tuple[str, Callable[[str], Fault]]]:
    """Answers that repeat the request; long ones are cut in the middle of a key."""
    long = "x" * 490 + " "
    return [
        ("refused", lambda key: Fault(status=400, body=f"wrong: {key}".encode())),
        ("no key", lambda key: Fault(status=401, body=json.dumps({"error": f"Invalid API key: {key}"}).encode())),
        ("cut", lambda key: Fault(status=400, body=f"{long}{key}".encode())),
        ("far", lambda key: Fault(status=503, body=b" " * 1990 + key.encode())),
        ("moved", lambda key: Fault(status=302, headers=(("Location", f"https://else/?k={quote(key)}"),))),
        ("broken", lambda key: Fault(status=500, body=html.escape(key).encode())),
    ]


@pytest.mark.parametrize("kind", ["otlp", "langfuse", "langsmith", "cozeloop"])
@pytest.mark.parametrize(("name", "fault"), echoes())
def test_no_answer_that_repeats_a_key_is_stored(
    kind: str, name: str, fault: Callable[[str], Fault], tmp_path: Path
) -> None:
    """Neither in the ledger, nor where destinations are shown or checked; not the beginning of it either."""
    world = World(tmp_path)
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)

    async def main() -> list[str]:
        async with FaultyServer() as server:
            settings = secured(kind, server.url)
            world.reconfigured(msgspec.structs.replace(settings, name="there"))
            destination = destination_of(settings)
            with world.courier(destination) as courier:
                server.faults.extend([fault(KEY)] * 8)
                await courier.deliver()
            checked = await destination.check()
            await destination.close()
            assert server.received
            return [checked]

    told = [*asyncio.run(main()), *_dumped(world.store)]
    with world.opened_store() as store:
        told.append(repr(exports_fields(store.exports.ledgers(), world.settings)))
    for text in told:
        assert KEY not in text
        assert quote(KEY) not in text
        assert "correct" not in text


def _dumped(store: Path) -> list[str]:
    with closing(sqlite3.connect(store)) as connection:
        tables = ("export_destinations", "export_spans")
        return [repr(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]


def test_keys_stored_by_an_earlier_version_are_not_shown(tmp_path: Path) -> None:
    """Keys in addresses, errors and answers of the ledger are hidden when they are read, too."""
    world = World(tmp_path)
    world.turn("s", 1)
    world.record()
    world.seal(quiet_seconds=0)
    world.reconfigured(msgspec.structs.replace(secured("otlp", "http://127.0.0.1:1"), name="there"))
    with world.opened_store() as store:
        connection, exports = store.connection, store.exports
        url = f"http://127.0.0.1:1/?token={quote(KEY)}"
        connection.execute("UPDATE export_destinations SET address = ?, last_error = ?", (url, f"401 {KEY}"))
        connection.execute("UPDATE export_spans SET state = 'refused', answer = ?", (f"400 {KEY}",))
        connection.commit()
        shown = repr(exports_fields(exports.ledgers(), world.settings))
        (number,) = connection.execute("SELECT destination_id FROM export_destinations").fetchone()
        hide = keys_hidden_of(world.settings, "there")
        shown += repr([span_fields(span, hide) for span in exports.ledger.listed(number, "refused", limit=10)])
    assert "400 [masked:key]" in shown
    assert "401 [masked:key]" in shown
    assert "horse" not in shown
