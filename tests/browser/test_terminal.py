"""Terminals in the page: typed into, watched by others, after a reload, after the server's death."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocket, WebSocketRoute, expect

from browser.conftest import SIZE, EverydayWindow, Reader, Server
from browser.seat import FRONT, Seat

Visit = Callable[..., Reader]

COUNT_GLYPH_SETS = """() => {
    window.glyphSets = 0;
    const plain = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (kind, options) {
        if (kind === "2d" && options?.willReadFrequently) glyphSets++;  // xterm draws each glyph on such a canvas first
        return plain.call(this, kind, options);
    };
}"""

ASK = r"""
ask() {  # a question, and the last character of its answer: how long is the first answer, and a second one
    printf "$1"
    IFS= read -rs -d "$2" -t 10 first
    IFS= read -rs -d "$2" -t 0.5 second
    echo "<${#first}:${#second}>"
}
ask '\e[6n' R
ask '\e[c' c
ask '\e[?2026$p' y
ask '\e]11;?\e\\' '\'
"""


class SharedShell:
    """The shell that most tests of this file share: another one takes a session, its page and a terminal drawn anew."""

    def __init__(self) -> None:
        self._page: Page | None = None
        self._there = ("", "")  # the page's address, and the terminal in front

    def sit_down(self, reader: Reader) -> Seat:
        """As if just opened, with nothing on its screen; a new one where a test has left or ended it."""
        seat = Seat(reader)
        if reader.page is not self._page or self._look(seat) != (*self._there, "you"):
            reader.page.goto(f"{reader.server.url}/#/")
            seated(reader)
            self._page, self._there = reader.page, self._look(seat)[:2]
            return seat
        seat.focus()
        reader.page.keyboard.press("Control+c")
        reader.page.keyboard.press("Enter")  # a shell that is interrupted just before it reads waits for the next line
        seat.wait_end("$")  # what is typed before may go to the program that ends
        seat.type("stty sane; printf '\\ec'")
        seat.wait_end("$", alone=True)
        return seat

    def _look(self, seat: Seat) -> tuple[str, str, str]:
        """Where the page is, what it has in front, and who has the keyboard."""
        script = """front => [
            location.href,
            document.querySelector(front)?.dataset.terminal ?? "",
            document.querySelector(".terminal-view:not([hidden]) .lease")?.dataset.holder ?? "",
        ]"""
        url, terminal, holder = seat.page.evaluate(script, FRONT)
        return url, terminal, holder


@pytest.fixture(scope="module")
def shared_shell() -> SharedShell:
    return SharedShell()


@pytest.fixture
def seat(visit: Visit, shared_shell: SharedShell) -> Seat:
    """You in front of a shell."""
    return shared_shell.sit_down(visit(stay=True))


@pytest.fixture
def new_seat(visit: Visit) -> Seat:
    """The same in a session of its own: a recording begins with the test."""
    return seated(visit())


def seated(reader: Reader) -> Seat:
    reader.new_session()
    seat = Seat(reader)
    seat.open_shell()
    return seat


def carried_by(seat: Seat, carry: Callable[[WebSocketRoute], None]) -> None:
    """From now on the frames of its terminal go through the test. The window is no good for other tests."""
    seat.page.route_web_socket(re.compile(r"/api/terminals/.*/ws"), carry)
    id = seat.id
    seat.page.reload()
    seat.wait("$", id)
    seat.wait_lease("you")
    seat.focus()


@pytest.fixture(scope="module")
def webgl_window(webgl_chromium: Browser, server: Server) -> Iterator[EverydayWindow]:
    """The other tests have a browser without WebGL, as some people do."""
    window = EverydayWindow(webgl_chromium, server)
    yield window
    window.close()


@pytest.fixture
def webgl_reader(webgl_window: EverydayWindow) -> Iterator[Reader]:
    reader = webgl_window.come()
    yield reader
    assert reader.errors == []


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A server that this test may kill."""
    server = Server(tmp_path)
    server.start()
    yield server
    server.stop()


