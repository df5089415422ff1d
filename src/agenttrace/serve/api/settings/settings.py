"""``/api/v1/settings`` and ``/doctor``: settings with their origins, and findings."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from agenttrace.config import SETTINGS, Settings
from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.api.shapes.settings import Check, Doctor, SettingList, SettingRow, TeamServer
from agenttrace.serve.context import ServerContext
from agenttrace.views.doctor import all_checks

#: Findings are cached for this long: they take a check of the whole store and of every directory.
_SECONDS = 5.0


def settings_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["settings"])

    doctor = Cached(lambda: asyncio.to_thread(_findings, context), _SECONDS)

    @router.get("/settings", **endpoint("All settings", SettingList, 401))
    async def show_settings(request: Request) -> Response:
        return answer(request, _settings(context.settings, context.team))

    @router.get("/doctor", **endpoint("Findings, each with what to do about it", Doctor, 401))
    async def show_doctor(request: Request) -> Response:
        return answer(request, await doctor.get())

    return router


def _settings(settings: Settings, team: str | None) -> SettingList:
    return SettingList(
        home=_whole(str(settings.home)),
        file=_whole(str(settings.file or settings.home / "agenttrace.toml")),
        team=None if team is None else TeamServer(team),
        items=[_row(settings, name) for name in SETTINGS],
    )


def _row(settings: Settings, name: str) -> SettingRow:
    return SettingRow(
        name=name,
        value=_plain(settings.shown(name)),
        origin=_whole(settings.origin(name)),
        secret=SETTINGS[name].secret,
        description=SETTINGS[name].meaning,
    )


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever a setting can be
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_whole(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, Decimal):
        return float(value)
    return _whole(str(value)) if isinstance(value, str | Path) else value


def _whole(text: str) -> str:
    """Names on disk may be other than UTF-8; JSON is UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _findings(context: ServerContext) -> Doctor:
    # The environment that this server was started with, which may differ from that of the process.
    environ = None if context.engine is None else context.engine.environ
    found = list(all_checks(context.settings, environ))
    return Doctor(
        ok=all(check.state != "fail" for check in found),
        checks=[Check(check.name, check.state, _whole(check.found), _whole(check.fix)) for check in found],
    )
