"""Every rule finds its secret wherever it is, hides all of it, and ignores what only looks alike."""

from __future__ import annotations

import base64

import pytest

from agenttrace.masking import Mask
from agenttrace.masking.vendors import TOKENS
from masking_examples import (
    ALNUM,
    HEX,
    Token,
    border,
    discord,
    encoded,
    jwt,
    made_up,
    private_key,
    tokens,
    uuid,
)

MASK = Mask()
PRIVATE = " ".join(("PRIVATE", "KEY"))

#: Where a token may stand; the place is marked with §.
SURROUNDINGS = (
    "§",
    "export SOMETHING=§\n",
    "export SOMETHING='§' && run",
    '{"command": "use §", "n": 5}',
    '{\\"a\\": \\"§\\", \\"n\\": 5}',
    '{\\\\\\"a\\\\\\": \\\\\\"§\\\\\\"}',
    "It is § and nothing else.",
    "(§)",
    "see §.",
    "§, then",
    "§; then",
    "§!",
    "`§`",
    "<§>",
    "请使用§，不要外传。",
    "密钥是「§」",
    "first line\\n§\\nthird line",
    "     3\u2192§",
    "\x1b[32m§\x1b[0m",
    "\x1b[1;31m§\x1b[0m",
    "go?a=%3D§",
    "\\u0022§\\u0022",
    "the end §",
)
EVERY_TOKEN = [*tokens(), Token("jwt", "", jwt()), Token("discord-token", "", discord())]


def masked(kind: str) -> str:
    return f"[masked:{kind}]"


@pytest.mark.parametrize("token", EVERY_TOKEN, ids=lambda token: f"{token.kind} {token.prefix}")
def test_a_token_is_hidden_wherever_it_is(token: Token) -> None:
    """In shells, JSON, escaped JSON, prose of any language, at the end, before punctuation: all of it and no more."""
    for place in SURROUNDINGS:
        assert MASK.text(place.replace("§", str(token))) == place.replace("§", masked(token.kind)), place


def test_every_vendor_has_an_example() -> None:
    """No row of the table goes untested."""
    assert {kind for kind, _, _ in TOKENS} - {token.kind for token in EVERY_TOKEN} == set()


@pytest.mark.parametrize("token", [*tokens()], ids=lambda token: f"{token.kind} {token.prefix}")
def test_what_only_begins_like_a_token_stays(token: Token) -> None:
    """A prefix alone, one with a few characters, one inside a word, and one filled with x are no tokens."""
    texts = [f"{token.prefix} begins one"]
    if len(token.rest) > 12:
        texts += [f"{token.prefix}{token.rest[:5]} is short", f"{token.prefix}{'x' * len(token.rest)} is nothing"]
    if token.kind != "telegram-token":
        texts += [f"q{token} is a word"]
    assert [MASK.text(text) for text in texts] == texts


@pytest.mark.parametrize(
    "text",
    [
        "sk-estimator-doc-link fitted",
        'class="sk-toggleable__content fitted sk-parallel-item"',
        "risk-assessment-of-the-whole-thing-2024",
        "task-1234567890abcdef1234567890abcdef",
        "AKIA is how ids of keys begin",
        "eyJvZmZzZXQiOjEwMH0 is where the next page begins",
        "a.b.c eyJhbGciOiJIUzI1NiJ9 alone",
        "TOKEN_PREFIXES = ('ghp_', 'gho_', 'github_pat_')",
        "npm_config_registry=https://registry.example.com/",
        "hf_hub_download(repo_id, filename)",
        "pat_embed_dim and sat_score",
        "key-value stores, key-0123456789",
        "12:AAbb",
        "sha256-us1",
        "SKIP SKU-1234 SK",
        "1//0 and 2//0",
        "v1.0-alpha",
        "xai-sdk, gsk_, pplx-api",
        "secret_manager_client_for_all_regions",
    ],
)
def test_words_that_share_a_beginning_stay(text: str) -> None:
    """Names of classes, functions, files and variables are not tokens."""
    assert MASK.text(text) == text


def test_a_web_token_in_parts() -> None:
    """Two parts are enough, as texts are cut; the point of a sentence is no part of it; one part is no token."""
    token = jwt()
    head, body, _ = token.split(".")
    assert MASK.text(f"see {token}.") == "see [masked:jwt]."
    assert MASK.text(f"cut {head}.{body}") == "cut [masked:jwt]"
    assert MASK.text(f"only {head}") == f"only {head}"
    assert MASK.text(f"a{token}") == f"a{token}"


