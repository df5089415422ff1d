"""CPU of one lookup in each tier of the deduplicator."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from agenttrace.record.ingest.dedup import Tiers
from agenttrace.store.sqlite.database import connect, transaction
from agenttrace.store.sqlite.store import SqliteStore

_STORED = 1_000_000
_ASKED = 10_000
_SESSIONS = 200


def microseconds(work: Path) -> dict[str, float]:
    """CPU microseconds per id, for L0, L1 and L2, with a store of a million events."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    connection = connect(work / "agenttrace.db")
    ids = [hashlib.sha256(str(number).encode()).digest()[:16] for number in range(_STORED)]
    with transaction(connection):
        connection.executemany(
            "INSERT INTO processed_events (event_id, session_id, turn_index, step_n, event_type, processed_at) "
            "VALUES (?, ?, 0, 0, 'message', 0)",
            ((event_id, number % _SESSIONS) for number, event_id in enumerate(ids)),
        )
    asked = ids[7::_SESSIONS][:_ASKED]
    tiers = Tiers(SqliteStore(connection, work / "agenttrace.db"))
    taken = {"L2, in batches": _spent(tiers, asked)}
    taken["L1"] = _spent(tiers, asked)  # the answers of the store are cached now
    tiers.session(7, new=False).ids.update(asked)
    taken["L0"] = _spent(tiers, asked)
    assert tiers.hits == {"l0": len(asked), "l1": len(asked), "l2": len(asked)}, tiers.hits
    connection.close()
    return dict(reversed(taken.items()))


def _spent(tiers: Tiers, asked: list[bytes]) -> float:
    session = tiers.session(7, new=False)
    began = time.process_time()
    for start in range(0, len(asked), 500):
        assert len(tiers.known(session, asked[start : start + 500])) == len(asked[start : start + 500])
    return (time.process_time() - began) / len(asked) * 1e6