def test_the_first_visit_is_by_a_link_which_leaves_no_token_behind(chromium: Browser, server: Server) -> None:
    reader = Reader(chromium.new_page(), server)
    reader.enter(json.loads(server.run("link", "--json").stdout)["link"])
    expect(reader.page).not_to_have_url(re.compile("t="))
    reader.new_session()
    expect(reader.page.locator(".no-terminal")).to_contain_text("No terminal yet")
    assert Seat(reader).open_shell()
    reader.page.close()
    assert reader.errors == []


@pytest.mark.core
def test_what_is_typed_reaches_the_shell(seat: Seat) -> None:
    seat.run("echo $((6 * 7))=answer", "42=answer", key_by_key=True)
    seat.page.keyboard.press("ArrowUp")
    seat.wait("$ echo $((6 * 7))=answer\n42=answer\n$ echo $((6 * 7))=answer")
    seat.page.keyboard.press("Control+c")
    seat.wait("^C\n$")
    seat.run("echo $((1 + 1))=up; cat", "2=up")  # what is typed before that, the shell's line editor may still take
    seat.type("grüße")
    seat.wait("grüße\ngrüße")
    seat.page.keyboard.press("Control+d")
    seat.run("echo after-$?", "after-0")


def test_who_has_the_keyboard_has_the_program_fill_the_pane(seat: Seat) -> None:
    before = seat.size
    seat.page.set_viewport_size({"width": 1440, "height": 560})
    script = "([s, n]) => Number(document.querySelector(s).dataset.rows) < n"
    seat.page.wait_for_function(script, arg=[FRONT, before[1]])
    cols, rows = seat.size
    seat.run("echo size=$(stty size)=", f"size={rows} {cols}=")
    seat.page.set_viewport_size(SIZE)
    seat.wait_size(before)


@pytest.mark.core
def test_a_watcher_sees_the_same_and_changes_nothing(seat: Seat, visit: Visit) -> None:
    seat.run("echo shared-$((1 + 1))", "shared-2")
    size = seat.size
    other = visit("Ada")
    other.page.set_viewport_size({"width": 900, "height": 500})
    other.page.goto(f"{other.server.url}/#/t/{seat.id}")
    watcher = Seat(other)
    watcher.wait("shared-2", seat.id)
    watcher.wait_lease("person")
    watcher.wait(seat.text())
    watcher.wait_size(size)  # a smaller window does not make the program smaller
    watcher.focus()
    other.page.keyboard.type("nothing of this")
    other.page.keyboard.press("Enter")
    seat.run("echo still-$((2 + 1))", "still-3")
    watcher.wait("still-3")
    assert "nothing" not in seat.text()
    seat.wait_size(size)
    seat.run("printf '\\e[?1000h'; echo mouse-$((3 + 1))", "mouse-4")
    watcher.wait("mouse-4")
    expect(seat.page.locator(f"{FRONT} .xterm.enable-mouse-events")).to_have_count(1)
    expect(other.page.locator(f"{FRONT} .xterm.enable-mouse-events")).to_have_count(0)  # a reader selects text
    seat.run("printf '\\e[?1000l'; echo mouse-$((4 + 1))", "mouse-5")  # or the next click types into the shell


@pytest.mark.core
def test_the_keyboard_is_taken_over_and_handed_back(seat: Seat, visit: Visit) -> None:
    other = visit("Ada")
    other.page.goto(f"{other.server.url}/#/t/{seat.id}")
    ada = Seat(other)
    ada.wait_lease("person")
    other.page.click("text=Take over")
    ada.wait_lease("you")
    seat.wait_lease("person")
    expect(seat.page.locator(".lease:visible")).to_contain_text("Ada has the keyboard")
    ada.run("echo by-$(echo ada)", "by-ada")
    seat.wait("by-ada")
    other.page.keyboard.press("Control+Shift+Enter")
    ada.wait_lease("nobody")
    seat.wait_lease("nobody")
    seat.focus()
    seat.run("echo it$((1+1))k", "it2k", key_by_key=True)  # typing takes it
    seat.wait_lease("you")


