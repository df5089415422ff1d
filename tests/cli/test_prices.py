"""``agenttrace prices``: what is in use, where it is from, and another table checked and put in place."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agenttrace.cli.errors import explained
from agenttrace.cli.program import app
from agenttrace.config import Settings
from agenttrace.prices.parsing import parse_table, read_table
from agenttrace.prices.table import PriceTable, install, without_effect
from agenttrace.views.prices import amount, changes, listed_models, price_fields

from .conftest import Program

GOOD = """
version = "2026-12"

[openai]
source = "a page"
checked = 2026-12-01
currency = "USD"

[openai.models]
"gpt-5" = { input = 1, output = 3 }
"gpt-5.6" = [{ input = 5, output = 30 }, { since = 2026-12-01, input = 7, output = 35 }]
"gpt-9" = { input = 1, output = 3, above = [{ tokens = 5000, input = 2, output = 6 }], peak = 2 }
"""

BAD = """
version = 3

[loose]
currency = "USD"

[openai]
currency = "usd"
discount = 1

[openai.models]
"gpt-5" = { input = -1, outptu = 3 }
"gpt-6" = { currency = "USD", input = 1, output = 2, above = [{ tokens = 5, input = "x", output = 2 }], since = "soon" }
"GPT-6" = { currency = "USD", input = 1, output = 2 }
"gpt-7" = [{ currency = "USD", input = 1, output = 2 }, { currency = "USD", input = 1, output = 2 }]
"gpt-8" = 3
"""


class InProcess(Program):
    """The same program without a process for each command."""

    def run(
        self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = CliRunner().invoke(app, list(arguments), env={**self.environment, **(env or {})})
        told = None if done.exception is None else explained(done.exception)
        found, errors = done.exit_code, done.stderr
        if told is not None:
            found, errors = told.code, f"{errors}{told.problem}\n{told.fix}"
        assert found == code, (arguments, done.output, done.exception)
        return subprocess.CompletedProcess(arguments, found, done.stdout, errors)


@pytest.fixture
def program(tmp_path: Path) -> InProcess:
    """A user without any logs."""
    (tmp_path / "user").mkdir()
    return InProcess(tmp_path / "user")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    """A user with the logs of four agents, recorded."""
    user = tmp_path_factory.mktemp("prices") / "user"
    user.mkdir()
    found = InProcess(user)
    found.use_fixtures()
    Program(user).run("record", "--once")
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.toml"
    path.write_text(GOOD)
    return path


def names(answer: dict[str, Any]) -> list[str]:
    return [model["model"] for model in answer["models"]]


def test_the_models_of_the_recording_come_first(recorded: InProcess) -> None:
    """Most used first; one without a price says so; ``--all`` adds every model of the table once."""
    mine = recorded.json("prices")
    used = {row["model"] for row in recorded.json("usage", "--by", "model")["rows"]}
    assert set(names(mine)) == used
    unpriced = next(model for model in mine["models"] if model["model"] == "kimi-mock")
    assert (unpriced["origin"], unpriced["periods"]) == (None, [])
    everything = recorded.json("prices", "--all")
    assert names(everything)[: len(used)] == names(mine)
    assert {"claude-fable-5-2", "claude-mythos-5", "gpt-5.6", "deepseek-v4-flash"} <= set(names(everything))
    assert len(names(everything)) == len(set(names(everything)))
    assert "no price" in recorded.run("prices").stdout


def test_without_a_recording_all_models_are_listed(program: InProcess) -> None:
    """Asking creates nothing."""
    assert len(names(program.json("prices"))) > 100
    assert not program.home.exists()


def test_one_model_with_everything(program: InProcess) -> None:
    """Under a name that logs give it: periods, steps, terms, source and day."""
    found = program.json("prices", "anthropic/claude-haiku-5.5")
    assert (found["listed_as"], found["origin"], found["recorded"]) == ("claude-haiku-5-5", "shipped", False)
    (period,) = found["periods"]
    assert (period["input"], period["web_search"], period["places"]) == (0.1, 10, {"us": 1.1})
    assert period["above"][0] | {"tokens": 100_000, "input": 0.5} == period["above"][0]
    assert "platform.claude.com" in period["source"]
    assert period["checked"] == "2026-11-16"
    assert [one["since"] for one in program.json("prices", "gpt-5.6")["periods"]] == [None, "2026-08-21"]
    text = program.run("prices", "claude-opus-5-5").stdout
    for word in ("listed as", "shipped table", "fast", "inference in us: ×1.1", "1,000 web searches: 10 USD"):
        assert word in text
    assert "peak" in program.run("prices", "show", "deepseek-v4-flash").stdout


def test_an_unknown_model(program: InProcess) -> None:
    """Not found, with what may have been meant."""
    assert "Did you mean gpt-5" in program.run("prices", "gtp-5", code=1).stderr


def test_all_problems_are_reported_together(program: InProcess, tmp_path: Path) -> None:
    """Each with its place and how to put it right; nothing is written."""
    path = tmp_path / "bad.toml"
    path.write_text(BAD)
    found = program.json("prices", "check", str(path), code=1)
    assert found["ok"] is False
    assert all(problem["fix"] for problem in found["problems"])
    places = [problem["place"] for problem in found["problems"]]
    assert sorted(places) == sorted(
        [
            "version",
            "[loose]",
            "openai: discount",
            "openai, gpt-5: currency",
            "openai, gpt-5: input",
            "openai, gpt-5: output",
            "openai, gpt-5: outptu",
            "openai, gpt-6: above.input",
            "openai, gpt-6: since",
            "openai, GPT-6:",
            "openai, gpt-7: since",
            "openai, gpt-8:",
        ]
    )
    told = program.run("prices", "update", str(path), code=1)
    assert "Did you mean output?" in told.stderr
    assert program.json("prices", "update", str(path), code=1)["ok"] is False
    assert not program.home.exists()


@pytest.mark.parametrize(
    "content", [b"", b"[[[", b"\xff\xfe", b"a = " + b"[" * 20_000, b"version = 1" * 3, b"version = '2026-12'"]
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds, the answer is a problem and never an error."""
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    found = read_table(path)
    assert found.problems
    assert all(map(all, found.problems))


