"""Small files under the data directory that a hook or a status line reads and writes: only what loads at once.

``limits/claude-code.json`` has the windows that Claude Code gives to its status line. ``guard/state.json`` has the
budgets as a hook needs them, ``guard/allowed.json`` until when the user lets agents go on, ``guard/warned/`` a file for
each warning that a session has had.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Ends of a window that are nearer to each other are one; the same as in the store.
NEAR_SECONDS = 300
_LOG_BYTES = 1_000_000


def data_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The data directory as the settings have it; the file of the settings is only parsed where it may name another."""
    if environ.get("AGENTTRACE_HOME"):
        return os.path.abspath(os.path.expanduser(environ["AGENTTRACE_HOME"]))
    usual = os.path.join(os.path.expanduser("~"), ".agenttrace")
    named = environ.get("AGENTTRACE_CONFIG")
    file = os.path.abspath(os.path.expanduser(named)) if named else os.path.join(usual, "agenttrace.toml")
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    except OSError:
        return usual
    if not any(line.lstrip().startswith(("home", '"home"', "'home'")) for line in text.splitlines()):
        return usual
    import tomllib

    home = tomllib.loads(text).get("home", usual)
    return os.path.abspath(os.path.join(os.path.dirname(file), os.path.expanduser(str(home))))


def read_json(path: str) -> Any:  # noqa: ANN401 - whatever the file has
    """What a file has; ``None`` where it is missing or damaged."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read())
    except (OSError, ValueError, RecursionError):
        return None


def write_json(path: str, value: object) -> None:
    """Replace a file as a whole: readers see the old one or the new one."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    beside = f"{path}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="utf-8") as stream:
            json.dump(value, stream, ensure_ascii=False)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def log(home: str, text: str) -> None:
    """Note what a hook could not do; it never fails because of that."""
    path = os.path.join(home, "guard", "guard.log")
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > _LOG_BYTES:
            os.replace(path, f"{path}.1")
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}\n")


# -- the windows of Claude Code ---------------------------------------------------------------------------------------


def claude_path(home: str) -> str:
    """The file of the windows."""
    return os.path.join(home, "limits", "claude-code.json")


def told_windows(said: object, now: float) -> dict[str, dict[str, float]]:
    """The windows in what Claude Code gives to its status line: percent and the end in seconds, by name."""
    limits = said.get("rate_limits") if isinstance(said, dict) else None
    found = {}
    for name, window in limits.items() if isinstance(limits, dict) else ():
        if not isinstance(window, dict):
            continue
        used, end = _number(window.get("used_percentage")), _seconds(window.get("resets_at"))
        if used is not None and end is not None and len(name) <= 100:
            found[str(name)] = {"used_percent": used, "resets_at": end, "at": now}
    return found


def merged_windows(known: object, told: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Both; of one window the larger share, as another session of the user may have told an older one later."""
    merged = valid_windows(known)
    for name, window in told.items():
        old = merged.get(name)
        if old is None or window["resets_at"] > old["resets_at"] + NEAR_SECONDS:
            merged[name] = window
        elif window["resets_at"] > old["resets_at"] - NEAR_SECONDS and window["used_percent"] >= old["used_percent"]:
            merged[name] = {**window, "resets_at": old["resets_at"]}
    return merged


def valid_windows(known: object) -> dict[str, dict[str, float]]:
    """The windows of the file, without what cannot be one."""
    return {
        str(name): window
        for name, window in (known.items() if isinstance(known, dict) else ())
        if isinstance(window, dict)
        and all(_number(window.get(key)) is not None for key in ("used_percent", "resets_at", "at"))
    }


def note_windows(home: str, said: object) -> dict[str, dict[str, float]]:
    """Store the windows that Claude Code told; all that are known come back."""
    path = claude_path(home)
    known = read_json(path)
    merged = merged_windows(known, told_windows(said, time.time()))
    if merged and merged != known:
        write_json(path, merged)
    return merged


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return float(value)


def _seconds(value: object) -> float | None:
    """A time in seconds since the epoch, however it is written."""
    if isinstance(value, str):
        from datetime import UTC, datetime

        try:
            then = datetime.fromisoformat(value)
        except ValueError:
            return None
        return _number((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp())
    number = _number(value)
    return number / 1000 if number is not None and number > 1e11 else number
