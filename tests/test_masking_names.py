"""A value is hidden where its name says that it is a secret, and only then; names are written in many ways."""

from __future__ import annotations

import pytest

from agenttrace.masking import Mask
from agenttrace.masking.names import of_field
from masking_examples import HEX, made_up, uuid

MASK = Mask()

PASSWORDS = ("hunter2", "p@ssw0rd!", "Tr0ub4dor#3", "correct-horse-9", "12345678", "S3cr3t_99")
#: Ways to write a name and a value. The value is marked with §.
PASSWORD_PLACES = (
    "password=§",
    "password: §",
    "Password: §.",
    '{"password": "§"}',
    "{'password': '§', 'user': 'me'}",
    '{\\"password\\": \\"§\\"}',
    '{\\\\\\"password\\\\\\": \\\\\\"§\\\\\\"}',
    'connect(user="me", password="§")',
    'password: str = "§"',
    'os.environ["DB_PASSWORD"] = "§"',
    "DB_PASSWORD=§",
    "DB_PASSWORD='§'",
    "export PGPASSWORD=§\npsql",
    "docker run -e DB_PASSWORD=§ image",
    "A=1\\nDB_PASSWORD=§\\nB=2",
    "     7\u2192DB_PASSWORD=§\n     8\u2192B=2",
    "db:\n  password: §\n  port: 5432",
    'db_password: "§"  # of the test',
    "- name: DB_PASSWORD\n  value: §",
    '{"name": "DB_PASSWORD", "value": "§"}',
    "spring.datasource.password=§",
    "Server=h;User=me;Password=§;Database=d",
    "<password>§</password>",
    "the password is § now",
    "passwd = '§'",
    "userPassword := `§`",
    "PASSWORD => '§',",
    "密码：§",
    "密码是§，请保密",
    "密码 = §",
    "--password §",
)

KEYS = (
    made_up(32),
    made_up(40, HEX),
    made_up(24, seed="b"),
    "abcdef" + "1234567890",
    "abc123" + "def456",
    uuid(),
    made_up(38) + "/" + made_up(2) + "+==",
    "0x" + made_up(64, HEX),
    "django-insecure-z3!w=p^8k+e#2_v@q",
)
KEY_PLACES = (
    "API_KEY=§",
    "export OPENAI_API_KEY=§",
    'api_key="§"',
    '{"apiKey": "§"}',
    '{\\"access_token\\": \\"§\\"}',
    '\\\\\\"api_key\\\\\\": \\\\\\"§\\\\\\"',
    "api_key: §",
    "API Key: §",
    "x-api-key: §",
    "client_secret=§",
    'SECRET_KEY = "§"',
    'secretKey: "§"',
    "APIKEY=§",
    "ACCESS_TOKEN: §",
    "aws_secret_access_key = §",
    "aws configure set aws_secret_access_key §",
    "AccountKey=§;EndpointSuffix=example.net",
    'os.environ["API_KEY"]="§"',
    "--api-key §",
    "--token=§",
    "DATADOG_API_KEY: §",
    "CLOUDFLARE_API_TOKEN=§",
    "VERCEL_TOKEN=§",
    "密钥: §",
    "API 密钥：§。",
    '"credentials": "§"',
    "API_KEY_2=§",
    "SECRET_KEY_BASE=§",
)


@pytest.mark.parametrize("place", PASSWORD_PLACES)
def test_passwords(place: str) -> None:
    """Nearly everything behind the name of a password is one, and all of it is hidden."""
    for password in PASSWORDS:
        assert MASK.text(place.replace("§", password)) == place.replace("§", "[masked:password]"), password


@pytest.mark.parametrize("place", KEY_PLACES)
def test_keys_secrets_and_tokens(place: str) -> None:
    """Whatever looks made up behind the name of a key, a secret or a token is hidden."""
    for key in KEYS:
        if place.startswith("aws configure") and len(key) < 16:
            continue  # between words, only what cannot be a word
        text = MASK.text(place.replace("§", key))
        before, after = place.split("§")
        assert text.startswith(f"{before}[masked:"), text
        assert text.endswith(f"]{after}"), text
        assert key not in text


@pytest.mark.parametrize("word", ["letmein", "postgres", "hunter"])
def test_a_word_is_a_password_where_nothing_else_can_be(word: str) -> None:
    """In quotation marks and in files of variables a plain word is hidden; in a sentence it cannot be recognised."""
    for place in ('"password": "§"', "password='§'", "DB_PASSWORD=§", "POSTGRES_PASSWORD: §", "password=§"):
        assert MASK.text(place.replace("§", word)) == place.replace("§", "[masked:password]")
    assert MASK.text(f"the password: {word}") == f"the password: {word}"


def test_a_value_is_hidden_to_its_end() -> None:
    """Characters that end a value elsewhere are part of it in a file of variables; in quotes, escaped ones as well."""
    assert MASK.text("DB_PASSWORD=a;b&c(d)1|e\nX=1") == "DB_PASSWORD=[masked:password]\nX=1"
    assert MASK.text('password="a\\"b2 c" x') == 'password="a\\"b2 c" x'  # several words are a sentence
    assert MASK.text('password="a\\"b2" x') == 'password="[masked:password]" x'
    assert MASK.text("SECRET_KEY = 'a3!w=p^8k+e#2(v@q[x])z'") == "SECRET_KEY = '[masked:key]'"
    long = made_up(100_000)
    for place in ("API_KEY=§ x", 'api_key="§" x', "api_key: § x", "?api_key=§&x"):
        assert MASK.text(place.replace("§", long)) == place.replace("§", "[masked:key]")


