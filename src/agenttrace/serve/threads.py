"""Threads of the server at its end: they get a moment to finish, and are left behind if they do not."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

logger = logging.getLogger(__name__)

#: For the work that a thread is at when the server closes.
CLOSE_SECONDS = 2.0


def shut_down(threads: ThreadPoolExecutor, seconds: float = CLOSE_SECONDS) -> bool:
    """Begin nothing more and wait for what runs; False where that takes too long."""
    closer = threading.Thread(target=threads.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    closer.start()
    closer.join(seconds)
    if closer.is_alive():
        logger.warning("a thread is still at work after %g s and is left behind", seconds)
    return not closer.is_alive()
