"""What a machine and a team's server say to each other: protocol 1, under ``/team/v1/``.

A page of rows is MessagePack, compressed with zstd. A server serves its own version of the protocol and the one before.
It ignores fields and kinds of rows that it does not know, and counts such rows; a row of a known kind with a wrong
value is refused with the whole page.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import msgspec
import zstandard

from agenttrace.store.rows import ChangesCursor, EventRow, FileOfLines, ResponseRow, Row, StoredSession, StoredSpan
from agenttrace.store.team import Position

#: The version that is spoken here, and the oldest one that is still understood.
PROTOCOL = 1
OLDEST = max(1, PROTOCOL - 1)

PREFIX = "/team/v1/"
JOIN, LEAVE, POSITION, ROWS = f"{PREFIX}join", f"{PREFIX}leave", f"{PREFIX}position", f"{PREFIX}rows"

#: Bytes of a page as it is sent and unpacked, and how many rows it may have.
MOST_SENT = 32 << 20
MOST_UNPACKED = 96 << 20
MOST_ROWS = 20_000
#: Names of machines and persons.
LONGEST_NAME = 64

_COMPRESSION_LEVEL = 3
#: A frame that needs a larger window costs its reader more memory than a page may have.
_MOST_WINDOW = 1 << 27
_LEAST, _MOST = -(2**63), 2**63 - 1
_WORD = re.compile(r"[a-z_-]{1,32}")
_IDS = {"span_id": 8, "trace_id": 16, "parent_id": 8, "response": 16}
_NUMBERS = frozenset({"id", "session", "number", "file_id", "revision", "last_event"})
_LONGEST_KEY = 64


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A machine asks for a token; ``person`` counts where the invitation names none."""

    code: str
    name: str
    person: str | None = None
    #: What all members of the team see of the machine's sessions.
    share: Literal["full", "figures"] = "figures"
    protocol: int = PROTOCOL


class JoinReply(msgspec.Struct, frozen=True, kw_only=True):
    """The token of a machine, the name it has in the team, and whose it is."""

    token: str
    machine: str
    person: str
    team: str = ""
    protocol: int = PROTOCOL


class PositionReply(msgspec.Struct, frozen=True, kw_only=True):
    """How far the rows of a machine are stored."""

    position: Position | None = None


class RowsReply(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows were stored, and how many were of an unknown kind."""

    stored: int
    ignored: int = 0


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused, and with status 409 what is stored, with 426 which versions are served."""

    detail: str = ""
    position: Position | None = None
    protocols: tuple[int, int] | None = None


class SentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of changes of the machine that sends it; ``after`` and ``until`` say where it begins and ends."""

    protocol: int
    store: str
    after: ChangesCursor
    until: ChangesCursor
    #: The end of an earlier page without an answer, a part of which may be stored; older machines do not say.
    previous: ChangesCursor | None = None
    rows: list[Row]


class ReceivedPage(NamedTuple):
    """A page as a server reads it."""

    page: SentPage
    #: Rows of kinds that this version does not know.
    ignored: int


class BadPageError(ValueError):
    """A page that cannot be read, with the reason."""


class TooLargeError(BadPageError):
    """A page that has too many bytes or rows."""


class OtherProtocolError(BadPageError):
    """A page of a version that is not served."""


class _LoosePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page whose rows are not read yet."""

    protocol: int
    store: str
    after: ChangesCursor
    until: ChangesCursor
    previous: ChangesCursor | None = None
    rows: list[msgspec.Raw]


class _Kind(msgspec.Struct, frozen=True):
    type: str


_page_decoder = msgspec.msgpack.Decoder(SentPage)
_loose_decoder = msgspec.msgpack.Decoder(_LoosePage)
_row_decoder: msgspec.msgpack.Decoder[Row] = msgspec.msgpack.Decoder(Row)
_kind_decoder = msgspec.msgpack.Decoder(_Kind)
_encoder = msgspec.msgpack.Encoder()
_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in Row.__args__)


# -- sending -------------------------------------------------------------------------------------------------------


def packed(page: SentPage) -> bytes:
    """A page as it is sent; ``TooLargeError`` where no server would take it."""
    try:
        plain = _encoder.encode(page)
    except UnicodeEncodeError:
        # A name of a file may have bytes that are no text.
        plain = _encoder.encode(speakable(page))
    body = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(plain)
    if len(plain) > MOST_UNPACKED or len(body) > MOST_SENT:
        raise TooLargeError(f"a row has {len(plain) >> 20} MiB, more than servers take")
    return body


