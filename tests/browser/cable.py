"""The cable between a browser and the server: a forwarding port that can be pulled out and plugged in again."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Cable:
    """Forwards connections; ``cut`` ends all of them in the middle of whatever they carry."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._whole = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]

    def cut(self) -> None:
        """Nothing goes through, and what was under way is lost."""
        with self._lock:
            self._whole = False
            for end in self._ends:
                _close(end)
            self._ends.clear()

    def mend(self) -> None:
        """New connections go through."""
        with self._lock:
            self._whole = True

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            self._connect(here)

    def _connect(self, here: socket.socket) -> None:
        with self._lock:
            try:
                there = socket.create_connection(("127.0.0.1", self._to)) if self._whole else None
            except OSError:
                there = None
            if there is None:
                here.close()
                return
            self._ends += [here, there]
            pair = [threading.Thread(target=_pump, args=ends) for ends in ((here, there), (there, here))]
            self._threads += pair
        for thread in pair:
            thread.start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    _close(source)
    _close(sink)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Wakes a thread that waits for this end, which closing alone does not.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
