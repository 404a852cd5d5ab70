"""Me, folders, uploads, health, metrics, problems, and the page's own files."""

import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import ostler
from ostler.errors import OstlerError
from ostler.model import Problem, Session, Turn, TurnRow
from ostler.server.pages import Pages
from ostler.server.uploads import DAY, Uploads, clean_file_name
from ostler.work.turns.envelope import unwatched_envelope
from server.conftest import Yard, yard_at
from waiting import until

# -- the server ---------------------------------------------------------------------------------------


async def test_me(yard: Yard) -> None:
    me = (await yard.client.get("/api/me")).json()
    assert me.pop("started_at") <= time.time()
    assert me == {
        "name": "tester",
        "rights": "admin",
        "version": ostler.__version__,
        "pid": os.getpid(),
        "state_folder": str(yard.ostler.store.folder),
        "home": yard.ostler.setup.home,
        "only": "script",
        "default_agent": "",
        "default_folder": str(yard.folder),
    }


async def test_health(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await yard.client.get("/healthz")
    assert (answer.status_code, answer.json()["status"], answer.json()["pid"]) == (200, "ok", os.getpid())

    def locked() -> int:
        raise OstlerError("store", "the database is locked", "Wait")

    monkeypatch.setattr(yard.ostler.store, "data_version", locked)
    answer = await yard.client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the store does not answer: the database is locked"


def value(text: str, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


async def test_metrics(yard: Yard) -> None:
    await yard.client.get("/nope")
    await yard.client.get("/api/me")
    await yard.client.get("/api/me")
    async with yard.as_(None) as nobody:
        await nobody.get("/api/me")
        await nobody.get("/")
    await yard.client.request("BREW", "/api/me")
    session = await yard.ostler.session("claude", folder=str(yard.folder))
    async for _ in session.run("[[say:hello]]"):
        pass
    answer = await yard.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.text
    requests = "ostler_http_requests_total"
    assert value(text, requests, method="GET", route="/api/me", status="200") == 2
    assert value(text, requests, method="GET", route="none", status="401") == 1
    assert value(text, requests, method="GET", route="none", status="404") == 1
    assert value(text, requests, method="other", route="none", status="405") == 1
    assert value(text, "ostler_turns_total", agent="claude", outcome="done") == 1
    assert value(text, "ostler_turns_running", state="running") == 0
    assert value(text, "ostler_terminals_live") == 0
    assert value(text, "ostler_viewers") == value(text, "ostler_streams") == 0
    assert value(text, "ostler_info", version=ostler.__version__) == 1
    assert (value(text, "process_resident_memory_bytes") or 0) > 1e6
    assert value(text, "ostler_loop_lag_seconds_count") is not None
    await yard.client.get("/metrics")
    assert value((await yard.client.get("/metrics")).text, "ostler_turns_total", agent="claude", outcome="done") == 1


async def test_metrics_are_documented(yard: Yard) -> None:
    text = (await yard.client.get("/metrics")).text
    ours = {found.split()[2] for found in text.splitlines() if found.startswith("# TYPE ostler")}
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    assert set(re.findall(r"^\| `(ostler_\w+)` \|", page, re.M)) == ours


async def test_metrics_count_what_other_processes_run(yard: Yard) -> None:
    """And a turn that runs during a scrape is counted by the next one, once."""
    now = time.time()
    store = yard.ostler.store
    await store.add_session(Session(id="s", agent="codex", folder="/w", created_at=now, used_at=now))
    turn = Turn(id="t", session="s", agent="codex", prompt="p", folder="/w")
    row = TurnRow(id="t", session="s", state="running", turn=turn, created_at=now, owner=yard.ostler.desk.id)
    await store.begin_turn(row)
    text = (await yard.client.get("/metrics")).text
    assert value(text, "ostler_turns_running", state="starting") == 1
    assert value(text, "ostler_turns_total", agent="codex") is None
    problem = Problem(kind="crashed", message="gone")
    await store.end_turn("t", last=(), envelope=unwatched_envelope(row, "crashed", problem, None))
    for _ in range(2):
        text = (await yard.client.get("/metrics")).text
        assert value(text, "ostler_turns_total", agent="codex", outcome="crashed") == 1


async def test_openapi(yard: Yard) -> None:
    document = (await yard.client.get("/api/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert {"/api/me", "/api/login", "/healthz", "/api/uploads/{name}"} <= document["paths"].keys()


# -- problems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"rights": "root"}', "rights"),
        (b'{"rights": "view", "colour": 1}', "colour"),
        (b"[1]", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b'{"name": "\xed\xa0\x80"}', ""),
        (b"[" * 100_000, ""),
    ],
)
async def test_bodies_that_are_wrong(yard: Yard, body: bytes, detail: str) -> None:
    answer = await yard.client.post("/api/links", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["kind"]) == (400, "bad_request")
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]


async def test_what_is_not_there(yard: Yard) -> None:
    answer = await yard.client.get("/api/nothing")
    assert (answer.status_code, answer.json()["kind"]) == (404, "not_found")
    answer = await yard.client.delete("/api/me")
    assert (answer.status_code, answer.json()["kind"]) == (405, "unsupported")
    assert "GET" in answer.headers["allow"]


# -- folders ------------------------------------------------------------------------------------------


async def test_folders(yard: Yard) -> None:
    for name in ("b", "A", ".hidden", "c d", "<i>x"):
        (yard.folder / name).mkdir()
    (yard.folder / "file").touch()
    (yard.folder / "link").symlink_to(yard.folder / "b")
    (yard.folder / "loop").symlink_to(yard.folder / "loop")
    os.mkdir(os.fsencode(yard.folder) + b"/\xff")
    here = (await yard.client.get("/api/folders")).json()
    assert here == {
        "path": str(yard.folder),
        "parent": str(yard.folder.parent),
        "folders": ["<i>x", "A", "b", "c d", "link"],
    }
    inside = (await yard.client.get("/api/folders", params={"at": f"{yard.folder}/b/../A/"})).json()
    assert (inside["path"], inside["folders"]) == (str(yard.folder / "A"), [])
    root = (await yard.client.get("/api/folders", params={"at": "/"})).json()
    assert root["parent"] is None and "usr" in root["folders"]


@pytest.mark.parametrize(
    ("at", "status"),
    [
        ("/nowhere/at/all", 404),
        ("relative", 400),
        ("~", 400),
        ("/etc/passwd", 404),
        ("/a\0b", 400),
        ("/" + "x" * 5000, 400),
    ],
)
async def test_folders_that_are_none(yard: Yard, at: str, status: int) -> None:
    answer = await yard.client.get("/api/folders", params={"at": at})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


# -- uploads ------------------------------------------------------------------------------------------


async def put(client: httpx.AsyncClient, name: str, content: Any) -> httpx.Response:
    return await client.put(
        f"/api/uploads/{name}", content=content, headers={"content-type": "application/octet-stream"}
    )


async def test_uploads(yard: Yard) -> None:
    data = os.urandom(3_000_000)
    before = os.umask(0)
    try:
        answer = await put(yard.client, "my%20picture.png", data)
    finally:
        os.umask(before)
    assert answer.status_code == 201
    sent = answer.json()
    assert (sent["name"], sent["size"]) == ("my picture.png", len(data))
    path = Uploads(yard.ostler.store.folder).path(sent["upload"])
    assert (path.name, path.read_bytes() == data) == ("my picture.png", True)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]
    assert (await put(yard.client, "empty", b"")).json()["size"] == 0