def speakable(value: Any) -> Any:  # noqa: ANN401 - any part of a page
    """The same without characters that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, msgspec.Struct):
        parts = {name: speakable(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **parts)
    return [speakable(each) for each in value] if isinstance(value, list) else value


# -- receiving -----------------------------------------------------------------------------------------------------


def unpacked(body: bytes) -> ReceivedPage:
    """A page that was sent; ``BadPageError`` says what is wrong with it."""
    if len(body) > MOST_SENT:
        raise TooLargeError(f"the page has more than {MOST_SENT >> 20} MiB")
    plain = decompressed(body)
    try:
        found = ReceivedPage(_page_decoder.decode(plain), 0)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = _known_rows(plain)
    page = found.page
    check_protocol(page.protocol)
    if len(page.rows) > MOST_ROWS:
        raise TooLargeError(f"the page has more than {MOST_ROWS:,} rows")
    if not 0 < len(page.store) <= LONGEST_NAME:
        raise BadPageError("the name of the store is empty or too long")
    for row in page.rows:
        check_row(row)
    return found


def check_protocol(version: int) -> None:
    """Raise where a version is not served."""
    if not OLDEST <= version <= PROTOCOL:
        raise OtherProtocolError(f"this server serves the versions {OLDEST} to {PROTOCOL} of the protocol")


def decompressed(body: bytes) -> bytes:
    """What was compressed, as far as a server takes it; ``BadPageError``."""
    try:
        with zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).stream_reader(body) as reader:
            plain = reader.read(MOST_UNPACKED + 1)
    except zstandard.ZstdError as error:
        raise BadPageError(f"the body is not zstd ({error})") from None
    if len(plain) > MOST_UNPACKED:
        raise TooLargeError(f"the unpacked page has more than {MOST_UNPACKED >> 20} MiB")
    return plain


def _known_rows(plain: bytes) -> ReceivedPage:
    """The page without rows of unknown kinds."""
    try:
        loose = _loose_decoder.decode(plain)
        if len(loose.rows) > MOST_ROWS:
            raise TooLargeError(f"the page has more than {MOST_ROWS:,} rows")
        check_protocol(loose.protocol)
        known = [row for row in loose.rows if _kind_decoder.decode(row).type in _KINDS]
        rows = [_row_decoder.decode(row) for row in known]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadPageError(f"the page cannot be read ({error})") from None
    parts = {name: getattr(loose, name) for name in ("protocol", "store", "after", "until", "previous")}
    return ReceivedPage(SentPage(**parts, rows=rows), len(loose.rows) - len(known))


def check_row(row: Row) -> None:
    """Raise for values that a store cannot hold, or could not answer questions with."""
    record: msgspec.Struct = row.session if isinstance(row, StoredSession) else row
    for name in record.__struct_fields__:
        _check_value(name, getattr(record, name), of_span=isinstance(row, StoredSpan | ResponseRow))
    _check_value("revision", getattr(row, "revision", 0))
    words: tuple[str, ...] = ()
    if isinstance(row, StoredSession):
        words = (row.session.state,)
    elif isinstance(row, StoredSpan):
        words = (row.kind, row.status)
        _check_json(row.attributes)
    elif isinstance(row, FileOfLines):
        _check_json(row.source)
    elif isinstance(row, EventRow) and not 0 < len(row.event_id) <= _LONGEST_KEY:
        raise BadPageError("the id of an event is empty or too long")
    for word in words:
        if not _WORD.fullmatch(word):
            raise BadPageError(f"{word[:50]!r} is neither a state nor a kind")


def _check_value(name: str, value: object, *, of_span: bool = False) -> None:
    if isinstance(value, bytes):
        if of_span and len(value) != _IDS[name]:
            raise BadPageError(f"{name} has {len(value)} bytes, not {_IDS[name]}")
    elif isinstance(value, int):
        least = 0 if name in _NUMBERS else _LEAST
        if not least <= value <= _MOST:
            raise BadPageError(f"{name} is {value}, which no store can hold")
    elif isinstance(value, float):
        if not abs(value) < _MOST:  # also what is no number
            raise BadPageError(f"{name} is {value}, which no store can hold")
    elif isinstance(value, msgspec.Struct):
        for part in value.__struct_fields__:
            _check_value(part, getattr(value, part))
            if getattr(value, part) < 0:
                raise BadPageError(f"{part} is less than 0")


def _check_json(text: str | bytes | None) -> None:
    """Raise for what the store could not look into later."""
    if text is None:
        return
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadPageError("attributes are no JSON object") from None
