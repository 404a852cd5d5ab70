"""A turn that takes too long, and one that is cancelled. Run: python examples/limits.py [AGENT]"""

import asyncio
import sys

import ostler
from ostler.words import Envelope, Limits, Text, TextDelta
from ostler.work import LiveSession

PROMPT = "Count for ever, one number a line."


async def main(agent: str) -> int:
    async with ostler.open() as o:
        late = await limited(await o.session(agent))
        print(late.outcome, "-", late.error.message if late.error else "")
        stopped = await cancelled(await o.session(agent))
        print(stopped.outcome, "- what it said is kept:", stopped.text[:20])
    return 0


async def limited(session: LiveSession) -> Envelope:
    async for _ in session.run(PROMPT, limits=Limits(total=1.0)):
        pass
    assert session.last is not None
    return session.last


async def cancelled(session: LiveSession) -> Envelope:
    async for event in session.run(PROMPT):
        if isinstance(event, Text | TextDelta):
            await session.cancel()  # its last events still come
    assert session.last is not None
    return session.last


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or ["script"])))