def test_questions_of_a_program_are_answered_once_by_the_server(seat: Seat, visit: Visit) -> None:
    sent: list[str] = []
    seat.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    id = seat.id
    seat.page.reload()
    seat.wait("$", id)
    other = visit("Ada")
    other.page.goto(f"{other.server.url}/#/t/{id}")
    Seat(other).wait("$", id)
    seat.wait_lease("you")
    seat.focus()
    (seat.reader.server.folder / "ask.sh").write_text(ASK)
    seat.run(". ./ask.sh; echo asked-$((5 + 5))", "asked-10")
    told = re.findall(r"<(\d+):(\d+)>", seat.text())[-4:]
    assert len(told) == 4
    assert all(int(first) > 0 for first, _ in told), told
    assert all(second == "0" for _, second in told), told
    assert not [frame for frame in sent if '"raw"' in frame]


def test_who_may_only_watch_is_told_so(seat: Seat, visit: Visit) -> None:
    guest = visit("Guest", "view")
    guest.page.goto(f"{guest.server.url}/#/t/{seat.id}")
    watcher = Seat(guest)
    watcher.wait_lease("read")
    expect(guest.page.locator(".lease:visible")).to_contain_text("your link is view-only")
    guest.page.keyboard.press("Control+Shift+Enter")
    seat.run("echo mine-$((3 + 1))", "mine-4")
    watcher.wait("mine-4")
    seat.wait_lease("you")


@pytest.mark.core
def test_a_reload_shows_the_same_screen_and_keeps_the_keyboard(seat: Seat) -> None:
    seat.run("printf '\\e[32mgreen-%s\\n' $((4 + 1))", "green-5")
    before, id = seat.text(), seat.id
    seat.page.reload()
    seat.wait("green-5", id)
    seat.wait_lease("you")
    assert seat.text(id) == before
    seat.focus()
    seat.run("echo again-$((5 + 1))", "again-6")


