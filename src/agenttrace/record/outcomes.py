"""What came of a session: files changed, commits, pull requests, test runs, each with where it is known from.

Everything is read from the recorded lines. Changed files come from the formats, which know their results; commits,
pull requests and tests from shell commands and their output, which look alike for all agents.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from agenttrace.record.command_outcomes import TestRun, command_outcomes, of_interest
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Applied, Commit, Content, FileChange, Outcome, PullRequest
from agenttrace.record.formats.lenient import DECODING_ERRORS
from agenttrace.record.ingest.bad_lines import is_a_lines_fault
from agenttrace.record.texts.contents import InterpretedLine, session_lines
from agenttrace.store.questions import KnownFrom, OutcomeFigures, OutcomeShare, StoredOutcomes

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.store.store import Store

#: Commands that wait for their output, and calls that wait for their result; beyond this the oldest are dropped.
_MOST_WAITING = 1_000
#: Facts of one session; a session has hundreds, a broken log could have millions.
MOST_FACTS = 20_000
#: Hashes of one session that are stored.
_MOST_HASHES = 500
#: In microseconds.
QUARTER_HOUR = 900_000_000

T = TypeVar("T")
logger = logging.getLogger(__name__)
_anything = msgspec.json.Decoder()


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that came of a session."""

    what: FileChange | Commit | PullRequest | TestRun
    known_from: KnownFrom
    #: When it was logged, in microseconds; ``None`` where the log does not say.
    at: int | None
    #: The span of the line that says so.
    span_id: bytes | None


