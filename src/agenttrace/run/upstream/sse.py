"""Streams of server-sent events: from bytes as they arrive to frames, and from frames to the deltas of a text.

Lines end at newline *bytes* only: raw U+2028 and U+0085 are ordinary text, and splitting there would lose it.
"""

from __future__ import annotations

import re
from itertools import pairwise

from agenttrace.run.errors import DashScopeApiError
from agenttrace.run.upstream.wire import MAX_BYTES, Frame, ProviderReply

_STATUSES = frozenset(b"%d" % status for status in range(100, 600))
#: A frame as DashScope writes them; taken whole, at a fifth of the cost of five lines one by one.
_USUAL = re.compile(rb"id:\d+\nevent:result\n:HTTP_STATUS/200\ndata:([^ \n\r][^\n\r]*)\n\n")


class FrameSplitter:
    """Cuts a stream of bytes into server-sent events, however the bytes arrive."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._begin()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        frames, begin = [], 0
        if not self._tail and not self._size:
            while found := _USUAL.match(data, begin):
                if len(found[0]) > self._limit:
                    break
                frames.append(Frame("result", 200, found[1]))
                begin = found.end()
        *lines, rest = data[begin:].split(b"\n")
        if lines and self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail, self._tail_size = [], 0
        for line in lines:
            if (frame := self._take(line)) is not None:
                frames.append(frame)
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            self._check_size()
        return frames

    def close(self) -> list[Frame]:
        """The frame that the end of the stream completes, if the server left out the empty line after it."""
        return self.feed(b"\n\n")

    def _begin(self) -> None:
        self._event, self._status, self._size = "", 200, 0
        self._data: list[bytes] = []

    def _check_size(self) -> None:
        if self._size + self._tail_size > self._limit:
            raise DashScopeApiError(f"a frame of the stream is larger than {self._limit} bytes", 200)

    def _take(self, line: bytes) -> Frame | None:
        line = line.removesuffix(b"\r")
        if not line:
            return self._dispatch()
        self._size += len(line)
        self._check_size()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.decode("utf-8", "replace").strip()
        elif not name and value.startswith(b"HTTP_STATUS/") and value[12:].strip() in _STATUSES:
            self._status = int(value[12:])
        return None

    def _dispatch(self) -> Frame | None:
        frame = Frame(self._event, self._status, b"\n".join(self._data))
        self._begin()
        return frame if frame.data or frame.event == "error" or frame.status >= 400 else None


class DeltaReader:
    """Turns the texts of a stream's frames into deltas, whichever way the application streams.

    Deltas are what we ask for, but some applications repeat the whole text in every frame. Which it is shows when a
    frame does not begin with the one before (deltas), or has done so often enough to be no accident (whole texts).
    Until then the second and later frames are held back, so that nothing is ever shown twice.
    """

    #: A frame that begins with this many characters of the one before, of at least four kinds, is no accident.
    DECISIVE_LENGTH = 8
    #: So many frames are held back at most; then what is more likely has to do.
    MOST_HELD = 16

    def __init__(self, *, cumulative: bool | None = None) -> None:
        #: None: not known yet.
        self._cumulative = cumulative
        self._undecided: list[str] = []
        self._whole = ""
        self._parts: list[str] = []
        self._size = 0
        self._workflow = False
        #: Whether any text has arrived, delivered or held back.
        self.started = False

    @property
    def text(self) -> str:
        """All deltas so far."""
        return "".join(self._parts)

    def feed(self, reply: ProviderReply) -> str:
        """The delta that this frame brings; may be empty."""
        if not self._workflow and not reply.node_text:
            return self._keep(self._delta(reply.text, final=bool(reply.finish_reason)))
        held = self._settle(cumulative=False) if self._undecided else ""
        self._workflow = self.started = True
        delta = self._keep(held + reply.node_text)
        return delta + self._keep(self._unseen(reply.text))

    def _keep(self, delta: str) -> str:
        if delta:
            self._parts.append(delta)
            self._size += len(delta)
            if self._size > MAX_BYTES:
                raise DashScopeApiError(f"the streamed text is longer than {MAX_BYTES} characters", 200)
        return delta

    def _unseen(self, text: str) -> str:
        # A workflow's last frame carries the complete text of its end node, which its nodes may have streamed already.
        if not text or text in (seen := self.text):
            return ""
        return text[len(seen) :] if text.startswith(seen) else text

    def _delta(self, text: str, *, final: bool) -> str:
        self.started = self.started or bool(text)
        if self._cumulative is None:
            return self._decide(text, final=final)
        if not self._cumulative:
            return text
        if text.startswith(self._whole):
            delta, self._whole = text[len(self._whole) :], text
            return delta
        if not self._whole.startswith(text):
            self._cumulative = False
            return text
        return ""

    def _decide(self, text: str, *, final: bool) -> str:
        frames = self._undecided
        if text:
            frames.append(text)
        if len(frames) < 2:
            return text
        if not text.startswith(frames[-2] if text else frames[-1]):
            # Also at an empty last frame: whole texts end with the whole text.
            return self._settle(cumulative=False) if text or final else ""
        growths = sum(len(before) < len(after) for before, after in pairwise(frames))
        decisive = len(frames[-2]) >= self.DECISIVE_LENGTH and len(set(frames[-2])) >= 4
        if growths >= 2 or decisive or final or len(frames) > self.MOST_HELD:
            return self._settle(cumulative=bool(decisive or growths))
        return ""

    def _settle(self, *, cumulative: bool) -> str:
        self._cumulative = cumulative
        first, *others = self._undecided
        self._undecided = []
        if not cumulative:
            return "".join(others)
        self._whole = others[-1]
        return self._whole[len(first) :]