@pytest.mark.parametrize(
    "name",
    [
        *("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        *("OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"),
    ],
)
@pytest.mark.parametrize("new_line", ["\n", "\r\n", "\\n", "\\\\n", "\\r\\n", '\\n" +\n    "', "\n    ", "\n> "])
@pytest.mark.parametrize("ends", [True, False])
def test_private_keys(name: str, new_line: str, *, ends: bool) -> None:
    """The whole block, also inside JSON, source code and quotations, and also when its end is missing."""
    key = private_key(name, new_line=new_line, ends=ends)
    assert MASK.text(f'before "{key}" after') == 'before "[masked:private-key]" after'


def test_a_private_key_that_a_tool_has_numbered() -> None:
    """Line numbers before each line do not save it, whether the last line is there or not."""
    for ends in (True, False):
        lines = private_key(ends=ends).split("\n")
        numbered = "\n".join(f"{number:6}\u2192{line}" for number, line in enumerate(lines, 1))
        assert MASK.text(numbered) == "     1\u2192[masked:private-key]"


def test_a_private_key_in_base64() -> None:
    """As in the files of Kubernetes; a certificate in base64 stays."""
    key, certificate = (
        base64.b64encode(private_key(name).encode()).decode() for name in ("PRIVATE KEY", "CERTIFICATE")
    )
    text = f"client-certificate-data: {certificate}\nclient-key-data: §\n"
    assert MASK.text(text.replace("§", key)) == text.replace("§", "[masked:private-key]")


@pytest.mark.parametrize("new_line", ["\n", "\r\n", "\\n", "\\\\n", '\\n" +\n    "', "\n    ", "\n> "])
def test_a_private_key_without_its_first_line(new_line: str) -> None:
    """As where a text was cut, or only the end of a file was shown."""
    key = private_key(new_line=new_line).split(new_line, 3)[3]
    assert MASK.text(f'before "{key}" after') == 'before "[masked:private-key]" after'


def test_the_body_of_a_private_key() -> None:
    """Without the lines around it, it is known by its beginning; certificates and public keys begin differently."""
    rows = "\n".join(made_up(64, ALNUM + "+/", row) for row in range(5))
    for begins in (b"\x30\x82\x04\xbd\x02\x01\x00\x30", b"\x30\x77\x02\x01\x01\x04\x20\x00", b"openssh-key-v1\x00"):
        body = base64.b64encode(begins + b"0" * (48 - len(begins))).decode()
        assert MASK.text(f"x {body}\n{rows} y") == "x [masked:private-key] y"
    public = base64.b64encode(b"\x30\x82\x04\xbd\x30\x0d\x06\x09" + b"0" * 40).decode()
    assert MASK.text(f"x {public}\n{rows} y") == f"x {public}\n{rows} y"


def test_a_private_key_ends_where_prose_begins() -> None:
    """What follows a key that was cut off is not swallowed, nor is the text between two keys."""
    text = f"{private_key(ends=False)}\n\nThat was the key. It is short.\n{private_key()}\nDone."
    assert MASK.text(text) == "[masked:private-key]\n\nThat was the key. It is short.\n[masked:private-key]\nDone."


@pytest.mark.parametrize(
    "text",
    [
        private_key("PUBLIC KEY"),
        private_key("CERTIFICATE"),
        f'if "{border("BEGIN", PRIVATE)}" in text and "{border("END", PRIVATE)}" in text:',
        f"{border('BEGIN', PRIVATE)}\n...\n{border('END', PRIVATE)}",
    ],
)
def test_what_is_no_private_key_stays(text: str) -> None:
    """Public keys, certificates, and programs and manuals that only name the first and the last line."""
    assert MASK.text(text) == text


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("Authorization: Bearer {}", made_up(32), "authorization"),
        ("authorization: bearer {}", "abc123", "authorization"),
        ('curl -H "Authorization: Bearer {}" https://h/', made_up(40, HEX), "authorization"),
        ("curl -H 'Authorization: Basic {}' https://h/", base64.b64encode(b"me:word").decode(), "authorization"),
        ('{{"Authorization": "Bearer {}"}}', made_up(24), "authorization"),
        ('{{\\"Authorization\\": \\"Bearer {}\\"}}', made_up(24), "authorization"),
        ("headers['Authorization'] = 'token {}'", made_up(40, HEX), "authorization"),
        ('headers.set("Authorization", "Bearer {}")', made_up(24), "authorization"),
        ("Proxy-Authorization: Basic {}", base64.b64encode(b"me:word").decode(), "authorization"),
        ("Authorization: {}", made_up(40), "authorization"),
        ("send Bearer {} with it", made_up(40), "bearer-token"),
        ("Basic {} was sent", base64.b64encode(b"admin:hunter2").decode(), "basic-auth"),
        ("//registry.example.com/:_auth={}", base64.b64encode(b"me:word").decode(), "basic-auth"),
        ('{{"auths": {{"r.example.com": {{"auth": "{}"}}}}}}', base64.b64encode(b"me:word").decode(), "authorization"),
        ("Cookie: {}", f"session={made_up(32)}; theme=dark", "cookie"),
        ('"Cookie": "{}"', f"sid={made_up(32)}", "cookie"),
        ("Set-Cookie: sid={}; Path=/; HttpOnly", made_up(32), "cookie"),
        ("curl --cookie '{}' https://h/", f"sid={made_up(32)}", "cookie"),
        ("curl -b '{}' https://h/", f"session={made_up(32)}", "cookie"),
        ("curl -sb {} https://h/".replace("-sb", "-s -b"), f"session={made_up(32)}", "cookie"),
        ("X-Api-Key: {}", made_up(32), "key"),
        ("GITHUB_PAT={}", made_up(32), "token"),
        ("-H 'x-goog-api-key: {}'", made_up(39), "key"),
    ],
)
def test_headers(text: str, secret: str, kind: str) -> None:
    """What a header says stays, what it lets in with does not."""
    assert MASK.text(text.format(secret)) == text.format(masked(kind))


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer ${TOKEN}",
        "Authorization: Bearer <token>",
        "Authorization: Bearer YOUR_API_KEY",
        "Authorization: Bearer ${{ secrets.TOKEN }}",
        'headers = {"Authorization": f"Bearer {token}"}',
        '"Authorization": "Bearer " + token',
        "Authorization: Bearer {{token}}",
        "the Authorization header, Bearer authentication, Basic authentication",
        'WWW-Authenticate: Bearer realm="example", error="invalid_token"',
        "['ASAuthorization', 'ASAuthorizationAppleIDButton']",
        "Authorization: AWS4-HMAC-SHA256 SignedHeaders=host;date",
        "Cookie: name=value",
        'document.cookie = "theme=dark; path=/"',
        "Basic understanding of everything",
        '{"auth": "optional", "auth": {"type": "bearer"}}',
    ],
)
def test_headers_without_a_secret_stay(text: str) -> None:
    """Placeholders, programs, and sentences about headers."""
    assert MASK.text(text) == text


