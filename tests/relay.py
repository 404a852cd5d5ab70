"""A program that passes bytes on between two sockets, so that one can reach into another network namespace.

`relay.py LISTEN TARGET`, each a path of a unix socket or ADDRESS:PORT. It prints a line once it listens.
"""

import asyncio
import sys
from contextlib import suppress


async def main(listen: str, target: str) -> None:
    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await (
                asyncio.open_unix_connection(target) if "/" in target else asyncio.open_connection(*_at(target))
            )
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

    if "/" in listen:
        server = await asyncio.start_unix_server(met, listen)
    else:
        server = await asyncio.start_server(met, *_at(listen))
    print("ready", flush=True)
    await server.serve_forever()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # either end may go at any time: then the other one does
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def _at(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
