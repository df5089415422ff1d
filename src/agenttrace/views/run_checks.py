"""Checks of ``agenttrace doctor`` about the run half: its variables, its catalog and its database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agenttrace.views.checks import Finding
from agenttrace.views.trouble import database_trouble

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.run.catalog.catalog import App


def applications(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether applications can be called, and users can chat."""
    from agenttrace.run.availability import is_installed

    if not is_installed():
        yield Finding("applications", "ok", _NOT_INSTALLED)
        return
    from agenttrace.run.catalog.catalog import CatalogError, load_catalog, missing_variables
    from agenttrace.run.catalog.config import MissingVariablesError, WeakTokenError, check_token, check_variables

    try:
        check_token(environ)
    except WeakTokenError as error:
        yield Finding("internal token", "fail", error.problem, error.fix)
    try:
        catalog = load_catalog(settings, environ)
    except CatalogError as error:
        yield Finding("applications", "fail", f"agenttrace.toml: {error}", "Correct that table.")
        return
    names = {name for app in catalog.apps.values() if not app.is_optional for name in app.variables}
    try:
        check_variables(missing_variables(catalog, environ), environ)
    except MissingVariablesError as error:
        if names <= set(error.missing) and "BAILIAN" not in str(error) and not settings.apps:
            yield Finding("applications", "ok", "not configured; only needed to call LLM applications")
            return
        yield Finding("applications", "warn", str(error), "Set them; agenttrace apps shows what belongs where.")
    ready = [app for app in catalog.apps.values() if not app.missing]
    if ready:
        yield Finding("applications", "ok", f"{len(ready)} can be called, at {', '.join(_places(ready, environ))}")
        if settings.jwt.secret is None:
            yield Finding("chat", "warn", "closed: there is no secret for tokens", "Set AGENTTRACE_JWT_SECRET.")


def _places(apps: Sequence[App], environ: Mapping[str, str]) -> list[str]:
    """Where they are called."""
    from agenttrace.run.upstream.dashscope import DEFAULT_BASE_URL

    dashscope = environ.get("DASHSCOPE_BASE_URL", "").strip() or DEFAULT_BASE_URL
    return list(dict.fromkeys(dashscope if app.endpoint is None else app.endpoint.base_url for app in apps))


def database(settings: Settings) -> Finding:
    """Whether the database of the run half can be used; the built-in one is not started for this."""
    from agenttrace.run.availability import is_installed
    from agenttrace.run.postgres.programs import is_made

    if not is_installed():
        return Finding("database", "ok", _NOT_INSTALLED)
    import psycopg

    from agenttrace.run.postgres.pool import HEAD, revision_of

    url = settings.database.url
    if url is None:
        made = is_made(settings.home)
        return Finding("database", "ok", "built in, " + ("created" if made else "created when it is first needed"))
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            version, revision = connection.info.server_version // 10_000, revision_of(connection)
    except psycopg.Error as error:
        known = database_trouble(url, error)
        return Finding("database", "fail", known.problem if known else type(error).__name__, known.fix if known else "")
    if version < _OLDEST:
        return Finding("database", "fail", f"PostgreSQL {version}", f"Use version {_OLDEST} or newer.")
    state = "up to date" if revision == HEAD else "to be brought up to date by the next start"
    return Finding("database", "ok", f"PostgreSQL {version}, {state}")


_NOT_INSTALLED = "not installed; only needed to call LLM applications: pip install 'agenttrace[run]'"
#: For unique indexes in which NULLs are equal.
_OLDEST = 15