def test_a_cut_connection_goes_on_without_a_gap(visit: Visit) -> None:
    seat = seated(visit("Carried"))
    sockets: list[WebSocketRoute] = []
    cuts = iter((3_000, 9_000))  # bytes after which the first two are cut

    def carry(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        server, left = socket.connect_to_server(), [next(cuts, 1 << 30)]

        def pass_on(frame: str | bytes) -> None:
            left[0] -= len(frame) if isinstance(frame, bytes) else 0
            if left[0] >= 0:
                socket.send(frame)
            else:
                socket.close()
                server.close()

        server.on_message(pass_on)

    carried_by(seat, carry)
    seat.run("for i in $(seq 3000); do echo line-$i-; done; echo all-$((6 + 1))", "all-7")
    assert len(sockets) >= 3
    assert all("offset=" in socket.url for socket in sockets[1:])
    lines = re.findall(r"^line-(\d+)-$", seat.text(), re.MULTILINE)
    assert lines == [str(n) for n in range(int(lines[0]), 3001)]
    assert int(lines[0]) == 1


def test_a_frame_that_is_missing_is_noticed_and_the_screen_is_whole_again(visit: Visit) -> None:
    seat = seated(visit("Carried"))
    said: list[str] = []
    snapshots: list[int] = []  # their offsets

    def carry(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        dropped: list[bytes] = []

        def pass_on(frame: str | bytes) -> None:
            if isinstance(frame, bytes) and b"lost-8" in frame and not dropped:
                dropped.append(frame)
            else:
                socket.send(frame)
            if isinstance(frame, str) and (told := json.loads(frame))["kind"] == "snapshot":
                snapshots.append(told["offset"])

        def say(frame: str | bytes) -> None:
            said.append(str(frame))
            server.send(frame)

        server.on_message(pass_on)
        socket.on_message(say)

    carried_by(seat, carry)
    seat.run("echo lost-$((7 + 1)); sleep 0.3; echo found-$((8 + 1))", "found-9")
    assert any('"refresh"' in frame for frame in said)
    assert "lost-8\nfound-9" in seat.text()
    acknowledged = {told["offset"] for told in map(json.loads, said) if told["kind"] == "ack"}
    assert len(snapshots) >= 2 and {*snapshots} <= acknowledged


def test_keys_as_the_program_asked_for_them(seat: Seat) -> None:
    script = seat.reader.server.folder / "keys.py"
    script.write_text(
        "import os, sys, termios, tty\n"
        "before = termios.tcgetattr(0); tty.setraw(0)\n"
        "os.write(1, b'\\x1b[>1u\\x1b[?1000h\\x1b[?1006hready-' + b'1\\r\\n')\n"
        "data = b''\n"
        "while not data.endswith(b'q'): data += os.read(0, 1000)\n"
        "os.write(1, b'\\x1b[<u\\x1b[?1000l\\x1b[?1006l'); termios.tcsetattr(0, termios.TCSANOW, before)\n"
        "print(repr(data).replace('\\\\x1b', 'ESC'))\n"
    )
    seat.run("python3 keys.py", "ready-1")
    seat.page.keyboard.press("Control+i")
    seat.page.keyboard.press("Escape")
    seat.page.keyboard.press("ArrowUp")
    seat.page.locator(f"{FRONT} .xterm-screen").click(position={"x": 3, "y": 3})
    seat.page.keyboard.type("öq")
    seat.wait("ESC[105;5u")
    told = seat.text()
    assert "ESC[105;5uESC[27uESC[AESC[<0;1;1MESC[<0;1;1m\\xc3\\xb6q" in told.replace("\n", "")


def test_in_a_terminal_every_key_is_the_programs_but_for_the_chords(seat: Seat) -> None:
    seat.page.keyboard.insert_text("echo kept-$((2 * 11)) no")
    for _ in " no":
        seat.page.keyboard.press("ArrowLeft")
    seat.page.keyboard.press("Control+k")  # the page's own chord elsewhere
    seat.page.keyboard.press("Enter")
    seat.wait("\nkept-22\n$")
    seat.page.keyboard.type("n?/")
    seat.wait("$ n?/")
    assert "#/s/" in seat.page.url
    seat.page.keyboard.press("Control+Shift+.")
    expect(seat.page.locator(f"{FRONT} textarea")).not_to_be_focused()
    seat.page.keyboard.press("t")
    expect(seat.page.locator(f"{FRONT} textarea")).to_be_focused()
    assert "$ n?/t" not in seat.text()


@pytest.mark.core
def test_an_input_method_types_what_it_made_of_the_keys(seat: Seat) -> None:
    seat.run("echo $((1 + 1))=up; cat", "2=up")
    tool = seat.page.context.new_cdp_session(seat.page)
    for text in ("に", "にほ", "日本"):
        tool.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})
    tool.send("Input.insertText", {"text": "日本"})
    seat.wait("日本")
    seat.page.keyboard.insert_text("🐎")
    seat.page.keyboard.press("Enter")
    seat.wait("\n日本🐎\n日本🐎")


def test_a_screen_reader_is_given_the_rows_as_text(seat: Seat) -> None:
    seat.run("echo aloud-$((2 * 12))", "aloud-24")
    seat.page.keyboard.press("Control+Shift+.")
    seat.page.keyboard.press("g")
    seat.page.keyboard.press("a")
    expect(seat.page.locator(f"{FRONT} .xterm-accessibility-tree")).to_contain_text("aloud-24")
    seat.page.keyboard.press("g")
    seat.page.keyboard.press("a")
    expect(seat.page.locator(f"{FRONT} .xterm-accessibility-tree")).to_have_count(0)


