"""The settings: sections that describe each setting once, and loading from file, environment and flags."""

from __future__ import annotations

from agenttrace.config.loading import current_rules, did_you_mean, load_settings
from agenttrace.config.sections import (
    DatabaseSettings,
    ExportSettings,
    JwtSettings,
    OidcSettings,
    RecordSettings,
    RetentionSettings,
    RunSettings,
    ServeSettings,
    TeamSettings,
    UsageSettings,
)
from agenttrace.config.settings import SETTINGS, Setting, Settings, SettingsError, ensure_home

__all__ = [
    "SETTINGS",
    "DatabaseSettings",
    "ExportSettings",
    "JwtSettings",
    "OidcSettings",
    "RecordSettings",
    "RetentionSettings",
    "RunSettings",
    "ServeSettings",
    "Setting",
    "Settings",
    "SettingsError",
    "TeamSettings",
    "UsageSettings",
    "current_rules",
    "did_you_mean",
    "ensure_home",
    "load_settings",
]
