"""Faults: files, processes and stores that go wrong."""

from __future__ import annotations
