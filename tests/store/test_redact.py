"""Secrets go, everything else stays, and it does not matter how a text was cut into pieces."""

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.model import (
    AnyEvent,
    Ended,
    Envelope,
    FileChange,
    Notice,
    Problem,
    Raw,
    Text,
    TextDelta,
    Thought,
    ThoughtDelta,
    ToolEnded,
    ToolStarted,
)
from ostler.store import Masker, Redactor

KEY = "correct-horse-battery"
ODD = 'pass"word\\with\nodd ü'
SECRETS = (KEY, ODD, "short", "aaaaaaaaaaaab", "horse-battery-staple")

TOKENS = [
    "sk-ant-api03-AbCdEf_GhIjKlMnOp-QrStUv",
    "sk-proj-abcdefghijklmnop1234567890ABCD",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijkl_mnop",
    "glpat-abcdefghij_KLMNOPQRS",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "AIzaSyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe",
    "xoxb-123456789012-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
]
INNOCENT = [
    "a task-force-of-many-people-who-met-42-times",
    "sk-toggleable__content-fitted and sk-container-id-1",
    "the bearer of responsibilities, Bearer authentication",
    "Authorization: Bearer $TOKEN",
    "ghp_short AKIA AIza xoxb- eyJ sk-ant-x sk-",
    "-----BEGIN PRIVATE KEY----- marks where a private key begins and it goes on for a long while",
    "-----BEGIN CERTIFICATE-----\n" + "A" * 64,
    "disk-0123456789abcdef0123456789abcdef",
    "deadbeef" * 8,
    "",
]
PEM = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfnygWyF8PbnGy0AHB7MaXQ9f2\nB7+/x3Y=\n"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(SECRETS)


# -- texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_known_by_their_shape(redactor: Redactor, token: str) -> None:
    for form in ("{}", "key={}", 'a "{}" b', "({})", "\n{}\n", "üü {} ü"):
        assert redactor.text(form.format(token)) == form.format("[redacted]")
    assert redactor.text("x" + token) == "x" + token  # part of a longer word
    assert masked(redactor, f'"\\n{token}"'.encode()) == b'"\\n' + b"*" * len(token) + b'"'


@pytest.mark.parametrize("text", INNOCENT)
def test_innocent_text_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) is text
    assert masked(redactor, text.encode()) == text.encode()


def test_bearer_tokens_and_private_keys_keep_their_frame(redactor: Redactor) -> None:
    assert redactor.text("Authorization: Bearer abc.DEF-123_456~789") == "Authorization: Bearer [redacted]"
    for kind in ("", "RSA ", "EC ", "OPENSSH "):
        frame = f"-----BEGIN {kind}PRIVATE KEY-----\n", f"-----END {kind}PRIVATE KEY-----"
        assert redactor.text(f"x {frame[0]}{PEM}{frame[1]} y") == f"x {frame[0]}[redacted]{frame[1]} y"
    escaped = f"-----BEGIN PRIVATE KEY-----\n{PEM}-----END".replace("\n", "\\n")
    assert redactor.text(escaped) == "-----BEGIN PRIVATE KEY-----\\n[redacted]-----END"
    locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n" + PEM
    assert redactor.text(locked + "!") == "-----BEGIN RSA PRIVATE KEY-----\n[redacted]!"


def test_known_values_are_found_anywhere_and_as_json_quotes_them(redactor: Redactor) -> None:
    assert redactor.text(f"a{KEY}b {KEY}") == "a[redacted]b [redacted]"
    assert redactor.text(ODD) == "[redacted]"
    assert redactor.text(msgspec.json.encode([ODD]).decode()) == '["[redacted]"]'
    assert redactor.text('["pass\\"word\\\\with\\nodd \\u00fc"]') == '["[redacted]"]'
    assert redactor.text("this is short") == "this is short"
    assert redactor.text("correct-horse-battery-staple!") == "[redacted]!"  # two values that overlap
    assert redactor.text("a" * 20 + "b") == "aaaaaaaa[redacted]"


def test_without_known_values_shapes_are_still_found() -> None:
    assert Redactor().text(f"{KEY} {TOKENS[0]}") == f"{KEY} [redacted]"


# -- pieces -----------------------------------------------------------------------------------------

FRAGMENTS = [
    *SECRETS,
    *TOKENS,
    *[token[:9] for token in TOKENS],
    "-----BEGIN RSA PRIVATE KEY-----\n" + PEM,
    "-----END RSA PRIVATE KEY-----",
    "-----BEGIN",
    "Bearer ",
    "abc123def456ghi789",
    "correct-horse",
    "-battery",
    "aaaa",
    "b",
    "s",
    "k-",
    " ",
    "\n",
    "\\",
    "n",
    ".",
    "task",
    "ü",
    "plain words ",
    "x" * 300,
]


