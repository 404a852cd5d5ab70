"""A turn that takes too long, and one that is cancelled. Run: python examples/limits.py [AGENT]"""

import asyncio
import sys

import ostler
from ostler import Envelope, Limits, LiveSession, Text, TextDelta

PROMPT = "Count for ever, one number a line."


async def main(agent: str) -> int:
    async with ostler.open() as o:
        late = await limited(await o.session(agent))
        print(late.outcome, "-", late.error.message if late.error else "")
        stopped = await cancelled(await o.session(agent))
        print(stopped.outcome, "- what it said is kept:", stopped.text[:20])
    return 0


async def limited(session: LiveSession) -> Envelope:
    return await session.run(PROMPT, limits=Limits(total=1.0))


async def cancelled(session: LiveSession) -> Envelope:
    turn = session.run(PROMPT)
    async for event in turn:
        if isinstance(event, Text | TextDelta):
            turn.cancel()  # its last events still come
    return await turn


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or ["script"])))
