from ostler.testing.tui_screen import BUSY, TuiView, pasted, rows


def test_an_empty_screen_has_a_box_at_its_foot() -> None:
    assert rows(TuiView("script"), 30, 7) == [
        " ✻ script",
        "",
        "",
        "╭────────────────────────────╮",
        "│ ❯ Type your message        │",
        "╰────────────────────────────╯",
        "  ? for help · /exit to leave",
    ]


def test_the_newest_lines_stay_in_sight_above_what_it_does() -> None:
    view = TuiView("script")
    view.lines, view.busy, view.box = ["one", "two words that are wrapped at the end", "three"], True, "next"
    assert rows(view, 34, 8) == [
        " ✻ script",
        " end",
        "three",
        f" ◐ {BUSY}",
        "╭────────────────────────────────╮",
        "│ ❯ next                         │",
        "╰────────────────────────────────╯",
        "  ? for help · /exit to leave",
    ]


def test_a_dialog_stands_in_place_of_the_box() -> None:
    view = TuiView("script")
    view.busy, view.question, view.options, view.chosen = True, "Allow shell?\nrm x", ("Yes", "No"), 1
    assert [row.strip("│ ") for row in rows(view, 24, 9)[3:7]] == ["Allow shell?", "rm x", "1. Yes", "❯ 2. No"]


def test_a_long_paste_has_a_placeholder() -> None:
    assert pasted("one\ntwo", 1) == "one\ntwo"
    assert pasted("a\n" * 4, 2) == "[Pasted text #2 +5 lines]"
    assert pasted("x" * 800, 1) == "[Pasted text #1 +1 lines]"
