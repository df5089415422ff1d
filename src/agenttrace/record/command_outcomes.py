"""What came of a shell command, from the command and its output: commits, pull requests, test runs.

Nothing is concluded from a command alone: a commit counts when the output of ``git commit`` names it, a pull request
when its address is printed, the result of tests when their summary is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from agenttrace.record.formats.contract import Commit, PullRequest


class TestRun(msgspec.Struct, frozen=True, kw_only=True):
    """Tests that were run; without figures where the output has no summary that is known."""

    __test__ = False

    command: str
    runner: str
    passed: int | None = None
    failed: int | None = None
    #: The line of the summary.
    summary: str | None = None


CommandOutcome = Commit | PullRequest | TestRun

#: Of long outputs, the end is what has summaries; commits and addresses are looked for in both ends.
_LOOKED_AT = 50_000
#: So much of a command is looked at, without its here-documents.
_LONGEST_COMMAND = 4_000
_COMMAND_SHOWN = 300

#: Where a command begins: at the start, or after an operator, with what may stand before its name. A word is read in
#: one way only (atomic groups, possessive repetitions): every other way would be tried, for each word anew.
_WORD = r"[^\s;&|()<>]"
_START = r"(?:^|[;&|(\n`]|\$\(|\bthen\b|\bdo\b)\s*+"
_BEFORE = (
    r"(?>(?:\w+=(?>(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*)|sudo|time|env|command|npx|bunx|uvx|"
    r"(?:timeout|nice)(?>\s+(?:-\S+|[\d.]+[smhd]?(?=\s)))*|"
    r"(?:uv|poetry|pdm|hatch|pipenv|rye)\s+run(?>\s+-\S+)*|(?:pnpm|yarn|bundle)\s+exec|pnpm\s+dlx|"
    rf"(?:{_WORD}*/)?python[\d.]*(?>\s+(?:-[WX]\s+\S+|-[A-Za-ln-z]\S*))*\s+-m)\s+)*+(?:{_WORD}*/)?"
)
_WORDS = rf"(?:(?:[ \t]|\\\n)+{_WORD}+)*?(?:[ \t]|\\\n)+"
_END = r"(?=[\s;&|()<>]|$)"
_AT = _START + _BEFORE
_GIT = r"git(?:\s+-[cC]\s+\S+|\s+--\S+)*\s+"
_COMMITS = re.compile(_AT + _GIT + r"(?:commit|cherry-pick|revert|merge|am)\b")
_AMENDS = re.compile(_AT + _GIT + r"commit\b[^;&|\n]*?\s--amend\b")
_OPENS = re.compile(_AT + r"(?:gh\s+pr\s+create|glab\s+mr\s+create|hub\s+pull-request)\b")
_RUNNERS = {
    "pytest": r"(?:pytest|py\.test)\b",
    "unittest": rf"(?:unittest|(?:python[\d.]*\s+(?>-\S+\s+)*)?(?:{_WORD}*/)?manage\.py\s+test)\b",
    "vitest": r"vitest\b",
    "jest": r"jest\b",
    "mocha": r"mocha\b",
    "node": r"node\s+(?:-\S+\s+)*--test\b",
    "go": r"go\s+test\b",
    "cargo": r"cargo\s+(?:\+\S+\s+)?(?:test|nextest)\b",
    "npm": (
        rf"(?:npm|pnpm|yarn|bun|deno)\s+(?>(?:run|workspace\s+{_WORD}+|"
        rf"-{_WORD}+(?:\s+(?!(?:t{_END}|test|run|-)){_WORD}+)?)\s+)*(?:t|test{_WORD}*){_END}"
    ),
    "make": rf"(?:make|just|task){_WORDS}(?:check|{_WORD}*test{_WORD}*){_END}",
    "tox": r"(?:tox|nox)\b",
    "maven": rf"(?:\./)?mvnw?{_WORDS}(?:test|verify)\b",
    "gradle": rf"(?:\./)?gradlew?{_WORDS}(?:test|check)\b",
    "rspec": r"rspec\b",
    "dotnet": r"dotnet\s+test\b",
}
_TESTS = re.compile(_AT + "(?:" + "|".join(f"(?P<{name}>{runner})" for name, runner in _RUNNERS.items()) + ")")
_HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)")

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COMMITTED = re.compile(
    r"^(?:Output: ?)?\[(?P<branch>[^\s\]]+|detached HEAD)(?: \(root-commit\))? "
    r"(?P<hash>[0-9a-f]{7,40})\] (?P<subject>.*)$",
    re.MULTILINE,
)
_DATED = re.compile(r"(?:\n Author: .*)?\n Date: ")
_PULL_REQUEST = re.compile(r"https?://[^\s\"'<>()\]]{1,200}/(?:pull|pulls|merge_requests)/\d+\b")


def of_interest(command: str) -> bool:
    """Whether something may come of a command that its output tells."""
    command = _without_texts(command)
    return any(pattern.search(command) for pattern in (_COMMITS, _OPENS, _TESTS))


def command_outcomes(command: str, output: str) -> Iterator[CommandOutcome]:
    """What came of a command."""
    asked = _without_texts(command)
    text = _ESCAPES.sub("", output if len(output) <= 2 * _LOOKED_AT else output[:_LOOKED_AT] + output[-_LOOKED_AT:])
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if _COMMITS.search(asked):
        yield from _commits(asked, text)
    if _OPENS.search(asked):
        for url in dict.fromkeys(_PULL_REQUEST.findall(text)):
            yield PullRequest(url=url)
    tests = _TESTS.search(asked)
    if tests is not None:
        yield _test_run(command, tests.lastgroup or "", text)


def _commits(command: str, text: str) -> Iterator[Commit]:
    """The commits that the output names; git prints the date of one that it amended."""
    amends = _AMENDS.search(command) is not None
    for found in _COMMITTED.finditer(text):
        amended = amends and _DATED.match(text, found.end()) is not None
        yield Commit(hash=found["hash"], subject=found["subject"].strip(), branch=found["branch"], amends=amended)


def _without_texts(command: str) -> str:
    """A command without blank lines and here-documents, which may mention any command."""
    kept: list[str] = []
    end: str | None = None
    for line in command.split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        if line.strip():
            kept.append(line)
        found = _HERE_DOCUMENT.search(line)
        end = found[1] if found else None
    return "\n".join(kept)[:_LONGEST_COMMAND]


# -- summaries of test runs ---------------------------------------------------------------------------------------

_PYTEST = re.compile(
    r"^=*[ \t]*((?:\d{1,9} (?:failed|passed|skipped|errors?|xfailed|xpassed|deselected|warnings?|rerun|subtests passed)"
    r"(?:, )?)+ in [\d.]+s)",
    re.MULTILINE,
)
_VITEST = re.compile(r"^[ \t]*Tests[ \t]{2,}+(.*\(\d+\))[ \t]*$", re.MULTILINE)
_JEST = re.compile(r"^[ \t]*Tests:[ \t]++(.*(?<!\d)\d{1,9} total)[ \t]*$", re.MULTILINE)
_CARGO = re.compile(r"^test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed.*$", re.MULTILINE)
_NEXTEST = re.compile(
    r"^[ \t]*Summary \[.*?\] \d+ tests? run: (\d{1,9}) passed(?:.*?, (\d{1,9}) failed)?.*$", re.MULTILINE
)
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in [\d.]+s\n+(OK|FAILED)(?: \((.*)\))?", re.MULTILINE)
_GO_TEST = re.compile(r"^[ \t]*--- (PASS|FAIL): (\S+)", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(ok|FAIL)[ \t]+\S+[ \t]+(?:\(cached\)|[\d.]+s|\[build failed\])", re.MULTILINE)
_NODE = re.compile(r"^(?:#|ℹ) (pass|fail) (\d{1,9})$", re.MULTILINE)
_MOCHA = re.compile(r"^[ \t]*(\d{1,9}) (passing|failing)\b.*$", re.MULTILINE)
_SUREFIRE = re.compile(
    r"Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9})(?!.{0,9}Time elapsed)"
)
_RSPEC = re.compile(r"^(\d{1,9}) examples?, (\d{1,9}) failures?.*$", re.MULTILINE)
_NUMBER = re.compile(r"(?<!\d)(\d{1,9}) (passed|failed|errors?)\b")
#: As in the expressions above.
_MOST_DIGITS = 9
_Counts = tuple[int, int, str]


def _test_run(command: str, runner: str, text: str) -> TestRun:
    """The figures of the first kind of summary that the output has: ``npm test`` may run any program."""
    shown = command.strip()[:_COMMAND_SHOWN]
    for reader in _READERS:
        counts = reader(text)
        if counts is not None:
            passed, failed, summary = counts
            return TestRun(command=shown, runner=runner, passed=passed, failed=failed, summary=summary.strip()[:200])
    return TestRun(command=shown, runner=runner)


def _last(pattern: re.Pattern[str]) -> Callable[[str], _Counts | None]:
    """Reads the last summary whose numbers stand before their names."""

    def read(text: str) -> _Counts | None:
        found = [*pattern.finditer(text)]
        if not found:
            return None
        numbers = [(int(number), name == "passed") for number, name in _NUMBER.findall(found[-1][1])]
        passed = sum(number for number, good in numbers if good)
        return passed, sum(number for number, good in numbers if not good), found[-1][1]

    return read


def _cargo(text: str) -> _Counts | None:
    """Cargo has a summary for each binary."""
    found = [*_CARGO.finditer(text)] or [*_NEXTEST.finditer(text)]
    if not found:
        return None
    return sum(int(each[1]) for each in found), sum(int(each[2] or 0) for each in found), found[-1][0]


def _unittest(text: str) -> _Counts | None:
    found = [*_UNITTEST.finditer(text)]
    if not found:
        return None
    total, _, details = found[-1].groups()
    numbers = dict(part.split("=", 1) for part in (details or "").split(", ") if "=" in part)
    failed = sum(int(numbers[name]) for name in ("failures", "errors") if _is_count(numbers.get(name, "")))
    skipped = int(numbers["skipped"]) if _is_count(numbers.get("skipped", "")) else 0
    return max(0, int(total) - failed - skipped), failed, found[-1][0].replace("\n", " ")


def _is_count(text: str) -> bool:
    """Not a number of thousands of digits, which Python refuses to read."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _go(text: str) -> _Counts | None:
    """Single tests where they are named (``-v``); packages otherwise. Subtests count for their test."""
    tests = [outcome for outcome, name in _GO_TEST.findall(text) if "/" not in name]
    packages = _GO_PACKAGE.findall(text)
    if "PASS" in tests:
        passed, failed = tests.count("PASS"), tests.count("FAIL")
        return passed, failed, f"{passed} tests passed, {failed} failed"
    if not packages:
        return None
    passed, failed = packages.count("ok"), packages.count("FAIL")
    return passed, failed, f"{passed} packages ok, {failed} failed"


