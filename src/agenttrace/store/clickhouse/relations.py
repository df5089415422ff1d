"""What is shown of each table, as relations for FROM clauses: newest rows of the copies that are shown.

ClickHouse pushes conditions of the outer question down to the key of the inner table, and reads just the columns that
are asked for.
"""

from __future__ import annotations

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.batch import UNKNOWN_MODEL
from agenttrace.store.clickhouse.connection import rare

#: Copies that are not shown, as (session, origin); a look at a table that is normally empty. Of equal copies that of
#: the first machine by name is shown, and of a machine that of its latest store.
SHADOWS = """(
    SELECT id, origin FROM (
        SELECT s.id AS id, s.origin AS origin, row_number() OVER (
            PARTITION BY s.id ORDER BY ifNull(c.events, 0) DESC, s.machine, s.revision DESC
        ) AS place
        FROM (SELECT id, origin, machine, revision FROM sessions FINAL WHERE id IN (SELECT session FROM copies)) AS s
        LEFT JOIN (SELECT session, origin, events FROM copies FINAL) AS c ON c.session = s.id AND c.origin = s.origin
    ) WHERE place > 1
)"""


def _test(session: str = "session") -> str:
    """Whether a row is of a copy that is shown."""
    return "1" + rare("copies", f" AND ({session}, origin) NOT IN {SHADOWS}")


def _shown(table: str, session: str = "session") -> str:
    return f"(SELECT * FROM {table} FINAL WHERE {_test(session)})"


SESSIONS = _shown("sessions", "id")
SPANS = _shown("spans")
LINKS = _shown("links")
TOTALS = _shown("totals")
EVENTS = _shown("events")
#: Events by ``:numbers``, between ``:first`` and ``:last``. Numbers are all over the key: their keys are looked up
#: first, in columns that are short, so that lines are read of few granules.
NUMBERED_EVENTS = f"""(
    SELECT * FROM events FINAL PREWHERE (session, origin, event_id) IN (
        SELECT session, origin, event_id FROM events WHERE number IN :numbers AND number BETWEEN :first AND :last
    ) WHERE {_test()}
)"""
REMOVED = _shown("removed")
TEXTS = _shown("texts")
#: Annotations of the copies that are shown, and those that were written here.
ANNOTATIONS = f"""(
    SELECT * FROM annotations FINAL WHERE origin = '' OR ({_test()})
    ORDER BY removed_at IS NULL DESC, revision DESC LIMIT 1 BY annotation_id
)"""


def chosen(relation: str, columns: str, where: str = "") -> str:
    """Some columns of the rows of a relation that meet conditions, each of which begins with AND."""
    return f"(SELECT {columns} FROM {relation} WHERE 1{where})"


# -- responses, each once: see ``ledger`` -----------------------------------------------------------------------------

_FACTS = ("response", "session", "at", "day", "model", "estimated", "copies", "variant", "terms", "revision")
_COLUMNS = (*_FACTS, *USAGE_FIELDS)
#: What a question about usage sums up.
COUNTS = ("requests", "estimated", "copies", *USAGE_FIELDS)
_PLACE = "day, session, model, variant"
_SHARED = "(SELECT response FROM contested)"


def _told(keys: str) -> str:
    """What each machine says of some responses, found by their keys; also of copies that are not shown."""
    return f"""(
    SELECT origin, {", ".join(_COLUMNS)} FROM responses FINAL
    WHERE (session, origin, response) IN (SELECT session, origin, response FROM owners FINAL WHERE response IN {keys})
)"""


def _claims(keys: str) -> str:
    """Those of the sessions that are shown."""
    return f"(SELECT * FROM {_told(keys)} WHERE {_test()})"


def _holders(keys: str) -> str:
    """The sessions that are shown and hold some responses; of most of them only that which owns it on its machine."""
    more = f"""
    UNION DISTINCT SELECT response, session, origin FROM holders FINAL
    WHERE response IN {keys} AND response IN {_SHARED} AND {_test()}"""
    owners = f"SELECT response, session, origin FROM owners FINAL WHERE response IN {keys} AND {_test()}"
    return f"({owners}{more})"


