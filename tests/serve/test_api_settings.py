"""``/api/v1/settings`` and ``/doctor``: everything that is configured, and never a secret."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from agenttrace.config import (
    SETTINGS,
    DatabaseSettings,
    JwtSettings,
    RecordSettings,
    Settings,
    UsageSettings,
    ensure_home,
    load_settings,
)
from agenttrace.views.doctor import all_checks

from .trace_rig import Logs
from .views_rig import Client, ask, found_logs

PASSWORD = "the-password-of-the-database"
SECRET = "a secret that signs tokens and is long enough"
KEY = "sk-the-key-of-dashscope"


def test_every_setting_is_there_with_its_origin(home: Path, tmp_path: Path) -> None:
    """All settings in their order, with value, place of origin and meaning, and the file they are read from."""
    file = tmp_path / "own.toml"
    file.write_text('home = "data"\n[record]\npaths = ["logs"]\n[usage]\nexchange_rate = 7.1\n', encoding="utf-8")
    environ = {"AGENTTRACE_CONFIG": str(file), "AGENTTRACE_RETENTION_DAYS": "9", "HOME": str(home)}
    settings = load_settings(environ, {"serve.port": 0})
    ensure_home(settings)

    async def body(client: Client) -> None:
        found = await client.json("/settings")
        assert (found["home"], found["file"]) == (str(tmp_path / "data"), str(file))
        rows = {row["name"]: row for row in found["items"]}
        assert list(rows) == list(SETTINGS)
        for name, row in rows.items():
            assert row["origin"] == settings.origin(name)
            assert row["secret"] == SETTINGS[name].secret
            assert row["description"] == SETTINGS[name].meaning
        assert rows["record.paths"]["value"] == [str(tmp_path / "logs")]
        assert rows["record.paths"]["origin"] == f"file {file}"
        assert (rows["retention.days"]["value"], rows["retention.days"]["origin"]) == (
            9,
            "environment AGENTTRACE_RETENTION_DAYS",
        )
        assert (rows["serve.port"]["value"], rows["serve.port"]["origin"]) == (0, "flag")
        assert rows["usage.exchange_rate"]["value"] == 7.1
        assert rows["jwt.secret"]["value"] is None

    ask(settings, body)


def test_values_of_every_kind_can_be_shown(tmp_path: Path) -> None:
    """Paths, lists, amounts and names that are no UTF-8 all become JSON."""
    settings = Settings(
        home=tmp_path / "home",
        record=RecordSettings(paths=(os.fsdecode(b"/logs/\xff"),)),
        usage=UsageSettings(exchange_rate=Decimal("7.25"), rates={"EUR": Decimal("1.5")}),
    )
    ensure_home(settings)

    async def body(client: Client) -> None:
        rows = {row["name"]: row["value"] for row in (await client.json("/settings"))["items"]}
        assert rows["record.paths"] == ["/logs/\\udcff"]
        assert (rows["usage.exchange_rate"], rows["usage.rates"]) == (7.25, {"EUR": 1.5})
        assert rows["home"] == str(tmp_path / "home")
        assert rows["usage.timezone"] == "local"

    ask(settings, body)


def test_the_doctor_says_what_the_command_line_says(tmp_path: Path) -> None:
    """The same findings in the same order with the same fixes, and whether any of them is wrong."""
    logs = found_logs(tmp_path)
    logs.append("one", "turn.begin", prompt="hello")
    logs.record()

    async def body(client: Client) -> None:
        found = await client.json("/doctor")
        expected = [check._asdict() for check in all_checks(logs.settings)]
        # Free space may be another number a moment later.
        assert _without_space(found["checks"]) == _without_space(expected)
        assert found["ok"] is True
        logs.settings.home.chmod(0o755)

    ask(logs.settings, body)
    broken = ask(logs.settings, lambda client: client.json("/doctor"))
    assert broken["ok"] is False
    (check,) = [check for check in broken["checks"] if check["state"] == "fail"]
    assert check["fix"].startswith("Close it to others: chmod go-rwx")


def _without_space(checks: list[dict[str, str]]) -> list[dict[str, str]]:
    return [check for check in checks if check["name"] != "disk space"]


def test_no_answer_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for, password, signing secret and keys are in no answer; of a secret only that it is set."""
    logs: Logs = found_logs(tmp_path)
    logs.append("one", "turn.begin", prompt="hello")
    logs.record()
    url = f"postgresql://someone:{PASSWORD}@127.0.0.1:1/nowhere"
    monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)
    monkeypatch.setenv("INTERNAL_API_TOKEN", KEY)
    settings = Settings(
        home=logs.settings.home,
        record=logs.settings.record,
        database=DatabaseSettings(url=url),
        jwt=JwtSettings(secret=SECRET),
        origins={"database.url": "environment AGENTTRACE_DATABASE_URL", "jwt.secret": "flag"},
    )

    async def body(client: Client) -> None:
        paths = ("/settings", "/doctor", "/overview", "/files", "/quarantine", "/usage", "/usage.csv", "/me")
        answers = [(await client.get(path)).body for path in paths]
        for answer in answers:
            for secret in (PASSWORD, SECRET, KEY):
                assert secret.encode() not in answer
        rows = {row["name"]: row for row in (await client.json("/settings"))["items"]}
        assert [rows[name]["value"] for name in ("database.url", "jwt.secret")] == ["***", "***"]
        findings = {check["name"]: check for check in (await client.json("/doctor"))["checks"]}
        assert "cannot be used" in findings["database"]["found"]

    ask(settings, body)