@pytest.mark.parametrize("id", ["", "x", "..", "0" * 24, "../../../etc/passwd", "a" * 25, "A" * 24, "0\0"])
async def test_uploads_that_are_none(tmp_path: Path, id: str) -> None:
    with pytest.raises(OstlerError) as caught:
        Uploads(tmp_path).path(id)
    assert caught.value.kind == "not_found"


async def test_an_upload_that_is_just_being_removed_is_gone(tmp_path: Path) -> None:
    """Its folder is there, and what was in it is not any more."""
    (tmp_path / "uploads" / ("a" * 24)).mkdir(parents=True)
    with pytest.raises(OstlerError) as caught:
        Uploads(tmp_path).path("a" * 24)
    assert caught.value.kind == "not_found"


async def test_uploads_are_gone_after_a_day(yard: Yard) -> None:
    uploads = Uploads(yard.ostler.store.folder)
    old = (await put(yard.client, "old", b"1")).json()["upload"]
    path = uploads.path(old)
    os.utime(path.parent, (0, time.time() - DAY - 1))
    with pytest.raises(OstlerError):
        uploads.path(old)
    new = (await put(yard.client, "new", b"2")).json()["upload"]
    assert not path.parent.exists() and uploads.path(new).read_bytes() == b"2"


async def test_an_upload_that_breaks_off_leaves_nothing(yard: Yard) -> None:
    async def breaks() -> Any:
        yield b"half"
        raise RuntimeError("the client dies")

    with pytest.raises(RuntimeError):
        await put(yard.client, "half", breaks())
    folder = Path(yard.ostler.store.folder) / "uploads"
    await until(lambda: not folder.exists() or not list(folder.iterdir()))


