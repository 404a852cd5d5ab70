"""Unified diffs as the old and the new text of each passage."""

import pytest

from ostler.acp.hunks import diffs_of
from ostler.agents.proposals import unified


def test_each_passage_of_a_diff() -> None:
    diff = (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ head\n one\n-two\n+2\n"
        "@@ -9 +9,2 @@\n-nine\n+9\n+--- not a head\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
        "--- /dev/null\n+++ b/new file\t2026\n@@ -0,0 +1 @@\n+hi\n\\ No newline at end of file\n"
    )
    assert diffs_of(diff, "/w") == [
        {"type": "diff", "path": "/w/x", "oldText": "one\ntwo\n", "newText": "one\n2\n"},
        {"type": "diff", "path": "/w/x", "oldText": "nine\n", "newText": "9\n--- not a head\n"},
        {"type": "diff", "path": "/w/gone", "oldText": "bye\n", "newText": ""},
        {"type": "diff", "path": "/w/new file", "newText": "hi"},
    ]


def test_an_empty_line_that_lost_its_mark() -> None:
    [diff] = diffs_of("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n\n-two\n+2\n", "/w")
    assert (diff["oldText"], diff["newText"]) == ("one\n\ntwo\n", "one\n\n2\n")


@pytest.mark.parametrize(
    "text", ["", "no diff", "@@ -1 +1 @@\n-a\n+b\n", "--- a\n+++ b\n@@ -1,99 +1,99 @@\n-x\n", "--- a"]
)
def test_what_is_no_diff_does_no_harm(text: str) -> None:
    assert len(diffs_of(text, "/w")) <= 1


@pytest.mark.parametrize("text", ["", "no diff", "@@ -1 +1 @@\n-a\n+b\n", "--- a", "--- a\n+++ b\n", "+++ b\n--- a\n"])
def test_what_is_no_diff_gives_none(text: str) -> None:
    assert diffs_of(text, "/w") == []


def test_a_hunk_that_promises_more_than_comes() -> None:
    assert diffs_of("--- a/x\n+++ b/x\n@@ -1,99 +1,99 @@\n-x\n", "/w") == [
        {"type": "diff", "path": "/w/x", "oldText": "x\n", "newText": ""}
    ]
    cut = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\ngarbage\n+b\n"
    assert diffs_of(cut, "/w") == [{"type": "diff", "path": "/w/x", "oldText": "a\n", "newText": ""}]


def test_no_newline_at_the_end_of_one_side_or_both() -> None:
    none = "\\ No newline at end of file\n"
    head = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n"
    [old] = diffs_of(f"{head}-a\n{none}+b\n", "/w")
    assert (old["oldText"], old["newText"]) == ("a", "b\n")
    [both] = diffs_of(f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n{none}", "/w")
    assert (both["oldText"], both["newText"]) == ("a\nc", "b\nc")


@pytest.mark.parametrize("old", [None, "", "one\ntwo\nthree\n", "one\n\n\ntwo\n"])
@pytest.mark.parametrize("new", ["one\n2\nthree\n", "--- a\n+++ b\n@@ -1 +1 @@\n", "one\n\ntwo\n"])
def test_what_ostler_writes_is_read_again(old: str | None, new: str) -> None:
    [diff] = diffs_of(unified("dir/x", old, new), "/w")
    assert diff == {"type": "diff", "path": "/w/dir/x", **({"oldText": old} if old else {}), "newText": new}


def test_an_absolute_path_stays_one() -> None:
    [diff] = diffs_of("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+a\n", "/w")
    assert diff["path"] == "/etc/x"
