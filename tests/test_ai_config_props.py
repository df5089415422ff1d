"""The environment is complete, or everything that is missing is named at once."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.catalog.config import RENAMED, REQUIRED, AIConfig, MissingVariablesError

COMPLETE = {name: f"value of {name}" for name in REQUIRED}
BLANK = st.sampled_from(["", " ", "\t\n"])
RENAMES = {old: new for old, new in RENAMED.items() if new is not None}


# Feature: P14-ai-dashscope-migration, Property 2: 环境变量校验完整性
@given(missing=st.sets(st.sampled_from(sorted(REQUIRED)), min_size=1), blanks=st.lists(BLANK | st.none(), min_size=10))
def test_whatever_is_missing_is_named(missing: set[str], blanks: list[str | None]) -> None:
    """Any subset that is not set, or blank, raises, and the error names exactly that subset."""
    environ = {name: value for name, value in COMPLETE.items() if name not in missing}
    environ |= {name: blank for name, blank in zip(sorted(missing), blanks, strict=False) if blank is not None}
    with pytest.raises(MissingVariablesError) as caught:
        AIConfig.from_env(environ)
    assert set(caught.value.missing) == missing
    assert all((name in str(caught.value)) == (name in missing) for name in REQUIRED)


@given(st.dictionaries(st.sampled_from(sorted(REQUIRED)), st.text("abc-1", min_size=1), min_size=10, max_size=10))
def test_a_complete_environment_gives_each_value_its_field(environ: dict[str, str]) -> None:
    """Every field holds the value of its own variable, without the blanks around it."""
    config = AIConfig.from_env({name: f" {value}\n" for name, value in environ.items()})
    assert {name: getattr(config, field) for name, field in REQUIRED.items()} == environ
    assert config.workspace_id is None


@given(st.sets(st.sampled_from(sorted(RENAMED)), min_size=1))
def test_old_names_are_told_their_new_ones(old: set[str]) -> None:
    """Where only old names are set, the error says what each is called now, or that it is no longer used."""
    with pytest.raises(MissingVariablesError) as caught:
        AIConfig.from_env(dict.fromkeys(old, "x"))
    for name in old:
        new = RENAMED[name]
        assert (f"{name} is now called {new}" if new else f"{name} is no longer used") in str(caught.value)
    assert not any(f"{name} is" in str(caught.value) for name in RENAMED if name not in old)


def test_every_old_name_of_the_document_is_known() -> None:
    """The renamed variables are the key and the eight applications."""
    assert set(RENAMES.values()) == set(REQUIRED) - {"INTERNAL_API_TOKEN"}


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument, the variables of the process are read, optional ones too."""
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DASHSCOPE_WORKSPACE_ID", "ws-1")
    monkeypatch.setenv("DASHSCOPE_BASE_URL", "http://127.0.0.1:1/api/v1")
    config = AIConfig.from_env()
    assert (config.workspace_id, config.base_url) == ("ws-1", "http://127.0.0.1:1/api/v1")


def test_no_secret_is_shown() -> None:
    """Neither the key nor the internal token is part of the repr or the str of a configuration."""
    config = AIConfig.from_env(COMPLETE | {"DASHSCOPE_API_KEY": "sk-secret", "INTERNAL_API_TOKEN": "tok-secret"})
    assert "secret" not in repr(config) + str(config)
    assert config.api_key == "sk-secret"


def test_the_fields_are_those_of_the_document_in_its_order() -> None:
    """Positional use, as the document's dataclass allows it, works."""
    names = [field.name for field in dataclasses.fields(AIConfig)]
    assert names[:3] == ["api_key", "workspace_id", "app_id_1_chat"]
    assert names[9:] == ["app_id_8_consolidate", "internal_api_token", "base_url"]
