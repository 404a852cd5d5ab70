"""Machines in the page: which one has a run, whether it answers, and where a node ran."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.conftest import PATIENCE, Reader, Server
from machines.conftest import postgres  # noqa: F401
from postgres import Postgres
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE)
Visit = Callable[..., Reader]
WIDTHS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}
# Pictures of each state, for whoever wants to look at them.
PICTURES = os.environ.get("OSTLER_TEST_PICTURES", "")

FAR = """
name = "stable"
[nodes.feed]
agent = "script"
on = "gpu"
folder = "/"
prompt = "[[say:fed]]"
[nodes.ship]
gate = "Ship it?"
needs = ["feed"]
"""


class Pair:
    def __init__(self, hawk: Server, owl: Server) -> None:
        self.hawk, self.owl = hawk, owl


@pytest.fixture
def pair(tmp_path: Path, postgres: Postgres) -> Iterator[Pair]:  # noqa: F811
    database = postgres.new_database()
    servers = []
    for name, more in (("hawk", ()), ("owl", ("--labels", "gpu"))):
        (tmp_path / name).mkdir()
        servers.append(Server(tmp_path / name, "--join", database, "--as", name, *more))
        servers[-1].start()
    yield Pair(*servers)
    for server in servers:
        server.stop()


def picture(reader: Reader, name: str) -> None:
    """At both widths; nothing may stick out of the narrow one."""
    for width, size in WIDTHS.items():
        reader.page.set_viewport_size(size)  # type: ignore[arg-type]
        assert reader.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if PICTURES:
            reader.page.screenshot(path=f"{PICTURES}/{name}-{width}.png")
    reader.page.set_viewport_size(WIDTHS["wide"])  # type: ignore[arg-type]


def test_a_run_shows_its_machine_and_whether_it_answers(visit: Visit, pair: Pair) -> None:
    reader = visit(server=pair.hawk, alone=True, viewport=WIDTHS["wide"])
    page = reader.page
    wait_until(lambda: _agents_told(reader))
    body = {"folder": str(pair.owl.folder), "text": FAR}
    run = reader.call("POST", "/api/runs?machine=owl", body)["id"]
    wait_until(lambda: reader.call("GET", f"/api/runs/{run}")["gates"] == 1)
    here = reader.call("POST", "/api/runs", {"folder": str(pair.hawk.folder), "text": FAR})["id"]
    page.goto(f"{pair.hawk.url}/#/p")
    row, own = (page.locator(f".run-row[data-run={id}]") for id in (run, here))
    expect(row.locator(".machine")).to_have_text("owl")
    expect(own).to_be_visible()
    expect(own.locator(".machine")).to_have_count(0)
    for each in (row, own):
        expect(each.get_by_role("img", name=re.compile("waits for you"))).to_have_count(2)
    picture(reader, "runs")
    own.get_by_role("link").click()
    feed = page.locator(".node[data-node=feed]")
    expect(feed).to_contain_text("owl")  # of the run that is here, this node ran there
    feed.get_by_role("link").click()
    expect(page.locator(".side dl")).to_contain_text("machineowl")
    picture(reader, "node")
    page.goto(f"{pair.hawk.url}/#/p/{run}")
    expect(page.locator(".row-2 .machine")).to_have_text("owl")
    expect(page.get_by_role("button", name="Cancel run")).to_be_enabled()
    count = page.locator(".rail .count")
    expect(count).to_have_text("2")
    pair.owl.kill()
    expect(count).to_have_text("1")  # nobody can answer the other one now
    expect(page.locator(".away-note")).to_contain_text("owl cannot be reached")
    expect(page.get_by_role("button", name="Cancel run")).to_be_disabled()
    for approve in page.get_by_role("button", name="Approve").all():
        expect(approve).to_be_disabled()
    picture(reader, "away")
    page.goto(f"{pair.hawk.url}/#/p")
    expect(row).to_have_class(re.compile(r"\baway\b"))
    expect(row).to_contain_text("owl cannot be reached")
    expect(own).not_to_have_class(re.compile(r"\baway\b"))
    picture(reader, "runs-away")
    pair.owl.start()
    expect(row).not_to_have_class(re.compile(r"\baway\b"))


def _agents_told(reader: Reader) -> bool:
    told: list[dict[str, Any]] = reader.call("GET", "/api/machines")["items"]
    return len(told) == 2 and all(each["agents"] for each in told)