def test_a_text_that_was_cut_in_a_value() -> None:
    """What is left of a secret is hidden, too."""
    assert MASK.text('{"password": "hunter2') == '{"password": "[masked:password]'
    assert MASK.text('{\\"api_key\\": \\"' + made_up(20)) == '{\\"api_key\\": \\"[masked:key]'


@pytest.mark.parametrize(
    "text",
    [
        # Counts of tokens
        "max_tokens=4096",
        "input_tokens: 12, output_tokens: 5",
        '"output_tokens": 5, "total_tokens": 1234567890',
        '{"input_tokens": 12345678, "cache_read_input_tokens": 987654321}',
        "token_count=123456789, tokens: 55, num_tokens = 100000000000",
        "token=12345678901234567890",
        "tokens/s: 1234.5678, time_to_first_token: 0.123456789",
        # Placeholders
        "TOKEN=$TOKEN",
        "API_KEY=${API_KEY:-none}",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "API_KEY=$(cat /run/secrets/key1)",
        "API_KEY=<your key>",
        "API_KEY=xxx",
        "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx",
        "API_KEY=sk-xxxx",
        "API_KEY=sk-...",
        "API_KEY=your-api-key-here",
        "password: ********",
        'password = "<password>"',
        "password=None, token=null, secret: nil, key: undefined",
        "password=changeme",
        "API_KEY=%API_KEY%",
        "password = '%s' % word",
        'api_key = "{api_key}"',
        'secret: "[REDACTED]"',
        "password: {{ vault_password }}",
        # Programs
        'api_key = os.environ["OPENAI_API_KEY"]',
        'api_key = os.getenv("OPENAI_API_KEY", "")',
        "apiKey: process.env.OPENAI_API_KEY,",
        "api_key=api_key, token=self._token2, secret=settings.secret_key1",
        "password = get_password()",
        "password=getpass.getpass(prompt='Word: ')",
        "token = await client.get_token(timeout=30)",
        "const [token, setToken] = useState('');",
        "def f(token: str, *, key: int = 5) -> None:",
        "private_key: Ed25519PrivateKey | None = None",
        "secret_access_key: AuthAwsMountStaticConfigSecretAccessKey",
        "credentials: Annotated[HTTPAuthorizationCredentials, Depends(security)]",
        "OVERLOADED_CREDENTIALS: ErrorReason",
        "for key, value in items.items(): cache[key] = value2",
        "sorted(rows, key=lambda row: row[1])",
        'if token == "abc" and key != "def12345":',
        "tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased')",
        'label("Password:"), 0, 2, 1, 1)',
        '"password": {"type": "string", "minLength": 8}',
        "password: string; token?: string; secret: Optional[str]",
        'TOKEN = "token"; API_KEY = "api_key"',
        "STENCIL_PASS_DEPTH_PASS: 0x0B96;",
        # Names that announce nothing
        f'cache_key = "{made_up(40, HEX)}"',
        f'"key": "{uuid()}"',
        f'"key": "{made_up(64, HEX)}"',
        f'idempotency_key="{uuid()}"',
        f"next_token={made_up(32)}",
        f"commit {made_up(40, HEX)}",
        f"etag: {made_up(32, HEX)}, id={uuid()}",
        f'"signature": "{made_up(200)}"',
        f"public_key={made_up(44)}",
        "monkey=abc123def456ghi789, keyboard=qwerty123456",
        "primary_key=True, sort_key='created_at_2', key='user:123456'",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "pad_token='<pad>', eos_token=</s>",
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:Name-a1b2c3",
        "PWD=/home/me/project2, OLDPWD=/tmp/x1",
        "SSH_KEY=/home/me/.ssh/id_ed25519, private_key: ./certs/server1.key",
        "PASS: 12 FAIL: 0, first_pass=2048",
        "secrets: inherit, secret: true, secret_name: my-app/prod/db2",
        "token_url=https://h/oauth2/token1",
        # Sentences
        "the token: a string, the key: an integer",
        "Password: required, at least 8 characters",
        "password is base64 encoded, token is sha256",
        "密码：必填，密钥：可选",
        '"password": "Enter your password", "forgotPassword": "Forgot password?"',
        '"password": "Passwort", "token": "hello"',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Counts, placeholders, programs, names that only sound alike, hashes, and sentences are left byte for byte."""
    assert MASK.text(text) == text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "password") for name in ("password", "Passwd", "DB_PASSWORD", "userPassword", "db_pass", "pwd")),
        *((name, "secret") for name in ("secret", "client_secret", "clientSecret", "SHARED-SECRET")),
        *((name, "key") for name in ("api_key", "apiKey", "apikey", "API_KEY_2", "X-Api-Key", "key", "AccountKey")),
        *((name, "token") for name in ("token", "access_token", "accesstoken", "GITHUB_TOKEN", "refreshToken")),
        *((name, "credential") for name in ("credential", "credentials", "awsCredentials")),
        *((name, "authorization") for name in ("authorization", "Authorization", "Proxy-Authorization")),
        *((name, "cookie") for name in ("cookie", "Set-Cookie")),
        *((name, None) for name in ("tokens", "max_tokens", "keys", "primary_key", "publicKey", "monkey", "sort_key")),
        *(
            (name, None)
            for name in ("password_hash", "secret_name", "key_id", "tokenizer", "", "next_token", "Keyboard")
        ),
    ],
)
def test_names_of_fields(name: str, kind: str | None) -> None:
    """A name announces a secret by its last word, and by the word before."""
    found = of_field(name)
    assert (found.kind if found else None) == kind