@pytest.mark.core
def test_a_paste_is_one_piece_and_a_program_cannot_reach_the_clipboard(seat: Seat) -> None:
    seat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seat.page.evaluate("navigator.clipboard.writeText('echo one\\necho two')")
    seat.page.keyboard.press("Control+Shift+V")
    seat.wait("echo one\necho two")
    assert "\none" not in seat.text(), "nothing runs before Enter"
    seat.page.keyboard.press("Enter")
    seat.wait("one\ntwo")
    seat.run(r"printf '\e]52;c;%s\a' $(echo stolen | base64); echo out-$((9 + 2))", "out-11")
    assert seat.page.evaluate("navigator.clipboard.readText()") == "echo one\necho two"
    seat.page.locator(f"{FRONT} .xterm-screen").dblclick(position={"x": 10, "y": 5})
    seat.page.keyboard.press("Control+Shift+C")
    seat.page.wait_for_function("() => navigator.clipboard.readText().then(text => text !== 'echo one\\necho two')")
    assert seat.page.evaluate("navigator.clipboard.readText()") in seat.text()
    seat.page.context.clear_permissions()


def test_search_finds_in_the_scrollback(seat: Seat) -> None:
    seat.run("seq 500; echo done-$((8 + 8))", "done-16")
    seat.page.keyboard.press("Control+Shift+F")
    seat.page.keyboard.type("321")
    expect(seat.page.locator(".find [role=status]")).to_have_text("1 of 1")
    seat.page.keyboard.press("Escape")
    expect(seat.page.locator(".find")).to_have_count(0)
    seat.run("echo back-$((8 + 9))", "back-17")


def test_the_text_grows_and_is_remembered(seat: Seat) -> None:
    cols, _ = seat.size
    for _ in range(4):
        seat.page.keyboard.press("Control+=")
    seat.page.wait_for_function("([s, n]) => Number(document.querySelector(s).dataset.cols) < n", arg=[FRONT, cols])
    id = seat.id
    seat.page.reload()
    seat.wait("$", id)
    seat.wait_lease("you")
    seat.page.wait_for_function("([s, n]) => Number(document.querySelector(s).dataset.cols) < n", arg=[FRONT, cols])
    seat.focus()
    seat.page.keyboard.press("Control+0")
    seat.page.wait_for_function("([s, n]) => Number(document.querySelector(s).dataset.cols) == n", arg=[FRONT, cols])


def test_titles_and_names_are_text(seat: Seat) -> None:
    attack = "<img src=x onerror=window.hit=1>"
    seat.run(f"printf '\\e]2;{attack}\\a'; echo titled-$((6 + 6))", "titled-12")
    body = {"session": seat.reader.call("GET", f"/api/terminals/{seat.id}")["session"], "argv": ["cat"], "name": attack}
    seat.reader.call("POST", "/api/terminals", body)
    seat.page.wait_for_function("attack => document.body.innerText.includes(attack)", arg=attack)
    seat.page.goto(f"{seat.reader.server.url}/#/grid")
    expect(seat.page.locator(".tile", has_text=attack)).to_be_visible()
    assert seat.page.evaluate("window.hit") is None


def test_a_recording_is_looked_back_into(new_seat: Seat) -> None:
    new_seat.run("echo first-$((6 + 7))", "first-13")
    new_seat.run("sleep 1; clear; echo second-$((7 + 7))", "second-14")  # a while that the steps below do not miss
    recording = f"{new_seat.id}:recording"
    slider = new_seat.page.locator(".reel:visible .track")
    slider.focus()
    slider.press("Home")
    new_seat.page.wait_for_selector(f"[data-terminal='{recording}']")
    expect(slider).to_have_attribute("aria-valuetext", "0:00")
    new_seat.page.click("[aria-label='Play the recording']")
    new_seat.wait("second-14", recording)
    assert "first-13" not in new_seat.text(recording)
    box = slider.bounding_box()
    assert box
    script = "([id, words]) => window.__ostlerTerminals[id].text().includes(words)"
    for percent in range(98, 0, -2):  # backwards until the clear is undone
        new_seat.page.mouse.click(box["x"] + box["width"] * percent / 100, box["y"] + box["height"] / 2)
        if new_seat.page.evaluate(script, [recording, "first-13"]):
            break
    new_seat.wait("first-13", recording)
    new_seat.page.click("text=Back to live")
    new_seat.focus()
    new_seat.run("echo third-$((8 + 7))", "third-15")


