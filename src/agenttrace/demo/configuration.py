"""The settings of the demo as an ``agenttrace.toml``: a destination, rules that fire, and a budget at 80 %."""

from __future__ import annotations

import time
from pathlib import Path

#: How much of the budget is used at the beginning; what the agents do live comes on top.
BUDGET_SHARE = 0.797
#: Rules fire for what happened in so many days, so that their log is not empty.
_RULE_DAYS = 3
_DAY = 86_400

_FILE = """# The settings of this demo. Everything in it is on this machine, and removed when the demo ends.
[usage]
currency = "USD"
exchange_rate = 7.1

[record]
waiting_hours = 1

[export]
quiet_seconds = 3

[destinations.collector]
type = "otlp"
url = "{url}/v1/traces"
start = "all"

[rules.failed-tools]
title = "A command failed"
on = "tool.failed"
start = "{since}"
cooldown = "20s"
do = ["team-chat"]

[rules.budget]
title = "80 % of the budget is used"
on = "budget.crossed"
where = {{ at_least = 0.8 }}
do = ["team-chat"]

[rules.waiting]
title = "An agent waits for me"
on = "session.waiting"
where = {{ agent = ["claude-code", "codex"] }}
settle = "2s"
do = ["team-chat"]
mode = "dry"

[actions.team-chat]
type = "webhook"
url = "{url}/hook"
allow_private = true
"""

_NAMES = {"month": "monthly", "week": "weekly", "day": "daily"}
_BUDGET = """
[budgets.{name}]
period = "{period}"
limit = {limit}
where = {{ agent = "{agent}" }}
"""


def write_settings(home: Path, url: str, *, now: float | None = None) -> None:
    """Write the settings into a data directory; ``url`` is that of the collector."""
    since = time.strftime("%Y-%m-%d", time.localtime((time.time() if now is None else now) - _RULE_DAYS * _DAY))
    (home / "agenttrace.toml").write_text(_FILE.format(url=url, since=since), encoding="utf-8")


def write_budget(home: Path, period: str, agent: str, spent: float) -> None:
    """Add a budget of one agent, of which nearly 80 % is spent."""
    with (home / "agenttrace.toml").open("a", encoding="utf-8") as file:
        file.write(
            _BUDGET.format(
                name=_NAMES.get(period, period), period=period, agent=agent, limit=round(spent / BUDGET_SHARE, 4)
            )
        )
