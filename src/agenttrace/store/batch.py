"""What a recorder hands to the store at once: the rows of a batch, and how far each file was read."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from agenttrace.model import Session, Span, Usage
from agenttrace.store.questions import ProviderWindow

#: Blocks that a file may have; a block's number is the file's number and the block's place in it.
BLOCK_BITS = 20
#: Of raw lines, by zstd.
COMPRESSION_LEVEL = 1

_encode_attributes = msgspec.json.Encoder().encode


#: The fingerprint of a file whose size does not tell how far it was read: ``offset`` counts something else than bytes.
UNSIZED = "0:d41d8cd98f00b204e9800998ecf8427e"


#: What a copy says that does not name the model; any name is better.
UNKNOWN_MODEL = "unknown"


class FileRow(msgspec.Struct, kw_only=True):
    """How far a log file was read, by what it is recognised again, and what became of its lines."""

    filepath: str
    offset: int = 0
    inode: int | None = None
    fingerprint: str | None = None
    file_size: int = 0
    last_read_at: float = 0.0
    read_count: int = 0
    file_id: int = 0
    device: int | None = None
    mtime_ns: int | None = None
    head_length: int = 0
    tail_hash: str | None = None
    generation: int = 0
    blocks: int = 0
    source: bytes | None = None
    lines: int = 0
    recorded: int = 0
    duplicate: int = 0
    ignored: int = 0
    quarantined: int = 0
    lost_bytes: int = 0
    error: str | None = None
    gone_at: float | None = None
    #: Of the quarantined lines those that are only counted, and up to which place they are.
    counted_only: int = 0
    counted_end: int = 0


class Claim(NamedTuple):
    """One mention of a response's usage, in one session."""

    response: bytes
    session: int
    at: int
    model: str
    estimated: bool
    #: How often the batch logged it beyond the first time; -1: only in lines whose events were recorded before. Such
    #: a claim counts no mention, and it may raise the usage of a response that is known, never add one.
    copies: int
    usage: Usage
    #: How it was served, where prices depend on that: ``fast``, ``us``.
    terms: str = ""
    #: After how many events of the batch it was told first.
    order: int = 0


class Batch(msgspec.Struct, kw_only=True):
    """Everything that one transaction records. What comes in thousands is a tuple in the order that is given here."""

    #: Event id, session, turn, step, type, span id, time of processing, block and place in it.
    events: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    #: Number, file, generation, lines, size, time, offsets, and the compressed lines.
    blocks: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    #: File, path, generation, offset, length, digest, reason, salvaged events, time, and the compressed line.
    quarantine: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    #: When, and which entries of the quarantine: by file and reason.
    resolved: list[tuple[float, int, str]] = msgspec.field(default_factory=list)
    #: See ``span_row``.
    spans: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    sessions: list[Session] = msgspec.field(default_factory=list)
    #: Session, stream, and what folding remembers of it.
    streams: list[tuple[int, str, bytes]] = msgspec.field(default_factory=list)
    #: Session, stream of a subagent, and the stream and call that started it.
    links: list[tuple[int, str, str, str]] = msgspec.field(default_factory=list)
    claims: list[Claim] = msgspec.field(default_factory=list)
    #: See ``totals.told_row``.
    totals: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    #: Windows of the providers' limits, as the logs have them.
    limits: list[ProviderWindow] = msgspec.field(default_factory=list)
    #: Sessions that become part of another one: both, and which turn of that they are.
    absorbed: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    #: Sessions known from telemetry alone so far, of which a log was found.
    logged: list[int] = msgspec.field(default_factory=list)
    #: Sessions known from telemetry alone, also after this batch.
    told: set[int] = msgspec.field(default_factory=set)
    #: When sessions began to wait for the user: session, number of the wait, turn and time.
    waits: list[tuple[int, int, int, int]] = msgspec.field(default_factory=list)
    #: By how much each counter grows.
    counters: dict[str, int] = msgspec.field(default_factory=dict)
    #: Where reading stands once the batch is stored.
    files: list[FileRow] = msgspec.field(default_factory=list)


def span_row(span: Span, session: int, stream: str) -> tuple[Any, ...]:
    """A span as a row of a batch."""
    return (
        span.span_id,
        span.trace_id,
        span.parent_id,
        session,
        stream,
        span.kind,
        span.name,
        span.start,
        span.end,
        span.status,
        span.model,
        span.turn_index,
        span.step_n,
        span.response,
        _encode_attributes(span.attributes).decode() if span.attributes else None,
    )
