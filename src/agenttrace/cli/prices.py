"""``agenttrace prices``: prices of models, and price tables of users."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import FAILED, CommandError
from agenttrace.cli.grouping import NameFirst
from agenttrace.cli.options import AsJson
from agenttrace.config import Settings, ensure_home
from agenttrace.model import Price
from agenttrace.prices.parsing import AMOUNTS, SEARCHES, PriceFile, decode_table, read_table
from agenttrace.prices.table import FILE_NAME, PriceTable, install, without_effect
from agenttrace.views import figures
from agenttrace.views import prices as view
from agenttrace.views.plain import one_line

EPILOG = """
  agenttrace prices                       the models of your sessions
  agenttrace prices claude-haiku-5-5      everything about one model
  agenttrace prices check new.toml        validate a table and show what would change
  agenttrace prices update new.toml       use it
  agenttrace prices reset                 back to the shipped prices

Amounts are for a million tokens. A price in agenttrace.toml under \\[prices] comes first, then a table that update
installed, then the shipped table. Costs are computed when they are shown, so they follow a new price at once.
"""

app = typer.Typer(cls=NameFirst, rich_markup_mode="rich")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A table in the form of the shipped one (TOML).")]

_SHOWN_CHANGES = 40
_SHOWN_PARTS = 4


@app.command("list")
def list_prices(
    everything: Annotated[bool, typer.Option("--all", help="Include models without recorded sessions.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the prices of the models in your sessions; with --all, of every known model."""
    settings = opening.settings()
    table, recorded = PriceTable.load(settings), _recorded(settings)
    seen = set(recorded)
    further = view.listed_models(table) if everything or not recorded else []
    names = [*recorded, *(name for name in further if name not in seen)]
    if as_json:
        models = [view.model_fields(table, name, name in seen) for name in names]
        output.print_json({"version": table.version, "file": view.file_fields(table), "models": models})
        return
    _show_list(table, names)
    if not recorded:
        output.note("Nothing is recorded yet; these are all models of the table.")
    output.note(f"Per million tokens, today. {view.tables_used(table).capitalize()}.")
    _complain_about_file(table)


def _show_list(table: PriceTable, names: list[str]) -> None:
    def of_price(text: Callable[[Price], str]) -> Callable[[str], str]:
        """A cell that is empty for a model without a price."""
        return lambda name: "" if (price := table.price(name)) is None else one_line(text(price))

    def amount(name: str) -> Callable[[str], str]:
        return of_price(lambda price: view.amount(getattr(price, name)))

    columns: tuple[Column[str], ...] = (
        Column("model", one_line, least=20),
        Column("currency", lambda name: of_price(lambda price: price.currency)(name) or "no price"),
        Column("input", amount("input"), right=True),
        Column("output", amount("output"), right=True),
        Column("cache read", amount("cache_read"), right=True),
        Column("write", amount("cache_write"), right=True, optional=1),
        Column("1h", amount("cache_write_1h"), right=True, optional=2),
        Column("since", of_price(lambda price: price.since), optional=3),
        Column("also", of_price(view.extras), least=8),
        Column("checked", of_price(lambda price: price.checked), optional=4),
        Column("from", lambda name: view.ORIGINS.get(table.find(name).origin, ""), optional=5),
        Column("source", of_price(lambda price: price.source), least=20, optional=6),
    )
    print_table(columns, names)


@app.command("show")
def show_price(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model name, as logs have it.")],
    as_json: AsJson = False,
) -> None:
    """Show the price of one model in detail; "show" is optional."""
    settings = opening.settings()
    table = PriceTable.load(settings)
    if not table.find(model).periods:
        near = difflib.get_close_matches(model, view.listed_models(table), n=3)
        fix = f"Did you mean {', '.join(near)}? " if near else ""
        raise CommandError(f"no price is known for {model!r}", f"{fix}Set one in agenttrace.toml under [prices].")
    if as_json:
        output.print_json(view.model_fields(table, model, model in _recorded(settings)))
        return
    _show_model(table, model)
    _complain_about_file(table)


def _show_model(table: PriceTable, model: str) -> None:
    found = table.find(model)
    last = found.periods[-1]
    facts = {
        "model": model,
        "listed as": f"{last.model} ({view.ORIGINS[found.origin]})",
        "source": last.source,
        "checked": last.checked,
        "currency": f"{last.currency} for a million tokens",
    }
    for name, value in facts.items():
        if value:
            output.fact(name, one_line(value))
    output.say()
    _show_periods(found.periods)
    for part in [] if found.origin == "shipped" else view.idle_parts(found.periods):
        output.note(f"No effect: {part}; the shipped table does not have it for this model.", "yellow")


def _show_periods(periods: tuple[Price, ...]) -> None:
    columns: list[Column[tuple[str, Price]]] = [Column("price", lambda row: row[0])]
    columns += [Column(name.replace("_", " "), _amount(name), right=True) for name in AMOUNTS]
    rows, remarks = [], []
    for price in periods:
        start = f"since {price.since}" if price.since else "from the beginning" if len(periods) > 1 else "usual"
        rows += [(f"  {name}" if name else start, rate) for name, rate in view.rates(price)]
        remarks += [f"inference in {place}: {view.factor(times)}" for place, times in price.places.items()]
        if price.web_search is not None:
            remarks.append(f"1,000 web searches: {view.amount(price.web_search * SEARCHES)} {price.currency}")
    print_table(columns, rows)
    for remark in dict.fromkeys(remarks):
        output.say(remark)