def test_what_is_no_file_is_refused(program: InProcess, tmp_path: Path) -> None:
    """A missing file, a directory."""
    assert "cannot be read" in program.run("prices", "check", str(tmp_path / "none"), code=1).stderr
    assert "is no file" in program.run("prices", "check", str(tmp_path), code=1).stderr


@given(st.text(max_size=200) | st.from_regex(r'version = "1"\n\[v\]\ncurrency = "USD"\n\[v.models\]\n(.{0,60}\n){3}'))
def test_reading_a_table_never_fails(text: str) -> None:
    """Either it can be used, or something is wrong with it."""
    found = parse_table(text, "x")
    assert found.problems or found.version


def test_a_table_is_checked_put_in_and_removed(program: InProcess, table: Path) -> None:
    """The change is printed before and after; the file is private; nothing else is left in the directory."""
    checked = program.json("prices", "check", str(table))
    assert not program.home.exists()
    change = {one["model"]: one for one in checked["changes"]}
    assert change.keys() == {"gpt-5", "gpt-5.6", "gpt-9"}
    assert change["gpt-9"]["change"] == "new"
    assert {"part": "input", "before": "1.25", "after": "1"} in change["gpt-5"]["parts"]
    assert {"part": "since 2026-12-01: input", "before": None, "after": "7"} in change["gpt-5.6"]["parts"]
    assert checked["without_effect"] == {"gpt-9": ["above 5,000 tokens", "peak"]}
    written = program.json("prices", "update", str(table))
    assert written == checked | {"written": str(program.home / "prices.toml")}
    assert stat.S_IMODE((program.home / "prices.toml").stat().st_mode) == 0o600
    assert [path.name for path in program.home.iterdir()] == ["prices.toml"]
    found = program.json("prices", "gpt-5")
    assert (found["origin"], found["periods"][0]["input"]) == ("file", 1)
    assert program.json("prices", "gpt-4o")["origin"] == "shipped"
    assert "has no effect" in program.run("prices", "check", str(table)).stderr
    assert program.json("prices", "check", str(table))["changes"] == []
    assert {one["model"]: one["change"] for one in program.json("prices", "reset")["changes"]}["gpt-9"] == "gone"
    assert program.json("prices", "gpt-5")["periods"][0]["input"] == 1.25
    assert program.json("prices", "reset") == {"removed": None, "changes": []}


def test_costs_follow_the_table(recorded: InProcess, tmp_path: Path) -> None:
    """Nothing is recorded anew: the next look has the new cost."""
    before = recorded.json("usage")["total"]
    path = tmp_path / "free.toml"
    path.write_text('version = "9"\n[x]\ncurrency = "USD"\n[x.models]\n"*" = { input = 0, output = 0 }\n')
    recorded.run("prices", "update", str(path))
    after = recorded.json("usage")["total"]
    recorded.run("prices", "reset")
    assert before["cost"] > 0 == after["cost"]
    assert after["unpriced_tokens"] == 0
    assert recorded.json("usage")["total"] == before


