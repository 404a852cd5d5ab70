"""The page in Chromium: first paint, bytes sent, a long journal while it streams, fifty switches of sessions, and what
the ring of a busy session costs.

`python bench/page.py OTHER/src` measures the page of another checkout beside this one, in turns, in the same run; its
server runs by the checkout's own .venv, where there is one.
"""

import base64
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from playwright.sync_api import Browser, CDPSession, Page, TimeoutError, sync_playwright
from servers import free_port, listens, post, running

from ostler.server.auth import Authenticator

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SESSIONS = 371
EVENTS = 20_000
SWITCHES = 50
WATCHED = 10.0  # seconds for which a page is left alone
PATIENCE = 60.0  # seconds until something that has not come is not waited for any longer
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 100_000}  # bytes a second
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-background-networking")
SCENARIO = {
    "reply": [
        {"match": "long ago", "steps": [{"say": f"line {n} of many"} for n in range(EVENTS)]},
        {"match": "be busy", "steps": [{"wait": 10_000}]},
        {"match": "on and on", "steps": [{"stream": {"text": "word " * 60_000, "delay": 0.005}}]},
        {"steps": [{"say": "Yes."}]},
    ]
}
FRONT = ".terminal-view:not([hidden]) .term-layer:not([hidden]) .term"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
COUNT_GLYPHS = """
window.glyphSets = 0;
const plain = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
    if (kind === "2d" && options?.willReadFrequently) glyphSets++;  // xterm draws each glyph on such a canvas first
    return plain.call(this, kind, options);
};
"""


class Measured(NamedTuple):
    """What one measure found: values by name, with their unit."""

    values: dict[str, float]

    def text(self, name: str) -> str:
        value = self.values[name]
        return "> 60" if value == float("inf") else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


class Site:
    """A server with many sessions, and a browser that has never been there."""

    def __init__(self, name: str, base: Path, port: int, browser: Browser) -> None:
        self.name, self.base, self.port, self._browser = name, base, port, browser
        self.url = f"http://127.0.0.1:{port}"
        self._auth = Authenticator(base / "state")
        self.headers = {"Authorization": f"Bearer {self._auth.sign('bearer', 'admin', 'bench', 36000)}"}

    def post(self, path: str, **body: Any) -> Any:
        return post(self.port, self.headers, path, **body)

    def session(self) -> str:
        return str(self.post("/api/sessions", agent="claude", folder=str(self.base / "work"))["id"])

    @contextlib.contextmanager
    def window(self, moving: bool = False) -> Iterator[tuple[Page, CDPSession]]:
        motion: Literal["no-preference", "reduce"] = "no-preference" if moving else "reduce"
        context = self._browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion=motion)
        token = self._auth.sign("login", "admin", "bench", 36000)
        context.add_cookies([{"name": self._auth.cookie, "value": token, "url": self.url}])
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        try:
            yield page, context.new_cdp_session(page)
        finally:
            context.close()


def main() -> None:
    others = {Path(src).parent.name: src for src in sys.argv[1:]}
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        raise SystemExit("there is no Chromium here")
    with contextlib.ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        stack.callback(browser.close)
        made = {**others, "this": str(Path(__file__).parents[1] / "src")}
        sites = [stack.enter_context(served(name, src, browser)) for name, src in made.items()]
        compare("first visit", sites, first_visit, ROUNDS)
        compare("… at 200 KB/s and 150 ms of latency", sites, lambda site: first_visit(site, SLOW), 1)
        compare(f"{SWITCHES} switches of sessions", sites, switches, 3)
        compare(f"a journal of {EVENTS:,} events while it streams", sites, journal, 1)
        compare("one busy session, and nothing else happens", sites, busy_ring, 3)


def compare(title: str, sites: list[Site], measure: Callable[[Site], Measured], rounds: int) -> None:
    """The medians, side by side: each round measures all of them."""
    found: dict[str, list[Measured]] = {site.name: [] for site in sites}
    for _ in range(rounds):
        for site in sites:
            found[site.name].append(measure(site))
    print(title)
    for what in found[sites[0].name][0].values:
        middle = {name: Measured({what: statistics.median(m.values[what] for m in all)}) for name, all in found.items()}
        print(f"  {what:44}" + "   ".join(f"{name} {each.text(what):>7}" for name, each in middle.items()), flush=True)


