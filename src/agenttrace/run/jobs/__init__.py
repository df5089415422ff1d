"""Triggers become jobs, jobs run chains: dispatch, queue, worker."""

from __future__ import annotations