@pytest.mark.parametrize("content", [b"\xff\x00", b"version = ", b"x = " + b"[" * 20_000])
def test_a_damaged_file_never_stops_a_command(recorded: InProcess, content: bytes) -> None:
    """The shipped prices are used, and that is said where prices are looked at."""
    cost = recorded.json("usage")["total"]["cost"]
    (recorded.home / "prices.toml").write_bytes(content)
    assert recorded.json("usage")["total"]["cost"] == cost
    found = recorded.json("prices")
    assert found["file"]["used"] is False
    assert "not used" in found["file"]["problem"]
    assert "prices reset" in recorded.run("prices", "gpt-5").stderr
    check = next(one for one in recorded.json("doctor")["checks"] if one["name"] == "prices")
    assert check["state"] == "warn"
    assert "prices reset" in check["fix"]
    recorded.run("prices", "reset")


def test_a_file_that_is_older_than_the_shipped_table_is_reported(tmp_path: Path) -> None:
    """After an upgrade the shipped prices may be the newer ones."""
    from agenttrace.views.checks import prices

    settings = Settings(home=tmp_path)
    assert prices(settings).state == "ok"
    install(tmp_path, GOOD.replace("2026-12", "2020-01", 1).encode().split(b'"gpt-9"')[0])
    assert prices(settings).state == "warn"
    assert "older than the shipped table" in prices(settings).found
    install(tmp_path, GOOD.encode().split(b'"gpt-9"')[0])
    assert prices(settings) == prices(settings)._replace(state="ok", fix="")
    install(tmp_path, GOOD.encode())
    assert "gpt-9: above 5,000 tokens, peak" in prices(settings).found


def test_own_prices_may_have_every_part(program: InProcess, table: Path) -> None:
    """Periods, fast mode, places and searches in the settings; they stay in use whatever table is put in."""
    program.home.mkdir(mode=0o700)
    (program.home / "agenttrace.toml").write_text(
        '[[prices."gpt-5"]]\ncurrency = "USD"\ninput = 9\noutput = 9\n'
        '[[prices."gpt-5"]]\ncurrency = "USD"\ninput = 8\noutput = 8\nsince = "2026-01-01"\n'
        '[prices."my-model"]\ncurrency = "USD"\ninput = 1\noutput = 2\nweb_search = 4\n'
        "fast = { input = 3, output = 4 }\nplaces = { us = 1.5 }\n"
    )
    assert [one["input"] for one in program.json("prices", "gpt-5")["periods"]] == [9, 8]
    mine = program.json("prices", "my-model")
    assert (mine["origin"], mine["periods"][0]["fast"]["input"], mine["periods"][0]["web_search"]) == ("settings", 3, 4)
    checked = program.json("prices", "check", str(table))
    assert checked["overridden"] == ["gpt-5"]
    assert "gpt-5" not in [one["model"] for one in checked["changes"]]
    (program.home / "agenttrace.toml").write_text('[prices."m"]\ncurrency = "USD"\ninput = 1\noutput = 2\nfast = "x"\n')
    assert 'prices."m".fast' in program.run("prices", code=2).stderr


def test_the_shipped_table_has_no_problem_and_changes_nothing_against_itself() -> None:
    """Every rule of the check holds for what is shipped."""
    from importlib import resources

    shipped = parse_table(resources.files("agenttrace.prices").joinpath("prices.toml").read_text(encoding="utf-8"), "x")
    assert shipped.problems == ()
    settings = Settings(home=Path("/nowhere"))
    assert changes(PriceTable.of(settings, None), PriceTable.of(settings, shipped)) == []
    assert without_effect(shipped.prices) == {}
    table = PriceTable.of(settings, shipped)
    assert {table.find(name).origin for name in listed_models(table)} == {"file"}
    assert all(price_fields(price)["currency"] for price in table.shipped)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays whole, and no half one beside it."""
    install(tmp_path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        install(tmp_path, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("prices.toml", b"old")]


@given(st.integers(0, 10**12))
def test_amounts_are_exact(micros: int) -> None:
    """As people write them: no zeros behind, nothing rounded."""
    from decimal import Decimal

    assert Decimal(amount(micros)) * 1_000_000 == micros
    assert amount(2_500_000) == "2.5"
    assert amount(10_000_000) == "10"