@contextlib.contextmanager
def served(name: str, src: str, browser: Browser) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder:
        base, port = Path(folder), free_port()
        for part in ("home", "state", "work"):
            (base / part).mkdir(mode=0o700)
        (base / "scenario.json").write_text(json.dumps(SCENARIO))
        env = {
            "HOME": str(base / "home"),
            "OSTLER_HOME": str(base / "state"),
            "OSTLER_ONLY": "script",
            "OSTLER_SCENARIO": str(base / "scenario.json"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": src,
        }
        own = Path(src).parent / ".venv/bin/python"
        python = str(own) if own.exists() else sys.executable
        with running([python, "-P", "-m", "ostler", "up", "--port", str(port)], env, folder) as process:
            listens(port, process)
            site = Site(name, base, port, browser)
            for _ in range(SESSIONS):
                site.session()
            yield site


def first_visit(site: Site, line: dict[str, Any] | None = None) -> Measured:
    """A browser that has nothing of the page yet, until all sessions are listed."""
    with site.window() as (page, tool):
        sent = count_bytes(tool)
        if line:
            tool.send("Network.emulateNetworkConditions", line)
        began = time.perf_counter()
        page.goto(site.url, wait_until="commit")
        page.wait_for_selector(".session")
        took = (time.perf_counter() - began) * 1000
        page.wait_for_timeout(500 if line is None else 3000)  # bytes are told somewhat later
        kilobytes = {f"{name}, KB sent": value / 1000 for name, value in sent.items()}
        return Measured({"first paint, ms": page.evaluate(PAINTED), "sessions listed after, ms": took, **kilobytes})


def count_bytes(tool: CDPSession) -> dict[str, int]:
    """What comes over the line from now on, counted as it comes: rows by an event stream or by a WebSocket."""
    sent = {"assets": 0, "rows": 0, "all": 0}
    paths: dict[str, str] = {}

    def data(event: dict[str, Any]) -> None:
        path = paths.get(event["requestId"], "")
        sent["all"] += event["encodedDataLength"]
        sent["assets"] += event["encodedDataLength"] if "/assets/" in path else 0
        sent["rows"] += event["encodedDataLength"] if "/api/live" in path else 0

    def message(event: dict[str, Any]) -> None:
        payload = event["response"]["payloadData"]
        length = len(base64.b64decode(payload) if event["response"]["opcode"] == 2 else payload.encode())
        sent["all"] += length
        sent["rows"] += length

    tool.send("Network.enable")
    tool.on("Network.requestWillBeSent", lambda event: paths.update({event["requestId"]: event["request"]["url"]}))
    tool.on("Network.dataReceived", data)
    tool.on("Network.webSocketFrameReceived", message)
    return sent


def switches(site: Site) -> Measured:
    """To and fro between ten sessions with a terminal each, too large for its pane."""
    shown = []
    for _ in range(10):
        session = site.session()
        row = site.post("/api/terminals", session=session, argv=["sh", "-c", "ls -l /usr/bin; cat"], cols=110, rows=60)
        shown.append((session, row["id"]))
    with site.window() as (page, tool):
        page.add_init_script(COUNT_GLYPHS)
        page.goto(site.url)
        tool.send("Performance.enable", {"timeDomain": "threadTicks"})  # CPU, whatever else runs here
        for session, terminal in shown:
            switch(page, session, terminal)
        before, glyphs = state_of(page, tool), page.evaluate("glyphSets")
        took = []
        for n in range(SWITCHES):
            began = time.perf_counter()
            switch(page, *shown[n % len(shown)])
            took.append((time.perf_counter() - began) * 1000)
        after = state_of(page, tool)
        return Measured(
            {
                "sets of glyphs for each": (page.evaluate("glyphSets") - glyphs) / SWITCHES,
                "until it is shown, ms (p50)": statistics.median(took),
                "main thread for each, ms of CPU": (after["TaskDuration"] - before["TaskDuration"]) * 1000 / SWITCHES,
                "memory before, MB": before["memory"],
                "memory after, MB": after["memory"],
            }
        )


def switch(page: Page, session: str, terminal: str) -> None:
    page.evaluate("session => { location.hash = `#/s/${session}` }", session)
    page.wait_for_selector(f"{FRONT}[data-terminal='{terminal}'][data-cols='110'][data-renderer=webgl]")


def state_of(page: Page, tool: CDPSession) -> dict[str, float]:
    """Chromium's own figures once the page is at rest, and the memory of its process."""
    page.wait_for_timeout(3000)  # glyphs are drawn ahead while nothing else is to be done
    figures = {each["name"]: each["value"] for each in tool.send("Performance.getMetrics")["metrics"]}
    return {**figures, "memory": renderer_memory()}


def renderer_memory() -> float:
    """MB of the largest renderer that we started: that of the page."""
    return max(int(rss) / 1024 for _, rss, args in our_processes("rss") if "--type=renderer" in args)


def our_processes(what: str) -> list[tuple[str, str, str]]:
    """The processes below this one: id, what `ps` calls so, command line."""
    listed = subprocess.run(["ps", "-eo", f"pid,ppid,{what},args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()[1:]]
    parents = {row[0]: row[1] for row in rows}
    return [(row[0], row[2], row[3]) for row in rows if is_below(row[0], parents)]


def is_below(pid: str, parents: dict[str, str]) -> bool:
    while pid in parents and pid != str(os.getpid()):
        pid = parents[pid]
    return pid == str(os.getpid())


def journal(site: Site) -> Measured:
    """Opened in a new window while its second turn streams 200 pieces a second."""
    session = site.session()
    site.post(f"/api/sessions/{session}/turns", prompt="long ago")
    with site.window() as (page, tool):
        page.goto(f"{site.url}/#/s/{session}")
        page.wait_for_selector(".envelope")
    turn = site.post(f"/api/sessions/{session}/turns", prompt="on and on")
    try:
        with site.window() as (page, tool):
            tool.send("Performance.enable", {"timeDomain": "threadTicks"})  # CPU, whatever else runs here
            page.goto(f"{site.url}/#/s/{session}", wait_until="commit")
            began = time.perf_counter()
            first = seconds_until(page, ".journal .entry", began)
            newest = seconds_until(page, ".entry[data-kind=text] >> text=/word word/", began)
            busy = state_of(page, tool)["TaskDuration"]
            return Measured(
                {
                    "something is shown, s": first,
                    "what streams is shown, s": newest,
                    "main thread so far, s of CPU": busy,
                }
            )
    finally:
        site.post(f"/api/turns/{turn['id']}/cancel")


def busy_ring(site: Site) -> Measured:
    """CPU of the browser while a session is busy that is only listed, over that at rest: what its ring costs."""
    shown, session = site.session(), site.session()
    with site.window(moving=True) as (page, _):
        page.goto(f"{site.url}/#/s/{shown}")
        page.wait_for_selector(".p-journal")
        at_rest = browser_cpu(page)
        turn = site.post(f"/api/sessions/{session}/turns", prompt="be busy")
        try:
            page.wait_for_selector(f".session[href$='{session}'] [data-state=busy]")
            busy = browser_cpu(page)
        finally:
            site.post(f"/api/turns/{turn['id']}/cancel")
    return Measured({f"{kind}, % of a core": busy[kind] - at_rest[kind] for kind in busy})


def browser_cpu(page: Page) -> dict[str, float]:
    """Percent of a core that Chromium's processes take while nobody does anything."""
    page.wait_for_timeout(2000)  # what came before is drawn
    before = cpu_seconds()
    page.wait_for_timeout(WATCHED * 1000)
    after = cpu_seconds()
    return {kind: (after[kind] - before[kind]) * 100 / WATCHED for kind in before}


def cpu_seconds() -> dict[str, float]:
    found = {"gpu-process": 0.0, "renderer": 0.0}
    for pid, _, args in our_processes("rss"):
        for kind in found:
            if f"--type={kind}" in args:
                with contextlib.suppress(OSError):  # it has ended
                    user, system = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[11:13]
                    found[kind] += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


def seconds_until(page: Page, selector: str, began: float) -> float:
    """Infinite when it does not come in time."""
    with contextlib.suppress(TimeoutError):
        page.wait_for_selector(selector, timeout=max(1.0, PATIENCE - (time.perf_counter() - began)) * 1000)
        return time.perf_counter() - began
    return float("inf")


if __name__ == "__main__":
    main()