def _node(text: str) -> _Counts | None:
    numbers = {name: int(number) for name, number in _NODE.findall(text)}
    if "pass" not in numbers:
        return None
    return numbers["pass"], numbers.get("fail", 0), f"pass {numbers['pass']}, fail {numbers.get('fail', 0)}"


def _mocha(text: str) -> _Counts | None:
    numbers = {name: int(number) for number, name in _MOCHA.findall(text)}
    if not numbers:
        return None
    passed, failed = numbers.get("passing", 0), numbers.get("failing", 0)
    return passed, failed, f"{passed} passing, {failed} failing"


def _surefire(text: str) -> _Counts | None:
    found = [*_SUREFIRE.finditer(text)]
    if not found:
        return None
    total, failures, errors, skipped = (int(number) for number in found[-1].groups())
    return max(0, total - failures - errors - skipped), failures + errors, found[-1][0]


def _rspec(text: str) -> _Counts | None:
    found = [*_RSPEC.finditer(text)]
    return (int(found[-1][1]) - int(found[-1][2]), int(found[-1][2]), found[-1][0]) if found else None


_READERS: tuple[Callable[[str], _Counts | None], ...] = (
    _last(_VITEST),
    _last(_JEST),
    _cargo,
    _last(_PYTEST),
    _unittest,
    _go,
    _surefire,
    _rspec,
    _node,
    _mocha,
)
