"""What messages say, as programs, people and chat services get them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config.rule_tables import ready_tables
from agenttrace.config.rules import EventKind, MessageFormat
from agenttrace.rules.actions.messages import (
    chat_body,
    dingtalk_query,
    headline,
    message_fields,
    text_of,
    webhook_signature,
)
from agenttrace.rules.facts import Facts
from agenttrace.store.rules import RuleEvent
from rules.sending import MASK, SECRET, event, message

FORMATS: tuple[MessageFormat, ...] = ("slack", "teams", "dingtalk", "feishu")
NOW = 1_794_700_000.5
HOSTILE = [
    "<!channel> <!here|here> <@U123> <!subteam^S1>",
    '<at user_id="all">all</at> < AT user_id="ou_1"></at>',
    "[Click](https://evil.example) **bold** ![x](https://evil.example/x.png)",
    "@all @everyone @channel",
    "line\nbreak\r\n\x00\x1b[31mred\u2028\u2029",
    "\ud800 lone \udfff",
    "{{7*7}} ${HOME} $(id) `id`",
]


def test_fields() -> None:
    """Programs get everything, and names that look like secrets do not make values vanish."""
    fields = message_fields(message(event(tool="shell"), type="notify"), MASK)
    assert fields["rule"] == "r"
    assert fields["idempotency_key"] == "00112233445566778899aabbccddeeff"
    (found,) = fields["events"]
    assert found["facts"] == {"tool": "shell"}
    assert found["at"].endswith("Z")
    assert found["session"]["key"] == f"{7:016x}"
    assert (found["session"]["id"], found["session"]["tokens"]) == ("s", 0)
    json.dumps(fields)


def test_secrets_are_masked() -> None:
    """In titles, facts and answers, also where a title is cut in the middle of one."""
    events = [event(f"Use {SECRET}"), event("x" * 150 + " " + SECRET), event(reason=f"key {SECRET}")]
    found = message(*events, answers={"first": {"text": f"It is {SECRET}"}}, type="notify")
    for kind in FORMATS:
        assert SECRET[:25] not in json.dumps(chat_body(kind, found, MASK, None, NOW))
    assert SECRET[:25] not in json.dumps(message_fields(found, MASK))
    assert SECRET[:25] not in text_of(found, MASK)


def test_many_events() -> None:
    """A text lists ten, and says how many more there are."""
    found = message(*[event(f"Session {number}") for number in range(14)], more=30, type="notify")
    text = text_of(found, MASK)
    assert "Session 9 " in text
    assert "Session 10" not in text
    assert text.endswith("… and 34 more")
    assert message_fields(found, MASK)["more_events"] == 30


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_of_others_are_only_text(hostile: str) -> None:
    """A title pings no one, is no link, and adds no line."""
    found = message(event(hostile, tool=hostile), type="notify")
    assert "\n" not in text_of(found, MASK)
    assert all(each.isprintable() or each in "\u200b\u2028\u2029" for each in text_of(found, MASK))
    slack = chat_body("slack", found, MASK, None, NOW)
    for text in (slack["text"], slack["blocks"][1]["text"]["text"]):
        assert "<" not in text
        assert ">" not in text
    assert slack["blocks"][1]["text"]["verbatim"] is True
    card = chat_body("teams", found, MASK, None, NOW)["attachments"][0]["content"]
    assert [block["type"] for block in card["body"]] == ["TextBlock", "RichTextBlock"]
    assert card["body"][0]["text"] == "A tool has failed"
    assert "msteams" not in card
    ding = chat_body("dingtalk", found, MASK, None, NOW)
    assert ding["at"] == {"isAtAll": False}
    feishu = chat_body("feishu", found, MASK, None, NOW)["content"]["text"]
    assert "<at" not in feishu.lower().replace(" ", "")
    for body in (slack, card, ding, feishu):
        json.dumps(body, ensure_ascii=False).encode("utf-8")


@given(st.text(max_size=300), st.sampled_from(FORMATS))
def test_any_text_can_be_sent(text: str, kind: MessageFormat) -> None:
    """Whatever is in a log."""
    found = message(event(text, tool=text), answers={"a": {"text": text}}, type="notify")
    json.dumps(chat_body(kind, found, MASK, "secret", NOW), ensure_ascii=False).encode("utf-8")


#: What is known when the budget "shop" has jumped to 130 % of 30 dollars.
SHOP = {
    "budget": "shop",
    "period": "day",
    "threshold": 1.0,
    "share": 1.3,
    "spent": 39.0,
    "limit": 30.0,
    "currency": "USD",
    "ends_at": "2026-11-20T00:00:00+08:00",
    "forecast": 52.0,
}
TOKENS = {"currency": "tokens", "spent": 5_200_000.0, "limit": 4_000_000.0, "forecast": 6e6, "period": "week"}
WINDOW = {
    "agent": "codex",
    "window": "primary",
    "minutes": 300,
    "threshold": 0.8,
    "share": 0.85,
    "resets_at": "2026-11-19T18:00:00Z",
    "exhausted_at": "2026-11-19T17:10:00Z",
}
ENDED = {name: value for name, value in SHOP.items() if name != "forecast"}
BARE = {name: value for name, value in ENDED.items() if name != "ends_at"}
CROSSED: list[tuple[str, dict[str, object], str, str, str, str]] = [
    (
        "budget.crossed",
        SHOP,
        "Budget shop has reached 100%",
        "Budget shop: $39.00 of $30.00 is spent today, 130%. The day ends at 2026-11-20 00:00. "
        "At this rate it comes to $52.00 by then.",
        "预算 shop 已达 100%",
        "预算 shop：今天已用 $39.00 / $30.00，130%。周期于 2026-11-20 00:00 结束，按目前速度届时将达 $52.00。",
    ),
    (
        "budget.crossed",
        {**SHOP, **TOKENS},
        "Budget shop has reached 100%",
        "Budget shop: 5,200,000 of 4,000,000 tokens are used this week, 130%. The week ends at "
        "2026-11-20 00:00. At this rate it comes to 6,000,000 tokens by then.",
        "预算 shop 已达 100%",
        "预算 shop：本周已用 5,200,000 / 4,000,000 token，130%。"
        "周期于 2026-11-20 00:00 结束，按目前速度届时将达 6,000,000 token。",
    ),
    (
        "budget.crossed",
        ENDED,
        "Budget shop has reached 100%",
        "Budget shop: $39.00 of $30.00 is spent today, 130%. The day ended at 2026-11-20 00:00.",
        "预算 shop 已达 100%",
        "预算 shop：今天已用 $39.00 / $30.00，130%。该周期已于 2026-11-20 00:00 结束。",
    ),
    (
        "budget.crossed",
        {**BARE, "period": "session", "currency": "CNY"},
        "Budget shop has reached 100%",
        "Budget shop: ¥39.00 of ¥30.00 is spent in this session, 130%.",
        "预算 shop 已达 100%",
        "预算 shop：本次会话已用 ¥39.00 / ¥30.00，130%。",
    ),
    (
        "limit.crossed",
        WINDOW,
        "codex: the five-hour limit has reached 80%",
        "codex: 85% of the five-hour limit is used. It resets at 2026-11-19 18:00 UTC. At this rate nothing is left at "
        "2026-11-19 17:10 UTC.",
        "codex：5 小时限额已达 80%",
        "codex：5 小时限额已用 85%，将于 2026-11-19 18:00 UTC 重置。按目前速度将于 2026-11-19 17:10 UTC 用尽。",
    ),
]


@pytest.mark.parametrize(("kind", "facts", "title", "text", "title_zh", "text_zh"), CROSSED)
def test_budgets_and_limits_are_sentences(
    kind: EventKind, facts: dict[str, object], title: str, text: str, title_zh: str, text_zh: str
) -> None:
    """What of how much, until when, and what it comes to, in the language of the action."""
    event = Facts(RuleEvent(key=b"k" * 16, kind=kind, at=0, facts=facts))
    for language, expected in (("en", (title, text)), ("zh", (title_zh, text_zh))):
        found = message(event, on=kind, type="notify", language=language)
        assert (headline(found), text_of(found, MASK)) == expected


def test_the_title_of_a_rule() -> None:
    """The user's own words stand; a rule that ships says what was crossed, and many budgets have no one title."""
    crossed = Facts(RuleEvent(key=b"k" * 16, kind="budget.crossed", at=0, facts=SHOP))
    made = message(crossed, on="budget.crossed", title="Stop", type="notify", language="zh")
    assert headline(made) == "Stop"
    ready = made._replace(rule=ready_tables().rules["budget"])
    assert headline(ready) == "预算 shop 已达 100%"
    assert headline(ready._replace(more=1)) == "预算越过阈值"
    waiting = message(on="session.waiting", type="notify")._replace(rule=ready_tables().rules["waiting"])
    assert headline(waiting) == "An agent waits for me"


