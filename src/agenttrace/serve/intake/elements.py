"""How many spans, attributes and other repeated parts a protobuf message has, found out before it is parsed.

A part that takes two bytes on the wire takes a hundred in memory: sixteen megabytes of them would take more than one
gigabyte, and most of a minute.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Field(NamedTuple):
    repeated: bool
    #: The kind of message that it holds; None for a text, bytes or packed numbers.
    message: Descriptor | None


@cache
def _fields(message: Descriptor) -> dict[int, _Field]:
    """The fields that hold bytes, by number."""
    return {field.number: _Field(field.is_repeated, field.message_type) for field in message.fields}


def has_more_elements(body: bytes, message: Descriptor, most: int) -> bool:
    """Whether the body, read as this message, has more than ``most`` repeated parts in all.

    Bytes that are no such message are left to whoever parses them.
    """
    found = 0
    pending = [(0, len(body), message)]
    while pending:
        at, end, kind = pending.pop()
        fields = _fields(kind)
        while at < end:
            try:
                tag, at = _varint(body, at)
                wire = tag & 7
                if wire == _BYTES:
                    length, at = _varint(body, at)
                    field = fields.get(tag >> 3)
                    if field is not None:
                        found += field.repeated
                        if found > most:
                            return True
                        if field.message is not None and length:
                            pending.append((at, min(at + length, end), field.message))
                    at += length
                elif wire == _VARINT:
                    _, at = _varint(body, at)
                else:
                    # The beginning and the end of a group have no bytes of their own.
                    at += {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
            except IndexError:
                break
    return False


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends."""
    byte = body[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
        if shift > 63:
            raise IndexError
