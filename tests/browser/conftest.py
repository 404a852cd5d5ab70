"""A real browser in front of a real server: `ostler up` in a home of its own, Chromium driven by Playwright."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Playwright, ViewportSize, sync_playwright

import waiting
from needs import CHROMIUM, require
from ostler.server.pages import BUILT
from prefork import start_ostler

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Without a graphics card WebGL is drawn by the processor, which takes a fifth of the time of a test with a terminal.
WITHOUT_WEBGL = "--disable-3d-apis"
WITH_WEBGL = "--enable-unsafe-swiftshader"
SIZE: ViewportSize = {"width": 1440, "height": 900}
# A field with the focus has its window drawn twice a second, for as long as a test waits.
STILL_CARET = """{
    const still = new CSSStyleSheet();
    still.replaceSync("* { caret-animation: manual }");
    document.adoptedStyleSheets.push(still);
}"""
PATIENCE = waiting.PATIENCE * 1000  # ms


class Server:
    """`ostler up` as a process, and the commands a person has beside it."""

    def __init__(self, base: Path, *more: str) -> None:
        """`more` arguments of `ostler up`."""
        self.more = more
        self.home, self.folder = base / "home", base / "work"
        self.home.mkdir()
        self.folder.mkdir()
        (self.home / ".bashrc").write_text("PS1='$ '\n")
        self.environ = {
            "HOME": str(self.home),
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "OSTLER_ONLY": "script",
        }
        self.state = self.home / ".local" / "state" / "ostler"
        self.url = ""
        self._token = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns once it answers. After a stop it comes back on the same port."""
        self._process = self._spawn("up", "--json", *self.more)
        assert self._process.stdout
        told = ""
        while not told.endswith("\n}\n"):
            line = self._process.stdout.readline()
            assert line, f"the server ended: {self._process.wait()}"
            told += line
        self.url = json.loads(told)["url"]

    def kill(self) -> None:
        """kill -9, and gone."""
        assert self._process
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()

    def link(self, name: str = "You", rights: str = "admin") -> str:
        """A new login link, asked for over HTTP: quicker than the command."""
        if not self._token:
            self._token = json.loads(self.run("link", "--bearer", "--json").stdout)["token"]
        headers = {"Authorization": f"Bearer {self._token}"}
        body = {"name": name, "rights": rights}
        answer = httpx.post(f"{self.url}/api/links", json=body, headers=headers, trust_env=False)
        return str(answer.raise_for_status().json()["url"])

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        process = self._spawn(*args)
        out, _ = process.communicate(timeout=90)
        return subprocess.CompletedProcess(args, process.returncode, out)

    def spawn(self, *args: str) -> "subprocess.Popen[str]":
        """A command that runs beside the test, which waits for it."""
        return self._spawn(*args)

    def _spawn(self, *args: str) -> "subprocess.Popen[str]":
        return start_ostler(
            args,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _close(self) -> None:
        if self._process and self._process.stdout:
            self._process.stdout.close()


class Reader:
    """A person in front of one browser window."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def enter(self, link: str) -> None:
        """The first visit: by a link."""
        self.page.goto(link)
        self.page.wait_for_selector(".app")

    def new_session(self, agent: str = "claude") -> str:
        """A session without a turn, shown."""
        id = str(self.call("POST", "/api/sessions", {"agent": agent, "folder": str(self.server.folder)})["id"])
        self.page.goto(f"{self.server.url}/#/s/{id}")
        self.page.wait_for_selector(".p-terminal")
        return id

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The API, as this page is logged in."""
        script = """async ([method, path, body]) => {
            const headers = body === null ? {} : {"Content-Type": "application/json"};
            const answer = await fetch(path, {method, headers, body: body === null ? undefined : JSON.stringify(body)});
            if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
            return answer.status === 204 ? null : answer.json();
        }"""
        return self.page.evaluate(script, [method, path, body])


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    # For each module: while Playwright runs, no test of another one could have an event loop.
    require("chromium")
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, WITHOUT_WEBGL])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def webgl_chromium(playwright: Playwright) -> Iterator[Browser]:
    """A browser of its own for what is drawn with WebGL."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, WITH_WEBGL])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    assert (BUILT / "index.html").is_file(), "the page is not built: make page"
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.stop()


class EverydayWindow:
    """The window that most tests of a file share: a new one takes a process, a login and the whole page again."""

    def __init__(self, chromium: Browser, server: Server, name: str = "You", rights: str = "admin", **context: Any):
        self.server = server
        self._open = partial(open_window, chromium, server, name, rights, **context)
        self._size: ViewportSize = context.get("viewport", SIZE)
        self._reader: Reader | None = None

    def come(self, stay: bool = False) -> Reader:
        """As if just opened: nothing focused, no dialog, nothing of a former test heard or held back.

        To `stay` is to find the page where the former test left it.
        """
        if self._reader is None:
            self._reader = self._open()
            return self._reader
        page = self._reader.page
        page.unroute_all()
        page.set_viewport_size(self._size)
        page.mouse.move(0, 0)
        if not stay:
            page.goto(f"{self.server.url}/#/")
            page.wait_for_selector(".app")
            page.evaluate("document.activeElement?.blur()")
        return self._reader

    def leave(self) -> None:
        """Until somebody comes again it shows nothing: a page would draw whatever other tests do."""
        if self._reader:
            self._reader.page.goto("about:blank")

    def close(self) -> None:
        """The next one who comes gets a new one."""
        if self._reader:
            self._reader.page.context.close()
            self._reader = None


def open_window(chromium: Browser, server: Server, name: str = "You", rights: str = "admin", **context: Any) -> Reader:
    """Somebody who came by a link of their own."""
    # Without a graphics card an animation takes half a core for as long as it runs.
    quiet = {"viewport": SIZE, "color_scheme": "dark", "reduced_motion": "reduce"}
    made = chromium.new_context(**{**quiet, **context})
    made.add_init_script(STILL_CARET)
    reader = Reader(made.new_page(), server)
    reader.enter(server.link(name, rights))
    return reader


@pytest.fixture(scope="module")
def everyday_window(chromium: Browser, server: Server) -> Iterator[EverydayWindow]:
    window = EverydayWindow(chromium, server)
    yield window
    window.close()


@pytest.fixture(scope="module")
def other_windows(chromium: Browser) -> Iterator[dict[str, EverydayWindow]]:
    """Those of other people, servers and devices, which the tests of a file share, too."""
    windows: dict[str, EverydayWindow] = {}
    yield windows
    for window in windows.values():
        window.close()


@pytest.fixture
def visit(
    request: pytest.FixtureRequest,
    chromium: Browser,
    server: Server,
    everyday_window: EverydayWindow,
    other_windows: dict[str, EverydayWindow],
) -> Iterator[Callable[..., Reader]]:
    """`visit()` is you in the everyday window; with a name, a server or a wish, somebody in a window of their own.

    `alone` is for a window that nobody else can use afterwards. What went wrong in a page fails the test.
    """
    own: list[Reader] = []
    shared: list[Reader] = []
    others: list[EverydayWindow] = []

    def come(
        name: str = "You",
        rights: str = "admin",
        server: Server = server,
        alone: bool = False,
        stay: bool = False,
        **context: Any,
    ) -> Reader:
        if alone:
            own.append(open_window(chromium, server, name, rights, **context))
            return own[-1]
        window = everyday_window
        if context or (name, rights) != ("You", "admin") or server is not everyday_window.server:
            made = EverydayWindow(chromium, server, name, rights, **context)
            window = other_windows.setdefault(repr((server.url, name, rights, context)), made)
            others.append(window)
        shared.append(window.come(stay))
        return shared[-1]

    failed = request.session.testsfailed
    yield come
    for reader in own:
        reader.page.context.close()
    errors = [error for reader in (*own, *shared) for error in reader.errors]
    if errors or request.session.testsfailed > failed:
        for window in (everyday_window, *others):
            window.close()
    for window in others:
        window.leave()
    assert errors == []
