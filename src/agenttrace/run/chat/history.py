"""What was said in a conversation, cut to what a model takes: the last rounds whole, the older ones as a summary.

The summary is an extract, made without a model: what the user said, shortened, and how the answers began. It is made
once for each round and stored with the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from agenttrace.run.catalog.texts import Texts, default_texts
from agenttrace.run.states import MessageRole
from agenttrace.run.upstream.wire import estimate_tokens

#: The most that a summary takes.
SUMMARY_TOKENS = 2_000
#: Of what a model takes, this much is for what was said; the rest is for the application's own prompt and the answer.
SHARE = 0.75
#: What a message takes beside its text.
_FRAME_TOKENS = 4
_QUESTION_CHARS, _ANSWER_CHARS = 160, 60
_GAP = "- …"

Message = dict[str, str]


class StoredMessage(NamedTuple):
    """A stored message."""

    role: str
    content: str
    #: The call that the message belongs to; None for one that was never answered, or is from before there were logs.
    run_log_id: int | None
    id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """A question and its answer."""

    question: str
    answer: str
    first_id: int
    last_id: int

    @property
    def tokens(self) -> int:
        """About what it takes in a request."""
        return estimate_tokens(self.question) + estimate_tokens(self.answer) + 2 * _FRAME_TOKENS


def rounds_of(messages: Iterable[StoredMessage]) -> tuple[Round, ...]:
    """The answered questions, oldest first; what was never answered is left out."""
    # Two turns at the same time mix their messages; the number of the call sorts them again.
    ordered = sorted(messages, key=lambda message: (message.run_log_id or 0, message.id))
    return tuple(
        Round(question=question.content, answer=answer.content, first_id=question.id, last_id=answer.id)
        for question, answer in pairwise(ordered)
        if (question.role, answer.role) == (MessageRole.USER, MessageRole.ASSISTANT)
    )


def split(rounds: Sequence[Round], tokens: int) -> tuple[Sequence[Round], Sequence[Round]]:
    """The rounds that do not fit into so many tokens, and the last ones, which do; only whole rounds."""
    left, place = tokens, len(rounds)
    while place and rounds[place - 1].tokens <= left:
        place -= 1
        left -= rounds[place].tokens
    if place == len(rounds) and rounds:
        # The last round is what the next message most likely is about: rather a part of it than nothing.
        return rounds[:-1], _shortened(rounds[-1], tokens)
    return rounds[:place], rounds[place:]


def _shortened(last: Round, tokens: int) -> list[Round]:
    # A token is at least one and a half characters; half of them for the question, half for the answer.
    chars = (tokens - 3 * _FRAME_TOKENS) * 3 // 4
    return [replace(last, question=last.question[:chars], answer=last.answer[:chars])] if chars > 0 else []


def summarise(summary: str | None, rounds: Sequence[Round], tokens: int = SUMMARY_TOKENS) -> str:
    """An extract of these rounds behind the summary of those before; where it is too long, its middle is left out."""
    lines = [*(summary or "").splitlines(), *map(_line, rounds)]
    half = tokens // 2
    begin = _taken(lines, half)
    end = _taken(lines[begin:][::-1], half)
    if begin + end >= len(lines):
        return "\n".join(lines)
    first = [line for line in lines[:begin] if line != _GAP]
    return "\n".join([*first, _GAP, *lines[len(lines) - end :]])


def _taken(lines: Sequence[str], tokens: int) -> int:
    """How many of the first lines fit."""
    for number, line in enumerate(lines):
        tokens -= estimate_tokens(line) + 1
        if tokens < 0:
            return number
    return len(lines)


def _line(each: Round) -> str:
    return f"- {_cut(each.question, _QUESTION_CHARS)} → {_cut(each.answer, _ANSWER_CHARS)}"


def _cut(text: str, chars: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"


def as_messages(summary: str | None, rounds: Iterable[Round], texts: Texts | None = None) -> tuple[Message, ...]:
    """What is sent: the summary as a first round, then the rounds; ``texts`` introduce the summary."""
    said = texts or default_texts()["en"]
    found = [(f"{said['summary']}\n{summary}", said["summary_reply"])] if summary else []
    found += [(each.question, each.answer) for each in rounds]
    return tuple(
        {"role": role, "content": text}
        for question, answer in found
        for role, text in ((MessageRole.USER, question), (MessageRole.ASSISTANT, answer))
    )


def tokens_of(messages: Iterable[Message]) -> int:
    """About what messages take in a request."""
    return sum(estimate_tokens(message["content"]) + _FRAME_TOKENS for message in messages)
