"""The simulator's answers about recorded sessions, made of the facts in the prompt; the same for the same prompt."""

from __future__ import annotations

from typing import Any

import msgspec

_APPS = ("session-summary", "session-review", "session-score")
_NAMES = {"en": "The session", "zh": "该会话"}


def session_answer(prompt: str) -> dict[str, Any] | None:
    """The answer to a prompt of one of the applications for recorded sessions; ``None`` for any other."""
    facts = _facts(prompt)
    if facts.get("app") not in _APPS:
        return None
    language = "zh" if facts.get("language") == "zh" else "en"
    session = facts.get("session")
    known = session if isinstance(session, dict) else {}
    figures = {name: _number(known.get(name)) for name in ("turns", "tools", "errors")}
    title = str(known.get("title") or _NAMES[language])
    answers = {"session-summary": _summary, "session-review": _review, "session-score": _score}
    return answers[facts["app"]](language, title, figures)


def _facts(prompt: str) -> dict[str, Any]:
    """The object with the facts: the first line of the prompt that is one."""
    for line in prompt.splitlines():
        if line.startswith('{"app":'):
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(found, dict):
                return found
    return {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _summary(language: str, title: str, found: dict[str, int]) -> dict[str, Any]:
    if language == "zh":
        return {"summary": f"{title}：共 {found['turns']} 轮，调用工具 {found['tools']} 次，{found['errors']} 次失败。"}
    return {
        "summary": f"{title}: {found['turns']} turns with {found['tools']} tool calls, of which {found['errors']} "
        "failed. The last turn was answered."
    }


def _review(language: str, title: str, found: dict[str, int]) -> dict[str, Any]:
    wrong = {
        "en": f"{found['errors']} tool calls failed and were repeated.",
        "zh": f"有 {found['errors']} 次工具调用失败并被重复执行。",
    }
    better = {"en": "Name the files to be changed in the first prompt.", "zh": "在第一条提示中写明要修改的文件。"}
    return _summary(language, title, found) | {
        "went_wrong": [wrong[language]] if found["errors"] else [],
        "do_better": [better[language]],
        "labels": ["failed-tools" if found["errors"] else "smooth"],
    }


def _score(language: str, title: str, found: dict[str, int]) -> dict[str, Any]:
    reason = {
        "en": f"{title}: {found['errors']} of {found['tools']} tool calls failed.",
        "zh": f"{title}：{found['tools']} 次工具调用中 {found['errors']} 次失败。",
    }
    return {"score": max(2, 9 - found["errors"]), "reason": reason[language]}
