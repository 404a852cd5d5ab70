"""Kinds of errors, out of what programs print."""

import pytest

from ostler.agents.failures import kind_of, last_line, spoken, status_in
from ostler.model import Exit

STATUSES = {
    # as the CLIs print them, from the captures
    'ApiError: {"error":{"code":500,"message":"scripted 500 from the fake server","status":"INTERNAL"}}': 500,
    "Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {": 429,
    "  status: 401\n": 401,
    "sponseStreamDisconnected { http_status_code: Some(401) }) Some(": 401,
    "unexpected status 401 Unauthorized: scripted 401 from the fake server, url: http://127.0.0.1:8399/v1": 401,
    "exceeded retry limit, last status: 429 Too Many Requests": 429,
    "[API Error: 401 scripted 401 from the fake server]": 401,
    "Failed to authenticate. API Error: 401 scripted 401 from the fake server": 401,
    "API Error: 529 scripted 529 from the fake server. This is a server-side issue, usually temporary": 529,
    "Authentication failed with provider at http://127.0.0.1:8399/v1 (HTTP 401).\n  Check your key": 401,
    "Failed to get response; retried 5 times (total 5.40 seconds) Last error: 429 scripted 429": 429,
    "Internal error: API Error: Request rejected (429) · scripted 429 from the scripted model": 429,
    # as others do
    "HTTP error 429 Too Many Requests": 429,
    "HTTP/1.1 503 Service Unavailable": 503,
    "HTTP status code: 502": 502,
    "AxiosError: Request failed with status code 403": 403,
    "statusCode: 429,": 429,
    'request failed: {"status": 529, "error": "overloaded_error"}': 529,
    "Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}": 401,
    "server said 500 Internal Server Error": 500,
    "403 Forbidden": 403,
    "HTTP 503 from the server": 503,
    "status=429; try again later": 429,
}
NUMBERS = [
    "    at Object.<anonymous> (/workspace/dist/x.js:512:7)",
    "    at fatal (file:///workspace/node_modules/cli/dist/index.js:401:503)",
    "main.go:429: undefined: frob",
    "./main.go:429:13: cannot use x (type int) as type string",
    'File "/workspace/app.py", line 500, in main',
    "src/lib.rs:404:9: error[E0425]: cannot find value `x` in this scope",
    "error TS2304: x.ts(401,5)",
    "x.c:503:1: error: expected ';' before 'return'",
    '{"code": 512, "message": "stale"}',
    "error code: 512 (ESTALE)",
    "error code: 511",
    "status: 500 tests",
    "status: 404 files checked",
    "http: 500ms",
    "HTTP 429 handling in src/retry.ts",
    "test HTTP 500 handler ... FAILED",
    "Error: line 429 is longer than 100 characters",
    "error: 512 tests failed",
    "500 passed, 3 failed in 4.29s",
    "npm warn deprecated 403 packages",
    "killed after 500 ms",
    "exit status 429",
    "process exited with status 502",
    "sdk.mjs:163:472)",
    "phase=modes durationMs=1 totalMs=536",
    "Fallback model(s) for capacity errors (429/503/529), repeatable",
    "listening on 127.0.0.1:4290, pid 500",
    "memory: 512 MB of 500 MB",
    "took 429.5 s; version 5.0.0; build 401abc; v4.0.1",
    "panic: runtime error: index out of range [429] with length 429",
    "0x00000000004295d0 in main () at main.c:500",
    "thread 'main' panicked at src/main.rs:429:5",
]


@pytest.mark.parametrize(("said", "status"), STATUSES.items())
def test_what_is_clearly_a_status_counts(said: str, status: int) -> None:
    assert status_in(said) == status
    assert status_in(f"starting\n{said}\nbye\n") == status


@pytest.mark.parametrize("said", NUMBERS)
def test_a_number_in_a_trace_or_a_count_is_no_status(said: str) -> None:
    assert status_in(said) is None
    assert kind_of(None, f"something broke\n{said}\n") == "crashed"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((401, "unauthenticated"), (403, "unauthenticated"), (429, "limited"), (500, "overloaded")),
        *((529, "overloaded"), (400, "bad_request"), (404, "bad_request"), (None, "crashed")),
    ],
)
def test_the_kind_of_a_status(status: int | None, kind: str) -> None:
    assert kind_of(status, "it broke") == kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Invalid API key · Please run /login", "unauthenticated"),
        ("Rate limit exceeded", "limited"),
        ("connect ECONNREFUSED 127.0.0.1:443", "overloaded"),
        ("error: unknown option '--frob'", "bad_request"),
        ("Segmentation fault", "crashed"),
    ],
)
def test_the_kind_of_words_without_a_status(said: str, kind: str) -> None:
    assert kind_of(None, said) == kind


