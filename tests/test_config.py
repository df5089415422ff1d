"""Settings come from four places in a fixed order, remember which, and refuse what cannot be meant."""

from __future__ import annotations

import os
import stat
import string
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import (
    SETTINGS,
    RecordSettings,
    SettingsError,
    ensure_home,
    load_settings,
)
from agenttrace.config.documentation import updated
from agenttrace.prices.parsing import parse_table

DOCS = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"

not_root = pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may read and write everywhere")


def write(home: Path, text: str) -> Path:
    file = home / "agenttrace.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_anything_the_defaults_hold(home: Path) -> None:
    """No file and no variables: every value but home is the default, and says so."""
    settings = load_settings()
    assert settings.home == home
    assert settings.origin("home") == "environment AGENTTRACE_HOME"
    assert settings.record == RecordSettings()
    assert {settings.origin(name) for name in SETTINGS if name != "home"} == {"default"}


def test_the_home_is_under_the_users_home_unless_named() -> None:
    """Without AGENTTRACE_HOME the data directory is ~/.agenttrace of the environment given."""
    settings = load_settings({"HOME": "/somewhere"})
    assert settings.home == Path("/somewhere/.agenttrace")
    assert settings.origin("home") == "default"


def test_file_then_environment_then_flags(home: Path) -> None:
    """Each place wins over the one before it, value by value."""
    file = write(home, "[record]\nbatch_lines = 2\nworkers = 2\nstale_minutes = 2\n")
    environ = dict(os.environ) | {"AGENTTRACE_RECORD_WORKERS": "3", "AGENTTRACE_RECORD_STALE_MINUTES": "3"}
    settings = load_settings(environ, {"record.stale_minutes": 4, "record.poll_seconds": None, "record.paths": []})
    assert (settings.record.batch_lines, settings.record.workers, settings.record.stale_minutes) == (2, 3, 4)
    assert settings.origin("record.batch_lines") == f"file {file}"
    assert settings.origin("record.workers") == "environment AGENTTRACE_RECORD_WORKERS"
    assert settings.origin("record.stale_minutes") == "flag"
    assert settings.origin("record.poll_seconds") == settings.origin("record.paths") == "default"


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "record.batch_lines": st.integers(1, 2**31 - 1),
    "record.workers": st.integers(0, 256),
    "record.poll_seconds": st.floats(0.001, 86400),
    "retention.days": st.integers(0, 2**31 - 1),
    "usage.currency": st.sampled_from(["native", "USD", "CNY"]),
    "usage.timezone": st.sampled_from(["local", "UTC"]),
}


