"""Rules, their actions, and budgets: the ``[rules.NAME]``, ``[actions.NAME]`` and ``[budgets.NAME]`` tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from agenttrace.destinations import VARIABLE, filled, is_address
from agenttrace.projects import project_matches as project_matches

EventKind = Literal[
    "session.waiting",
    "session.ended",
    "session.stuck",
    "turn.failed",
    "tool.failed",
    "budget.crossed",
    "limit.crossed",
    "secret.found",
    "quarantine.grew",
    "export.refused",
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
Once = Literal["session", "turn", "span", "crossing"]
RuleMode = Literal["on", "dry", "off"]
Period = Literal["day", "week", "month", "session"]
ActionType = Literal["chain", "webhook", "notify", "command"]
ChainInput = Literal["outline", "conversation", "transcript", "turn", "span"]
MessageFormat = Literal["json", "slack", "teams", "dingtalk", "feishu"]

Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Text = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$")]
Texts = Annotated[tuple[Text, ...], msgspec.Meta(max_length=1000)]
Amount = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Share = Annotated[float, msgspec.Meta(gt=0, le=10)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400 * 366)]
Start = Annotated[str, msgspec.Meta(pattern=r"^(now|all|\d{4}-\d{2}-\d{2})$")]

#: How often each kind of event fires a rule that does not say it.
_ONCE: dict[EventKind, Once] = {
    # A session may wait several times in a turn: for permissions, and at its end.
    "session.waiting": "crossing",
    "session.ended": "session",
    "session.stuck": "turn",
    "turn.failed": "turn",
    "tool.failed": "span",
    "budget.crossed": "crossing",
    "limit.crossed": "crossing",
    "secret.found": "crossing",
    "quarantine.grew": "crossing",
    "export.refused": "crossing",
}
#: Silence, in seconds, before an event of these kinds counts. Most agents do not log that a session has ended.
_SETTLE: dict[EventKind, float] = {"session.ended": 300.0, "session.stuck": 300.0}
#: For users of the API: what a kind of event means where a rule does not say it.
DEFAULT_ONCE, DEFAULT_SETTLE = MappingProxyType(_ONCE), MappingProxyType(_SETTLE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
T = TypeVar("T", bound=msgspec.Struct)


class Where(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events of a kind a rule is about, or which usage a budget; every field that is set must match."""

    agent: Texts = ()
    #: Names of directories, whole paths, or globs of paths.
    project: Texts = ()
    #: Globs.
    model: Texts = ()
    branch: Texts = ()
    #: Globs; in a team's store, the machine that recorded the session and the person it belongs to.
    machine: Texts = ()
    person: Texts = ()
    tool: Texts = ()
    label: Texts = ()
    budget: Texts = ()
    destination: Texts = ()
    #: Kinds of secrets, as masking names them. Without it: those that are told by their own form.
    secret: Texts = ()
    #: Of the session, in ``usage.currency``; a session without a known price has no cost.
    min_cost: Amount | None = None
    min_tokens: Tokens | None = None
    min_turns: Tokens | None = None
    min_minutes: Amount | None = None
    #: Sessions with errors, or without any.
    errors: bool | None = None
    #: How far a budget or limit is used, such as 0.8.
    at_least: Share | None = None


