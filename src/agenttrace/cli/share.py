"""``agenttrace share``: a session as one file for other people, masked."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import find_one
from agenttrace.share.options import MOST_PLACES, ShareFormat, ShareOptions
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.share.document import ShareJob
    from agenttrace.share.options import MaskedExcerpt, SharePreview
    from agenttrace.store.store import Store

EPILOG = """
  agenttrace share 5bc45ad6 --preview               what would be masked, and where
  agenttrace share 5bc45ad6                         an HTML file in this directory
  agenttrace share 5bc45ad6 --hide-paths -o a.html  without the names of users in paths
  agenttrace share 5bc45ad6 --format markdown -o - | gh pr comment 12 -F -

The file needs nothing else: no script, nothing is loaded. Secrets are masked as docs/masking.md says, with
what cannot be found: read the file before you pass it on.
"""

_FORMATS: dict[str, ShareFormat] = {"html": "html", "markdown": "md", "md": "md", "jsonl": "jsonl"}
_ENDINGS = {".htm": "html", ".html": "html", ".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl"}


def share(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")],
    to: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file, or a directory for it; -: stdout."),
    ] = None,
    format: Annotated[  # noqa: A002 - its name
        Literal["html", "markdown", "md", "jsonl"] | None,
        typer.Option("--format", "-f", help="jsonl: the lines of the log.", show_default="of FILE, or html"),
    ] = None,
    with_secrets: Annotated[bool, typer.Option("--with-secrets", help="Mask no secrets.")] = False,
    hide_paths: Annotated[
        bool, typer.Option("--hide-paths", help="Mask the names of users in paths, such as /home/NAME.")
    ] = False,
    tools: Annotated[bool, typer.Option("--tools/--no-tools", help="Include tool calls.")] = True,
    preview: Annotated[bool, typer.Option("--preview", help="Show what is masked, and write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a session to a single file for other people: HTML or Markdown, with secrets masked."""
    if to == "-" and (as_json or preview):
        raise UsageError("the file and the answer cannot both go to stdout", "Give a FILE, or leave -o out.")
    ending = _ENDINGS.get(Path(to or "").suffix.lower(), "html")
    options = ShareOptions(format=_FORMATS[format or ending], secrets=with_secrets, hide_paths=hide_paths, tools=tools)
    with _started(session, options) as (store, job):
        if preview:
            found, path = job.preview(sum(map(len, _pieces(store, job)))), None
        elif to == "-":
            for piece in _pieces(store, job):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        else:
            path = _target(to, job.name)
            found = job.preview(_written(path, _pieces(store, job), private=with_secrets))
    if as_json:
        output.print_json({"file": None if path is None else str(path), "format": options.format, **_fields(found)})
    else:
        _say(found, path, options)


@contextlib.contextmanager
def _started(name: str, options: ShareOptions) -> Iterator[tuple[Store, ShareJob]]:
    from agenttrace.masking import Mask
    from agenttrace.prices.costing import Cashier
    from agenttrace.share.document import ShareJob

    settings = opening.settings()
    with opening.shown_store(settings) as store:
        mask, prices = Mask(settings.export.mask), Cashier.load(settings)
        yield store, ShareJob(store, find_one(store, name), options, mask=mask, prices=prices, places=MOST_PLACES)


def _pieces(store: Store, job: ShareJob) -> Iterator[bytes]:
    while piece := job.more(store):
        yield piece


def _target(to: str | None, name: str) -> Path:
    path = Path(to) if to else Path(name)
    return path / name if path.is_dir() else path


def _written(path: Path, pieces: Iterator[bytes], *, private: bool) -> int:
    """Write the file whole or not at all; returns its size."""
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", "Name another file: -o FILE") from None
    try:
        with os.fdopen(handle, "wb") as file:
            size = _copied(file, pieces)
        if not private:
            Path(part).chmod(0o666 & ~_umask())
        Path(part).replace(path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", "Name another file: -o FILE") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(part).unlink()
    return size


def _copied(file: BinaryIO, pieces: Iterator[bytes]) -> int:
    return sum(file.write(piece) for piece in pieces)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _fields(found: SharePreview) -> dict[str, object]:
    return {
        "bytes": found.bytes,
        "masked": found.masked,
        "kinds": {each.kind: each.count for each in found.kinds},
        "places": found.places,
    }


def _say(found: SharePreview, path: Path | None, options: ShareOptions) -> None:
    masked = f"{figures.counted(found.masked, 'place')} masked" if found.masked else "Nothing is masked"
    output.say(masked + (f" in {path} ({figures.size(found.bytes)})" if path else ""), "bold")
    for kind in found.kinds:
        output.say(f"  {kind.count:>6,}  {kind.kind}")
    if path is None:
        for place in found.places:
            _say_place(place)
        output.note("Nothing was written. Without --preview it is saved.")
    if options.secrets:
        output.note("Secrets are not masked in it: do not pass it on.", "yellow")


def _say_place(place: MaskedExcerpt) -> None:
    from rich.text import Text

    around = output.styled(place.before), (f"[masked:{place.kind}]", "black on yellow"), output.styled(place.after)
    output.stdout().print(Text.assemble("\n", output.styled(place.where, "dim"), "\n  ", *around), soft_wrap=True)
