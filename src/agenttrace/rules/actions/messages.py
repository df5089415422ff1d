"""The message of a firing: as JSON for programs, as text for people, and as chat services want it. Always masked.

Texts for people are in the language of the action.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

from agenttrace.config.rules import EventKind, MessageFormat
from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.rules.actions.contract import Message
from agenttrace.rules.actions.sentences import Language, crossing_sentence, crossing_title
from agenttrace.rules.facts import Facts
from agenttrace.store.questions import title_of

#: Masks a value of JSON, such as ``Mask(patterns).value``.
MaskValue = Callable[[Any], Any]

_ENGLISH: dict[EventKind, str] = {
    "session.waiting": "An agent waits for you",
    "session.ended": "A session has ended",
    "session.stuck": "A session seems to be stuck",
    "turn.failed": "A turn has failed",
    "tool.failed": "A tool has failed",
    "budget.crossed": "A budget was crossed",
    "limit.crossed": "A limit was crossed",
    "secret.found": "A secret was seen in a session",
    "quarantine.grew": "A line could not be recorded",
    "export.refused": "A span was refused",
}
_CHINESE: dict[EventKind, str] = {
    "session.waiting": "智能体在等待你",
    "session.ended": "会话已结束",
    "session.stuck": "会话似乎卡住了",
    "turn.failed": "轮次失败",
    "tool.failed": "工具失败",
    "budget.crossed": "预算越过阈值",
    "limit.crossed": "限额越过阈值",
    "secret.found": "会话中发现密钥",
    "quarantine.grew": "有一行无法记录",
    "export.refused": "span 被拒绝",
}
_HEADLINES: dict[Language, dict[EventKind, str]] = {"en": _ENGLISH, "zh": _CHINESE}
_TITLE_CHARACTERS = 200
#: Events that a text lists; further ones are counted.
_LISTED = 10
_ANSWER_CHARACTERS = 3_000
#: Facts that only programs need.
_NOT_FOR_PEOPLE = frozenset(("wait", "certain", "call"))
_MICROS = 1_000_000
_MENTION = re.compile(r"<(?=\s*/?\s*at\b)", re.IGNORECASE)


def plain(text: str) -> str:
    """One line of a text that may come from anywhere, without characters that are not text."""
    words = "".join(" " if unicodedata.category(each) == "Cc" else each for each in text).split()
    return " ".join(words).encode("utf-8", "replace").decode()


def message_fields(message: Message, mask: MaskValue) -> dict[str, Any]:
    """The message for programs."""
    return {
        "version": 1,
        "firing": message.firing,
        "rule": message.rule.name,
        "title": headline(message),
        "idempotency_key": message.idempotency_key,
        "event": message.rule.on,
        "events": [_event_fields(each, mask) for each in message.events],
        "more_events": message.more,
        "answers": mask(dict(message.answers)),
        "text": text_of(message, mask),
    }


def headline(message: Message) -> str:
    """What happened, in a few words."""
    rule, language = message.rule, message.action.language
    crossed = None
    if len(message.events) + message.more == 1:
        crossed = crossing_title(message.events[0].event, language)
    # The titles of rules that ship name them in lists: they are English, and say nothing of this event.
    titled = rule.title if rule.origin != "ready" or (crossed is None and language == "en") else ""
    return titled or crossed or _HEADLINES[language][rule.on]


def text_of(message: Message, mask: MaskValue) -> str:
    """The message for people: a line for each event, and what earlier actions answered."""
    return "\n".join(filter(None, _lines(message, mask)))


def _lines(message: Message, mask: MaskValue) -> Iterator[str]:
    language = message.action.language
    for each in message.events[:_LISTED]:
        yield _event_line(each, mask, language)
    unlisted = len(message.events[_LISTED:]) + message.more
    if unlisted:
        yield f"…… 还有 {unlisted} 个" if language == "zh" else f"… and {unlisted} more"
    for name, answer in message.answers.items():
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if isinstance(text, str) and text:
            yield f"{name}: {_cleaned(str(mask(text)))[:_ANSWER_CHARACTERS]}"


def _cleaned(text: str) -> str:
    return "\n".join(map(plain, text.splitlines()))


def _title(session: Session, mask: MaskValue) -> str:
    """Masked before it is cut: half a secret is not recognised."""
    return str(mask(title_of(session)))[:_TITLE_CHARACTERS]


def _event_line(facts: Facts, mask: MaskValue, language: Language) -> str:
    session, event = facts.session, facts.event
    parts = [] if session is None else [_title(session, mask) or session.session_id, session.agent]
    if session is not None and session.project:
        parts.append(session.project.replace("\\", "/").rstrip("/").rpartition("/")[2])
    sentence = crossing_sentence(event, language)
    if sentence is not None:
        return " · ".join(plain(str(mask(part))) for part in (*parts, sentence))
    parts += [f"{name} {value}" for name, value in event.facts.items() if name not in _NOT_FOR_PEOPLE]
    if facts.bill is not None and facts.bill.cost is not None:
        parts.append(f"{facts.bill.cost:.2f} {facts.bill.currency}")
    return " · ".join(plain(str(mask(part))) for part in parts)


def _event_fields(facts: Facts, mask: MaskValue) -> dict[str, Any]:
    event, session, bill = facts.event, facts.session, facts.bill
    found: dict[str, Any] = {
        "kind": event.kind,
        "at": _iso(event.at),
        "facts": mask(dict(event.facts)),
        "turn": event.turn if event.turn >= 0 else None,
        "span_id": None if event.span is None else event.span.hex(),
    }
    if session is not None:
        found["session"] = mask(
            {
                "key": session_key(session.id),
                "id": session.session_id,
                "agent": session.agent,
                "project": session.project,
                "branch": session.branch,
                "machine": session.machine,
                "person": session.person,
                "title": _title(session, mask),
                "state": session.state,
                "turns": session.turns,
                "tools": session.tools,
                "errors": session.errors,
                "models": sorted(facts.models),
                "tokens": 0 if bill is None else bill.all_tokens,
                "cost": None if bill is None else bill.cost,
                "currency": None if bill is None else bill.currency,
            }
        )
    return found


def _iso(micros: int) -> str:
    return datetime.fromtimestamp(micros / _MICROS, UTC).isoformat().replace("+00:00", "Z")


# -- chat services ----------------------------------------------------------------------------------------------


def chat_body(kind: MessageFormat, message: Message, mask: MaskValue, secret: str | None, now: float) -> dict[str, Any]:
    """The body that a chat service takes."""
    title, text = headline(message), text_of(message, mask)
    if kind == "slack":
        quoted = _slack(text)
        return {
            "text": f"{_slack(title)}\n{quoted}",
            "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": title[:150]}},
                {"type": "section", "text": {"type": "mrkdwn", "text": quoted[:3000] or "–", "verbatim": True}},
            ],
        }
    if kind == "teams":
        return {"type": "message", "attachments": [_adaptive_card(title, text)]}
    if kind == "dingtalk":
        # Who is notified is said here, and not by the text.
        return {"msgtype": "text", "text": {"content": f"{title}\n{text}"}, "at": {"isAtAll": False}}
    signed = {} if secret is None else _feishu_signature(secret, now)
    return {**signed, "msg_type": "text", "content": {"text": _feishu(f"{title}\n{text}")}}


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _feishu(text: str) -> str:
    """Without mentions, which are tags in the text: nothing escapes them."""
    return _MENTION.sub("<\u200b", text)


def _adaptive_card(title: str, text: str) -> dict[str, Any]:
    # A TextBlock would show Markdown, so that a title could be a link to anywhere.
    lines = [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]} for line in text.splitlines()]
    return {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "TextBlock", "text": title, "weight": "Bolder", "wrap": True}, *lines],
        },
    }


def _feishu_signature(secret: str, now: float) -> dict[str, str]:
    """Feishu signs nothing with a key made of time and secret."""
    stamp = str(int(now))
    key = f"{stamp}\n{secret}".encode()
    return {"timestamp": stamp, "sign": base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()}


def dingtalk_query(secret: str, now: float) -> str:
    """DingTalk's signature, which is a part of the address."""
    stamp = str(int(now * 1000))
    signed = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    return f"timestamp={stamp}&sign={quote_plus(base64.b64encode(signed))}"


def webhook_signature(secret: str, identifier: str, stamp: int, body: bytes) -> str:
    """The signature of Standard Webhooks; a secret that begins with ``whsec_`` is base64."""
    encoded = secret.removeprefix("whsec_")
    key = secret.encode() if encoded == secret else base64.b64decode(encoded, validate=True)
    signed = hmac.new(key, f"{identifier}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"