class OutcomeReader:
    """Reads facts from lines, which have to come in the order of the session."""

    def __init__(self, *, diff_characters: int = 0) -> None:
        """With so many characters of diffs in all; later ones are left out."""
        self._left = diff_characters
        self._agents = {agent.name: agent for agent in AGENTS}
        self._commands: dict[tuple[str, str], str] = {}
        self._asked: dict[tuple[str, str], list[FileChange]] = {}
        #: The last call of each stream whose arguments are still being streamed.
        self._streamed: dict[str, str] = {}
        self._told: set[tuple[object, ...]] = set()
        #: The files that each call changed, and the line that says so.
        self._changed: dict[tuple[object, ...], dict[str, int]] = {}
        self._facts = 0

    def facts(self, lines: Iterable[InterpretedLine]) -> Iterator[Fact]:
        """What came of these lines."""
        for said in lines:
            for fact in self._tried(said):
                self._facts += 1
                if self._facts > MOST_FACTS:
                    return
                yield self._bounded(fact)

    def _tried(self, said: InterpretedLine) -> list[Fact]:
        """What came of a line. One that cannot be read tells nothing; it stops neither the others nor the recorder."""
        try:
            return list(self._of_line(said))
        except Exception as error:
            if not is_a_lines_fault(error):
                raise
            logger.warning("what came of line %d cannot be read", said.line.event_no, exc_info=error)
            return []

    def _bounded(self, fact: Fact) -> Fact:
        if not isinstance(fact.what, FileChange) or not fact.what.diff:
            return fact
        self._left -= len(fact.what.diff)
        if self._left >= 0:
            return fact
        return msgspec.structs.replace(fact, what=msgspec.structs.replace(fact.what, diff="", cut=True))

    def _of_line(self, said: InterpretedLine) -> Iterator[Fact]:
        stream = said.event.stream or said.source.stream
        for outcome in self._own(said):
            for what in self._settled(stream, outcome):
                origin: KnownFrom = "tool call" if isinstance(what, FileChange) and what.call else "log"
                if self._is_new(said, stream, what):
                    yield Fact(what=what, known_from=origin, at=said.event.at, span_id=said.line.span_id)
        for content in said.contents:
            for found in self._of_content(stream, content):
                if self._is_new(said, stream, found):
                    yield Fact(what=found, known_from="command output", at=said.event.at, span_id=said.line.span_id)

    def _own(self, said: InterpretedLine) -> list[Outcome]:
        """What the line itself says, as its format reads it."""
        agent = self._agents[said.source.agent]
        try:
            return list(agent.outcomes(said.line.raw))
        except Exception as error:
            if not is_a_lines_fault(error):
                raise
            return []

    def _settled(self, stream: str, outcome: Outcome) -> Iterator[FileChange | Commit | PullRequest]:
        """Changes that were made; those that a call asks for wait until it is applied."""
        if isinstance(outcome, Applied):
            yield from self._asked.pop((stream, outcome.call), ())
        elif isinstance(outcome, FileChange) and outcome.asked:
            key = (stream, outcome.call or "")
            _put(self._asked, key, [*self._asked.get(key, ()), outcome])
        else:
            if isinstance(outcome, FileChange) and outcome.call:
                self._asked.pop((stream, outcome.call), None)
            yield outcome

    def _is_new(self, said: InterpretedLine, stream: str, what: object) -> bool:
        """Whether it was not said before: agents write a call again with each of its states."""
        match what:
            case FileChange(call=str() as call):
                return self._is_new_change(
                    (stream, said.line.turn_index, said.line.step_n, call), what.path, said.line.event_no
                )
            case Commit():
                key: tuple[object, ...] = ("commit", what.hash)
            case PullRequest():
                key = ("pull request", what.url)
            case _:
                return True
        new = key not in self._told
        self._told.add(key)
        return new

    def _is_new_change(self, call: tuple[object, ...], path: str, line: int) -> bool:
        """Whether no other line said it: one has all changes of a call to a file, each for itself.

        A file can be named relative to the directory in one line, and by its whole path in another.
        """
        told = self._changed.setdefault(call, {})
        known = [other for other in told if path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")]
        if any(told[other] != line for other in known):
            return False
        told[path] = line
        return True

    # -- commands ------------------------------------------------------------------------------------------------

    def _of_content(self, stream: str, content: Content) -> Iterator[Commit | PullRequest | TestRun]:
        match content.kind:
            case "arguments":
                if content.call is not None:
                    self._streamed[stream] = content.call
                    _put(self._commands, (stream, content.call), content.text)
            case "arguments_part":
                key = (stream, content.call or self._streamed.get(stream, ""))
                if key in self._commands:
                    self._commands[key] += content.text
            case "result" | "error":
                arguments = self._commands.pop((stream, content.call or ""), None)
                command = None if arguments is None else shell_command(_decoded(arguments))
                if command is not None and of_interest(command):
                    yield from command_outcomes(command, _output(content.text))


def _put(waiting: dict[tuple[str, str], T], key: tuple[str, str], value: T) -> None:
    waiting[key] = value
    if len(waiting) > _MOST_WAITING:
        del waiting[next(iter(waiting))]


def shell_command(arguments: object) -> str | None:
    """The shell command among the arguments of a tool call; ``None`` of any other tool."""
    if not isinstance(arguments, dict):
        return None
    for name in ("command", "cmd", "commands", "script"):
        command = arguments.get(name)
        if isinstance(command, str):
            return command
        if isinstance(command, list) and command and all(isinstance(part, str) for part in command):
            shell = name != "commands" and len(command) > 2 and command[1] in ("-c", "-lc", "-Command")
            return str(command[2]) if shell else ("\n" if name == "commands" else " ").join(command)
    return None


def _output(result: str) -> str:
    """The text of a result, which some agents wrap in JSON."""
    if not result.lstrip().startswith(("{", "[{")):
        return result
    value = _decoded(result)
    return result if value is None else "\n".join(_texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _decoded(text: str) -> object:
    try:
        return _anything.decode(text)
    except DECODING_ERRORS:
        return None


# -- a session ----------------------------------------------------------------------------------------------------


def session_facts(store: Store, session: Session, *, diff_characters: int = 0) -> list[Fact]:
    """What came of a session, in order."""
    reader = OutcomeReader(diff_characters=diff_characters)
    return own_facts(store, session, reader.facts(session_lines(store, session)))


def own_facts(store: Store, session: Session, facts: Iterable[Fact]) -> list[Fact]:
    """Without those that a fork copied from its original, and without commits that the session amended itself."""
    copied = _copied_spans(store, session) if session.copied or session.parent else set()
    return _without_amended([fact for fact in facts if fact.span_id not in copied])


def _without_amended(facts: list[Fact]) -> list[Fact]:
    """An amended commit is one commit: the latest one that the session made in the branch gives way to it."""
    latest: dict[str | None, int] = {}
    gone: set[int] = set()
    for place, fact in enumerate(facts):
        if isinstance(fact.what, Commit):
            before = latest.get(fact.what.branch)
            if fact.what.amends and before is not None:
                gone.add(before)
            latest[fact.what.branch] = place
    return [fact for place, fact in enumerate(facts) if place not in gone]


def _copied_spans(store: Store, session: Session) -> set[bytes]:
    """The model calls that another session owns, and their tools."""
    spans = store.spans(session)
    steps = {span.span_id for span in spans if not span.counted}
    return steps | {span.span_id for span in spans if span.kind == "tool" and span.parent_id in steps}


def outcomes_by_share(store: Store, session: Session, facts: Iterable[Fact], *, events: int) -> StoredOutcomes:
    """What came of a session as it is stored, from all facts of its lines."""
    own = own_facts(store, session, facts)
    models = _models(store, session) if own else {}
    return StoredOutcomes(events, figures_of(own, session.project), shares_of(own, models))


def _models(store: Store, session: Session) -> dict[bytes, str | None]:
    """The model of each model call, and of each tool call the model that asked for it."""
    spans = list(store.span_rows(session))
    steps = {span.span_id: span.billed_model or span.model for span in spans if span.kind == "step"}
    return {span.span_id: steps.get(span.span_id) or steps.get(span.parent_id or b"") for span in spans}


def shares_of(facts: Iterable[Fact], models: Mapping[bytes, str | None]) -> tuple[OutcomeShare, ...]:
    """Lines and commits by time and model."""
    groups: dict[tuple[int | None, str | None], list[Fact]] = {}
    for fact in facts:
        if isinstance(fact.what, FileChange | Commit):
            quarter = None if fact.at is None else fact.at // QUARTER_HOUR
            groups.setdefault((quarter, models.get(fact.span_id or b"")), []).append(fact)
    shares, left = [], _MOST_HASHES
    for (quarter, model), members in groups.items():
        share = _share(quarter, model, members, left)
        left -= len(share.hashes)
        shares.append(share)
    return tuple(shares)


def _share(quarter: int | None, model: str | None, facts: list[Fact], most: int) -> OutcomeShare:
    changes = [fact.what for fact in facts if isinstance(fact.what, FileChange)]
    hashes = [fact.what.hash for fact in facts if isinstance(fact.what, Commit)]
    return OutcomeShare(
        quarter=quarter,
        model=model,
        added=known_sum(change.added for change in changes),
        removed=known_sum(change.removed for change in changes),
        commits=len(hashes),
        hashes=tuple(hashes[:most]),
        known_from=tuple(sorted({fact.known_from for fact in facts})),
    )


def known_sum(numbers: Iterable[int | None]) -> int | None:
    """The sum of those that are known; ``None`` where there are some and none of them is."""
    given = list(numbers)
    known = [number for number in given if number is not None]
    return sum(known) if known or not given else None


def figures_of(facts: Iterable[Fact], project: str | None) -> OutcomeFigures:
    """What came of a session, in figures."""
    found = [fact.what for fact in facts]
    changes = [what for what in found if isinstance(what, FileChange)]
    runs = [what for what in found if isinstance(what, TestRun)]
    last = next((run for run in reversed(runs) if run.passed is not None), None)
    return OutcomeFigures(
        files=len({relative_to(project, change.path) for change in changes}),
        added=known_sum(change.added for change in changes),
        removed=known_sum(change.removed for change in changes),
        commits=sum(isinstance(what, Commit) for what in found),
        pull_requests=sum(isinstance(what, PullRequest) for what in found),
        test_runs=len(runs),
        tests_passed=None if last is None else last.passed,
        tests_failed=None if last is None else last.failed,
    )


def relative_to(project: str | None, path: str) -> str:
    """A path as it is shown: relative to the working directory, where it is below it."""
    root = (project or "").rstrip("/\\")
    below = path[len(root) + 1 :]
    return below if root and below and path.startswith((f"{root}/", f"{root}\\")) else path