def masked(redactor: Redactor, data: bytes) -> bytes:
    masker = redactor.masker()
    return masker.feed(data) + masker.close()


def cut(text: str, at: list[int]) -> list[str]:
    """At those places; [-1] is everywhere."""
    if at == [-1]:
        return list(text)
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in at)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=8).map("".join),
    st.lists(st.integers(0, 10_000), max_size=12) | st.just([-1]),
)
def test_any_cutting_gives_the_same(text: str, places: list[int]) -> None:
    redactor = Redactor(SECRETS)
    told = [event for piece in cut(text, places) for event in redactor.event(TextDelta(text=piece, id="m"))]
    told += redactor.flush()
    assert "".join(event.text for event in told) == redactor.text(text)
    assert all(value not in redactor.text(text) for value in (KEY, ODD, "aaaaaaaaaaaab"))

    data = text.encode()
    masker = Masker(redactor)
    pieces = b"".join([*(masker.feed(piece.encode()) for piece in cut(text, places)), masker.close()])
    assert pieces == masked(redactor, data)
    assert len(pieces) == len(data)
    assert KEY.encode() not in pieces


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abcdefghij .,\n", max_size=2000))
def test_a_text_without_secrets_is_told_at_once(text: str) -> None:
    redactor = Redactor(["Zq8xYh2LkPwmB3vT"])
    pieces = [text[n : n + 7] for n in range(0, len(text), 7)]
    told = [redactor.event(TextDelta(text=piece)) for piece in pieces]
    # Only a single letter that begins a token's word ("bearer", "eyJ", "gh…") may have to wait.
    assert all(event for event, piece in zip(told, pieces, strict=True) if len(piece) > 1 and piece[-1] in " .,\n")
    assert "".join(e.text for events in told for e in events) + "".join(e.text for e in redactor.flush()) == text


def test_what_is_held_back_has_a_bound(redactor: Redactor) -> None:
    masker = Masker(redactor)
    fed = sum(len(masker.feed(b"sk-" + b"a-" * 32)) for _ in range(1))
    fed += sum(len(masker.feed(b"a-" * 512)) for _ in range(100))
    assert 67 + 100 * 1024 - fed <= 2 * 16_384
    fed += len(masker.close())
    assert fed == 67 + 100 * 1024


