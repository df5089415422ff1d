"""Installs hooks: what a file will be, its difference, and writing it; and the same for taking them out."""

from __future__ import annotations

import difflib
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agenttrace.hooks import entries
from agenttrace.hooks.entries import HookConflictError
from agenttrace.hooks.json_text import BadDocumentError
from agenttrace.hooks.status_line import with_status_line, without_status_line
from agenttrace.hooks.targets import Target, own_program, shell_line
from agenttrace.rules import state_files

_LARGEST = 16 << 20
_BACKUP = ".before-agenttrace"


class HookError(Exception):
    """A file that cannot be changed: why, and what to do."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}. {fix}")
        self.problem, self.fix = problem, fix


class Plan(NamedTuple):
    """What will become of a file."""

    target: Target
    #: As the agent finds it, and the file that it leads to.
    path: Path
    real: Path
    #: ``None``: there is no file.
    before: str | None
    after: str | None
    created: tuple[str, ...] = ()
    #: Why the status line stays as it is, where it was asked for beside the guard.
    status_line_problem: str | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.before != self.after

    def difference(self) -> str:
        """The change, as people read it."""
        return "".join(
            _ended(line)
            for line in difflib.unified_diff(
                (self.before or "").splitlines(keepends=True),
                (self.after or "").splitlines(keepends=True),
                str(self.path) if self.before is not None else os.devnull,
                str(self.path) if self.after is not None else os.devnull,
            )
        )


class Status(NamedTuple):
    """Whether hooks are installed."""

    target: Target
    path: Path
    installed: bool
    #: Whether they start this program.
    current: bool
    status_line: bool
    problem: str | None = None


class Installer:
    """Hooks of this program in the settings of one user's agents."""

    def __init__(self, data: Path, environ: Mapping[str, str], home: Path, program: Sequence[str] = ()) -> None:
        self._environ, self._home = environ, home
        self._program = list(program) or own_program()
        self._memory = data / "hooks.json"

    def plan_install(self, target: Target, *, status_line: bool = False, guard: bool = True) -> Plan:
        """What installing changes, without ``guard`` the status line alone; HookError where it cannot be done."""
        path, real, before = self._found(target)
        if not guard:
            with _explained(path):
                text = with_status_line(before or "{}", self._status_line())
            return Plan(target, path, real, before, text, self._created(real))
        if target.owns_file:
            return Plan(target, path, real, before, target.content(self._guard(target)))
        with _explained(path):
            edited = entries.with_hooks(before or "", target.groups(self._guard(target)))
            text = edited.text
            problem = None
            if status_line:
                try:
                    text = with_status_line(text, self._status_line())
                except HookConflictError as error:
                    status_line, problem = False, str(error)
            known = self._created(real)
            if before is not None and self._is_current(target, before, status_line=status_line):
                return Plan(target, path, real, before, before, known, problem)
            return Plan(target, path, real, before, text, tuple(dict.fromkeys((*known, *edited.created))), problem)

    def plan_uninstall(self, target: Target) -> Plan:
        """What taking them out changes."""
        path, real, before = self._found(target)
        if before is None:
            return Plan(target, path, real, None, None)
        if target.owns_file:
            return Plan(target, path, real, before, None if entries.is_own(_plain(before)) else before)
        with _explained(path):
            text = without_status_line(before)
            if entries.own_commands(text):
                text = entries.without_hooks(text, self._created(real)).text
            made = "" in self._created(real) and not text.strip().strip("{}").strip()
            return Plan(target, path, real, before, None if made else text)

    def apply(self, plan: Plan) -> Path | None:
        """Write the file as a whole, with a copy of the old one beside it, which comes back."""
        if not plan.changes:
            return None
        current = self._found(plan.target)[2]
        if current != plan.before:
            raise HookError(f"{plan.path} has changed meanwhile", "Run the command again.")
        backup = None
        try:
            if plan.before is not None and not plan.target.owns_file:
                backup = plan.real.with_name(plan.real.name + _BACKUP)
                shutil.copy2(plan.real, backup)
            if plan.after is None:
                plan.real.unlink()
            else:
                _replace(plan.real, plan.after)
        except OSError as error:
            raise HookError(f"{plan.path} cannot be written ({error.strerror})", "Make it writable.") from error
        created = (*plan.created, *([""] if plan.before is None else []))
        self._remember(plan.real, () if plan.after is None or not created else created)
        return backup

    def status(self, target: Target) -> Status:
        """Whether hooks are installed, and whether they start this program."""
        path = target.path(self._environ, self._home)
        try:
            _, _, text = self._found(target)
            if text is None:
                return Status(target, path, False, False, False)
            if target.owns_file:
                return Status(target, path, True, text == target.content(self._guard(target)), False)
            with _explained(path):
                line = without_status_line(text) != text
                current = self._is_current(target, text, status_line=False)
                return Status(target, path, bool(entries.own_commands(text)), current, line)
        except HookError as error:
            return Status(target, path, False, False, False, error.problem)

    def _guard(self, target: Target) -> list[str]:
        return [*self._program, "guard", "--agent", target.agent]

    def _status_line(self) -> str:
        return shell_line([*self._program, "statusline"])

    def _is_current(self, target: Target, text: str, *, status_line: bool) -> bool:
        """Whether a document has just what would be written."""
        wanted = shell_line(self._guard(target))
        here = entries.own_commands(text) == {event: [wanted] for event in target.events}
        return here and (not status_line or with_status_line(text, self._status_line()) == text)

    def _found(self, target: Target) -> tuple[Path, Path, str | None]:
        path = target.path(self._environ, self._home)
        real = Path(os.path.realpath(path))
        try:
            found = real.stat()
        except FileNotFoundError:
            return path, real, None
        except OSError as error:
            raise HookError(f"{path} cannot be read ({error.strerror})", "Make it readable.") from error
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise HookError(f"{path} is not a file of settings", "Look what is there.")
        if not found.st_mode & stat.S_IWUSR:
            raise HookError(f"{path} is read-only", f"Make it writable first: chmod u+w {path}")
        try:
            return path, real, real.read_bytes().decode()
        except OSError as error:
            raise HookError(f"{path} cannot be read ({error.strerror})", "Make it readable.") from error
        except UnicodeDecodeError:
            raise HookError(f"{path} is not UTF-8 text", "Save it as UTF-8.") from None

    def _created(self, real: Path) -> tuple[str, ...]:
        known = state_files.read_json(str(self._memory))
        found = known.get(str(real)) if isinstance(known, dict) else None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def _remember(self, real: Path, created: Sequence[str]) -> None:
        """Note what was created in a document, to take it out again."""
        known = state_files.read_json(str(self._memory))
        rest = {key: value for key, value in (known if isinstance(known, dict) else {}).items() if key != str(real)}
        state_files.write_json(str(self._memory), rest | ({str(real): list(created)} if created else {}))


class _explained:  # noqa: N801 - used as a function
    """Turns what is wrong with a document into a HookError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, BadDocumentError):
            raise HookError(f"{self._path} is not valid JSON ({error})", "Correct it; nothing was changed.") from None
        if isinstance(error, HookConflictError):
            raise HookError(f"{self._path}: {error}", "Nothing was changed.") from None


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole, with the mode of the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _plain(text: str) -> str:
    """A file of AgentTrace's own, so that its command is recognised in JSON lists, too."""
    return text.replace('", "', " ").replace('\\"', '"')