def test_a_status_that_was_given_counts_more_than_words() -> None:
    assert kind_of(429, "unexpected status 401 Unauthorized") == "limited"


def test_ends_in_words() -> None:
    assert [spoken(Exit(code=3)), spoken(Exit(signal=9))] == ["exit code 3", "signal 9"]
    assert [last_line("a\n b \n\n"), last_line(""), last_line("x" * 600)] == ["b", "", "x" * 500]


BUNDLED = 'function a(e){return{status: 429, error:"overloaded_error"}}var b="rate_limit_error, please run /login"'


@pytest.mark.parametrize(
    "said",
    [
        f"file:///opt/cli/bundle.js:401\n{BUNDLED}\n         ^\n\nTypeError: a is not a function\n    at b\n",
        f"{BUNDLED}\n^\n\nReferenceError: b is not defined\n",  # the end of what was printed
        '  File "x.py", line 4, in f\n    raise Full(status=503)\n          ^^^^^^^^^\nx.Full: it is full\n',
    ],
)
def test_the_source_of_a_program_that_broke_is_no_error_of_a_server(said: str) -> None:
    assert kind_of(None, said) == "crashed"
    assert kind_of(None, f"{said}API Error: 529 Overloaded\n") == "overloaded"


@pytest.mark.parametrize(
    "said",
    [
        "bash: unexpected EOF while looking for matching quotation mark",
        "generate limits.h: No such file or directory",
        "Authenticated as ann. Segmentation fault",
        "TypeError: authenticator is not a function",
        "the key of this object is missing",
        "error: call of overloaded 'f(int)' is ambiguous",
        "x.py:3: error: Overloaded function signatures 1 and 2 overlap",
        "SyntaxError in src/authentication.py",
        "ModuleNotFoundError: No module named 'authentication'",
        "cannot find module './unauthorized.ts'",
        "src/rate_limit.rs:3:1: expected item",
        "OSError: [Errno 122] Disk quota exceeded: 'x'",
        "fork: Resource temporarily unavailable",
        "'foo()' is unavailable in iOS",
        "",
    ],
)
def test_words_that_only_look_like_trouble_with_the_model(said: str) -> None:
    assert kind_of(None, said) == "crashed"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("You are not authenticated", "unauthenticated"),
        ("UNAUTHENTICATED: request had no token", "unauthenticated"),
        ('{"type":"authentication_error"}', "unauthenticated"),
        ("Failed to authenticate", "unauthenticated"),
        ("Authentication failed", "unauthenticated"),
        ("Authentication required: run the login command", "unauthenticated"),
        ("Error: No authentication information found.", "unauthenticated"),
        ("AuthenticationError: no", "unauthenticated"),
        ("openai.AuthenticationError", "unauthenticated"),
        ('{"type":"overloaded_error","message":"Overloaded"}', "overloaded"),
        ("API returned: Overloaded", "overloaded"),
        ("The model is overloaded. Please try again later.", "overloaded"),
        ("UNAVAILABLE: try again", "overloaded"),
        ("You exceeded your current quota", "limited"),
        ("insufficient_quota", "limited"),
        ("rate_limit_error", "limited"),
        ("RateLimitError: slow down", "limited"),
        ("anthropic-ratelimit-unified", "limited"),
        ("RESOURCE_EXHAUSTED", "limited"),
    ],
)
def test_words_that_do_mean_it(said: str, kind: str) -> None:
    assert kind_of(None, said) == kind


@pytest.mark.parametrize("word", ["a", "a.", "a/", "api key ", "missing ", "API Error: ", "status code "])
def test_a_long_text_is_read_once(word: str) -> None:
    """From each of its places anew, a megabyte would take hours; an error may quote as much, and all wait for it."""
    assert kind_of(None, word * (1_000_000 // len(word))) == "crashed"