def test_the_bodies_of_chat_services() -> None:
    """As their documentation has them."""
    found = message(type="notify", title="Tools")
    line = "Mend the shop · claude-code · shop · tool shell"
    assert chat_body("slack", found, MASK, None, NOW) == {
        "text": f"Tools\n{line}",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Tools"}},
            {"type": "section", "text": {"type": "mrkdwn", "text": line, "verbatim": True}},
        ],
    }
    teams = chat_body("teams", found, MASK, None, NOW)
    assert teams["type"] == "message"
    assert teams["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert teams["attachments"][0]["content"]["type"] == "AdaptiveCard"
    assert chat_body("dingtalk", found, MASK, None, NOW)["text"] == {"content": f"Tools\n{line}"}
    assert chat_body("feishu", found, MASK, None, NOW) == {"msg_type": "text", "content": {"text": f"Tools\n{line}"}}


def test_the_signature_of_dingtalk() -> None:
    """HMAC-SHA256 of time and secret with the secret, base64, in the query; the time is in milliseconds."""
    query = parse_qs(dingtalk_query("SEC+/=", NOW), strict_parsing=True)
    assert query["timestamp"] == ["1794700000500"]
    digest = hmac.digest(b"SEC+/=", b"1794700000500\nSEC+/=", "sha256")
    assert query["sign"] == [base64.b64encode(digest).decode()]


def test_the_signature_of_feishu() -> None:
    """HMAC-SHA256 of nothing with time and secret as the key, base64, in the body; the time is in seconds."""
    body = chat_body("feishu", message(type="notify"), MASK, "top secret", NOW)
    assert body["timestamp"] == "1794700000"
    assert body["sign"] == base64.b64encode(hmac.digest(b"1794700000\ntop secret", b"", "sha256")).decode()


def test_the_signature_of_standard_webhooks() -> None:
    """The example of the specification's libraries."""
    payload = b'{"test": 2432232314}'
    found = webhook_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, payload
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    key = b"not base64"
    expected = base64.b64encode(hmac.new(key, b"id.5.x", hashlib.sha256).digest()).decode()
    assert webhook_signature("not base64", "id", 5, b"x") == f"v1,{expected}"
