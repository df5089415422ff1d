"""``agenttrace usage --check``: sessions against the totals that their agents write."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.model import Session
    from agenttrace.store.questions import Agreement

_COLUMNS = (
    Column("session", least=14),
    Column("agent", optional=1),
    Column("ours", right=True),
    Column("agent's", right=True),
    Column("difference", least=12),
    Column("why", least=20),
)


def show_check(settings: Settings, since: int | None, *, as_json: bool) -> int:
    """Compare all sessions, print what came of it; how many differ."""
    from agenttrace.store.questions import NOTHING, SessionFilter

    with opening.opened_store(settings) as store:
        told = store.sessions_with_totals()
        sessions = store.sessions(SessionFilter(since=since))
        found = [(session, store.agreement(session.id) if session.id in told else NOTHING) for session in sessions]
    differing = [entry for entry in found if entry[1].status == "differ"]
    counts: Counter[str] = Counter(agreement.status for _, agreement in found)
    if as_json:
        _print_json(counts, found)
    else:
        _print(counts, differing, sum(agreement.checked for _, agreement in found))
    return len(differing)


def _print_json(counts: Counter[str], found: list[tuple[Session, Agreement]]) -> None:
    import msgspec

    listed = [
        {"session_id": session.session_id, "agent": session.agent, **msgspec.to_builtins(agreement)}
        for session, agreement in found
        if agreement.status != "nothing"
    ]
    totals = {status: counts[status] for status in ("agree", "differ", "nothing")}
    output.print_json({**totals, "sessions": listed})


def _print(counts: Counter[str], differing: list[tuple[Session, Agreement]], checked: int) -> None:
    if differing:
        print_table(_COLUMNS, [_row(session, agreement) for session, agreement in differing])
        output.say()
    named = {"agree": "agree", "differ": "differ", "nothing": "nothing to check by"}
    for status, name in named.items():
        number = figures.counted(counts[status], "session")
        more = f" ({figures.counted(checked, 'request')} checked)" if status == "agree" else ""
        output.say(f"{name:<19}  {number}{more}", "yellow" if status == "differ" and differing else "")


def _row(session: Session, agreement: Agreement) -> list[Any]:
    from agenttrace.views.agreement import difference, reason

    name = one_line(session.session_id.removeprefix("session_"))[:8]
    return [
        f"{name}  {one_line(title_of(session), 40)}",
        opening.agent_title(session.agent),
        figures.count(sum(agreement.counted.values())),
        figures.count(sum(agreement.claimed.values())),
        difference(agreement.difference),
        "; ".join(map(reason, agreement.reasons)),
    ]
