"""The environment of the run half: which variables are not set, and the internal token."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agenttrace.run.upstream.dashscope import DEFAULT_BASE_URL

#: Programs that trigger events show it.
TOKEN = "INTERNAL_API_TOKEN"  # noqa: S105 - the name of the variable
#: Which field of ``AIConfig`` a variable sets. All of these are needed for the catalog that ships.
REQUIRED = {
    "DASHSCOPE_API_KEY": "api_key",
    "DASHSCOPE_APP_ID_1_CHAT": "app_id_1_chat",
    "DASHSCOPE_APP_ID_2_FINANCE": "app_id_2_finance",
    "DASHSCOPE_APP_ID_3_CLUE": "app_id_3_clue",
    "DASHSCOPE_APP_ID_4_ANALYSIS": "app_id_4_analysis",
    "DASHSCOPE_APP_ID_5_TACTICS": "app_id_5_tactics",
    "DASHSCOPE_APP_ID_6_NOTE": "app_id_6_note",
    "DASHSCOPE_APP_ID_7_CUSTOMER": "app_id_7_customer",
    "DASHSCOPE_APP_ID_8_CONSOLIDATE": "app_id_8_consolidate",
    "INTERNAL_API_TOKEN": "internal_api_token",
}
#: The fewest characters of the internal token.
LEAST_TOKEN = 16
#: Names from before the applications had ids of their own; None: nothing takes its place.
RENAMED = {name.replace("DASHSCOPE", "BAILIAN"): name for name in REQUIRED if name.startswith("DASHSCOPE")} | {
    "BAILIAN_BASE_URL": None,
    "BAILIAN_MODEL": None,
}


class MissingVariablesError(Exception):
    """Variables are not set: all of them by name, and what has become of old names that are."""

    def __init__(self, missing: tuple[str, ...], outdated: tuple[str, ...] = ()) -> None:
        self.missing = missing
        lines = [f"not set: {', '.join(missing)}", *(f"{name} {_advice(name)}" for name in outdated)]
        super().__init__("; ".join(lines))


class WeakTokenError(Exception):
    """The internal token could be guessed: what is wrong with it, and how to make a better one."""

    def __init__(self, length: int) -> None:
        self.problem = f"INTERNAL_API_TOKEN has {length} characters, at least {LEAST_TOKEN} are needed"
        self.fix = (
            "Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))' "
            "and set it where AgentTrace runs and in every program that calls it."
        )
        super().__init__(f"{self.problem}. {self.fix}")


def check_token(environ: Mapping[str, str]) -> None:
    """Raise WeakTokenError where the internal token is set and too short; servers and workers do not start with it."""
    token = environ.get("INTERNAL_API_TOKEN", "").strip()
    if token and len(token) < LEAST_TOKEN:
        raise WeakTokenError(len(token))


def usable_token(environ: Mapping[str, str]) -> str:
    """The internal token; empty where it is not set, or too short to be one."""
    token = environ.get("INTERNAL_API_TOKEN", "").strip()
    return token if len(token) >= LEAST_TOKEN else ""


def check_variables(names: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raise MissingVariablesError, which names each variable that is not set, or blank."""
    missing = tuple(name for name in dict.fromkeys(names) if not environ.get(name, "").strip())
    if missing:
        raise MissingVariablesError(missing, tuple(name for name in RENAMED if environ.get(name, "").strip()))


def _advice(name: str) -> str:
    new = RENAMED[name]
    return f"is now called {new}" if new else "is no longer used"


@dataclass(frozen=True)
class AIConfig:
    """What the eight applications that ship are called with. Its ``repr`` never shows a secret."""

    api_key: str = field(repr=False)
    workspace_id: str | None
    app_id_1_chat: str
    app_id_2_finance: str
    app_id_3_clue: str
    app_id_4_analysis: str
    app_id_5_tactics: str
    app_id_6_note: str
    app_id_7_customer: str
    app_id_8_consolidate: str
    internal_api_token: str = field(repr=False)
    base_url: str = DEFAULT_BASE_URL

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> AIConfig:
        """Everything at once or nothing: a MissingVariablesError names each variable that is not set, or blank."""
        environ = os.environ if environ is None else environ
        check_variables(REQUIRED, environ)
        given = {name: value.strip() for name, value in environ.items()}
        return cls(
            workspace_id=given.get("DASHSCOPE_WORKSPACE_ID") or None,
            base_url=given.get("DASHSCOPE_BASE_URL") or DEFAULT_BASE_URL,
            **{name: given[variable] for variable, name in REQUIRED.items()},
        )