@pytest.mark.core
def test_the_end_of_a_program_is_told_and_its_screen_stays(seat: Seat) -> None:
    id = seat.id
    seat.run("echo last-$((9 + 9))", "last-18")
    seat.type("exit 3")
    seat.wait_lease("ended")
    expect(seat.page.locator(".lease:visible")).to_contain_text("Ended, exit 3")
    seat.page.reload()
    seat.page.wait_for_selector(FRONT)
    seat.wait("last-18", id)
    seat.page.goto(f"{seat.reader.server.url}/#/grid")
    seat.page.click(f".tile[data-terminal='{id}'] >> text=Replay")
    seat.wait("last-18", f"{id}:recording")


def test_ending_a_program_takes_two_presses(seat: Seat) -> None:
    close = seat.page.locator(".tab-close")
    close.click()
    expect(close).to_have_text("End it?")
    seat.wait_lease("you")
    close.click()
    seat.wait_lease("ended")


@pytest.mark.core
def test_the_wall_shows_every_terminal_and_opens_one(seat: Seat) -> None:
    first = seat.id
    second = seat.open_shell()
    session = seat.reader.call("GET", f"/api/terminals/{first}")["session"]
    seat.page.goto(f"{seat.reader.server.url}/#/grid")
    tile = seat.page.locator(f".tile[data-terminal='{second}']")
    expect(tile.locator(".by-chip.you")).to_be_visible()
    expect(seat.page.locator(f".tile[data-terminal='{first}']")).to_be_visible()
    seat.page.fill(".filter input", "no such thing")
    expect(seat.page.locator(".no-terminal")).to_contain_text("Nothing matches")
    seat.page.click("text=Show all")
    seat.page.locator(f".tile[data-terminal='{first}'] a").click()
    seat.page.wait_for_selector(f"{FRONT}[data-terminal='{first}']")
    assert f"#/s/{session}" in seat.page.url


def test_a_phone_has_the_keys_that_it_lacks(visit: Visit) -> None:
    phone = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    session = phone.call("POST", "/api/sessions", {"agent": "claude", "folder": str(phone.server.folder)})["id"]
    row = phone.call("POST", "/api/terminals", {"session": session, "argv": ["bash"]})
    phone.page.goto(f"{phone.server.url}/#/t/{row['id']}")
    seat = Seat(phone)
    seat.wait("$", row["id"])
    phone.page.tap("text=Take the keyboard")
    seat.wait_lease("you")
    heights = [box["height"] for key in phone.page.locator(".keys button").all() if (box := key.bounding_box())]
    assert len(heights) == 9
    assert min(heights) >= 44
    seat.type("cat -v")
    phone.page.tap(".keys [aria-label=Escape]")
    phone.page.tap(".keys [aria-label=Up]")
    phone.page.keyboard.press("Enter")
    seat.wait("^[^[[A\n^[^[[A")
    phone.page.tap(".keys [aria-label^=Control]")
    phone.page.keyboard.insert_text("d")
    seat.run("echo left-$((9 + 10))", "left-19")


def test_after_the_server_was_killed_the_page_recovers_without_a_login(visit: Visit, mortal: Server) -> None:
    reader = visit(server=mortal, alone=True)
    reader.new_session()
    seat = Seat(reader)
    id = seat.open_shell()
    seat.run("echo before-$((10 + 10))", "before-20")
    before = seat.text()
    mortal.kill()
    seat.wait_lease("lost")
    assert seat.text() == before, "what was there stays readable"
    mortal.start()
    seat.wait_lease("ended")
    assert "before-20" in seat.text(id)
    assert seat.open_shell() != id
    seat.run("echo after-$((10 + 11))", "after-21")


