"""Lists of rules and firings."""

from __future__ import annotations

from agenttrace.serve.api.shapes.base import Shape
from agenttrace.views.rules import Rule, RuleAction, RuleEventKind, RuleFiring


class RuleEngineState(Shape):
    """Whether the rules are run."""

    running: bool
    pid: int | None


class RuleApp(Shape):
    """An application of the catalog."""

    name: str
    #: In the language of the catalog, and by language where it has several.
    title: str
    titles: dict[str, str]
    #: Environment variables that are not set, without which it cannot be called.
    missing: list[str]


class RuleList(Shape):
    """All rules and actions, with those that ship."""

    engine: RuleEngineState
    #: Why the rules of the files cannot be read now; the rules are then those that ship.
    problem: str | None
    #: The user's own file, and the one that the console writes.
    file: str
    console_file: str
    items: list[Rule]
    actions: list[RuleAction]
    #: The applications that a chain can call, and why there are none.
    apps: list[RuleApp]
    apps_problem: str | None
    events: list[RuleEventKind]


class RuleFiringList(Shape):
    """What rules decided, the latest first."""

    items: list[RuleFiring]
    next: str | None


class RuleChange(Shape):
    """The name of what was changed."""

    name: str


class RuleRetry(Shape):
    """Whether a firing was queued again."""

    id: int
    queued: bool