async def test_uploads_have_a_limit_together(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.server.uploads.ROOM", 10)
    assert (await put(yard.client, "a", b"12345678")).status_code == 201
    answer = await put(yard.client, "b", b"12345678")
    assert (answer.status_code, answer.json()["kind"]) == (429, "too_many")
    assert (await put(yard.client, "c", b"12")).status_code == 201


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("a.png", "a.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\y.txt", "y.txt"),
        ("a\x1b[0m\n.txt", "a_[0m_.txt"),
        ("-rf", "rf"),
        ("...", "file"),
        ("", "file"),
        ("$(rm -rf ~);`x`.sh", "_(rm -rf ~)__x_.sh"),
        ("ü" * 200 + ".png", "ü" * 58 + ".png"),
        (".env", "env"),
        ("x." + "y" * 500, "." + "y" * 119),
    ],
)
def test_names_of_files(name: str, clean: str) -> None:
    assert clean_file_name(name) == clean
    assert len(clean.encode()) <= 120


# -- the page -----------------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path) -> Path:
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><p>ostler")
    (folder / "assets" / "index-abc123.js").write_text("let a = 'ü'")
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / ".secret").write_text("no")
    (folder / "assets" / "link.js").symlink_to("/etc/passwd")
    return folder


async def test_the_page_is_open(tmp_path: Path, page: Path) -> None:
    async with yard_at(tmp_path, pages=Pages(page)) as yard, yard.as_(None) as nobody:
        answer = await nobody.get("/")
        assert (answer.status_code, answer.text) == (200, "<!doctype html><p>ostler")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
        assert not re.search(r"unsafe-eval|\*|https?:", answer.headers["content-security-policy"])
        assert answer.headers["x-frame-options"] == "DENY"
        script = await nobody.get("/assets/index-abc123.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert script.headers["x-content-type-options"] == "nosniff"
        assert (await nobody.get("/favicon.svg")).headers["content-type"] == "image/svg+xml; charset=utf-8"
        same = await nobody.get("/", headers={"if-none-match": answer.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        head = await nobody.head("/")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "24")


async def test_what_is_no_file_of_the_page_is_not_open(tmp_path: Path, page: Path) -> None:
    async with yard_at(tmp_path, pages=Pages(page)) as yard, yard.as_(None) as nobody:
        for path in ("/.secret", "/assets", "/assets/", "/assets/link.js", "/assets/nope.js", "/x/%2e%2e/index.html",
                     "/%2e%2e/auth.py", "/assets/..%2f..%2fpeople.py", "/index.html%00", "/index.html/"):  # fmt: skip
            assert (await nobody.get(path)).status_code in (400, 401), path
            assert (await yard.client.get(path)).status_code in (400, 404), path
        assert (await nobody.post("/", json={})).status_code == 401


async def test_a_page_that_is_built_anew_is_served(tmp_path: Path, page: Path) -> None:
    async with yard_at(tmp_path, pages=Pages(page)) as yard, yard.as_(None) as nobody:
        first = await nobody.get("/")
        (page / "index.html").write_text("<!doctype html><p>newer")
        second = await nobody.get("/", headers={"if-none-match": first.headers["etag"]})
        assert (second.status_code, second.text) == (200, "<!doctype html><p>newer")


async def test_a_page_that_was_not_built_says_so(tmp_path: Path) -> None:
    async with yard_at(tmp_path, pages=Pages(tmp_path / "nothing")) as yard, yard.as_(None) as nobody:
        answer = await nobody.get("/")
        assert answer.status_code == 503
        assert "The page has not been built" in answer.text and "make page" in answer.text
        assert (await yard.client.get("/api/me")).status_code == 200
