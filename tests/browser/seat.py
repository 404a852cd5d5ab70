"""What a person does with the terminals of a session's page, and what they see."""

from typing import Any

from playwright.sync_api import TimeoutError

from browser.conftest import Reader

FRONT = ".terminal-view:not([hidden]) .term-layer:not([hidden]) .term"
POLLING = 50  # ms: Playwright's own way is to look at every frame, which has the page make one


class Seat:
    """The terminal in front, in somebody's window."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.page = reader.page

    @property
    def id(self) -> str:
        return self.page.get_attribute(FRONT, "data-terminal") or ""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        cols, rows = self.page.locator(FRONT).evaluate("one => [Number(one.dataset.cols), Number(one.dataset.rows)]")
        return cols, rows

    def wait_size(self, size: tuple[int, int]) -> None:
        self.page.wait_for_selector(f"{FRONT}[data-cols='{size[0]}'][data-rows='{size[1]}']")

    def open_shell(self) -> str:
        """A new shell, with its keyboard in hand. Returns its id."""
        before = [each["id"] for each in self.reader.call("GET", "/api/terminals")["items"]]
        self.page.click("[aria-label='New terminal']")
        self.wait_lease("you")
        self.page.wait_for_function(
            "([selector, before]) => !before.includes(document.querySelector(selector)?.dataset.terminal)",
            arg=[FRONT, before],
            polling=POLLING,
        )
        self.wait("$")
        return self.id

    def run(self, command: str, until: str, key_by_key: bool = False) -> None:
        """Types a command and Enter, and waits for words on the screen that are not in the command."""
        assert until not in command
        self.type(command, key_by_key)
        self.wait(until)

    def type(self, line: str, key_by_key: bool = False) -> None:
        """A line, and Enter. In one piece, as a phone's keyboard does it: drawing a screen for each key is slow."""
        if key_by_key:
            self.page.keyboard.type(line)
        else:
            self.page.keyboard.insert_text(line)
        self.page.keyboard.press("Enter")

    def text(self, id: str | None = None) -> str:
        """The rows, without blanks at their ends."""
        found = self.page.evaluate("id => window.__ostlerTerminals?.[id]?.text() ?? ''", id or self.id)
        return "\n".join(row.rstrip() for row in found.split("\n"))

    def wait(self, words: str, id: str | None = None) -> None:
        script = "([id, words]) => window.__ostlerTerminals?.[id]?.text().includes(words)"
        try:
            self.page.wait_for_function(script, arg=[id or self.id, words], polling=POLLING)
        except TimeoutError as error:
            raise AssertionError(f"{words!r} did not come; the screen shows:\n{self.text(id)}") from error

    def wait_end(self, words: str, alone: bool = False) -> None:
        """Until the screen ends with these words, or has no others."""
        script = """([id, words, alone]) => {
            const rows = window.__ostlerTerminals?.[id]?.text().replace(/ +$/gm, "") ?? "";
            return alone ? rows === words : rows.endsWith(words);
        }"""
        try:
            self.page.wait_for_function(script, arg=[self.id, words, alone], polling=POLLING)
        except TimeoutError as error:
            raise AssertionError(f"it does not end with {words!r}; the screen shows:\n{self.text()!r}") from error

    def wait_lease(self, holder: str) -> None:
        """Who has the keyboard, as the bar says it: you, agent, person, nobody, ended, lost …"""
        self.page.wait_for_selector(f".terminal-view:not([hidden]) .lease[data-holder='{holder}']")

    def cell(self, x: int, y: int) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(
            "([id, x, y]) => window.__ostlerTerminals[id].cell(x, y)", [self.id, x, y]
        )
        return found

    def row_of(self, words: str) -> int:
        """The row of the screen that has these words, the last of them."""
        rows = [y for y, row in enumerate(self.text().split("\n")) if words in row]
        return rows[-1]

    def focus(self) -> None:
        self.page.locator(f"{FRONT} .xterm-screen").click()
