"""``agenttrace export``: send spans to destinations, and show and change the ledger of what arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED, CommandError
from agenttrace.cli.export_status import show_exporter, show_one, show_table
from agenttrace.cli.grouping import StatusFirst
from agenttrace.cli.options import AsJson, Yes
from agenttrace.config import Settings, did_you_mean, ensure_home
from agenttrace.destinations import TEAM, DestinationSettings, keys_hidden
from agenttrace.export.lock import ExporterLock, owner
from agenttrace.store.exports import NOTHING, DestinationRow, Ledgers, Listed, State
from agenttrace.views import figures
from agenttrace.views.exports import exports_fields, keys_hidden_of, span_fields
from agenttrace.views.places import store_path
from agenttrace.views.times import iso, parse_when

if TYPE_CHECKING:
    from agenttrace.store.sqlite.exports import Exports

EPILOG = """
  agenttrace export                          every destination: state and counts
  agenttrace export check                    test addresses and keys
  agenttrace export run --once               send what is there, then exit
  agenttrace export status langfuse          one destination, with its refused spans
  agenttrace export retry langfuse           send refused spans again
  agenttrace export backfill phoenix --since 30d

Destinations are tables of agenttrace.toml. While agenttrace up or record runs, new spans are sent automatically.
"""

#: Shown where no destination is configured.
EXAMPLE = """\
[destinations.files]
type = "jsonl"
path = "~/agenttrace-export"

[destinations.phoenix]
type = "otlp"
url = "http://127.0.0.1:6006/v1/traces"
"""

#: The states of which spans are listed.
_TROUBLED: tuple[Listed, ...] = ("refused", "unknown")

T = TypeVar("T")

app = typer.Typer(cls=StatusFirst, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A destination, named as its table in agenttrace.toml.")]
MaybeName = Annotated[str | None, typer.Argument(metavar="NAME", help="A destination; without one, all of them.")]


# -- looking --------------------------------------------------------------------------------------------------


@app.command()
def status(
    name: MaybeName = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include destinations that were removed from the settings.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many spans to list per state.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the state of each destination: acknowledged, queued, refused and unknown spans.

    With NAME also the latest spans that were refused or are unknown, with the destination's answer.
    """
    settings = opening.settings()
    with _looking(settings) as (exports, known):
        found = exports_fields(known, settings, removed=everything or name is not None)
        if name is None:
            _show_all(settings, found, as_json=as_json)
            return
        each = _named(settings, name, {each["name"]: each for each in found["destinations"]})
        hide = keys_hidden_of(settings, name)
        spans: dict[str, list[dict[str, Any]]] = {
            state: _latest(exports, known, name, state, limit, hide) for state in _TROUBLED
        }
    if as_json:
        output.print_json({**each, "spans": spans})
        return
    show_one(each, spans)
    show_exporter(found)


