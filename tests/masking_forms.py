"""The forms in which secrets are written, and random values to write in them: what recall is measured with.

A form is a text with a name and a value, each written as the form wants it: quoted, escaped, encoded.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import string
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple
from urllib.parse import quote

#: What values are made of. Quotation marks and backslashes are tried where the form quotes.
ALPHABETS = {
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "mixed": string.ascii_letters,
    "digits and letters": string.ascii_letters + string.digits,
    "hex": "0123456789abcdef",
    "base64": string.ascii_letters + string.digits + "+/",
    "symbols": string.ascii_letters + string.digits + "!#$%&*+-./=?@^_~",
    "all symbols": string.ascii_letters + string.digits + "!#$%&()*+,-./:;<=>?@[]^_{|}~",
}
#: Names that say of their value that it is a secret.
NAMES = (
    *("password", "passwd", "pwd", "db_password", "DB_PASSWORD", "userPassword", "POSTGRES_PASSWORD", "passphrase"),
    *("secret", "client_secret", "clientSecret", "CLIENT_SECRET", "app-secret", "JWT_SECRET", "webhook_secret"),
    *("token", "TOKEN", "access_token", "accessToken", "GITHUB_TOKEN", "refresh_token", "auth_token", "bot-token"),
    *("api_key", "apiKey", "apikey", "API_KEY", "OPENAI_API_KEY", "x-api-key", "access_key", "secret_access_key"),
    *("private_key", "encryption_key", "SECRET_KEY", "signing_key", "privateKey"),
    *("auth", "credential", "credentials", "GITHUB_PAT", "github_pat", "cookie", "session_cookie", "SESSION_COOKIE"),
)


class Form(NamedTuple):
    """One way to write a name and its value."""

    name: str
    write: Callable[[str, str], str]
    #: What values are not made of here: it would mean something else, or has to be written in another way.
    without: str = ""
    #: Which names are written so.
    names: tuple[str, ...] = NAMES


def _python(value: str) -> str:
    return repr(value)


def _yaml_plain(value: str) -> str:
    """A value of YAML, in quotation marks only where it needs them."""
    plain = re.fullmatch(r"[A-Za-z0-9_/+.=~$^][^\[\]{},&*#?|<>=!%@:]*", value)
    return value if plain else "'" + value.replace("'", "''") + "'"


def _shell(value: str) -> str:
    return shlex.quote(value)


def _flag(name: str) -> str:
    """A name as an option has it: ``--db-password``."""
    return "--" + re.sub(r"([a-z])([A-Z])", r"\1-\2", name).replace("_", "-").lower()


def _header(name: str) -> str:
    return "-".join(part.title() for part in re.split(r"[_-]", name))


def _red(text: str) -> str:
    return f"\x1b[31m{text}\x1b[0m"


_UNQUOTED = ";&,()[]{}<>|#"
FORMS = (
    Form("JSON", lambda name, value: json.dumps({"user": "me", name: value, "port": 5432})),
    Form("JSON, indented", lambda name, value: json.dumps({"db": {"user": "me", name: value}}, indent=2)),
    Form("JSON, cut off", lambda name, value: json.dumps({"user": "me", name: value, "port": 5432})[:-8]),
    Form("JSON in a text", lambda name, value: f"It says: {json.dumps({name: value})} and more."),
    Form("JSON in JSON", lambda name, value: json.dumps({"arguments": json.dumps({name: value, "n": 1})})),
    Form("JSON in JSON in a text", lambda name, value: "args: " + json.dumps(json.dumps({name: value, "n": 1}))),
    Form("JSON lines", lambda name, value: json.dumps({"n": 1}) + "\n" + json.dumps({name: value}) + "\n"),
    Form("YAML", lambda name, value: f"db:\n  user: me\n  {name}: {_yaml_plain(value)}\n  port: 5432\n"),
    Form("YAML, top", lambda name, value: f"{name}: {_yaml_plain(value)}\n"),
    Form("YAML, quoted", lambda name, value: f'db:\n  {name}: "{value}"\n  port: 5432\n'),
    Form("YAML, folded", lambda name, value: f"db:\n  {name}: >-\n    {value}\n  port: 5432\n"),
    Form("YAML, literal", lambda name, value: f"db:\n  {name}: |\n    {value}\n  port: 5432\n"),
    Form("YAML, next line", lambda name, value: f"db:\n  {name}:\n    {_yaml_plain(value)}\n  port: 5432\n"),
    Form("YAML, list of variables", lambda name, value: f"- name: {name}\n  value: {_yaml_plain(value)}\n"),
    Form(".env", lambda name, value: f"A=1\n{name}={_shell(value)}\nB=2\n"),
    Form(".env, bare", lambda name, value: f"A=1\n{name}={value}\nB=2\n", "#"),
    Form(".env, double quotes", lambda name, value: f'A=1\n{name}="{value}"\nB=2\n'),
    Form("export", lambda name, value: f"export {name}={_shell(value)}\n"),
    Form("shell", lambda name, value: f"{name}={_shell(value)} npm start"),
    Form("option", lambda name, value: f"tool {_flag(name)} {_shell(value)} --verbose"),
    Form("option with =", lambda name, value: f"tool {_flag(name)}={_shell(value)} --verbose"),
    Form("docker -e", lambda name, value: f"docker run -e {name}={_shell(value)} image"),
    Form("address, parameter", lambda name, value: f"https://h.example/x?page=2&{name}={quote(value, safe='')}&z=1"),
    Form("address, password", lambda name, value: f"postgres://app:{quote(value, safe='')}@db:5432/app"),
    Form("header", lambda name, value: f"GET / HTTP/1.1\nHost: h\nX-{_header(name)}: {value}\nAccept: */*\n"),
    Form("header of curl", lambda name, value: f"curl -H 'X-{_header(name)}: {value}' https://h/"),
    Form("Authorization", lambda name, value: f"Authorization: Bearer {value}\n", _UNQUOTED + ":?!@*^$"),
    Form("connection string", lambda name, value: f"Server=h;Uid=me;{name}={value};Database=d", ";"),
    Form("DSN of Go", lambda name, value: f"app:{value}@tcp(db:3306)/shop?parseTime=true", "@:/?#"),
    Form("DSN of libpq", lambda name, value: f"host=h user=me {name}={value} dbname=d", "&;"),
    Form("Python", lambda name, value: f"{name.replace('-', '_')} = {_python(value)}\n"),
    Form("Python, argument", lambda name, value: f"f(user='me', {name.replace('-', '_')}={_python(value)})"),
    Form("Python, dict", lambda name, value: f"x = {{'user': 'me', '{name}': {_python(value)}, 'port': 1}}"),
    Form("TOML", lambda name, value: f"[db]\n{name} = {json.dumps(value)}\nport = 1\n"),
    Form("INI", lambda name, value: f"[db]\nuser = me\n{name} = {value}\nport = 1\n", "#;"),
    Form("properties", lambda name, value: f"spring.datasource.{name}={value}\n", "#"),
    Form("JavaScript", lambda name, value: f"const c = {{ user: 'me', {name.replace('-', '_')}: '{value}' }};"),
    Form("XML", lambda name, value: f"<db><{name}>{escape(value)}</{name}></db>"),
    Form("argv, JSON", lambda name, value: json.dumps(["tool", _flag(name), value, "-v"])),
    Form("argv, Python", lambda name, value: f"run(['tool', '{_flag(name)}', {_python(value)}, '-v'])"),
    Form("argv with =", lambda name, value: json.dumps({"args": ["tool", f"{_flag(name)}={value}"]})),
    Form("secrets", lambda name, value: json.dumps({"secrets": {"db": value, "other": {"deep": [value]}}})),
    Form("credentials", lambda name, value: json.dumps({"credentials": {"user": "me", "second": value}})),
    Form("cookies", lambda name, value: json.dumps({"cookies": {"sid": value}})),
    Form("cookies of a browser", lambda name, value: json.dumps({"cookies": [{"name": "sid", "value": value}]})),
    Form("variables", lambda name, value: json.dumps({"env": [{"name": name, "value": value}]})),
    Form("coloured name", lambda name, value: f"\x1b[34m{name}\x1b[39m: {_red(value)}\n"),
    Form("coloured JSON", lambda name, value: f"{{{_red(chr(34) + name + chr(34))}: {_red(json.dumps(value))}}}"),
    Form("coloured .env", lambda name, value: f"{_red(name)}\x1b[1m=\x1b[0m\x1b[32m{value}\x1b[0m\n", "#"),
    Form("colour in the value", lambda name, value: f'"{name}": "{value[:5]}\x1b[7m{value[5:]}\x1b[0m"'),
)

#: Forms whose name is that of a program.
COMMANDS = (
    Form("curl -u", lambda name, value: f"curl -u {_shell('me:' + value)} https://h/"),
    Form("curl -b", lambda name, value: f"curl -b 'session={value}' https://h/", ";,"),
    Form("curl --cookie", lambda name, value: f'curl -s --cookie "sid={value}; lang=en" https://h/', ";,"),
    Form("mysql -p", lambda name, value: f"mysql -u root -p{_shell(value)} shop"),
    Form("argv of mysql", lambda name, value: json.dumps(["mysql", "-u", "root", f"-p{value}", "shop"])),
    Form("argv of curl", lambda name, value: json.dumps(["curl", "-u", f"me:{value}", "https://h/"])),
    Form("argv of curl, Python", lambda name, value: f"run(['curl', '-b', {_python('sid=' + value)}, url])", ";,"),
    Form("htpasswd", lambda name, value: f"htpasswd -b /etc/users.txt me {_shell(value)}\n"),
    Form("htpasswd -nbB", lambda name, value: f"htpasswd -nbB me {_shell(value)}\n"),
    Form("sqlcmd", lambda name, value: f"sqlcmd -S h -U sa -P {_shell(value)} -Q 'select 1'"),
    Form("ldapsearch", lambda name, value: f"ldapsearch -x -D cn=me -w {_shell(value)} -b dc=h"),
    Form("sshpass", lambda name, value: f"sshpass -p {_shell(value)} ssh me@h"),
    Form("redis-cli", lambda name, value: f"redis-cli -h c -a {_shell(value)} ping"),
    Form("docker login", lambda name, value: f"docker login -u me -p {_shell(value)} r.example"),
    Form("SQL", lambda name, value: f"CREATE USER me WITH PASSWORD '{value}';"),
    Form("SQL, identified", lambda name, value: f"ALTER USER me IDENTIFIED BY '{value}';"),
)


def value(dice: random.Random, form: Form, alphabet: str) -> str:
    """A random value, as long as secrets are; it begins like one, not like an option or a comment."""
    marks = [mark for mark in ALPHABETS[alphabet] if mark not in form.without]
    first = [mark for mark in marks if mark.isalnum()]
    length = dice.choice((8, 10, 12, 16, 20, 24, 32, 40, 64))
    return dice.choice(first) + "".join(dice.choices(marks, k=length - 2)) + dice.choice(first)


def samples(form: Form, count: int, seed: object = 1) -> Iterator[tuple[str, str, str, str]]:
    """So many texts of a form: the name, the alphabet, the value, and the text."""
    dice = random.Random(f"{form.name}-{seed}")
    alphabets = [*ALPHABETS]
    for number in range(count):
        name = form.names[number % len(form.names)]
        alphabet = alphabets[(number // len(form.names)) % len(alphabets)]
        given = value(dice, form, alphabet)
        yield name, alphabet, given, form.write(name, given)


def leaks(given: str, masked: str) -> bool:
    """Whether five characters in a row of the value can still be read, as it is or as JSON and addresses write it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", masked)
    spellings = {given, json.dumps(given)[1:-1], quote(given, safe=""), escape(given), repr(given)[1:-1]}
    return not _fives(plain).isdisjoint(five for spelt in spellings for five in _fives(spelt))


def _fives(text: str) -> set[str]:
    return {text[at : at + 5] for at in range(len(text) - 4)}