def _amount(name: str) -> Callable[[tuple[str, Price]], str]:
    return lambda row: view.amount(getattr(row[1], name))


# -- a table from a file -----------------------------------------------------------------------------------------------


@app.command("check")
def check_prices(file: FileArgument, as_json: AsJson = False) -> None:
    """Validate a price table and show what it would change. Nothing is changed."""
    settings = opening.settings()
    _checked(settings, file, _read(file), as_json=as_json)


@app.command("update")
def update_prices(file: FileArgument, as_json: AsJson = False) -> None:
    """Validate a price table, and use it in preference to the shipped one."""
    settings = opening.settings()
    table, content = _read(file), b""
    if not table.problems:
        # What is written is what is checked, even if the file changes meanwhile.
        content = file.read_bytes()
        table = decode_table(content, file.name)
    answer = _checked(settings, file, table, as_json=False, quiet=as_json)
    ensure_home(settings)
    written = install(settings.home, content)
    if as_json:
        output.print_json({**answer, "written": str(written)})
        return
    output.say(f"Written to {written}.", "green")
    output.note("Running programs (agenttrace up, serve, mcp) use it after a restart.")


@app.command("reset")
def reset_prices(as_json: AsJson = False) -> None:
    """Reset to the shipped prices: remove the table that update installed."""
    settings = opening.settings()
    before, path = PriceTable.load(settings), settings.home / FILE_NAME
    found = view.changes(before, PriceTable.of(settings, None), _recorded(settings))
    there = path.is_symlink() or path.exists()
    path.unlink(missing_ok=True)
    if as_json:
        output.print_json(
            {"removed": str(path) if there else None, "changes": [view.change_fields(one) for one in found]}
        )
    elif there:
        _show_changes(found)
        output.say(f"Removed {path}.", "green")
    else:
        output.say("The shipped prices are in use; there is nothing to remove.")


def _read(file: Path) -> PriceFile:
    try:
        return read_table(file)
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}", "Name a file with a price table.") from error


def _checked(settings: Settings, file: Path, table: PriceFile, *, as_json: bool, quiet: bool = False) -> dict[str, Any]:
    """Print the problems and what would change; exit where there are problems."""
    before, after = PriceTable.load(settings), PriceTable.of(settings, table)
    found = [] if table.problems else view.changes(before, after, _recorded(settings))
    mine = sorted({price.model for price in table.prices if after.find(price.model).origin == "settings"})
    answer = {
        "file": str(file),
        "version": table.version or None,
        "ok": not table.problems,
        "problems": [problem._asdict() for problem in table.problems],
        "changes": [view.change_fields(change) for change in found],
        "without_effect": without_effect(table.prices),
        "overridden": mine,
    }
    if as_json or (quiet and table.problems):
        output.print_json(answer)
    elif not quiet:
        _show_check(table, after, found, answer)
    if table.problems:
        raise typer.Exit(FAILED)
    return answer


def _show_check(table: PriceFile, after: PriceTable, found: list[view.PriceChange], answer: dict[str, Any]) -> None:
    for problem in table.problems:
        output.complain(f"{problem.place} {problem.problem}", problem.fix)
    if table.problems:
        output.say(f"{figures.counted(len(table.problems), 'problem')}; the table cannot be used.", "bold red")
        return
    models = len({price.model for price in table.prices})
    output.say(f"{figures.counted(models, 'model')} of version {table.version}: the table is valid.", "green")
    _show_changes(found)
    for model, parts in answer["without_effect"].items():
        told = f"{model}: {', '.join(parts)} has no effect: the shipped table does not have it for this model."
        output.note(told, "yellow")
    for model in answer["overridden"]:
        output.note(f"{model}: the price in your settings stays in use.", "yellow")
    if table.version < after.shipped_version:
        output.note(f"It is older than the shipped table of {after.shipped_version}.", "yellow")


def _show_changes(found: list[view.PriceChange]) -> None:
    if not found:
        output.say("No price changes.")
    for change in found[:_SHOWN_CHANGES]:
        told = [f"{part} {old or '–'} → {new or '–'}" for part, old, new in change.parts[:_SHOWN_PARTS]]
        more = len(change.parts) - len(told)
        tail = f" and {more} more" if more else ""
        output.say(f"{change.change:<8} {one_line(change.model)}  {', '.join(told)}{tail}")
    if len(found) > _SHOWN_CHANGES:
        output.note(f"And {len(found) - _SHOWN_CHANGES} more models; all of them with --json.")


def _recorded(settings: Settings) -> list[str]:
    """The models of the recording; none where nothing is recorded."""
    if not opening.has_shown_store(settings):
        return []
    with opening.shown_store(settings) as store:
        return store.models()


def _complain_about_file(table: PriceTable) -> None:
    trouble = view.file_trouble(table)
    if trouble is not None:
        output.note(". ".join(trouble), "yellow")
