"""The default answers of the eight applications (``answers.toml``): the same for the same question and seed.

A name or a time dimension in the prompt or in ``biz_params`` is taken over.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.run.simulator.app_ids import BUILTIN_APP_IDS
from agenttrace.run.simulator.app_request import AppRequest, object_of
from agenttrace.run.simulator.call_log import Message

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_name("answers.toml").read_text(encoding="utf-8"))
_OBJECTS = {BUILTIN_APP_IDS[name]: template for name, template in _DATA["apps"].items()}
_DIMENSION = re.compile("|".join(_DATA["dimensions"]))
#: Also inside a JSON text that is quoted in another.
_NAME = re.compile(
    r'(?:member_name|customer_name|nickname|姓名|会员|客户)(?:\\?")?\s*[:\uff1a]\s*(?:\\?")?([\w\u4e00-\u9fff]{2,8})'
)
_ENGLISH_WORD = re.compile(r"[A-Za-z_]+\Z")
_PLAIN: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "null": None, "array": [], "object": {}}
#: Schemas that contain themselves end somewhere.
_DEEPEST = 12


def default_answer(app_id: str, wanted: AppRequest, context: Sequence[Message], seed: int) -> str:
    """The default answer to a request; an application that is none of the eight chats, in JSON where asked for."""
    hints = wanted.prompt
    if wanted.biz_params:
        hints += msgspec.json.encode(wanted.biz_params).decode()
    said_before = [str(turn.get("content", "")) for turn in context[:-1] if turn.get("role") == "user"]
    text = _made_up(app_id, wanted.prompt, hints, said_before[-1] if said_before else "", seed)
    return _formatted(text, object_of(wanted.parameters, "response_format"), is_object=app_id in _OBJECTS)


def _formatted(text: str, wanted: dict[str, Any], *, is_object: bool) -> str:
    """The text as a ``response_format`` asks for it."""
    if wanted.get("type") == "json_schema":
        schema = object_of(object_of(wanted, "json_schema"), "schema")
        return msgspec.json.encode(_example(schema, text)).decode()
    if wanted.get("type") == "json_object" and not is_object:
        return msgspec.json.encode({"answer": text}).decode()
    return text


@lru_cache(maxsize=512)
def _made_up(app_id: str, prompt: str, hints: str, before: str, seed: int) -> str:
    chance = random.Random(f"{seed}/{app_id}/{prompt}")  # noqa: S311 - makes up answers
    facts = _facts(chance, hints) | {"before": before[:16]}
    if app_id in _OBJECTS:
        return msgspec.json.encode(_filled(_OBJECTS[app_id], facts)).decode()
    chat = _DATA["chat"]
    topic = next(topic for topic in chat["topics"] if any(word in prompt for word in topic["about"]))
    return str(_filled(chat["again" if before else "start"] + topic["text"], facts))


def _facts(chance: random.Random, hints: str) -> dict[str, Any]:
    """All that a template may name."""
    facts: dict[str, Any] = {name: chance.randrange(*limits) for name, limits in _DATA["numbers"].items()}
    facts |= {name: chance.choice(words) for name, words in _DATA["words"].items()}
    facts["family"], facts["family_2"], facts["family_3"] = chance.sample(_DATA["words"]["family"], 3)
    facts["name"] = _name(hints) or facts["family"] + facts["form"]
    facts |= _income(facts, hints)
    facts["money"] = facts["hundreds"] * 100
    facts["level"] = "紧密" if facts["score"] >= 80 else "稳定" if facts["score"] >= 60 else "需要维护"
    facts["risk"] = "低" if facts["visits"] >= 9 else "中" if facts["visits"] >= 5 else "高"
    is_long = facts["note_score"] >= 7
    facts["quality"] = "信息具体，可直接用于跟进" if is_long else "内容偏短，建议补充时间和客户原话"
    clues = [_filled(clue, facts) for clue in chance.sample(_DATA["clues"], 4)]
    sources = (["app3_clue"], ["app6_note"], ["app3_clue", "app6_note"])
    merged = [{**clue, "providers": chance.choice(sources)} for clue in clues]
    facts |= {"clues": clues[:3], "few_clues": clues[:2], "merged_clues": merged}
    chosen = enumerate(chance.sample(_DATA["tactics"], 3), 1)
    facts["tactics"] = [{"seq": number, **_filled(tactic, facts)} for number, tactic in chosen]
    return facts


def _income(facts: Mapping[str, Any], hints: str) -> dict[str, Any]:
    found = _DIMENSION.search(hints)
    dimension = found.group() if found else "today"
    period, days = _DATA["dimensions"][dimension]
    table, coach, goods = (days * facts[f"{name}_day"] for name in ("table", "coach", "goods"))
    total, change = table + coach + goods, facts["change"]
    return {
        "dimension": dimension,
        "period": period,
        "table": table,
        "coach": coach,
        "goods": goods,
        "total": total,
        "share": table * 100 // total,
        "trend": f"{'增长' if change >= 0 else '下降'}{abs(change)}%",
    }


def _name(hints: str) -> str | None:
    found = _NAME.search(hints)
    return None if found is None or _ENGLISH_WORD.match(found.group(1)) else found.group(1)


def _filled(template: Any, facts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any value of the file
    if isinstance(template, dict):
        return {name: _filled(value, facts) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, facts) for value in template]
    if not isinstance(template, str):
        return template
    return facts[template[1:-1]] if template[1:-1] in facts else template.format_map(facts)


def _example(schema: dict[str, Any], text: str, root: dict[str, Any] | None = None, depth: int = 0) -> Any:  # noqa: ANN401
    """A value for the schema; its strings are the text."""
    root = root or schema
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if (inner := _inner(schema, root)) is not None and depth < _DEEPEST:
        return _example(inner, text, root, depth + 1)
    kind = schema.get("type")
    kind = next((name for name in kind if name != "null"), "null") if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties", {}) if depth < _DEEPEST else {}
        return {name: _example(part, text, root, depth + 1) for name, part in fields.items()}
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < _DEEPEST:
        return [_example(schema["items"], text, root, depth + 1)]
    return _PLAIN.get(str(kind), text)


def _inner(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that it stands for: a reference, or the first of several that will do."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for name in reference[2:].split("/"):
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found if isinstance(found, dict) else {}
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            first = schema[word][0]
            return first if isinstance(first, dict) else {}
    return None