def _show_all(settings: Settings, found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.print_json(found)
    elif found["destinations"]:
        show_table(found)
    else:
        output.say(f"No destination is configured. Add one to {_file(settings)}, for example:", "bold")
        output.say()
        output.say(EXAMPLE)
        output.note("Then: agenttrace export run --once, or agenttrace up. The guide: docs/export.md")


@contextmanager
def _looking(settings: Settings) -> Iterator[tuple[Exports | None, Ledgers]]:
    """The ledgers of the store; empty ones where there is no store yet."""
    if not store_path(settings).exists():
        yield None, NOTHING
        return
    with opening.opened_store(settings) as store:
        yield store.exports, store.exports.ledgers()


def _latest(
    exports: Exports | None,
    known: Ledgers,
    name: str,
    listed: Listed,
    limit: int,
    hide: Callable[[str], str],
) -> list[dict[str, Any]]:

    numbers = [row.destination_id for row in known.rows if row.name == name]
    if exports is None or not numbers:
        return []
    return [span_fields(span, hide) for span in exports.ledger.listed(numbers[0], listed, limit=limit)]


@app.command()
def check(name: MaybeName = None, as_json: AsJson = False) -> None:
    """Test the connection to each destination without sending spans, and show how to fix problems."""
    settings = opening.settings()
    wanted = list(settings.destinations) if name is None else [_configured(settings, name)]
    if not wanted:
        raise _none_configured(settings)
    results = list(zip(wanted, asyncio.run(_checked(wanted, settings.home)), strict=True))
    if as_json:
        output.print_json(
            [
                {"name": each.name, "kind": each.type, "address": each.address, "ok": not problem, "problem": problem}
                for each, problem in results
            ]
        )
    for each, problem in results if not as_json else ():
        where = f" ({each.address})" if each.address else ""
        if problem:
            output.say(f"✗ {each.name}{where}: {problem}", "red")
        else:
            output.say(f"✓ {each.name}{where} is ready", "green")
    if any(problem for _, problem in results):
        raise typer.Exit(FAILED)


async def _checked(wanted: list[DestinationSettings], home: Path) -> list[str | None]:
    return list(await asyncio.gather(*(_problem(each, home) for each in wanted)))


async def _problem(settings: DestinationSettings, home: Path) -> str | None:
    """What is wrong with a destination, if anything."""
    if settings.type == TEAM:
        return await asyncio.to_thread(_problem_of_team, settings, home)
    from agenttrace.export.kinds import UnusableDestinationError, destination_of
    from agenttrace.masking import Mask

    try:
        destination = destination_of(settings)
    except UnusableDestinationError as error:
        return str(error)
    try:
        problem = await destination.check()
        return Mask().text(keys_hidden(settings)(problem)) or None
    finally:
        await destination.close()


def _problem_of_team(settings: DestinationSettings, home: Path) -> str | None:
    from agenttrace.team.joining import position_of
    from agenttrace.team.membership import NotJoinedError, membership_of

    try:
        return position_of(membership_of(home, settings.url))[0]
    except NotJoinedError as error:
        return str(error)


# -- sending --------------------------------------------------------------------------------------------------


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="Send everything that is finished, then exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was sent as JSON, and nothing else.")] = False,
    until_input_ends: Annotated[bool, typer.Option("--until-input-ends", hidden=True)] = False,
) -> None:
    """Export to all destinations, as agenttrace up and agenttrace record do in the background.

    Only one exporter runs on a data directory. Ctrl-C stops it after the current requests; nothing is lost, and
    acknowledged spans are not sent again. With --once: exit code 1 if spans are left, with the reason.
    """
    from agenttrace.cli import export_run

    settings = opening.settings()
    if not settings.destinations:
        raise _none_configured(settings)
    output.show_warnings()
    with ExporterLock(ensure_home(settings)):
        if once:
            export_run.once(settings, as_json=as_json)
        else:
            export_run.on(settings, as_json=as_json, until_input_ends=until_input_ends)


# -- changing the ledger --------------------------------------------------------------------------------------