@given(data=st.data())
def test_the_last_place_that_has_a_value_gives_it(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Precedence as a law: for any choice of places, value and origin are those of the last one."""
    name = data.draw(st.sampled_from(sorted(VALUES)))
    places = data.draw(st.sets(st.sampled_from(["file", "environment", "flag"])))
    values = {place: data.draw(VALUES[name]) for place in sorted(places)}
    home = tmp_path_factory.mktemp("home")
    environ = {"AGENTTRACE_HOME": str(home)}
    if "file" in values:
        section, key = name.split(".")
        shown = f'"{values["file"]}"' if isinstance(values["file"], str) else repr(values["file"])
        write(home, f"[{section}]\n{key} = {shown}\n")
    if "environment" in values:
        environ[SETTINGS[name].variable] = str(values["environment"])
    settings = load_settings(environ, {name: values.get("flag")})
    last = next((place for place in ("flag", "environment", "file") if place in values), "default")
    assert settings.origin(name).split()[0] == last
    if values:
        assert settings.value(name) == values[last]


def test_the_file_may_be_named(home: Path, tmp_path: Path) -> None:
    """AGENTTRACE_CONFIG names the file, which may then say where the data lives."""
    file = tmp_path / "elsewhere.toml"
    file.write_text('home = "data"\n', encoding="utf-8")
    settings = load_settings({"AGENTTRACE_CONFIG": str(file), "HOME": str(home)})
    assert settings.home == tmp_path / "data"
    assert settings.origin("home") == f"file {file}"


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Who names a file wants it read."""
    with pytest.raises(SettingsError, match=r"AGENTTRACE_CONFIG .*missing\.toml does not exist"):
        load_settings({"AGENTTRACE_CONFIG": str(tmp_path / "missing.toml")})


def test_the_flag_for_home_decides_which_file_is_read(home: Path, tmp_path: Path) -> None:
    """--home moves the whole house, its agenttrace.toml included."""
    write(home, "[retention]\ndays = 1\n")
    other = tmp_path / "other"
    other.mkdir()
    write(other, "[retention]\ndays = 2\n")
    settings = load_settings(flags={"home": other})
    assert (settings.home, settings.retention.days) == (other, 2)


def test_lists_in_variables(home: Path) -> None:
    """Lists of paths are separated as PATH is; agents may be separated by commas too."""
    environ = dict(os.environ) | {
        "AGENTTRACE_RECORD_PATHS": os.pathsep.join(["/a,b/c", "~/logs/*.jsonl", ""]),
        "AGENTTRACE_RECORD_AGENTS": "codex, claude-code",
        "AGENTTRACE_RECORD_EXCLUDE": os.pathsep.join(["*/secret/*", "~/private/*"]),
    }
    record = load_settings(environ).record
    assert record.paths == ("/a,b/c", f"{home.parent}/logs/*.jsonl")
    assert record.agents == ("codex", "claude-code")
    assert record.exclude == ("*/secret/*", f"{home.parent}/private/*")


def test_relative_paths_start_where_they_are_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file: beside the file. In a variable or flag: in the working directory."""
    write(home, '[record]\npaths = ["logs"]\n')
    assert load_settings().record.paths == (str(home / "logs"),)
    monkeypatch.chdir(tmp_path)
    assert load_settings(flags={"record.paths": [Path("logs")]}).record.paths == (str(tmp_path / "logs"),)


def test_an_empty_variable_is_not_set(home: Path) -> None:
    """An empty variable means the same as none."""
    environ = dict(os.environ) | {"AGENTTRACE_RECORD_WORKERS": "", "AGENTTRACE_CONFIG": ""}
    assert load_settings(environ).origin("record.workers") == "default"


def test_prices_of_ones_own(home: Path) -> None:
    """A table for a model, exact to the last decimal, with its origin."""
    file = write(
        home,
        '[prices."kimi-k2.5"]\ncurrency = "USD"\ninput = 0.6\noutput = 3\ncache_read = 0.1\n'
        '[prices."local*"]\ncurrency = "USD"\ninput = 0\noutput = 0\n',
    )
    kimi, local = load_settings().prices
    assert (kimi.model, kimi.currency, kimi.input, kimi.cache_read) == ("kimi-k2.5", "USD", 600_000, 100_000)
    assert (local.model, local.output) == ("local*", 0)
    assert kimi.source == load_settings().origin("prices.kimi-k2.5") == f"file {file}"


def test_the_exchange_rate_is_exact(home: Path) -> None:
    """The digits written are the digits used, more of them than a float holds."""
    write(home, '[usage]\ncurrency = "CNY"\nexchange_rate = 7.1234567890123456789\n')
    assert load_settings().usage.exchange_rate == Decimal("7.1234567890123456789")
    environ = dict(os.environ) | {"AGENTTRACE_USAGE_EXCHANGE_RATE": "6.9"}
    assert load_settings(environ).usage.exchange_rate == Decimal("6.9")


def test_rates_are_exact(home: Path) -> None:
    """Of any currency, whole numbers as well."""
    write(home, '[usage]\ncurrency = "EUR"\n[usage.rates]\nCNY = 0.1234567890123456789\nKWD = 3\n')
    assert load_settings().usage.currency == "EUR"
    assert load_settings().usage.rates == {"CNY": Decimal("0.1234567890123456789"), "KWD": Decimal(3)}


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("[record]\nbatch_line = 5", "record.batch_line", "Did you mean record.batch_lines?"),
        ("[recrod]\nworkers = 5", "recrod", "Did you mean record?"),
        ("hom = 'x'", "hom", "Did you mean home?"),
        ("[record]\nzzz = 5", "record.zzz", "Valid here:"),
        ("record = 5", "record", "[record]"),
        ("home = 5", "home", "a string"),
        ('home = ""', "home", "not empty"),
        ('home = "\\u0000"', "home", "a string"),
        ("[record]\nbatch_lines = 0", "record.batch_lines", "from 1"),
        ("[record]\nbatch_lines = '5'", "record.batch_lines", "a whole number"),
        ("[record]\nbatch_lines = true", "record.batch_lines", "a whole number"),
        ("[record]\nbatch_lines = 99999999999", "record.batch_lines", "2147483647"),
        ("[record]\nworkers = -1", "record.workers", "from 0 to 256"),
        ("[record]\npoll_seconds = 0", "record.poll_seconds", "above 0"),
        ("[record]\npoll_seconds = nan", "record.poll_seconds", "above 0"),
        ("[record]\npoll_seconds = inf", "record.poll_seconds", "86400"),
        ("[record]\npaths = 'one'", "record.paths", "a list"),
        ("[record]\npaths = [1]", "record.paths", "a list"),
        ("[record]\npaths = 2026-11-15", "record.paths", "a list"),
        ("[usage]\ncurrency = 'euro'", "usage.currency", '"native"'),
        ("[usage]\nrates = 7", "usage.rates", "a table"),
        ("[usage.rates]\ncny = 7", "usage.rates", "a table"),
        ("[usage.rates]\nCNY = 0", "usage.rates", "above 0"),
        ("[usage.rates]\nCNY = nan", "usage.rates", "above 0"),
        ("[usage.rates]\nCNY = 'seven'", "usage.rates", "above 0"),
        ("[usage]\ntimezone = 'Mars/Olympus'", "usage.timezone", "Asia/Shanghai"),
        ("[usage]\ntimezone = '../etc'", "usage.timezone", "Asia/Shanghai"),
        ("[usage]\nexchange_rate = 0", "usage.exchange_rate", "above 0"),
        ("[usage]\nexchange_rate = nan", "usage.exchange_rate", "above 0"),
        ("prices = 5", "prices", "kimi-k2.5"),
        ("[prices]\nm = 5", 'prices."m"', "kimi-k2.5"),
        ("[prices.kimi-k2.5]\ninput = 1", "prices.kimi-k2.5", '[prices."kimi-k2.5"]'),
        ("[prices.m]\ncurrency = 'USD'\ninput = 1", 'prices."m".output', "output = 2.5"),
        ("[prices.m]\ncurrency = 'USD'\ninput = -1\noutput = 1", 'prices."m".input', "from 0"),
        ("[prices.m]\ncurrency = 'USD'\ninpt = 1\noutput = 1", 'prices."m".inpt', "Did you mean input?"),
        ("[prices.'a*b']\ncurrency = 'USD'\ninput = 1\noutput = 1", 'prices."a*b"', "at the end"),
    ],
)
def test_a_mistake_in_the_file_is_explained(home: Path, text: str, key: str, fix: str) -> None:
    """One error names the file, the setting, what is wrong and what would be right."""
    file = write(home, text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    error = caught.value
    assert (error.where, error.key) == (f"file {file}", key)
    assert fix in error.fix
    assert all(part in str(error) for part in (str(file), key, error.problem, error.fix))


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[record\n", "line 1"), (b"\xff\xfe", "UTF-8"), (b"x = " + b"9" * 5000, "not valid TOML")],
)
def test_a_file_that_is_no_toml_is_explained(home: Path, content: bytes, problem: str) -> None:
    """The place of a syntax error is shown."""
    (home / "agenttrace.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=problem):
        load_settings()


def test_a_directory_in_place_of_the_file_is_explained(home: Path) -> None:
    """What cannot be read is an error, not an empty file."""
    (home / "agenttrace.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("AGENTTRACE_RECORD_WORKER", "1", "AGENTTRACE_RECORD_WORKERS"),
        ("AGENTTRACE_RECORD_WORKERS", "many", "from 0 to 256"),
        ("AGENTTRACE_USAGE_EXCHANGE_RATE", "seven", "a number"),
        ("AGENTTRACE_USAGE_EXCHANGE_RATE", "inf", "a number"),
        ("AGENTTRACE_PRICES_GPT_5", "1", "agenttrace.toml"),
    ],
)
def test_a_mistake_in_a_variable_is_explained(name: str, value: str, fix: str) -> None:
    """A mistyped or misused variable is not ignored."""
    with pytest.raises(SettingsError) as caught:
        load_settings({"HOME": "/nowhere", name: value})
    assert name in str(caught.value)
    assert fix in caught.value.fix


def test_variables_of_other_programs_are_ignored() -> None:
    """Only the sections that hold settings are watched for typing errors."""
    assert load_settings({"HOME": "/nowhere", "AGENTTRACE_DATABASE_URL": "x", "AGENTTRACES": "y"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("record.worker", 1), ("recrod.home", "x"), ("record.workers", "1"), ("prices", {}), ("home", 5)],
)
def test_a_mistake_in_a_flag_is_explained(home: Path, name: str, value: object) -> None:
    """Flags are checked like everything else."""
    with pytest.raises(SettingsError, match=r"^flag: "):
        load_settings(flags={name: value})


@given(text=st.text(alphabet=string.ascii_lowercase + '[]="\n .1*{}_-', max_size=80))
def test_no_text_of_the_file_causes_anything_but_a_clear_error(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any file either loads or gives a SettingsError that names it."""
    home = tmp_path_factory.mktemp("home")
    file = write(home, text)
    try:
        outcome = load_settings({"AGENTTRACE_HOME": str(home)}).origin("home")
    except SettingsError as error:
        outcome = str(error)
    assert outcome.startswith(("environment AGENTTRACE_HOME", f"file {file}"))


def test_settings_never_change(home: Path) -> None:
    """Neither a value nor its origin can be changed after loading."""
    settings = load_settings()
    with pytest.raises(AttributeError):
        settings.record.workers = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.origins["home"] = "flag"  # type: ignore[index]


def test_no_secret_is_ever_shown(home: Path) -> None:
    """Neither the settings' text nor an error about a secret holds it; what may be shown says only that it is set."""
    variables = {"AGENTTRACE_DATABASE_URL": "postgresql://u:hunter2@db/x", "AGENTTRACE_JWT_SECRET": "hunter2" * 5}
    settings = load_settings({**os.environ, **variables})
    assert settings.database.url == variables["AGENTTRACE_DATABASE_URL"]
    assert settings.jwt.secret == variables["AGENTTRACE_JWT_SECRET"]
    assert [settings.shown(name) for name in ("database.url", "jwt.secret")] == ["***", "***"]
    assert "hunter2" not in repr(settings)
    with pytest.raises(SettingsError) as caught:
        load_settings({**os.environ, "AGENTTRACE_JWT_SECRET": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_applications_and_events_of_ones_own_are_kept_for_the_catalog(home: Path) -> None:
    """Tables [apps.X] and [events.X] arrive as they are written; anything else under these names is an error."""
    write(home, '[apps.summary]\nid = "x"\n[events.evening]\nchain = ["summary"]\n')
    settings = load_settings()
    assert settings.apps == {"summary": {"id": "x"}}
    assert settings.events == {"evening": {"chain": ["summary"]}}
    write(home, 'apps = ["summary"]\n')
    with pytest.raises(SettingsError, match=r"\[apps.NAME\]"):
        load_settings()


def test_the_business_day_begins_at_one_place(home: Path) -> None:
    """Several machines share one budget: ``local`` is no time zone for it."""
    with pytest.raises(SettingsError, match=r"run\.timezone"):
        load_settings({**os.environ, "AGENTTRACE_RUN_TIMEZONE": "local"})


def test_the_origin_of_nothing_is_an_error(home: Path) -> None:
    """A name that is no setting has no origin."""
    with pytest.raises(KeyError):
        load_settings().origin("record.nothing")


def test_the_home_is_created_for_its_owner_alone(home: Path) -> None:
    """Created with its parents, 0700, and again without complaint."""
    settings = load_settings(flags={"home": home / "deep" / "data"})
    for _ in range(2):
        assert ensure_home(settings) == home / "deep" / "data"
        assert stat.S_IMODE((home / "deep" / "data").stat().st_mode) == 0o700


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    """A file in the way is named, and not changed."""
    (home / "data").write_text("precious", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"data is not a directory"):
        ensure_home(load_settings(flags={"home": home / "data"}))
    with pytest.raises(SettingsError, match=r"cannot be created"):
        ensure_home(load_settings(flags={"home": home / "data" / "inside"}))
    assert (home / "data").read_text(encoding="utf-8") == "precious"


def test_a_home_that_points_nowhere_is_refused(home: Path) -> None:
    """A dangling link is no directory."""
    (home / "link").symlink_to(home / "nowhere")
    with pytest.raises(SettingsError, match="is not a directory"):
        ensure_home(load_settings(flags={"home": home / "link"}))


@not_root
def test_a_home_that_cannot_be_written_is_refused(home: Path) -> None:
    """Found out at the start, not at the first recorded line."""
    home.chmod(0o500)
    try:
        with pytest.raises(SettingsError, match="is not writable"):
            ensure_home(load_settings())
    finally:
        home.chmod(0o700)


def test_the_documentation_has_every_setting_as_it_is_described() -> None:
    """The tables of the documentation are those that the descriptions of the settings make."""
    page = DOCS.read_text(encoding="utf-8")
    assert updated(page) == page
    for name, setting in SETTINGS.items():
        assert page.count(f"| `{name}` |") == 1
        assert len(setting.meaning) > 10


@pytest.mark.parametrize("name", SETTINGS)
def test_the_example_of_every_setting_loads(home: Path, name: str) -> None:
    """The example of a setting is a valid line of the file."""
    section = name.rpartition(".")[0]
    file = write(home, f"[{section}]\n{SETTINGS[name].example}\n" if section else f"{SETTINGS[name].example}\n")
    assert load_settings({"AGENTTRACE_CONFIG": str(file)}).origin(name) == f"file {file}"


@pytest.mark.parametrize("page", ["configuration.md", "prices.md"])
def test_every_documented_example_loads(home: Path, page: str) -> None:
    """The TOML blocks of the documentation are valid settings, or valid tables of prices."""
    blocks = (DOCS.parent / page).read_text(encoding="utf-8").split("```toml\n")[1:]
    assert blocks
    for block in blocks:
        text = block.split("```")[0]
        if text.startswith("version = "):
            assert parse_table(text, page).problems == ()
            continue
        file = write(home, text)
        assert f"file {file}" in load_settings().origins.values()


def test_the_types_of_the_settings_are_the_declared_ones() -> None:
    """Defaults satisfy the very rules that files and variables are held to."""
    settings = load_settings({})
    for struct in {type(settings.value(name.split(".")[0])) for name in SETTINGS if "." in name}:
        assert isinstance(struct, type)
        assert issubclass(struct, msgspec.Struct)
        assert msgspec.convert(msgspec.structs.asdict(struct()), struct) == struct()
