"""What the command loads late is there as soon as it is used: for asyncio, for everybody, in every thread."""

import subprocess
import sys
from pathlib import Path

from ostler.late import LATE


def said(script: str) -> str:
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_asyncio_does_without_openssl_until_a_connection_is_encrypted() -> None:
    script = """
import sys
from ostler.late import load_late
load_late()
import asyncio
print('_ssl' in sys.modules)

async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.write(b'this is no TLS'), '127.0.0.1', 0)
    host, port = server.sockets[0].getsockname()
    import ssl
    try:
        await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except ssl.SSLError as error:
        print(type(error).__name__, type(ssl).__name__, ssl.__spec__.loader is ssl.__loader__)
    server.close()

asyncio.run(main())
"""
    assert said(script) == "False\nSSLError module True\n"


def test_a_late_module_is_whole_for_each_of_many_threads() -> None:
    script = """
import sys, threading
sys.setswitchinterval(1e-6)
from ostler.late import load_late
load_late()
import ipaddress, ssl
barrier, found = threading.Barrier(8), []

def use():
    barrier.wait()
    found.append((ssl.SSLContext.__name__, ssl.create_default_context.__name__, ipaddress.ip_address('::1').version))

threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), set(found))
"""
    assert said(script) == "8 {('SSLContext', 'create_default_context', 6)}\n"


def test_what_a_late_module_lacks_is_an_attribute_error_and_from_imports_work() -> None:
    script = f"""
from importlib import import_module
from ostler.late import load_late
load_late()
for name in {LATE!r}:
    module = import_module(name)
    print(hasattr(module, 'no_such_thing'), module.__name__)
from ssl import SSLContext
import msgspec, sys
print('typing_extensions' in sys.modules)
import typing_extensions
print(SSLContext.__module__, hasattr(typing_extensions, 'TypedDict'))
"""
    lines = "".join(f"False {name}\n" for name in LATE)
    assert said(script) == f"{lines}False\nssl True\n"


def test_a_late_module_that_cannot_be_loaded_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "gzip.py").write_text("raise ImportError('no zlib here')")
    script = f"""
import sys
from ostler.late import load_late
load_late()
sys.path.insert(0, {str(tmp_path)!r})
import gzip
for _ in range(2):
    try:
        gzip.open
    except ImportError as error:
        print(error)
"""
    assert said(script) == "no zlib here\n" * 2


def test_stand_ins_do_as_the_module_does_and_it_is_loaded_for_all_else() -> None:
    script = """
import sys
from ostler.late import STAND_INS, LateModule, load_late
load_late()
import functools, inspect, platform

@functools.lru_cache
def plain(): pass
async def later(): pass
class Thing:
    def method(self): pass
    async def later(self): pass
values = (plain, plain.__wrapped__, later, Thing().method, Thing().later, functools.partial(later), Thing, 7, len)
texts = ("", "one line ", "  two\\n    lines\\n", "a\\ttab")


stood_in = {name: [stand_in(value) for value in (texts if name == "cleandoc" else values)]
            for name, stand_in in STAND_INS["inspect"].items()}
print(platform.system() == "Linux", type(platform) is LateModule)
platform.machine()
print(type(inspect) is LateModule, type(platform) is LateModule)
for name, results in stood_in.items():
    assert name in STAND_INS["inspect"] and getattr(inspect, name) is not STAND_INS["inspect"][name], name
    assert results == [getattr(inspect, name)(value) for value in (texts if name == "cleandoc" else values)], name
"""
    assert said(script) == "True True\nFalse False\n"


def test_import_ostler_leaves_the_modules_of_others_alone() -> None:
    assert said("import sys, ostler, asyncio, ostler.work\nprint('_ssl' in sys.modules)") == "True\n"
