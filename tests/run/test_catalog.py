"""The catalog: what ships, what may be added, and what is refused before an event could meet it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttrace.run.catalog.catalog
from agenttrace.run.catalog.catalog import AppCatalog, CatalogError, Lane, UnknownEventError
from agenttrace.run.results.cache import CacheRule
from agenttrace.run.simulator import BUILTIN_APP_IDS, environment
from agenttrace.run.upstream.calls import RateRule

ENVIRON = environment("http://127.0.0.1:1/api/v1")
MINE = {"type": "mine", "app_id": "abc"}


def test_the_eight_applications_have_the_ids_of_their_variables() -> None:
    """Each application is called by the id that the environment gives it; without one, by none."""
    assert {app.app_type: app.app_id for app in AppCatalog.load(ENVIRON).apps.values()} == BUILTIN_APP_IDS
    assert {app.app_id for app in AppCatalog.load(None).apps.values()} == {""}


def test_limits_and_cache_times_are_those_of_the_document() -> None:
    """App1 counts by user and minute, the others by store and hour; results are kept as the document's table says."""
    apps = AppCatalog.load(ENVIRON, user_limit=10, store_limit=100).apps
    assert apps["app1"].rate == RateRule(scope="user", limit=10, seconds=60)
    assert {app.rate for key, app in apps.items() if key != "app1"} == {
        RateRule(scope="store", limit=100, seconds=3600)
    }
    assert {key: app.cache for key, app in apps.items() if not app.is_optional} == {
        "app1": None,
        "app2": CacheRule(cache_type="app2_finance", end_of_day=True),
        "app3": CacheRule(cache_type="app3_clue", days=7),
        "app4": CacheRule(cache_type="app4_analysis", days=7),
        "app5": CacheRule(cache_type="app5_tactics", days=7),
        "app6": CacheRule(cache_type="app6_note_analysis", days=30),
        "app7": CacheRule(cache_type="app7_customer_analysis", days=7),
        "app8": CacheRule(cache_type="app8_clue_consolidated", days=7),
    }
    assert [key for key, app in apps.items() if app.stream] == ["app1"]
    assert [key for key, app in apps.items() if app.clues] == ["app8"]


def test_titles_in_several_languages() -> None:
    """The title is the one of the catalog's language, or else the first; a single one is for all languages."""
    both = {"en": "Mine", "zh": "我的"}
    for language, titles, shown in (("zh", both, "我的"), ("en", both, "Mine"), ("en", {"zh": "我的"}, "我的")):
        table = {"catalog": {"language": language}, "apps": {"mine": {**MINE, "title": titles}}}
        app = AppCatalog.load(ENVIRON, table).apps["mine"]
        assert (app.title, app.titles) == (shown, titles)
    single = AppCatalog.load(ENVIRON, {"apps": {"mine": {**MINE, "title": "Mine"}, "other": MINE}}).apps
    assert [(app.title, app.titles) for app in (single["mine"], single["other"])] == [("Mine", {}), ("other", {})]
    assert all(app.titles.keys() == {"en", "zh"} for app in AppCatalog.load(ENVIRON).apps.values())


def test_the_whole_default_catalog_fits_a_screen() -> None:
    """Fewer than eighty lines, none longer than a line of code."""
    lines = (
        Path(agenttrace.run.catalog.catalog.__file__).with_name("catalog.toml").read_text(encoding="utf-8").splitlines()
    )
    assert len(lines) < 80
    assert max(map(len, lines)) <= 120