@app.command()
def retry(
    name: Name,
    refused: Annotated[bool, typer.Option("--refused", help="Retry refused spans (the default).")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Retry unknown spans; they may then exist twice at the destination.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Retry refused or unknown spans."""
    choices: tuple[tuple[State, bool], ...] = (("refused", refused or not unknown), ("unknown", unknown))
    states = [state for state, wanted in choices if wanted]
    with _changing(name) as found:
        number = found.exports.retry(found.row.destination_id, states)
        left = found.exports.ledger.entries(found.row.destination_id, "unknown", 1)
    text = f"{figures.counted(number, 'span')} queued again for {name}."
    output.answer({"name": name, "queued": number}, text, as_json=as_json)
    if left and not unknown and not as_json:
        output.note(
            "Unknown spans were not queued: they may have arrived. Check the destination; if they did not arrive: "
            f"agenttrace export retry {name} --unknown; if they did: agenttrace export accept {name}"
        )
    _note_no_exporter(found.settings, quiet=as_json)


@app.command()
def accept(name: Name, as_json: AsJson = False) -> None:
    """Mark all unknown spans as delivered, after checking the destination. They are not sent again."""
    with _changing(name) as found:
        number = found.exports.ledger.accept(found.row.destination_id)
    text = f"{figures.counted(number, 'span')} of {name} marked as delivered."
    output.answer({"name": name, "acknowledged": number}, text, as_json=as_json)


@app.command()
def pause(name: Name, as_json: AsJson = False) -> None:
    """Pause a destination; new spans stay queued."""
    _set_paused(name, paused=True, as_json=as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """Resume a paused destination."""
    _set_paused(name, paused=False, as_json=as_json)


def _set_paused(name: str, *, paused: bool, as_json: bool) -> None:
    with _changing(name) as found:
        found.exports.destinations.set_paused(name, paused)
    text = f"{name} is paused until: agenttrace export resume {name}" if paused else f"{name} is resumed."
    output.answer({"name": name, "paused": paused}, text, as_json=as_json)
    _note_no_exporter(found.settings, quiet=as_json or paused)


@app.command()
def backfill(
    name: Name,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Turns that ended since: 30d, 2026-11-01, an ISO time, or all.")
    ] = "30d",
    as_json: AsJson = False,
) -> None:
    """Queue earlier turns. Spans that the destination already has are not sent again, and its filters apply."""
    zone = opening.settings().usage.timezone
    moment = 0 if since.strip().lower() == "all" else parse_when(since, zone)
    with _changing(name) as found:
        traces = found.exports.destinations.backfill(name, moment)
        is_team = found.row.kind == TEAM
    when = f"since {figures.clock(moment)}" if moment else "of all time"
    text = f"{figures.counted(traces, 'turn')} {when} are checked for {name}; missing spans are queued."
    if is_team:
        text = f"{figures.counted(traces, 'session')} {when} that were held are sent to {name}."
    fields = {"name": name, "since": iso(moment) if moment else None, "traces": traces}
    output.answer(fields, text, as_json=as_json)
    _note_no_exporter(found.settings, quiet=as_json)


@app.command()
def forget(name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Reset a destination, so that spans are sent again after its data was deleted there.

    Stop the exporter first. Sending starts again at the destination's start setting; backfill queues earlier turns.
    """
    from agenttrace.export.journal import Journal

    settings = opening.settings()
    if not store_path(settings).exists():
        _configured(settings, name)
    with ExporterLock(ensure_home(settings)), _changing(name, removed=True) as found:
        if not yes:
            question = f"Reset {name}? Spans that it still has will exist there twice when they are sent again."
            if found.row.kind == TEAM:
                question = f"Reset {name}? Everything is sent again; what it has already stays as it is."
            output.confirm(question, fix=f"Add --yes to reset {name}.", refused="nothing was reset")
        number = found.exports.destinations.forget(name)
        Journal(settings.home, name).path.unlink(missing_ok=True)
        found.exports.destinations.keep(settings.destinations)
    text = f"{name} is reset: {figures.counted(number, 'span')} removed from its ledger."
    output.answer({"name": name, "forgotten": number}, text, as_json=as_json)


# -- finding a destination ------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """A destination, and the store to change."""

    settings: Settings
    exports: Exports
    row: DestinationRow


@contextmanager
def _changing(name: str, *, removed: bool = False) -> Iterator[_Change]:
    """The store to change, with the destination of this name; with ``removed`` also one that the settings lack."""
    settings = opening.settings()
    if not removed:
        _configured(settings, name)
    with opening.opened_store(settings, read_only=False) as store:
        destinations = store.exports.destinations
        destinations.keep(settings.destinations)
        rows = {row.name: row for row in destinations.rows() if removed or row.removed_at is None}
        yield _Change(settings, store.exports, _named(settings, name, rows))


def _configured(settings: Settings, name: str) -> DestinationSettings:
    return _named(settings, name, {each.name: each for each in settings.destinations})


def _named(settings: Settings, name: str, found: Mapping[str, T]) -> T:
    """The destination of this name, or an error that says which names exist."""
    if name in found:
        return found[name]
    if not found:
        raise _none_configured(settings)
    raise CommandError(f"there is no destination named {name!r}", did_you_mean(name, list(found)))


def _none_configured(settings: Settings) -> CommandError:
    return CommandError("no destination is configured", f"Add one to {_file(settings)}, for example:\n\n{EXAMPLE}")


def _file(settings: Settings) -> str:
    return str(settings.file or settings.home / "agenttrace.toml")


def _note_no_exporter(settings: Settings, *, quiet: bool) -> None:
    if not quiet and owner(settings.home) is None:
        output.note("No exporter runs. Start it with: agenttrace up; once: agenttrace export run --once")
