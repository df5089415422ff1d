"""The link that logs a browser of this machine in, and requests without it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.serve.access import refusals
from agenttrace.serve.access.link import StartToken, cleaned, published, running_consoles

from .access_rig import Answer, Clock, Rig, run_guarded

LOOK, CHANGE = "/api/v1/things", "/api/v1/things/a"


async def follow(rig: Rig, link: str, headers: dict[str, str] | None = None) -> Answer:
    """What the server answers to a link; the redirect is not followed."""
    async with rig.http.get(link, headers=headers, allow_redirects=False) as response:
        return Answer(response.status, response.headers.copy(), await response.read())


def token_in(answer: Answer) -> str:
    return str(answer.headers["Set-Cookie"]).partition(";")[0].partition("=")[2]


def test_the_link_logs_in_and_leaves_the_address(home: Path) -> None:
    """The token is used once; the browser gets a cookie and is redirected to the same page without it."""

    async def body(rig: Rig) -> None:
        link = rig.access.start_token.link(rig.url, "/sessions") + "&q=a%26b"
        answer = await follow(rig, link)
        assert (answer.status, answer.headers["Location"]) == (303, "/sessions?q=a%26b")
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        token = token_in(answer)
        assert token not in link
        assert (await rig.ask("GET", LOOK, token=token)).body == b"local"
        assert (await rig.ask("POST", CHANGE, token=token, csrf=await rig.csrf(token))).status == 204
        # It can be opened again, and a browser that is in already keeps its login.
        assert "Set-Cookie" in (await follow(rig, link)).headers
        again = await follow(rig, link, {"Cookie": cookie.partition(";")[0]})
        assert (again.status, "Set-Cookie" in again.headers) == (303, False)

    run_guarded(home, body)


def test_without_link_and_cookie(home: Path) -> None:
    """Another user or program of this machine gets the page, which says how to get in, and nothing of the data."""

    async def body(rig: Rig) -> None:
        assert (await rig.ask("GET", "/")).status == 200
        for method, path in (("GET", LOOK), ("GET", "/api/v1/live"), ("GET", "/api/v1/audit"), ("POST", CHANGE)):
            answer = await rig.ask(method, path, csrf=await rig.csrf())
            assert answer.status == 401
            assert "agenttrace open" in answer.detail
            assert "agenttrace token create" in answer.detail
        me = (await rig.ask("GET", "/api/v1/me")).json()
        assert (me["name"], me["role"], me["by_link"], me["login_required"]) == (None, None, True, True)
        assert rig.app.state.changes == []

    run_guarded(home, body)


def test_cookies_outlive_a_restart_and_links_do_not(home: Path) -> None:
    """After a restart an open page keeps its cookie and its CSRF token; an earlier link is reported as old."""
    kept: list[str] = []

    async def before(rig: Rig) -> None:
        link = rig.access.start_token.link("")
        token = token_in(await follow(rig, rig.url + link))
        kept.extend((link, token, await rig.csrf(token)))

    async def after(rig: Rig) -> None:
        link, token, csrf = kept
        assert (await rig.ask("POST", CHANGE, token=token, csrf=csrf)).status == 204
        old = await follow(rig, rig.url + link)
        assert old.status == 303
        assert "Set-Cookie" not in old.headers
        location = urlsplit(old.headers["Location"])
        assert (location.path, parse_qs(location.query)) == ("/login", {"link": ["old"], "next": ["/"]})
        # With its cookie the browser is in, whatever the link says.
        assert (await follow(rig, rig.url + link, {"Cookie": f"agenttrace_session={token}"})).headers["Location"] == "/"

    run_guarded(home, before)
    run_guarded(home, after)


def test_logging_out_ends_it(home: Path) -> None:
    """The cookie opens nothing any more."""

    async def body(rig: Rig) -> None:
        token = rig.local()
        assert (await rig.ask("POST", "/api/v1/logout", token=token, csrf=await rig.csrf(token))).status == 200
        assert (await rig.ask("GET", LOOK, token=token)).status == 401

    run_guarded(home, body)


@pytest.mark.parametrize("headers", [{"Host": "10.0.0.5"}, {"X-Forwarded-For": "10.0.0.9"}, {"Via": "1.1 proxy"}])
def test_the_link_is_valid_on_this_machine_only(home: Path, headers: dict[str, str]) -> None:
    """From elsewhere neither the link nor its cookie opens anything; users log in by name."""

    async def body(rig: Rig) -> None:
        answer = await follow(rig, rig.access.start_token.link(rig.url), headers)
        assert (answer.headers["Location"], "Set-Cookie" in answer.headers) == ("/", False)
        assert (await rig.ask("GET", LOOK, token=rig.local(), headers=headers)).status == 401
        assert (await rig.ask("GET", LOOK, token=rig.user("anna"), headers=headers)).status == 200

    run_guarded(home, body)


def test_where_a_login_by_name_is_required_the_link_is_no_login(home: Path) -> None:
    """The setting always means always."""

    async def body(rig: Rig) -> None:
        answer = await follow(rig, rig.access.start_token.link(rig.url))
        assert "Set-Cookie" not in answer.headers
        assert (await rig.ask("GET", LOOK, token=rig.local())).status == 401

    run_guarded(home, body, login="always")


@given(
    path=st.text(st.sampled_from("/\\.a:@?#%\r\n é"), max_size=20),
    query=st.lists(st.sampled_from(["token=x", "token", "q=1", "", "tokens=2", "a=%0d%0a"]), max_size=4),
)
def test_an_address_without_its_token_is_one_of_ours(path: str, query: list[str]) -> None:
    """For any path: the redirect stays on this host, holds no line end and no token, and keeps the rest."""
    found = cleaned("/" + path, "&".join(query))
    assert re.match(r"/(?![/\\])", found) or found == "/"
    assert not re.search(r"[\r\n]", found)
    assert urlsplit(found).netloc == ""
    left = [part for part in query if part.partition("=")[0] != "token"]
    assert urlsplit(found).query == "&".join(left)


# ── guessing ──


def test_guesses_are_slowed_down_and_the_owner_is_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong links and wrong API tokens wait longer and longer, too many at once are turned away; right ones never."""
    waited: list[float] = []
    release = asyncio.Event()

    async def hold(seconds: float) -> None:
        waited.append(seconds)
        await release.wait()

    async def body(rig: Rig) -> None:
        monkeypatch.setattr(rig.access.refusals, "sleep", hold)
        api, _ = rig.access.tokens.create("ci", "viewer", None)
        wrong = [{"Authorization": f"Bearer agt_{number}"} for number in range(20)]
        free = [await rig.ask("GET", LOOK, headers=each) for each in wrong[: refusals.FREE]]
        assert [answer.status for answer in free] == [401] * refusals.FREE
        assert waited == []
        held = [asyncio.create_task(rig.ask("GET", LOOK, headers=each)) for each in wrong]
        held += [asyncio.create_task(follow(rig, f"{rig.url}/?token={number}")) for number in range(20)]
        while sum(task.done() for task in held) < 40 - refusals.MOST_WAITING_OF_ONE:
            await asyncio.sleep(0.01)
        refused = [task.result() for task in held if task.done()]
        assert {answer.status for answer in refused} == {429}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert waited == sorted(waited)
        assert waited[0] == refusals.FIRST_SECONDS
        # Meanwhile requests with the right token do not wait, from the same address.
        assert (await rig.ask("GET", LOOK, headers={"Authorization": f"Bearer {api}"})).status == 200
        assert "Set-Cookie" in (await follow(rig, rig.access.start_token.link(rig.url))).headers
        release.set()
        await asyncio.gather(*held)

    run_guarded(home, body)