@pytest.mark.parametrize(
    ("text", "secret", "kind"),
    [
        ("https://me:{}@example.com/x.git", "hunter2", "url-password"),
        ("postgres://app:{}@db:5432/app?sslmode=require", "s3cr3t", "url-password"),
        ("postgresql+psycopg://app:{}@db/app", "p@ss:word", "url-password"),
        ("redis://:{}@cache:6379/0", "abcdefgh", "url-password"),
        ("amqp://guest:{}@mq//", "gu%2Fest", "url-password"),
        ("mongodb+srv://u:{}@c.example.net/db", "Xy1", "url-password"),
        ('"url": "https://x-access-token:{}@github.com/o/r"', made_up(30), "url-password"),
        ("https://{}@example.com/o/r", made_up(40), "url-token"),
        ("https://{}@o1234.ingest.sentry.io/5678", made_up(32, HEX), "sentry-dsn"),
        ("https://hooks.slack.com/services/{}", f"T{made_up(8)}/B{made_up(8)}/{made_up(24)}", "webhook"),
        ("https://discord.com/api/webhooks/{}", f"123456789012345678/{made_up(68)}", "webhook"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", uuid(), "webhook"),
        ("https://a.blob.example.net/c?sv=2024-01-01&sig={}&se=1", f"{made_up(43)}%3D", "signature"),
        ("https://b.s3.example.com/k?X-Amz-Signature={}", made_up(64, HEX), "signature"),
        ("https://h/x?id=5&auth={}", made_up(32, HEX), "signature"),
        ("https://h/x?api_key={}&page=2", made_up(20), "key"),
        ("https://h/x?page=2&token={}#top", made_up(20), "token"),
        ("https://h/x?page=2\\u0026access_token={}", made_up(20), "token"),
        ("https://h/x?page=2&amp;key={}", made_up(20), "key"),
        ("https://oapi.dingtalk.com/robot/send?access_token={}", made_up(64, HEX), "token"),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}", uuid(), "key"),
        ("https://h/x?password={}&user=me", "hunter2", "password"),
        ("app:{}@tcp(db:3306)/shop", "hunter2", "url-password"),
        ("app:{}@unix(/run/mysql.sock)/shop", "p@ss:w/rd", "url-password"),
    ],
)
def test_addresses(text: str, secret: str, kind: str) -> None:
    """The address stays, what it lets in with does not."""
    assert MASK.text(text.format(secret)) == text.format(masked(kind))
    assert MASK.text(f'see "{text.format(secret)}",') == f'see "{text.format(masked(kind))}",'


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8080/path@2x.png",
        "https://example.com:8443/a:b@c",
        "git@github.com:owner/repository.git",
        "ssh://git@github.com:22/owner/repository",
        "https://user:${PASSWORD}@host",
        "https://user:$PASSWORD@host",
        "postgres://user:password@localhost/db",
        "postgres://<user>:<password>@localhost/db",
        'f"redis://:{password}@{host}"',
        "postgresql://%s:%s@%s",
        "https://user@example.com",
        "https://example.com/?page=2&sort=created_at&q=3f786850e387550fdab836ed7e6dc881de23001b",
        "https://example.com/?key=name&token=next",
        "https://hooks.slack.com/services/",
        "https://example.com/3f786850e387550fdab836ed7e6dc881de23001b/raw",
    ],
)
def test_addresses_without_a_secret_stay(text: str) -> None:
    """Ports, paths, hosts, placeholders and hashes."""
    assert MASK.text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("curl -u me:{} https://h/", "hunter2"),
        ("curl -sS -u 'me:{}' https://h/", "hunter2"),
        ("curl https://h/ --user me:{}", "p@ss"),
        ("curl \\\n  -X POST \\\n  -u me:{} \\\n  https://h/", "hunter2"),
        ('subprocess.run(["curl", "-u", "me:{}"])', "hunter2"),
        ("mysql -u root -p{} shop", "S3cret"),
        ("mysqldump -h db -u root -p'{}' shop", "S3cret"),
        ("sshpass -p {} ssh me@h", "hunter2"),
        ("sshpass -p '{}' scp a h:b", "hunter2"),
        ("redis-cli -h cache -a {} ping", "hunter2"),
        ("docker login -u me -p {} r.example.com", "dckr99"),
        ("ALTER USER me IDENTIFIED BY '{}';", "hunter2"),
        ("CREATE USER me WITH PASSWORD '{}';", "hunter2"),
        ("tool --password {} --verbose", "hunter2"),
        ("tool --password={}", "hunter2"),
        ("machine h login me password {}", "hunter2"),
        ("echo '{}' | sudo -S apt-get update", "hunter2"),
        ("openssl rsa -passin pass:{} -in key.pem", "hunter2"),
        ('requests.get(url, auth=("me", "{}"))', "hunter2"),
        ("define( 'DB_PASSWORD', '{}' );", "hunter2"),
        ('builder.withPassword("{}")', "k8s2X9qPz"),
        ("htpasswd -b users.txt me {}", "hunter2"),
        ("htpasswd -nbB me '{}'", "hunter2"),
        ("sqlcmd -S h -U sa -P {} -Q 'select 1'", "hunter2"),
        ("ldapsearch -x -D cn=me -w {} -b dc=h", "hunter2"),
        ('run(["mysql", "-u", "root", "-p{}"])', "hunter2"),
        ('["tool", "--password", "{}"]', "hunter2"),
        ("run(['tool', '--db-password', '{}'])", "hunter2"),
        ("password:\n  {}\n", "hunter2"),
        ("password: >-\n  {}\nport: 1\n", "hunter2"),
        ("password: |\n  {}\nport: 1\n", "hunter2\n  second line"),
        ("\x1b[34mpassword\x1b[39m: \x1b[31m{}\x1b[0m", "hunter2"),
        ("pass\x1b[1mword\x1b[0m={} x", "hunter2"),
    ],
)
def test_commands(text: str, secret: str) -> None:
    """What is given to a command as a password is hidden, the command stays."""
    assert MASK.text(text.format(secret)) == text.format(masked("password"))


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 image",
        "docker run -u node:node image",
        "git push -u origin main:main",
        'curl -u "$USER:$PASSWORD" https://h/',
        "curl -u <user>:<password> https://h/",
        "curl -u https://h/",
        "mysql -u root -p shop",
        "mysql --port 3306 -P 3307",
        "tool --password PASSWORD --token TOKEN",
        "tool --password-stdin < file",
        "tool --key name --token-file /run/secrets/token",
        "a library identified by 'name'",
        "echo $PASSWORD | sudo -S apt-get update",
        'get_password("Password: ")',
        'os.getenv("DB_PASSWORD", "postgres")',
    ],
)
def test_commands_without_a_secret_stay(text: str) -> None:
    """Users, branches, placeholders, options that only sound alike."""
    assert MASK.text(text) == text


def test_a_secret_has_one_name() -> None:
    """Where several rules find the same secret, it becomes one marker, of the most specific rule."""
    token = next(token for token in tokens() if token.kind == "github-token")
    for text in (f"password={token}", f"Authorization: Bearer {token}", f"https://me:{token}@h", f"?token={token}"):
        assert MASK.text(text) == text.replace(str(token), "[masked:github-token]")


def test_a_discord_token_begins_with_a_number() -> None:
    """Three parts that look like one but whose first is no number in base64 are not masked."""
    other = f"{encoded('no number at all..')}.{made_up(6, ALNUM)}.{made_up(38, ALNUM)}"
    assert MASK.text(f"x {other} y") == f"x {other} y"
