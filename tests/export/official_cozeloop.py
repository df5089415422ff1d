"""CozeLoop's SDK, which gives deprecation warnings on import."""

from __future__ import annotations

import importlib
import warnings
from contextlib import suppress

with warnings.catch_warnings():
    # It sets a warnings filter, which must not come last.
    with suppress(ImportError):
        importlib.import_module("authlib.deprecate")
    warnings.simplefilter("ignore")
    import cozeloop  # type: ignore[import-untyped]
    from cozeloop.spec.tracespec import (  # type: ignore[import-untyped]
        ModelChoice,
        ModelInput,
        ModelMessage,
        ModelOutput,
        ModelToolCall,
    )

__all__ = ["ModelChoice", "ModelInput", "ModelMessage", "ModelOutput", "ModelToolCall", "cozeloop"]