def test_what_was_refused_is_in_the_log_in_few_lines(home: Path) -> None:
    """A flood from one address is a line with its number; made-up addresses share one; the tokens are not in it."""

    async def body(rig: Rig) -> None:
        log = rig.access.refusals
        for _ in range(1000):
            log.note("nobody", "127.0.0.1", "token", "console")
        for number in range(1000):
            log.note("nobody", f"10.0.{number // 256}.{number % 256}", "token", "console")
        log.close()
        entries = rig.access.audit.page(100)
        assert len(entries) == refusals.MOST_LINES + 1
        assert {entry.outcome for entry in entries} == {"refused"}
        assert (entries[-1].address, entries[-1].target) == ("127.0.0.1", "console, 1000 times")
        assert entries[0].address == "many addresses"

    run_guarded(home, body)


def test_memory_for_guesses_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of addresses in memory is limited; after a while of silence the count of an address is reset."""
    clock = Clock()
    monkeypatch.setattr(refusals, "MOST_ADDRESSES", 50)

    async def body(rig: Rig) -> None:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        guesses = refusals.Refusals(rig.access.audit, clock=lambda: clock.micros / 1e6, sleep=sleep)
        for number in range(200):
            await guesses.wrong(f"10.0.0.{number}", "console")
        assert len(guesses._addresses) == 50
        assert max(waited) == refusals.LONGEST_SECONDS
        clock.advance(refusals.FORGET_SECONDS + 1)
        waited.clear()
        for _ in range(refusals.FREE):
            await guesses.wrong("10.0.0.199", "console")
        assert waited == []
        guesses.close()

    run_guarded(home, body)


def test_tokens_are_nowhere_else(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the log, the audit log, an answer nor the file of logins holds a token of the link or of a script."""
    caplog.set_level(logging.DEBUG)

    async def body(rig: Rig) -> None:
        link = rig.access.start_token.link(rig.url)
        api, _ = rig.access.tokens.create("ci", "admin", None)
        guess = "agt_made-up-guess-of-somebody"
        answers = [await follow(rig, link), await follow(rig, f"{rig.url}/broken?token={guess}")]
        cookie = token_in(answers[0])
        for headers in ({"Authorization": f"Bearer {api}"}, {"Authorization": f"Bearer {guess}"}):
            answers += [await rig.ask("GET", path, headers=headers) for path in (LOOK, "/api/v1/me", "/api/v1/audit")]
            answers.append(await rig.ask("GET", "/api/v1/broken", headers=headers))
        rig.access.refusals.close()
        told = caplog.text + repr(rig.access.audit.page(100)) + repr(rig.access.start_token)
        told += "".join(f"{answer.body!r}{answer.headers.get('Location', '')}" for answer in answers)
        kept = b"".join(path.read_bytes() for path in home.glob("access.db*"))
        for secret in (link.rpartition("=")[2], api, guess, cookie):
            assert secret not in told
            assert secret.encode() not in kept

    run_guarded(home, body)