#: What a budget can be about.
BUDGET_FIELDS = ("agent", "project", "model", "machine", "person")


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule."""

    name: Name
    on: EventKind
    do: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=20)]
    where: Where = Where()
    #: Silence of the session before the event counts.
    settle: Seconds = 0.0
    #: The share of sessions, chosen by hash: a replay decides the same.
    sample: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    once: Once
    #: At most one message in this time; what is held back is a part of the next one.
    cooldown: Seconds = 0.0
    max_per_day: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200
    tokens_per_day: Tokens | None = None
    start: Start = "now"
    mode: RuleMode = "on"
    #: Shown in lists and messages.
    title: str = ""
    #: ``file``, ``console`` or ``ready``: where it was written.
    origin: str = "file"


class ActionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action."""

    name: Name
    type: ActionType
    # chain
    apps: tuple[Name, ...] = ()
    input: ChainInput = "transcript"
    max_chars: Annotated[int, msgspec.Meta(ge=100, le=2_000_000)] = 40_000
    #: What is stored of the answers beside the session.
    keep: tuple[Literal["note", "score", "label"], ...] = ("note",)
    # webhook
    url: Text | None = None
    format: MessageFormat = "json"
    #: Signs the body of JSON messages, and those of DingTalk and Feishu as they do it.
    secret: Text | None = None
    headers: Mapping[str, Text] = MappingProxyType({})
    allow_private: bool = False
    # command
    argv: tuple[str, ...] = ()
    stdin: Literal["event", "transcript", "none"] = "event"
    # all
    #: Of messages, and of the prompts of a chain.
    language: Literal["en", "zh"] = "en"
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 30.0
    origin: str = "file"
    #: Environment variables that its table names and that are not set.
    missing: tuple[str, ...] = ()
    #: ``url`` and ``secret`` as they are written, where they are an environment variable and nothing else.
    written: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"ActionSettings(name={self.name!r}, type={self.type!r})"


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What agents may spend in a period: money in ``usage.currency``, or tokens."""

    name: Name
    period: Period
    limit: Amount | None = None
    tokens: Tokens | None = None
    warn: Annotated[tuple[Share, ...], msgspec.Meta(min_length=1, max_length=20)] = (0.5, 0.8, 1.0)
    where: Where = Where()


class BadRuleError(ValueError):
    """A rule, an action or a budget that cannot be used."""

    def __init__(self, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{key} {problem}. {fix}")
        self.key, self.problem, self.fix = key, problem, fix


#: What each type of action cannot do without.
_NEEDED: dict[str, str] = {"chain": "apps", "webhook": "url", "command": "argv"}
#: What may be an environment variable in actions of the console.
_SECRETS = ("url", "secret")
#: Headers that each request of a webhook has by itself: one key for one firing, whatever its action says.
_OWN_HEADERS = frozenset(
    {"idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature", "content-length", "transfer-encoding"}
)
_OF_ALL = ("language", "timeout_seconds")
#: The fields of each type of action, beside those of all.
_FIELDS: dict[str, tuple[str, ...]] = {
    "chain": ("apps", "input", "max_chars", "keep"),
    "webhook": ("url", "format", "secret", "headers", "allow_private"),
    "notify": (),
    "command": ("argv", "stdin", "input", "max_chars"),
}


def parse_rule(name: str, table: object, origin: str = "file") -> RuleSettings:
    """A rule from its table."""
    given = _table(table, f"[rules.{name}]", RuleSettings, ("name", "origin"))
    if given.get("on") not in EVENT_KINDS:
        raise BadRuleError("on", f"is {given.get('on')!r}", f"Give one of {', '.join(EVENT_KINDS)}.")
    given["where"] = _where(given.get("where", {}))
    given["do"] = _listed(given.get("do", []))
    for key in ("settle", "cooldown"):
        if key in given:
            given[key] = _duration(key, given[key])
    given.setdefault("settle", _SETTLE.get(given["on"], 0.0))
    given.setdefault("once", _ONCE[given["on"]])
    return _converted({**given, "name": name, "origin": origin}, RuleSettings)


def parse_action(name: str, table: object, environ: Mapping[str, str], origin: str = "file") -> ActionSettings:
    """An action from its table; ``${NAME}`` in a text stands for an environment variable."""
    given = _table(table, f"[actions.{name}]", ActionSettings, ("name", "origin", "missing", "written"))
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise BadRuleError("type", f"is {kind!r}", f"Give one of {', '.join(_FIELDS)}.")
    for key in given:
        if key not in (*_FIELDS[kind], *_OF_ALL, "type"):
            fix = f"An action of type {kind} has: {', '.join((*_FIELDS[kind], *_OF_ALL))}."
            raise BadRuleError(key, "is not a setting", fix)
    if kind == "command" and origin != "file":
        raise BadRuleError("type", "is 'command'", "Commands are only run from agenttrace.toml.")
    if origin == "console":
        _check_variables(given)
    missing: list[str] = []
    values = {key: filled(value, environ, missing) for key, value in given.items()}
    for key in ("apps", "keep"):
        if key in values:
            values[key] = _listed(values[key])
    written = {key: given[key] for key in _SECRETS if _is_variable(given.get(key))}
    known = {"name": name, "origin": origin, "missing": missing, "written": written}
    found = _converted({**values, **known}, ActionSettings)
    needed = _NEEDED.get(kind)
    if needed is not None and not getattr(found, needed):
        raise BadRuleError(needed, "is missing", f"An action of type {kind} needs it.")
    if found.url is not None and not found.missing and not is_address(found.url):
        raise BadRuleError("url", "is no address", "Give one that begins with https:// or http://.")
    for header in found.headers:
        if header.strip().lower() in _OWN_HEADERS:
            raise BadRuleError(f"headers.{header}", "is set by AgentTrace for each request", "Remove it.")
    return found


def _is_variable(value: object) -> bool:
    return isinstance(value, str) and VARIABLE.fullmatch(value) is not None


def _check_variables(given: Mapping[str, Any]) -> None:
    """A user of the console must not be able to send variables of this machine elsewhere."""
    for key, value in given.items():
        texts = value.values() if isinstance(value, dict) else [value]
        if any(isinstance(each, str) and VARIABLE.search(each) for each in texts) and not (
            key in _SECRETS and _is_variable(value)
        ):
            fix = "In the console only a whole url or secret can be one. Write this action into agenttrace.toml."
            raise BadRuleError(key, "has an environment variable in it", fix)


def parse_budget(name: str, table: object) -> BudgetSettings:
    """A budget from its table."""
    given = _table(table, f"[budgets.{name}]", BudgetSettings, ("name",))
    given["where"] = _where(given.get("where", {}))
    found = _converted({"period": "month", **given, "name": name}, BudgetSettings, "docs/limits.md")
    if (found.limit is None) == (found.tokens is None):
        raise BadRuleError("limit", "or tokens must be given, and not both", "Write limit = 30, or tokens = 5_000_000.")
    odd = [field for field in Where.__struct_fields__ if field not in BUDGET_FIELDS]
    for field in odd:
        if getattr(found.where, field) != getattr(Where(), field):
            raise BadRuleError(f"where.{field}", "is not a setting", f"A budget has where.{', '.join(BUDGET_FIELDS)}.")
    return msgspec.structs.replace(found, warn=tuple(sorted(set(found.warn))))


def _table(table: object, title: str, struct: type[msgspec.Struct], hidden: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise BadRuleError("", "is not a table", f"Write {title} on a line of its own and its settings below it.")
    valid = [field for field in struct.__struct_fields__ if field not in hidden]
    for key in table:
        if key not in valid:
            raise BadRuleError(str(key), "is not a setting", f"Valid here: {', '.join(valid)}.")
    return {key: _plain(value) for key, value in table.items()}


def _where(given: object) -> object:
    if not isinstance(given, dict):
        raise BadRuleError("where", "is not a table", 'Write where = { agent = "codex" }.')
    for key in given:
        if key not in Where.__struct_fields__:
            fix = f"Valid here: {', '.join(Where.__struct_fields__)}."
            raise BadRuleError(f"where.{key}", "is not a setting", fix)
    return {key: _listed(value) if isinstance(value, str) else value for key, value in given.items()}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _duration(key: str, value: object) -> float:
    """Seconds of a text such as ``2m`` or ``1h 30m``, or of a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", text):
        raise BadRuleError(key, f"is {value!r}", 'Give a time such as "90s", "2m" or "1h 30m".')
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def _plain(value: Any) -> Any:  # noqa: ANN401 - part of a TOML table
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def _converted(given: dict[str, Any], struct: type[T], guide: str = "docs/rules.md") -> T:
    try:
        return msgspec.convert(given, struct, strict=True)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        key = (place.strip("`$.") or "name").split("[")[0]
        choices = _choices(get_type_hints(struct).get(key))
        fix = f"Give one of {', '.join(choices)}. " if choices else ""
        raise BadRuleError(key, f"cannot be used ({problem})", f"{fix}{guide} has examples.") from None


def _choices(hint: object) -> tuple[str, ...]:
    """The values of a field that has certain ones."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(each for part in get_args(hint) for each in _choices(part))