def test_apps_and_events_of_ones_own_join_the_defaults() -> None:
    """What agenttrace.toml adds is there beside the rest, what it names again is replaced."""
    table = {
        "apps": {"mine": {**MINE, "parameters": {"temperature": Decimal("0.5"), "list": [Decimal(1)]}}},
        "events": {"birthday": {"lanes": ["app3 -> mine", "app2:*"]}, "note_created": {"lanes": ["mine"]}},
    }
    catalog = AppCatalog.load(ENVIRON, table, dimensions=("today", "ever"))
    chain = catalog.chain("birthday")
    assert chain.text == "app3→mine+app2×2"
    assert [step.name for step in chain.steps] == ["app3", "mine", "app2:today", "app2:ever"]
    assert [step.name for step in catalog.chain("note_created").steps] == ["mine"]
    assert catalog.chain("task_assigned").text == "app4→app5"
    assert catalog.apps["mine"].parameters == {"temperature": 0.5, "list": [1.0]}
    assert catalog.apps["mine"].app_id == "abc"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"events": {"x": {"lanes": ["app3→app9"]}}}, r"\[events.x\].*'app9' is no application"),
        ({"events": {"x": {"lanes": ["app3", "app3→app8"]}}}, r"\[events.x\].*app3 is in it twice"),
        ({"events": {"x": {"lanes": []}}}, r"\[events.x\].*lanes is empty"),
        ({"events": {"x": {"lanes": "app3"}}}, r"\[events.x\].*array"),
        ({"events": {"x" * 31: {"lanes": ["app3"]}}}, "longer than 30"),
        ({"events": {"x": {"lane": ["app3"]}}}, r"\[events.x\]"),
        ({"apps": {"x": {"type": "mine"}}}, r"\[apps.x\].*app_id is missing"),
        ({"apps": {"x": {**MINE, "inputs": ["app9"]}}}, r"\[apps.x\].*'app9' is no application"),
        ({"apps": {"x": {**MINE, "type": "x" * 31}}}, "longer than 30"),
        ({"apps": {"x": {**MINE, "colour": "red"}}}, r"\[apps.x\].*colour"),
        ({"apps": {"x": {**MINE, "rate": "planet"}}}, r"\[apps.x\].*planet"),
        ({"apps": {"x": {**MINE, "rate_limit": {"calls": 0}}}}, r"\[apps.x\].*rate_limit.calls"),
        ({"apps": {"x": {**MINE, "rate_limit": {"seconds": 5}}}}, r"\[apps.x\].*calls"),
        ({"apps": {"x": {**MINE, "title": {}}}}, r"\[apps.x\].*title"),
        ({"apps": {"x": {**MINE, "clues": True, "cache": {"type": "y", "keep": 1, "target": "site"}}}}, "member"),
        ({"apps": {"x" * 60: MINE}, "events": {"e": {"lanes": ["x" * 60 + ":*"]}}}, "longer than 60"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(table: dict[str, Any], told: str) -> None:
    """A wrong catalog is refused when it is read, and the message says where it is wrong."""
    with pytest.raises(CatalogError, match=told):
        AppCatalog.load(ENVIRON, table)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60, unique=True))
def test_the_text_of_any_chain_fits_its_column(numbers: list[int]) -> None:
    """However long a chain, its text has at most 100 characters, and short ones are shown whole."""
    apps = {f"a{number}": {**MINE, "type": f"t{number}"} for number in numbers}
    catalog = AppCatalog.load(ENVIRON, {"apps": apps, "events": {"e": {"lanes": ["→".join(apps)]}}})
    text, whole = catalog.chain("e").text, "→".join(apps)
    assert text == whole if len(whole) <= 100 else (len(text) == 100 and whole.startswith(text[:-1]))


@given(st.dictionaries(st.sampled_from(["coach_id", "vip"]), st.none() | st.integers() | st.text() | st.booleans()))
def test_a_conditional_lane_runs_where_its_key_is_not_null(payload: dict[str, Any]) -> None:
    """Only a missing key or null leaves it out; 0, false and empty text are values."""
    lane = Lane(apps=("app4",), condition="vip")
    assert lane.applies(payload) == ("vip" in payload and payload["vip"] is not None)
    assert Lane(apps=("app4",)).applies(payload)


# ── catalogs of one's own, and other providers ──

MODEL = {"type": "m", "provider": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "some"}


def test_a_catalog_without_the_eight() -> None:
    """``base = "none"`` leaves what the user has, and demands what that needs."""
    table = {"catalog": {"base": "none"}, "apps": {"mine": {**MODEL, "api_key_env": "MY_KEY"}}}
    catalog = AppCatalog.load({}, table)
    assert (list(catalog.apps), dict(catalog.events), catalog.missing) == (["mine"], {}, ("MY_KEY",))
    assert AppCatalog.load({"MY_KEY": "x"}, table).missing == ()
    assert (catalog.connector, catalog.chat, catalog.texts.language) == (None, None, "en")
    shipped = AppCatalog.load({})
    assert (shipped.connector, shipped.texts.language) == ("feiqiu", "zh")
    assert shipped.chat is not None
    assert shipped.chat.key == "app1"


def test_a_shipped_application_that_is_changed_keeps_its_variable() -> None:
    """Who sets, say, the context of app1 need not name the variable of its id again; another provider has none."""
    table = {"apps": {"app1": {"type": "app1_chat", "context_tokens": 9000}, "app3": {**MODEL, "type": "app3_clue"}}}
    apps = AppCatalog.load(ENVIRON, table).apps
    assert (apps["app1"].app_id, apps["app1"].context_tokens) == (BUILTIN_APP_IDS["app1_chat"], 9000)
    assert (apps["app3"].app_id, apps["app3"].provider) == ("openai/app3", "openai")


