"""What the eight applications say by themselves: the same for the same question, and believable for a billiards store.

Everything is made up from the seed, the application and the prompt; a name or a time dimension in the prompt or in
``biz_params`` is taken over.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from agenttrace.run.simulator.app_ids import BUILTIN_APP_IDS
from agenttrace.run.simulator.app_request import AppRequest, object_of
from agenttrace.run.simulator.call_log import Message
from agenttrace.run.simulator.schema_example import example

#: Name, and how many days it covers.
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
_CATEGORIES = (
    ("客户基础", "🧾", "办卡{months}个月，储值余额约{money}元", "储值消耗平稳，临近续充，适合在到店时提一句活动"),
    ("消费习惯", "🎱", "多在{day}{hour}点后到店，每次约{hours}小时", "偏好中式八球台，很少订包间，结束后常点饮料"),
    ("玩法偏好", "🏆", "近两次都约了助教陪练，想提高走位", "对技术指导评价好，可推荐小课包"),
    ("促销接受", "🎁", "对充值赠送有反应，对单次折扣不敏感", "上次活动当天充值{money}元，推送后两小时内到店"),
    ("社交关系", "👥", "常与{count}位球友同来，由本人结账", "同行者中有两位尚未办卡，可借局邀请"),
    ("重要反馈", "💬", "提到{day}晚上空调偏冷，希望换台", "反馈后仍继续到店，回访时应先说明已处理"),
)
_SCENES = (
    ("久未到店", "{name}您好，好几天没见您来练球了。{day}晚上给您留了常用的那张台，来活动活动？"),
    ("续充提醒", "{name}您好，您卡里余额还够打两三次，这周充值有赠送，需要我先帮您留名额吗？"),
    ("新课推荐", "{name}您好，您上次问的走位练习，我们开了小班，{day}{hour}点还有一个位置。"),
    ("节后回访", "{name}您好，上次说的空调问题已经调好了，换到靠里的台，您下次来试试看。"),
)
_DAYS = ("周三", "周五", "周六", "周日")


def default_answer(app_id: str, wanted: AppRequest, context: Sequence[Message], seed: int) -> str:
    """What the application says to this; one that is none of the eight chats, in JSON where that is asked for."""
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
        return msgspec.json.encode(example(schema, text)).decode()
    if wanted.get("type") == "json_object" and not is_object:
        return msgspec.json.encode({"answer": text}).decode()
    return text


@lru_cache(maxsize=512)
def _made_up(app_id: str, prompt: str, hints: str, before: str, seed: int) -> str:
    chance = random.Random(f"{seed}/{app_id}/{prompt}")  # noqa: S311 - makes up answers
    make = _OBJECTS.get(app_id)
    if make is None:
        return _chat(chance, prompt, before)
    return msgspec.json.encode(make(chance, hints)).decode()


# -- App1: chat -----------------------------------------------------------------------------------------------


def _chat(chance: random.Random, prompt: str, before: str) -> str:
    start = f"接着您刚才说的「{before[:16]}」，补充几点。" if before else "好的，我看了一下门店最近的数据。"
    for words, make in _TOPICS:
        if any(word in prompt for word in words):
            return start + make(chance)
    return start + _chat_overview(chance)


def _chat_money(chance: random.Random) -> str:
    total, change = chance.randrange(6_000, 18_000), chance.randrange(3, 19)
    return (
        f"今日营业额{total}元，比上周同一天高{change}%，其中台费约占六成，助教课和酒水各占两成左右。"
        f"晚上七点到十点最忙，下午两点到五点还有空台，建议用老会员的练球时段券把下午带起来。"
    )


def _chat_member(chance: random.Random) -> str:
    away = chance.sample(_FAMILY, 3)
    return (
        f"最近值得优先联系的是{away[0]}先生、{away[1]}女士和{away[2]}先生。"
        f"{away[0]}先生已经{chance.randrange(12, 30)}天没有到店，以前每周都来；{away[1]}女士余额快用完了；"
        f"{away[2]}先生上次约过助教，可以问问他要不要继续。建议先发一句问候，不要一开口就谈充值。"
    )


def _chat_coach(chance: random.Random) -> str:
    return (
        f"本周助教课共{chance.randrange(30, 70)}节，满意度{chance.randrange(90, 99)}%。"
        f"{chance.choice(_DAYS)}晚上的课排得最满，有{chance.randrange(2, 6)}位客户没有约上，可以考虑加开一节。"
    )


def _chat_overview(chance: random.Random) -> str:
    return (
        f"今天到店{chance.randrange(28, 64)}位客户，其中会员{chance.randrange(12, 27)}位，"
        f"新客{chance.randrange(2, 9)}位。"
        f"有{chance.randrange(2, 6)}位会员超过两周没来，建议今天先联系他们；"
        f"另外{chance.choice(_DAYS)}晚上的球台已经订出一半，可以提前提醒常客留位。"
    )


_TOPICS: tuple[tuple[tuple[str, ...], Callable[[random.Random], str]], ...] = (
    (("营业", "收入", "业绩", "财务", "流水"), _chat_money),
    (("会员", "客户", "联系", "回访"), _chat_member),
    (("助教", "排班", "课程", "教练"), _chat_coach),
)

# -- App2 to App8: objects --------------------------------------------------------------------------------------


def _finance(chance: random.Random, hints: str) -> dict[str, Any]:
    found = _DIMENSION.search(hints)
    dimension = found.group() if found else "today"
    title, days = _DIMENSIONS[dimension]
    table, coach, goods = (days * chance.randrange(low, high) for low, high in _INCOME)
    total, change = table + coach + goods, chance.randrange(-12, 19)
    trend = "增长" if change >= 0 else "下降"
    return {
        "time_dimension": dimension,
        "period": title,
        "summary": f"{title}总收入{total}元，环比{trend}{abs(change)}%，台费仍是主要来源。",
        "revenue": {"total": total, "table": table, "coach": coach, "goods": goods, "change_percent": change},
        "insights": [
            {"seq": 1, "title": "台费结构", "body": f"台费{table}元，占{table * 100 // total}%，晚间时段贡献最大。"},
            {"seq": 2, "title": "助教收入", "body": f"助教课{coach}元，续课客户多于新客，教学口碑在起作用。"},
            {"seq": 3, "title": "酒水小食", "body": f"商品{goods}元，与到店人数同步，套餐搭售还有空间。"},
        ],
        "suggestions": ["下午空台时段推出会员练球券", f"{chance.choice(_DAYS)}晚间提前开放预约，减少流失"],
    }


#: What a day brings in from tables, coaches and goods.
_INCOME = ((4_000, 9_000), (1_200, 3_200), (800, 2_400))


def _clues(chance: random.Random, hints: str) -> dict[str, Any]:
    return {"member_name": _name(chance, hints), "clues": _some_clues(chance, 3)}


def _analysis(chance: random.Random, hints: str) -> dict[str, Any]:
    name, score, away = _name(chance, hints), chance.randrange(45, 96), chance.randrange(2, 28)
    level = "紧密" if score >= 80 else "稳定" if score >= 60 else "需要维护"
    return {
        "member_name": name,
        "relation": {"level": level, "score": score, "days_since_last_visit": away},
        "one_line_summary": f"与{name}的关系{level}，距上次到店{away}天。",
        "task_description": f"本周内联系{name}，确认下次到店时间，并了解对陪练的想法。",
        "action_suggestions": ["先问候再提预约，不谈充值", "说明常用球台可以保留", "到店后由熟悉的助教接待"],
    }


def _tactics(chance: random.Random, hints: str) -> dict[str, Any]:
    name = _name(chance, hints)
    chosen = chance.sample(_SCENES, 3)
    day, hour = chance.choice(_DAYS), chance.randrange(18, 22)
    return {
        "member_name": name,
        "tactics": [
            {"seq": number, "scenario": scene, "script": script.format(name=name, day=day, hour=hour)}
            for number, (scene, script) in enumerate(chosen, 1)
        ],
    }


def _note(chance: random.Random, hints: str) -> dict[str, Any]:
    score = chance.randrange(4, 11)
    quality = "信息具体，可直接用于跟进" if score >= 7 else "内容偏短，建议补充时间和客户原话"
    return {
        "member_name": _name(chance, hints),
        "score": score,
        "summary": f"备注{quality}。",
        "sentiment": chance.choice(("积极", "中性", "略有不满")),
        "clues": _some_clues(chance, 2),
    }


def _customer(chance: random.Random, hints: str) -> dict[str, Any]:
    name, visits = _name(chance, hints), chance.randrange(3, 15)
    return {
        "member_name": name,
        "summary": f"{name}近三个月到店{visits}次，消费稳定，对技术提高有兴趣，是值得长期维护的会员。",
        "profile": {"visits_90_days": visits, "average_spend": chance.randrange(80, 320), "churn_risk": _risk(visits)},
        "strategies": [
            {"title": "固定时段", "content": f"把{chance.choice(_DAYS)}晚上的常用球台设为优先保留，提前一天确认。"},
            {"title": "技术陪练", "content": "从一节走位课开始，课后给出练习建议，自然引到小课包。"},
            {"title": "球友带新", "content": "邀请同行球友参加会员局，当场办卡双方都有赠送时长。"},
        ],
    }


def _risk(visits: int) -> str:
    return "低" if visits >= 9 else "中" if visits >= 5 else "高"


def _consolidated(chance: random.Random, hints: str) -> dict[str, Any]:
    clues = _some_clues(chance, 4)
    for clue in clues:
        clue["providers"] = chance.choice((["app3_clue"], ["app6_note"], ["app3_clue", "app6_note"]))
    name = _name(chance, hints)
    return {"member_name": name, "summary": f"{name}的{len(clues)}条维护线索，已合并重复内容。", "clues": clues}


def _some_clues(chance: random.Random, count: int) -> list[dict[str, Any]]:
    facts = {
        "months": chance.randrange(2, 30),
        "money": chance.randrange(2, 20) * 100,
        "day": chance.choice(_DAYS),
        "hour": chance.randrange(18, 22),
        "hours": chance.randrange(2, 5),
        "count": chance.randrange(2, 5),
    }
    return [
        {"category": category, "emoji": emoji, "summary": summary.format(**facts), "detail": detail.format(**facts)}
        for category, emoji, summary, detail in chance.sample(_CATEGORIES, count)
    ]


def _name(chance: random.Random, hints: str) -> str:
    made_up = chance.choice(_FAMILY) + chance.choice(("先生", "女士"))
    found = _NAME.search(hints)
    return made_up if found is None or _ENGLISH_WORD.match(found.group(1)) else found.group(1)


_OBJECTS: dict[str, Callable[[random.Random, str], dict[str, Any]]] = {
    BUILTIN_APP_IDS["app2_finance"]: _finance,
    BUILTIN_APP_IDS["app3_clue"]: _clues,
    BUILTIN_APP_IDS["app4_analysis"]: _analysis,
    BUILTIN_APP_IDS["app5_tactics"]: _tactics,
    BUILTIN_APP_IDS["app6_note"]: _note,
    BUILTIN_APP_IDS["app7_customer"]: _customer,
    BUILTIN_APP_IDS["app8_consolidate"]: _consolidated,
}