def test_a_hidden_tab_lets_go_of_its_terminals_and_reads_on_when_it_is_seen(visit: Visit, server: Server) -> None:
    reader = visit(alone=True)
    page = reader.page
    page.clock.install()
    opened: list[WebSocket] = []

    def note(socket: WebSocket) -> None:
        opened.append(socket)

    page.on("websocket", note)
    page.reload()
    reader.new_session()
    seat = Seat(reader)
    id = seat.open_shell()
    os.mkfifo(server.folder / "later")
    seat.type("cat later; echo a$((1+1))fter")
    (terminal,) = [socket for socket in opened if f"/{id}/" in socket.url]

    def show(hidden: bool) -> None:
        script = """hidden => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.evaluate(script, hidden)

    show(hidden=True)
    with terminal.expect_event("close"):
        page.clock.fast_forward(31_000)
    (server.folder / "later").write_bytes(b"said meanwhile\n\a")
    expect(page).to_have_title(re.compile("^Bell · "))  # by the one connection that stays
    assert "said meanwhile" not in seat.text(id)
    show(hidden=False)
    seat.wait("said meanwhile")
    seat.wait("a2fter")
    seat.wait_lease("you")  # nobody else had the keyboard meanwhile
    seat.run("echo on$((1+1))e", until="on2e")
    again = [socket for socket in opened if f"/{id}/" in socket.url][-1]
    assert "offset=" in again.url  # from where it was, not a new screen


# The last ones: from here on there are two windows, and each draws what the other one does.
@pytest.mark.parametrize("renderer", ["dom", "webgl"])
def test_colours_emoji_and_wide_characters(request: pytest.FixtureRequest, renderer: str) -> None:
    seat = request.getfixturevalue("seat") if renderer == "dom" else seated(request.getfixturevalue("webgl_reader"))
    line = r"printf '\e[31mred\e[0m \e[1;38;2;80;200;120mrgb\e[0m 🚀|日本語|👨‍👩‍👧|é|end%s\n' ing"
    seat.run(line, "|ending\n$")
    y = seat.row_of("|ending")
    cells = [seat.cell(x, y) for x in range(32)]
    assert [cell["chars"] for cell in cells if cell["width"]][:13] == list("red rgb 🚀|日本語")
    assert (cells[0]["colour"], cells[3]["colour"]) == ("palette 1", "default")
    assert (cells[4]["colour"], cells[4]["bold"]) == (f"rgb {0x50C878}", True)
    assert [cell["width"] for cell in cells[8:18]] == [2, 0, 1, 2, 0, 2, 0, 2, 0, 1]
    told = seat.reader.call("GET", f"/api/terminals/{seat.id}/snapshot")["text"]
    assert seat.text() == "\n".join(told).rstrip()
    expect(seat.page.locator(FRONT)).to_have_attribute("data-renderer", renderer)


def test_another_sessions_terminal_has_its_glyphs_drawn_once(webgl_reader: Reader) -> None:
    """Each size of the text is a set of glyphs: the one that fits is worked out, not tried."""
    reader = webgl_reader
    rows: list[tuple[str, str]] = []
    for _ in range(2):
        session = reader.new_session()
        body = {"session": session, "argv": ["cat"], "cols": 110, "rows": 60}
        rows.append((session, str(reader.call("POST", "/api/terminals", body)["id"])))
    reader.page.wait_for_selector(f"{FRONT}[data-terminal='{rows[-1][1]}'][data-renderer=webgl]")
    reader.page.evaluate(COUNT_GLYPH_SETS)
    made = []
    for session, id in (*rows, *rows):
        reader.page.goto(f"{reader.server.url}/#/s/{session}")
        reader.page.wait_for_selector(f"{FRONT}[data-terminal='{id}'][data-cols='110'][data-renderer=webgl]")
        reader.page.evaluate("new Promise(done => requestIdleCallback(done))")
        fits = reader.page.locator(f"{FRONT} .cells").evaluate("one => one.scrollWidth <= one.clientWidth")
        made.append((fits, reader.page.evaluate("glyphSets")))
    assert made == [(True, n + 1) for n in range(4)]
