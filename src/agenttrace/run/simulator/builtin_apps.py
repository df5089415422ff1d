"""The applications of the simulator: their ids, the environment that leads to them, and their answers.

Answers are those of a billiards store, generated from the seed, the application and the prompt; a name or a time
dimension in the prompt or in ``biz_params`` is used. The same question gets the same answer. Answers about recorded
sessions are in ``session_apps``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from agenttrace.run.simulator.calls import AppRequest, Message, object_of
from agenttrace.run.simulator.session_apps import session_answer

#: The name of an application in the catalog, and its id in the simulator.
BUILTIN_APP_IDS: dict[str, str] = {
    "app1_chat": "sim-app1-chat",
    "app2_finance": "sim-app2-finance",
    "app3_clue": "sim-app3-clue",
    "app4_analysis": "sim-app4-analysis",
    "app5_tactics": "sim-app5-tactics",
    "app6_note": "sim-app6-note",
    "app7_customer": "sim-app7-customer",
    "app8_consolidate": "sim-app8-consolidate",
    "session_summary": "sim-session-summary",
    "session_review": "sim-session-review",
    "session_score": "sim-session-score",
}

#: Neither gives access to anything: they are the values in the simulator's environment.
API_KEY = "sim-key"
INTERNAL_TOKEN = "sim-internal-token"  # noqa: S105 - the token of a simulated service

#: Title and number of days of each time dimension.
_DIMENSIONS = {
    "today": ("今日", 1),
    "yesterday": ("昨日", 1),
    "this_week": ("本周", 5),
    "last_week": ("上周", 7),
    "this_month": ("本月", 18),
    "last_month": ("上月", 30),
    "this_quarter": ("本季度", 50),
    "last_quarter": ("上季度", 91),
}
_DIMENSION = re.compile("|".join(_DIMENSIONS))
#: Also inside a JSON text that is quoted in another.
_NAME = re.compile(
    r'(?:member_name|customer_name|nickname|姓名|会员|客户)(?:\\?")?\s*[:\uff1a]\s*(?:\\?")?([\w\u4e00-\u9fff]{2,8})'
)
_ENGLISH_WORD = re.compile(r"[A-Za-z_]+\Z")
_FAMILY = ("陈", "林", "黄", "周", "吴", "郑", "何", "罗")
_DAYS = ("周三", "周五", "周六", "周日")
_RANGES = {
    "months": (2, 30),
    "hours": (2, 5),
    "hour": (18, 22),
    "lessons": (30, 70),
    "away": (2, 28),
    "note_score": (4, 11),
    "score": (45, 96),
    "visits": (3, 15),
}

# -- templates: ``{fact}`` alone is the value of a fact, in a text it is filled in ------------------------------

_CLUES = (
    ("客户基础", "🧾", "办卡{months}个月，储值余额约{money}元", "储值消耗平稳，临近续充，适合在到店时提一句活动"),
    ("消费习惯", "🎱", "多在{day}{hour}点后到店，每次约{hours}小时", "偏好中式八球台，很少订包间，结束后常点饮料"),
    ("玩法偏好", "🏆", "近两次都约了助教陪练，想提高走位", "对技术指导评价好，可推荐小课包"),
    ("促销接受", "🎁", "对充值赠送有反应，对单次折扣不敏感", "上次活动当天充值{money}元，推送后两小时内到店"),
    ("社交关系", "👥", "常与{hours}位球友同来，由本人结账", "同行者中有两位尚未办卡，可借局邀请"),
    ("重要反馈", "💬", "提到{day}晚上空调偏冷，希望换台", "反馈后仍继续到店，回访时应先说明已处理"),
)
_SCENES = (
    ("久未到店", "{name}您好，好几天没见您来练球了。{day}晚上给您留了常用的那张台，来活动活动？"),
    ("续充提醒", "{name}您好，您卡里余额还够打两三次，这周充值有赠送，需要我先帮您留名额吗？"),
    ("新课推荐", "{name}您好，您上次问的走位练习，我们开了小班，{day}{hour}点还有一个位置。"),
    ("节后回访", "{name}您好，上次说的空调问题已经调好了，换到靠里的台，您下次来试试看。"),
)
#: Words in the prompt, and what the chat says about them.
_TOPICS = (
    (
        ("营业", "收入", "业绩", "财务", "流水"),
        "今日营业额{total}元，其中台费约占六成，助教课和酒水各占两成左右。"
        "晚上七点到十点最忙，下午两点到五点还有空台，建议用老会员的练球时段券把下午带起来。",
    ),
    (
        ("会员", "客户", "联系", "回访"),
        "最近值得优先联系的是{people[0]}先生、{people[1]}女士和{people[2]}先生。{people[0]}先生已经{away}天没有到店，"
        "以前每周都来；{people[1]}女士余额快用完了；{people[2]}先生上次约过助教，可以问问他要不要继续。"
        "建议先发一句问候，不要一开口就谈充值。",
    ),
    (
        ("助教", "排班", "课程", "教练"),
        "本周助教课共{lessons}节，满意度{score}%。{day}晚上的课排得最满，有{hours}位客户没有约上，可以考虑加开一节。",
    ),
)
_OVERVIEW = (
    "今天到店{lessons}位客户，其中会员{months}位。有{hours}位会员超过两周没来，建议今天先联系他们；"
    "另外{day}晚上的球台已经订出一半，可以提前提醒常客留位。"
)
_OBJECTS: dict[str, dict[str, Any]] = {
    BUILTIN_APP_IDS["app2_finance"]: {
        "time_dimension": "{dimension}",
        "period": "{period}",
        "summary": "{period}总收入{total}元，环比{trend}{change}%，台费仍是主要来源。",
        "revenue": {key: f"{{{key}}}" for key in ("total", "table", "coach", "goods", "change_percent")},
        "insights": [
            {"seq": 1, "title": "台费结构", "body": "台费{table}元，占{table_share}%，晚间时段贡献最大。"},
            {"seq": 2, "title": "助教收入", "body": "助教课{coach}元，续课客户多于新客，教学口碑在起作用。"},
            {"seq": 3, "title": "酒水小食", "body": "商品{goods}元，与到店人数同步，套餐搭售还有空间。"},
        ],
        "suggestions": ["下午空台时段推出会员练球券", "{day}晚间提前开放预约，减少流失"],
    },
    BUILTIN_APP_IDS["app3_clue"]: {"member_name": "{name}", "clues": "{clues}"},
    BUILTIN_APP_IDS["app4_analysis"]: {
        "member_name": "{name}",
        "relation": {"level": "{level}", "score": "{score}", "days_since_last_visit": "{away}"},
        "one_line_summary": "与{name}的关系{level}，距上次到店{away}天。",
        "task_description": "本周内联系{name}，确认下次到店时间，并了解对陪练的想法。",
        "action_suggestions": ["先问候再提预约，不谈充值", "说明常用球台可以保留", "到店后由熟悉的助教接待"],
    },
    BUILTIN_APP_IDS["app5_tactics"]: {"member_name": "{name}", "tactics": "{tactics}"},
    BUILTIN_APP_IDS["app6_note"]: {
        "member_name": "{name}",
        "score": "{note_score}",
        "summary": "备注信息具体，可直接用于跟进。",
        "sentiment": "{sentiment}",
        "clues": "{clues}",
    },
    BUILTIN_APP_IDS["app7_customer"]: {
        "member_name": "{name}",
        "summary": "{name}近三个月到店{visits}次，消费稳定，对技术提高有兴趣，是值得长期维护的会员。",
        "profile": {"visits_90_days": "{visits}", "average_spend": "{money}", "churn_risk": "{risk}"},
        "strategies": [
            {"title": "固定时段", "content": "把{day}晚上的常用球台设为优先保留，提前一天确认。"},
            {"title": "技术陪练", "content": "从一节走位课开始，课后给出练习建议，自然引到小课包。"},
            {"title": "球友带新", "content": "邀请同行球友参加会员局，当场办卡双方都有赠送时长。"},
        ],
    },
    BUILTIN_APP_IDS["app8_consolidate"]: {
        "member_name": "{name}",
        "summary": "{name}的维护线索，已合并重复内容。",
        "clues": "{merged}",
    },
}
_ALONE = re.compile(r"\{(\w+)\}")

#: Values for the types of a JSON schema; strings are the answer's text.
_SCHEMA_VALUES: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "null": None, "array": [], "object": {}}
#: Schemas that contain themselves end at this depth.
_MAX_DEPTH = 12


def environment(base_url: str) -> dict[str, str]:
    """The variables that point the product at the simulator behind ``base_url``."""
    # "app3_clue" is DASHSCOPE_APP_ID_3_CLUE.
    ids = {f"DASHSCOPE_APP_ID_{name.removeprefix('app').upper()}": app_id for name, app_id in BUILTIN_APP_IDS.items()}
    key = {"DASHSCOPE_API_KEY": API_KEY, "DASHSCOPE_BASE_URL": base_url}
    return key | ids | {"INTERNAL_API_TOKEN": INTERNAL_TOKEN}


def default_answer(app_id: str, wanted: AppRequest, context: Sequence[Message], seed: int) -> str:
    """The answer of an application; an unknown one chats, in JSON where the request asks for it."""
    about_session = session_answer(wanted.prompt)
    if about_session is not None:
        return _formatted(_json(about_session), object_of(wanted.parameters, "response_format"), is_object=True)
    hints = wanted.prompt
    if wanted.biz_params:
        hints += msgspec.json.encode(wanted.biz_params).decode()
    chance = random.Random(f"{seed}/{app_id}/{wanted.prompt}")  # noqa: S311 - generates answers
    facts = _facts(chance, hints)
    is_object = app_id in _OBJECTS
    text = _json(_filled(_OBJECTS[app_id], facts)) if is_object else _chat(wanted.prompt, context, facts)
    return _formatted(text, object_of(wanted.parameters, "response_format"), is_object=is_object)


def _formatted(text: str, wanted: dict[str, Any], *, is_object: bool) -> str:
    """The text as a ``response_format`` asks for it."""
    if wanted.get("type") == "json_schema":
        return _json(_example(object_of(object_of(wanted, "json_schema"), "schema"), text))
    if wanted.get("type") == "json_object" and not is_object:
        return _json({"answer": text})
    return text


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _chat(prompt: str, context: Sequence[Message], facts: dict[str, Any]) -> str:
    before = [str(turn.get("content", "")) for turn in context[:-1] if turn.get("role") == "user"]
    start = f"接着您刚才说的「{before[-1][:16]}」，补充几点。" if before else "好的，我看了一下门店最近的数据。"
    found = (text for words, text in _TOPICS if any(word in prompt for word in words))
    return start + next(found, _OVERVIEW).format(**facts)


def _facts(chance: random.Random, hints: str) -> dict[str, Any]:
    """Everything that a template may name."""
    facts: dict[str, Any] = {name: chance.randrange(low, high) for name, (low, high) in _RANGES.items()}
    facts |= {"day": chance.choice(_DAYS), "people": chance.sample(_FAMILY, 3), "name": _name(chance, hints)}
    facts |= {"money": chance.randrange(2, 20) * 100, "sentiment": chance.choice(("积极", "中性", "略有不满"))}
    score, visits = facts["score"], facts["visits"]
    facts["level"] = "紧密" if score >= 80 else "稳定" if score >= 60 else "需要维护"
    facts["risk"] = "低" if visits >= 9 else "中" if visits >= 5 else "高"
    return facts | _income(chance, hints) | _lists(chance, facts)


def _income(chance: random.Random, hints: str) -> dict[str, Any]:
    found = _DIMENSION.search(hints)
    dimension = found.group() if found else "today"
    period, days = _DIMENSIONS[dimension]
    table, coach = days * chance.randrange(4_000, 9_000), days * chance.randrange(1_200, 3_200)
    goods, change = days * chance.randrange(800, 2_400), chance.randrange(-12, 19)
    total = table + coach + goods
    income = {"dimension": dimension, "period": period, "table": table, "coach": coach, "goods": goods, "total": total}
    income |= {"table_share": table * 100 // total, "change_percent": change, "change": abs(change)}
    return income | {"trend": "增长" if change >= 0 else "下降"}


def _lists(chance: random.Random, facts: dict[str, Any]) -> dict[str, Any]:
    clues = [
        {"category": category, "emoji": emoji, "summary": summary.format(**facts), "detail": detail.format(**facts)}
        for category, emoji, summary, detail in chance.sample(_CLUES, 4)
    ]
    providers = (["app3_clue"], ["app6_note"], ["app3_clue", "app6_note"])
    scenes = enumerate(chance.sample(_SCENES, 3), 1)
    return {
        "clues": clues[:3],
        "merged": [clue | {"providers": chance.choice(providers)} for clue in clues],
        "tactics": [{"seq": n, "scenario": scene, "script": script.format(**facts)} for n, (scene, script) in scenes],
    }


def _name(chance: random.Random, hints: str) -> str:
    generated = chance.choice(_FAMILY) + chance.choice(("先生", "女士"))
    found = _NAME.search(hints)
    return generated if found is None or _ENGLISH_WORD.match(found.group(1)) else found.group(1)


def _filled(template: Any, facts: dict[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(template, dict):
        return {key: _filled(value, facts) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, facts) for value in template]
    if not isinstance(template, str):
        return template
    alone = _ALONE.fullmatch(template)
    return facts[alone[1]] if alone else template.format(**facts)


# -- JSON schemas -----------------------------------------------------------------------------------------------


def _example(schema: dict[str, Any], text: str, root: dict[str, Any] | None = None, depth: int = 0) -> Any:  # noqa: ANN401
    """A value that fits the schema, as a model with structured output gives one; its strings are the text."""
    root = root or schema
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if (inner := _referenced(schema, root)) is not None and depth < _MAX_DEPTH:
        return _example(inner, text, root, depth + 1)
    kind = schema.get("type")
    kind = next((name for name in kind if name != "null"), "null") if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties", {}) if depth < _MAX_DEPTH else {}
        return {name: _example(part, text, root, depth + 1) for name, part in fields.items()}
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < _MAX_DEPTH:
        return [_example(schema["items"], text, root, depth + 1)]
    return _SCHEMA_VALUES.get(str(kind), text)


def _referenced(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that this one refers to, or the first of its alternatives."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for name in reference[2:].split("/"):
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found if isinstance(found, dict) else {}
    alternatives = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if not alternatives:
        return None
    return alternatives[0] if isinstance(alternatives[0], dict) else {}