@given(st.sets(st.sampled_from(sorted(ENVIRON))))
def test_each_application_names_what_it_lacks(names: set[str]) -> None:
    """Whatever is set: an application lacks exactly those of its own variables that are not."""
    catalog = AppCatalog.load({name: ENVIRON[name] for name in names})
    for app in catalog.apps.values():
        assert set(app.variables) == {"DASHSCOPE_API_KEY", app.id_variable}
        assert set(app.missing) == set(app.variables) - names
    chain = catalog.chain("note_created")
    assert set(catalog.missing_for("note_created")) == {
        name for step in chain.steps for name in catalog.apps[step.app].missing
    }


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"apps": {"x": {**MODEL, "base_url": "ftp://x"}}}, r"\[apps.x\].*base_url"),
        ({"apps": {"x": {"type": "m", "provider": "openai", "model": "some"}}}, "needs base_url and model"),
        ({"apps": {"x": {**MODEL, "provider": "other"}}}, r"\[apps.x\].*other"),
        ({"apps": {"x": {**MODEL, "schema": "[1]"}}}, "schema is no JSON object"),
        ({"apps": {"x": {**MODEL, "response_format": "json_schema"}}}, "needs a schema"),
        ({"apps": {"x": {**MODEL, "app_id_env": "X"}}}, "app_id_env needs provider"),
        ({"apps": {"x": {**MINE, "system": "x"}}}, 'system needs provider = "openai"'),
        ({"apps": {"x": {**MODEL, "app_id": "a"}, "y": {**MODEL, "app_id": "a"}}}, "that of another application"),
        ({"apps": {"x": {**MODEL, "app_id": "a" * 101}}}, "longer than 100"),
        ({"catalog": {"base": "none", "chat": "app1"}}, "chat names 'app1'"),
        ({"catalog": {"language": "xx"}}, "'xx' has no texts"),
        ({"catalog": {"texts": {"en": {"colour": "red"}}}}, "no text 'colour'"),
        ({"catalog": {"colour": "red"}}, r"\[catalog\].*colour"),
    ],
)
def test_what_no_provider_can_do_is_refused_with_its_place(table: dict[str, Any], told: str) -> None:
    """A wrong endpoint, schema or text is refused when the catalog is read."""
    with pytest.raises(CatalogError, match=told):
        AppCatalog.load(ENVIRON, table)


def test_texts_of_ones_own_in_the_language_of_the_user() -> None:
    """The header decides, by its weights; what a catalog replaces is replaced, what it does not say is English."""
    own = {"fr": {"auth": "Mal configuré."}, "en": {"auth": "Broken."}}
    texts = AppCatalog.load({}, {"catalog": {"texts": own}}).texts
    said = {
        "en-GB,en;q=0.9": "Broken.",
        "zh-CN,zh;q=0.9,en;q=0.8": "AI 服务配置异常",
        "de, fr;q=0.5, en;q=0.4": "Mal configuré.",
        "en;q=0.1, fr;q=0.2": "Mal configuré.",
        "en;q=0": "AI 服务配置异常",
        "*": "AI 服务配置异常",
        "": "AI 服务配置异常",
    }
    assert {header: texts.preferred(header)["auth"] for header in said} == said
    assert texts.preferred("fr")["timeout"] == texts.preferred("en")["timeout"]


@given(st.text(max_size=300) | st.none())
def test_any_header_gives_texts(header: str | None) -> None:
    """Nothing that a browser sends as its languages leaves the user without words."""
    assert AppCatalog.load({}).texts.preferred(header)["failed"]


# -- applications for recorded sessions ---------------------------------------------------------------------------


SESSION_APPS = ("session-summary", "session-review", "session-score")


def test_applications_for_sessions_are_optional_and_have_prompts_in_two_languages() -> None:
    """The catalog lacks nothing without them; each says in both languages which object it answers with."""
    without = {name: value for name, value in ENVIRON.items() if "SESSION" not in name}
    catalog = AppCatalog.load(without)
    assert catalog.missing == ()
    for name in SESSION_APPS:
        app = catalog.apps[name]
        assert app.missing == (app.id_variable,)
        assert app.prompts.keys() == app.titles.keys() == {"en", "zh"}
        assert all('{"' in prompt and "\\" not in prompt for prompt in app.prompts.values())
    assert not AppCatalog.load(ENVIRON).apps["session-score"].missing


@pytest.mark.parametrize("base", ["builtin", "none"])
def test_any_model_can_answer_for_sessions(base: str) -> None:
    """A table with provider and model keeps the prompts; its own key is missed where it is not set."""
    own = {"provider": "openai", "base_url": "https://api.example.com/v1", "model": "m", "api_key_env": "MY_KEY"}
    catalog = AppCatalog.load(ENVIRON, {"catalog": {"base": base}, "apps": {"session-review": own}})
    app = catalog.apps["session-review"]
    assert (app.provider, app.app_type, app.missing) == ("openai", "session_review", ("MY_KEY",))
    assert "MY_KEY" in catalog.missing
    assert app.prompts == AppCatalog.load({}).apps["session-review"].prompts


def test_a_chain_of_named_applications() -> None:
    """One after another; unknown ones, and one that comes twice, are refused."""
    catalog = AppCatalog.load(ENVIRON)
    chain = catalog.chain_of(("session-review", "app3"))
    assert [(step.name, step.after) for step in chain.steps] == [("session-review", ()), ("app3", ("session-review",))]
    for apps, problem in (
        (("nothing",), "'nothing' is no application"),
        (("app3", "app3"), "app3 is in the chain twice"),
    ):
        with pytest.raises(UnknownEventError, match=problem):
            catalog.chain_of(apps)
