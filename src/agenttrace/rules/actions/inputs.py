"""The text of a session that an action gets, cut to a limit at whole messages: its beginning and its end are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from agenttrace.config.rules import ActionSettings
from agenttrace.rules.facts import Facts

#: The text of the session of an event, as an action wants it: masked, and cut. Called in a thread.
InputText = Callable[[ActionSettings, Facts], str]

#: The share of the limit for the beginning: it has what was asked for, the end has what came of it.
_BEGINNING = 1 / 3


def fitted(messages: Iterable[str | int], limit: int) -> str:
    """As many whole messages as ``limit`` characters hold, from both ends, and between them how many are left out.

    A number stands for so many messages that are left out in any case.
    """
    head: list[str] = []
    tail: deque[str] = deque()
    used, left_out = 0, 0
    for message in messages:
        if isinstance(message, int):
            left_out += message + len(tail)
            used -= sum(map(len, tail))
            tail.clear()
            continue
        is_beginning = not tail and not left_out and used + len(message) <= limit * _BEGINNING
        (head if is_beginning else tail).append(message)
        used += len(message)
        while tail and used + len(_note(left_out)) > limit:
            used -= len(tail.popleft())
            left_out += 1
    return "".join((*head, _note(left_out), *tail))


def _note(number: int) -> str:
    return f"\n[… {number:,} message{'' if number == 1 else 's'} left out …]\n" if number else ""