_RANK = f"""(ifNull(s.copied, 1), ifNull(s.born, {2**62}),
    if(s.born IS NULL OR s.last_at IS NULL, 0, assumeNotNull(s.last_at)), h.session)"""
_TOKENS = ", ".join(f"c.{name}" for name in USAGE_FIELDS)
#: As ``ledger.weight`` compares them: the largest output wins.
_WEIGHT = f"""(c.output_tokens, 1 - c.estimated,
    -(c.input_tokens + c.output_tokens + c.cache_read_tokens + c.cache_write_tokens), {_TOKENS})"""
_MODEL = f"ifNull(max(nullIf(c.model, '{UNKNOWN_MODEL}')), '{UNKNOWN_MODEL}')"
_TERMS = """if(uniqExact(c.terms) = 1, any(c.terms),
    arrayStringConcat(arraySort(arrayDistinct(splitByWhitespace(arrayStringConcat(groupArray(c.terms), ' ')))), ' '))"""
_BEST = ", ".join(f"best.{place} AS {name}" for place, name in enumerate(USAGE_FIELDS, 3))


def _owned(keys: str) -> str:
    """By response the session that owns it, and the machines that have a session which holds it."""
    facts = f"SELECT id, copied, born, last_at FROM {SESSIONS} WHERE id IN (SELECT session FROM {_holders(keys)})"
    return f"""(
    SELECT h.response AS response, argMin(h.session, {_RANK}) AS owner, groupUniqArray(h.origin) AS origins
    FROM {_holders(keys)} h LEFT JOIN ({facts}) s ON s.id = h.session GROUP BY response
)"""


def settled(keys: str) -> str:
    """Some responses as they count; ``keys`` is a list or a question, in brackets."""
    return f"""(
    SELECT response, owner AS session, began AS at, first_day AS day, named AS model, best.1 AS estimated,
        told AS copies, best.2 AS variant, joined AS terms, latest AS revision, {_BEST}
    FROM (
        SELECT c.response AS response, any(o.owner) AS owner, min(c.at) AS began,
            argMin(c.day, c.at) AS first_day, {_MODEL} AS named,
            argMax((c.estimated, c.variant, {_TOKENS}), {_WEIGHT}) AS best, sum(c.copies) + count() - 1 AS told,
            {_TERMS} AS joined, max(c.revision) AS latest
        FROM {_told(keys)} c JOIN {_owned(keys)} o ON o.response = c.response WHERE has(o.origins, c.origin)
        GROUP BY response
    )
)"""


_OTHERS = f" AND response NOT IN {_SHARED} UNION ALL SELECT {', '.join(_COLUMNS)} FROM {settled(_SHARED)}"
#: Each response once, in the session that owns it, as far as sessions are shown.
COUNTED = f"""(
    SELECT {", ".join(_COLUMNS)} FROM responses FINAL WHERE {_test()}{rare("contested", _OTHERS)}
)"""
_ONE = f"1 AS requests, toInt64(estimated) AS estimated, copies, {', '.join(USAGE_FIELDS)}"
_LESS = f"-1 AS requests, -toInt64(estimated), -copies, {', '.join(f'-{name}' for name in USAGE_FIELDS)}"
_CORRECTED = f"""
    UNION ALL SELECT {_PLACE}, {_LESS} FROM {_claims(_SHARED)}
    UNION ALL SELECT {_PLACE}, {_ONE} FROM {settled(_SHARED)}"""
#: Sums by day, session, model and what its price depends on; to be summed up once more, as some rows take away.
USAGE = f"""(
    SELECT {_PLACE}, {", ".join(COUNTS)} FROM rollup FINAL WHERE {_test()}{rare("contested", _CORRECTED)}
)"""
