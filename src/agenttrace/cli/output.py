"""Output of all commands: lines, facts, JSON and questions; text from logs is made safe for a terminal."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.views.plain import hidden_replaced, safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_PIPE_WIDTH = 240
#: Chinese and Japanese have no spaces: a line may end behind every character, but not before punctuation.
_WIDE = "\u2e80-\u2fff\u3005-\u3007\u3021-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_WIDE}][，。、；：！？）」』】〉》”’]*|[^\s{_WIDE}]+")


@functools.cache
def stdout() -> Console:
    """The console for results."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A pipe has no edge: nothing needs to be cut for it.
        console.width = _PIPE_WIDTH
    return console


@functools.cache
def stderr() -> Console:
    """The console for progress and complaints."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def is_terminal() -> bool:
    """Whether stdout and stderr are a terminal, so that progress and live lines make sense."""
    return stderr().is_terminal and stdout().is_terminal


def styled(text: str, style: str = "") -> Text:
    """Text from a log, safe and never read as markup."""
    from rich.text import Text

    return Text(safe(text), style=style)


def say(text: str = "", style: str = "") -> None:
    """Print a line to stdout, wrapped between words at a terminal."""
    print_wrapped(stdout(), styled(text, style))


def note(text: str, style: str = "dim") -> None:
    """Print a line to stderr."""
    print_wrapped(stderr(), styled(text, style))


def print_wrapped(console: Console, text: Text, indent: int | None = None) -> None:
    """Print lines: at a terminal broken between words and indented, whole everywhere else.

    ``indent`` is that of continued lines; by default that of the line.
    """
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    for line in text.split("\n", allow_blank=True):
        for part in _broken(line, console.width, _indent(line.plain) if indent is None else indent):
            # A word that is longer than a line stays whole: it may be a link or a path to copy.
            console.print(part, soft_wrap=True)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _broken(line: Text, width: int, indent: int) -> Iterator[Text]:
    """A line as lines that end between words; spaces inside a line stay."""
    from rich.cells import cell_len
    from rich.text import Text

    start = end = 0
    margin = Text()
    for word in _WORD.finditer(line.plain):
        if end > start and len(margin) + cell_len(line.plain[start : word.end()]) > width:
            yield margin + line[start:end]
            # A long path moves to the left before it is broken.
            start, margin = word.start(), Text(" " * max(0, min(indent, width - cell_len(word[0]))))
        end = word.end()
    yield margin + line[start:end]


def put(line: Text) -> None:
    """Print one line to stdout: cut at the terminal's edge, whole everywhere else."""
    console = stdout()
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis")
    elif console.color_system is None:
        # Ten thousand lines into a pipe need no rendering.
        print(line.plain)
    else:
        console.print(line, soft_wrap=True)


def wrapped(label: Text, text: Text) -> None:
    """Print a text behind its label: wrapped beside it at the terminal's edge, one line everywhere else."""
    print_wrapped(stdout(), label + text, label.cell_len)


def fact(name: str, value: object, style: str = "", *, width: int = 13) -> None:
    """Print a name and its value; ``None`` is shown as a dash."""
    from rich.text import Text

    text = "–" if value is None else safe(str(value))
    print_wrapped(stdout(), Text.assemble((f"{name:<{width}}", "dim"), (text, style)), width)


def answer(fields: Any, text: str, *, as_json: bool, style: str = "") -> None:  # noqa: ANN401 - any JSON value
    """Print the outcome of a command as JSON, or as a sentence."""
    if as_json:
        print_json(fields)
    else:
        say(text, style)


def confirm(question: str, *, fix: str, refused: str) -> None:
    """Ask before something is removed; ``CommandError`` unless the answer is yes."""
    from rich.prompt import Confirm

    if not is_terminal():
        raise UsageError("confirmation is needed, and this is not a terminal", fix)
    if not Confirm.ask(question, console=stderr(), default=False):
        raise CommandError(refused)


def complain(problem: str, fix: str = "") -> None:
    """Print an error and its fix to stderr, a line each."""
    from rich.text import Text

    print_wrapped(stderr(), Text.assemble(("error: ", "bold red"), safe(problem)), len("error: "))
    if fix:
        print_wrapped(stderr(), Text.assemble(("fix:   ", "bold green"), safe(fix)), len("fix:   "))


def print_json(value: Any, *, one_line: bool = False) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print a value as JSON, indented, or as one line of a stream.

    Control characters and invisible characters are escaped, also in pipes, which may end in a terminal. It is the same
    JSON.
    """
    try:
        data = msgspec.json.encode(value)
        if not one_line:
            data = msgspec.json.format(data, indent=2)
    except UnicodeEncodeError:
        # Paths with bytes that are no UTF-8 carry half surrogates; they are shown as \udcXX, which msgspec refuses.
        data = json.dumps(msgspec.to_builtins(value), indent=None if one_line else 2).encode("ascii")
    sys.stdout.flush()
    sys.stdout.buffer.write(_escaped(data) + b"\n")
    sys.stdout.buffer.flush()


def print_whole(text: str) -> None:
    """Print a text for other programs byte for byte; on a terminal without what that would act upon."""
    sys.stdout.flush()
    sys.stdout.buffer.write((safe(text) if stdout().is_terminal else text).encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def _escaped(data: bytes) -> bytes:
    """The same JSON with invisible characters escaped; only strings have characters outside of ASCII."""
    data = data.replace(b"\x7f", b"\\u007f")
    if data.isascii():
        return data
    return hidden_replaced(data.decode(), lambda run: json.dumps(run)[1:-1]).encode()


class _ToTerminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"{record.levelname.lower()}: {record.getMessage()}", "yellow")


def show_warnings() -> None:
    """Print warnings of the program as lines on stderr."""
    logger = logging.getLogger("agenttrace")
    if not logger.handlers:
        logger.addHandler(_ToTerminal(logging.WARNING))
        logger.propagate = False
