"""Runs a program in a user namespace in which root goes by another number.

    python namespace.py UID_MAP GID_MAP PROGRAM [ARGUMENT ...]

A program of its own, and not a function that ``subprocess`` calls after the fork: a library may start threads in every
forked process (the SDK of OpenTelemetry does), and a process with threads cannot enter a namespace. Imports nothing of
AgentTrace, so that Python can run it alone (``-I -S``: 15 ms).
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000


def main(uid_map: str, gid_map: str, *command: str) -> None:
    """Enter the namespace and become the program."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        sys.exit(f"user namespaces are not permitted: {os.strerror(ctypes.get_errno())}")
    for name, content in (("setgroups", "deny"), ("uid_map", uid_map), ("gid_map", gid_map)):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, content.encode())
        os.close(descriptor)
    os.execv(command[0], command)  # noqa: S606 - it becomes the program


if __name__ == "__main__":
    main(*sys.argv[1:])
