"""``agenttrace note``, ``label``, ``star`` and ``score``: what people write beside a session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.options import AsJson
from agenttrace.store.annotations import MAX_TEXT, AnnotationError, NewAnnotation
from agenttrace.views import figures
from agenttrace.views.annotations import annotation_fields, annotation_text, written_by
from agenttrace.views.times import MICROS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenttrace.model import Session
    from agenttrace.store.annotations import Annotation, AnnotationKind
    from agenttrace.store.writable import WritableStore

NOTE_EPILOG = """
  agenttrace note 5bc45ad6 "the retry loop was wrong"
  agenttrace note 5bc45ad6                  list what is beside the session
  git log -1 --format=%B | agenttrace note 5bc45ad6 -
  agenttrace note 5bc45ad6 --key build-7 "red"    from a script: once, also if it is repeated
  agenttrace note 5bc45ad6 --remove 9f0c    remove one: the beginning of its id
"""
LABEL_EPILOG = """
  agenttrace label 5bc45ad6 bug "needs review"    add labels
  agenttrace label 5bc45ad6 bug --remove          remove one
  agenttrace sessions --label bug                 sessions that have it
"""
STAR_EPILOG = """
  agenttrace star 5bc45ad6             add a star
  agenttrace star 5bc45ad6 --remove    remove it
  agenttrace sessions --starred        sessions with a star
"""
SCORE_EPILOG = """
  agenttrace score 5bc45ad6 quality 4        add your score, or change it
  agenttrace score 5bc45ad6 quality 2 --comment "tests are red"
  agenttrace sessions --score 'quality<3'    sessions with a low one
"""

_KEY_CHARACTERS = 255

_Session = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")]
_Remove = Annotated[bool, typer.Option("--remove", help="Remove it.")]


def note(
    session: _Session,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; -: from stdin.")] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="ID", help="Remove a note or score: its id, or the beginning of it.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Write it once for this key, however often it is repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a note beside a session; without a text, list its notes, scores, labels and star."""
    if text is not None and remove is not None:
        raise UsageError("a text and --remove do not go together", "Leave one of them out.")
    if key is not None and (text is None or not 0 < len(key) <= _KEY_CHARACTERS):
        raise UsageError("--key names a note that is written", f"Give a text, and 1 to {_KEY_CHARACTERS} characters.")
    if remove is not None:
        _change(session, lambda store, found: _remove(store, found, remove), as_json=as_json)
    elif text is None:
        _list(session, as_json=as_json)
    else:
        said = sys.stdin.read(MAX_TEXT * 4) if text == "-" else text
        _change(session, lambda store, found: _put(store, found, "note", text=said, key=key), as_json=as_json)


def label(
    session: _Session,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The labels.")],
    remove: _Remove = False,
    as_json: AsJson = False,
) -> None:
    """Add labels to a session, or remove them."""

    def change(store: WritableStore, found: Session) -> str:
        for name in names:
            if remove:
                store.annotation_table.remove_named(found.id, "label", name.strip())
            else:
                _put(store, found, "label", name=name)
        return "Removed." if remove else "Labelled."

    _change(session, change, as_json=as_json)


def star(session: _Session, remove: _Remove = False, as_json: AsJson = False) -> None:
    """Add a star to a session, or remove it."""

    def change(store: WritableStore, found: Session) -> str:
        if remove:
            store.annotation_table.remove_named(found.id, "star")
            return "Removed."
        _put(store, found, "star")
        return "★"

    _change(session, change, as_json=as_json)


def score(
    session: _Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What is scored, such as quality.")],
    value: Annotated[float, typer.Argument(metavar="VALUE", help="A number; after -- a negative one.")],
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    as_json: AsJson = False,
) -> None:
    """Score a session; a second score of the same name replaces your first one."""
    _change(
        session,
        lambda store, found: _put(store, found, "score", name=name, value=value, text=comment),
        as_json=as_json,
    )


# -- writing ------------------------------------------------------------------------------------------------------


def _change(name: str, change: Callable[[WritableStore, Session], str], *, as_json: bool) -> None:
    """Change what is beside a session; print what is there then, or a sentence."""
    from agenttrace.cli.sessions import find_one
    from agenttrace.store.team_place import open_shown_writable

    settings = opening.settings()
    # Opened for reading first: without a recording there is nothing to write to.
    with opening.shown_store(settings) as reader:
        found = find_one(reader, name)
    with open_shown_writable(settings) as store:
        try:
            said = change(store, found)
        except AnnotationError as error:
            raise UsageError(str(error)) from None
        present = store.annotations([found.id]).get(found.id, [])
    output.answer(_listed(found, present), said, as_json=as_json)


def _put(
    store: WritableStore,
    found: Session,
    kind: AnnotationKind,
    *,
    name: str = "",
    value: float | None = None,
    text: str = "",
    key: str | None = None,
) -> str:
    from agenttrace.cli.access import os_user

    written, _ = store.annotation_table.put(
        NewAnnotation(
            session=found.id,
            kind=kind,
            source="person",
            author=os_user(),
            name=name,
            value=value,
            text=text,
            key=key,
        )
    )
    return f"Written: {short_annotation(written)}"


def _remove(store: WritableStore, found: Session, beginning: str) -> str:
    present = store.annotations([found.id]).get(found.id, [])
    named = [each for each in present if each.annotation_id.hex().startswith(beginning.strip().lower() or "-")]
    if len(named) != 1:
        problem = f"{len(named) or 'no'} annotations of this session have an id that begins with {beginning!r}"
        raise CommandError(problem, f"See which there are: agenttrace note {found.session_id}")
    store.annotation_table.remove(named[0].annotation_id)
    return "Removed."


# -- listing ------------------------------------------------------------------------------------------------------


def _list(name: str, *, as_json: bool) -> None:
    from agenttrace.cli.sessions import find_one

    with opening.shown_store(opening.settings()) as store:
        matching = store.find_sessions(name) if name else []
        # Notes stay when a session is pruned.
        found = matching[0] if len(matching) == 1 else find_one(store, name)
        present = store.annotations([found.id]).get(found.id, [])
    if as_json:
        output.print_json(_listed(found, present))
    elif not present:
        output.say('Nothing is beside this session. Add a note: agenttrace note SESSION "TEXT"')
    else:
        print_annotations(present)


def _listed(found: Session, present: Sequence[Annotation]) -> dict[str, Any]:
    return {"session_id": found.session_id, "annotations": [annotation_fields(each) for each in present]}


def print_annotations(present: Sequence[Annotation]) -> None:
    """What is beside a session, a line each."""
    from rich.text import Text

    for each in present:
        lines = annotation_text(each).splitlines() or [""]
        head = Text.assemble(
            (f"{short_annotation(each)}  ", "cyan"),
            (f"{each.kind:<5}  {figures.clock(int(each.changed_at * MICROS))}  ", "dim"),
            (f"{written_by(each)}  ", "dim"),
            output.styled(lines[0], "bold" if each.kind != "note" else ""),
        )
        output.print_wrapped(output.stdout(), head, 4)
        for line in lines[1:]:
            output.say(f"    {line}")


def short_annotation(annotation: Annotation) -> str:
    """The first eight characters of its id."""
    return annotation.annotation_id.hex()[:8]