# ── where the link can be found ──


def test_the_link_of_a_running_server_is_found(tmp_path: Path) -> None:
    """By its owner alone, as long as the server runs; the newest first."""
    home, token = tmp_path / "home", StartToken()
    home.mkdir()
    assert running_consoles(home) == []
    with published(home, "http://127.0.0.1:1", token.link("http://127.0.0.1:1")):
        with published(home, "http://127.0.0.1:2", None):
            assert [(each.url, each.link) for each in running_consoles(home)] == [
                ("http://127.0.0.1:2", None),
                ("http://127.0.0.1:1", token.link("http://127.0.0.1:1")),
            ]
            modes = {stat.S_IMODE(path.stat().st_mode) for path in (home / "consoles").iterdir()}
            assert os.name == "nt" or modes == {0o600}
        (found,) = running_consoles(home)
        assert found.link is not None
        assert found.link.rpartition("=")[2] not in repr(found)
    assert running_consoles(home) == []
    assert list((home / "consoles").iterdir()) == []


def test_what_a_killed_server_left_is_not_found(tmp_path: Path) -> None:
    """A file without a running process is removed when it is old."""
    directory = tmp_path / "consoles"
    directory.mkdir()
    left = directory / "0.json"
    left.write_text('{"url":"http://127.0.0.1:1","link":"x","started_at":1}')
    assert running_consoles(tmp_path) == []
    assert left.exists()
    os.utime(left, (1, 1))
    assert running_consoles(tmp_path) == []
    assert not left.exists()


@given(st.text(max_size=60))
def test_only_the_token_matches(text: str) -> None:
    """Whatever is given, of any letters."""
    token = StartToken()
    assert not token.matches(text)
    assert token.matches(token.link("").rpartition("=")[2])


def test_a_client_without_a_jar_sees_no_cookie_of_others(home: Path) -> None:
    """Two consoles on one machine have cookies of different names, so that one login does not end the other."""

    async def body(rig: Rig) -> None:
        port = urlsplit(rig.url).port
        answer = await follow(rig, rig.access.start_token.link(rig.url))
        assert answer.headers["Set-Cookie"].startswith(f"agenttrace_session_{port}=")
        other = {"Cookie": f"agenttrace_session_1={token_in(answer)}"}
        assert (await rig.ask("GET", LOOK, headers=other)).status == 401
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            async with http.get(rig.access.start_token.link(rig.url)) as page:
                assert (page.status, str(page.url)) == (200, f"{rig.url}/")
            async with http.get(rig.url + LOOK) as found:
                assert found.status == 200

    run_guarded(home, body)