@pytest.mark.parametrize("piece", ["-----BEGIN PRIVATE KEY-----", "Bearer ", "eyJ", "a", "correct-horse-batter", "\\n"])
def test_hostile_repetition_does_not_stop_everything(redactor: Redactor, piece: str) -> None:
    """test_linear.py counts the work; before it was linear, the first text ran into the time limit of any test."""
    text = piece * (70_000 // len(piece))
    assert redactor.text(text) == text
    assert masked_by_hundreds(redactor, text) == text.encode()


def test_a_secret_that_repeats_itself_does_not_stop_everything() -> None:
    redactor = Redactor(["x" * 40])
    assert redactor.text("x" * 70_000 + " ") == "[redacted] "
    assert masked_by_hundreds(redactor, "x" * 70_000) == b"*" * 70_000


def masked_by_hundreds(redactor: Redactor, text: str) -> bytes:
    masker = Masker(redactor)
    shown = [masker.feed(text[at : at + 100].encode()) for at in range(0, len(text), 100)]
    return b"".join([*shown, masker.close()])


# -- events -----------------------------------------------------------------------------------------


def test_events_without_secrets_pass_as_they_are(redactor: Redactor) -> None:
    events: list[AnyEvent] = [Text(text="hi"), TextDelta(text=" hi"), Raw(record={"a": [1]}), Ended(outcome="done")]
    for event in events:
        assert redactor.event(event)[0] is event


def test_every_text_of_an_event_is_redacted(redactor: Redactor) -> None:
    assert redactor.event(Raw(record={"a": [KEY, 1, None, {"b": f"x {KEY}", KEY: True}]}, seq=3, quiet=True)) == [
        Raw(record={"a": ["[redacted]", 1, None, {"b": "x [redacted]", "[redacted]": True}]}, seq=3, quiet=True)
    ]
    started = ToolStarted(
        id="t", name="Bash", title=f"echo {KEY}", input={"command": f"echo {ODD}"}, files=(FileChange(path=KEY),)
    )
    assert redactor.event(started) == [
        ToolStarted(
            id="t",
            name="Bash",
            title="echo [redacted]",
            input={"command": "echo [redacted]"},
            files=(FileChange(path="[redacted]"),),
        )
    ]
    ended = Ended(outcome="failed", error=Problem(kind="crashed", message=f"bad key {TOKENS[0]}"))
    assert redactor.event(ended) == [
        Ended(outcome="failed", error=Problem(kind="crashed", message="bad key [redacted]"))
    ]
    assert redactor.event(Text(text=f"line\n{TOKENS[0]}")) == [Text(text="line\n[redacted]")]


def test_a_diff_is_kept_and_told(redactor: Redactor) -> None:
    event = ToolEnded(id="t", output=f"wrote {KEY}", diff=f"+KEY={KEY}\n", at=5.0, turn="t1")
    assert redactor.event(event) == [
        ToolEnded(id="t", output="wrote [redacted]", diff=f"+KEY={KEY}\n", at=5.0, turn="t1"),
        Notice(text="A diff may contain a secret: diffs are kept as they are", code="secret", at=5.0, turn="t1"),
    ]
    assert redactor.event(ToolEnded(id="t", diff="+a\n")) == [ToolEnded(id="t", diff="+a\n")]


def test_an_envelope_is_cleaned_but_for_what_was_structured(redactor: Redactor) -> None:
    fields = {"status": "ok", "outcome": "done", "turn": "t", "session": "s", "agent": "a", "served_by": "a"}
    fields |= {"started_at": 1.0, "duration_ms": 1, "structured": {"key": KEY}, "exit": None}
    dirty = Envelope(**fields, summary=KEY, text=f"it is {KEY}")
    assert redactor.clean(dirty) == Envelope(**fields, summary="[redacted]", text="it is [redacted]")
    assert redactor.holds(dirty.structured)
    assert not redactor.holds({"key": [1, "nothing"]})


def test_deep_records_are_searched_too(redactor: Redactor) -> None:
    record: object = KEY
    for _ in range(400):
        record = [record]
    (told,) = redactor.event(Raw(record=record))
    assert KEY not in msgspec.json.encode(told).decode()
    assert "[redacted]" in msgspec.json.encode(told).decode()


def test_deltas_of_several_ids_are_held_apart_and_flushed_by_the_whole_text(redactor: Redactor) -> None:
    told = [
        redactor.event(event)
        for event in (
            TextDelta(text="it is correct-", id="a"),
            ThoughtDelta(text="correct-horse-", id="a"),
            TextDelta(text="correct-horse", id="b"),
            TextDelta(text="horse-battery!", id="a"),
            ThoughtDelta(text="s", id="a"),
            Thought(text="correct-horse-s", id="a", at=4.0, turn="t1"),
            Text(text="correct-horse", id="b", at=5.0, turn="t1"),
            Text(text=f"it is {KEY}!", id="a"),
            TextDelta(text="correct", id="c"),
            Ended(outcome="done", at=6.0, turn="t1"),
        )
    ]
    assert told == [
        [TextDelta(text="it is ", id="a")],
        [],
        [],
        [TextDelta(text="[redacted]!", id="a")],
        [ThoughtDelta(text="correct-horse-s", id="a")],
        [Thought(text="correct-horse-s", id="a", at=4.0, turn="t1")],
        [
            TextDelta(text="correct-horse", id="b", at=5.0, turn="t1"),
            Text(text="correct-horse", id="b", at=5.0, turn="t1"),
        ],
        [Text(text="it is [redacted]!", id="a")],
        [],
        [TextDelta(text="correct", id="c", at=6.0, turn="t1"), Ended(outcome="done", at=6.0, turn="t1")],
    ]
    assert redactor.flush() == []


def piece_of(text: str) -> Raw:
    return Raw(record={"method": "item/new/outputDelta", "params": {"itemId": "1", "delta": text}})


def joined(events: list[AnyEvent]) -> str:
    return "".join(event.record["params"]["delta"] for event in events if isinstance(event, Raw))


@pytest.mark.parametrize("secret", [KEY, TOKENS[3]])
@pytest.mark.parametrize("size", [1, 4, 15])
def test_pieces_of_a_secret_in_records_that_nobody_understands_cannot_be_joined(secret: str, size: int) -> None:
    redactor, text = Redactor(SECRETS), f"it is {secret}, they say gh"
    pieces = [piece_of(text[at : at + size]) for at in range(0, len(text), size)]
    other = Raw(record={"type": "of tomorrow", "n": 1})
    told = [event for piece in pieces for event in [*redactor.event(piece), *redactor.event(other)]]
    told += redactor.event(Ended(outcome="done"))
    assert joined([event for event in told if event != other]) == text.replace(secret, "*" * len(secret))
    assert [type(event) for event in told] == [Raw] * (2 * len(pieces)) + [Ended]
    assert redactor.flush() == []


def test_a_record_that_stars_have_made_no_json_is_kept_as_text() -> None:
    """So much waits that it is told before it is decided, and the stars begin within an escaped character."""
    redactor, more = Redactor(['odd"\\\n' * 6]), Raw(record={"type": "delta", "x": "y" * 1000})
    told = redactor.event(piece_of('it is odd"\\\nodd"\\\n'))
    told += [event for _ in range(70) for event in redactor.event(more)]
    assert isinstance(told[0], Raw) and told[0].record is None and told[0].line.endswith('*"}}')
    assert told[1:] == [more] * 70
