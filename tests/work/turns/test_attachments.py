"""Attachments: what is taken, and the one line that says why not."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ostler.agents import AGENTS
from ostler.errors import OstlerError
from ostler.model import Attachment
from ostler.work.turns import attachments
from ostler.work.turns.attachments import attachment, check, with_images

AGENT = structs.replace(AGENTS["script"], name="painter", images="path")
BLIND = structs.replace(AGENT, name="blind", images="no")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("notes\n")
    (tmp_path / "shot.png").write_bytes(PNG)
    (tmp_path / "shot").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    (tmp_path / "fake.JPG").write_text("text\n")
    (tmp_path / "down").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(attachments.MAX_FILE + 1)
    return tmp_path


def test_from_a_path_or_a_dict() -> None:
    assert [attachment("a.txt"), attachment({"path": "a.txt"}), attachment({"name": "n", "content": "c"})] == [
        Attachment(path="a.txt"),
        Attachment(path="a.txt"),
        Attachment(name="n", content="c"),
    ]


@pytest.mark.parametrize("spec", [{"file": "a"}, {"path": 5}, 5, {1: 2}, ["a"]])
def test_from_something_else(spec: Any) -> None:
    with pytest.raises(OstlerError) as caught:
        attachment(spec)
    assert (caught.value.kind, caught.value.hint) == ("bad_request", "Give path, or name and content")


def test_paths_are_absolute_and_images_known(folder: Path) -> None:
    given = [
        Attachment(path="notes.txt"),
        Attachment(path=str(folder / "shot.png")),
        Attachment(path="shot", name="picture"),
        Attachment(name="x.py", content="print()"),
    ]
    assert check(given, AGENT, str(folder)) == (
        Attachment(path=str(folder / "notes.txt"), name="notes.txt"),
        Attachment(path=str(folder / "shot.png"), name="shot.png", type="image/png", image=True),
        Attachment(path=str(folder / "shot"), name="picture", type="image/webp", image=True),
        Attachment(name="x.py", content="print()"),
    )


def test_a_type_that_is_given_decides(folder: Path) -> None:
    (folder / "scan").write_bytes(b"\0\0\0\x18ftypheic")
    given = [
        Attachment(path="scan", type="image/heic"),
        Attachment(path="shot", type="image/webp"),
        Attachment(path="shot.png", type="application/octet-stream"),
    ]
    scan, shot, plain = check(given, AGENT, str(folder))
    assert [(a.image, a.type) for a in (scan, shot, plain)] == [
        (True, "image/heic"),
        (True, "image/webp"),
        (False, "application/octet-stream"),
    ]
    carried = with_images((scan, shot, plain))
    assert [a.data[:23] for a in carried] == ["data:image/heic;base64,", "data:image/webp;base64,", ""]


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (Attachment(path="shot", type="image/jpeg"), "bad_request", "shot is not image/jpeg"),
        (Attachment(path="notes.txt", type="image/png"), "bad_request", "notes.txt is not image/png"),
        (Attachment(path="shot", type="picture"), "bad_request", "'picture' is not a media type"),
        (
            Attachment(name="x", content="x", type="image/png"),
            "bad_request",
            "an attachment with content cannot have a path or be an image",
        ),
        (Attachment(path="none.txt"), "not_found", "no such file: none.txt"),
        (Attachment(path="notes.txt/x"), "not_found", "no such file: notes.txt/x"),
        (Attachment(path="down"), "bad_request", "not a regular file: down"),
        (Attachment(path="pipe"), "bad_request", "not a regular file: pipe"),
        (Attachment(path="/dev/zero"), "bad_request", "not a regular file: /dev/zero"),
        (Attachment(path="huge"), "bad_request", "the attachment huge has 20,971,521 bytes"),
        (Attachment(path="fake.JPG"), "bad_request", "not an image: fake.JPG"),
        (Attachment(path="notes.txt", image=True), "bad_request", "not an image: notes.txt"),
        (Attachment(path="a\nb"), "bad_request", "an attachment cannot have the path 'a\\nb'"),
        (Attachment(), "bad_request", "an attachment cannot have the path ''"),
        (
            Attachment(path="/proc/self/clear_refs"),
            "bad_request",
            "the attachment cannot be read: /proc/self/clear_refs (Invalid argument)",
        ),
        (Attachment(path="shot.png"), "unsupported", "blind does not accept images: shot.png"),
        (Attachment(content="x"), "bad_request", "an attachment cannot be named ''"),
        (Attachment(content="x", name='a">'), "bad_request", "an attachment cannot be named 'a\">'"),
        (
            Attachment(content="x", path="p"),
            "bad_request",
            "an attachment with content cannot have a path or be an image",
        ),
        (Attachment(content="a\0b", name="n"), "bad_request", "the attachment n is not text"),
        (Attachment(content="\ud800", name="n"), "bad_request", "the attachment n is not text"),
        (
            Attachment(content="é" * attachments.MAX_INLINE, name="n"),
            "bad_request",
            "the attachment n has 16,777,216 bytes of content",
        ),
    ],
)
def test_refusals(folder: Path, given: Attachment, kind: str, said: str) -> None:
    with pytest.raises(OstlerError) as caught:
        check([given], BLIND, str(folder))
    assert (caught.value.kind, caught.value.message) == (kind, said)
    assert "\n" not in str(caught.value)
