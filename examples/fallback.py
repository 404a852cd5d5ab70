"""The first agent that can take the turn takes it. Run: python examples/fallback.py [AGENT ...]

An agent that is missing, logged out, limited or overloaded before it did any work is passed over.
"""

import asyncio
import sys

import ostler
from ostler.model import Notice


async def main(first: str, *others: str) -> int:
    async with ostler.open() as o:
        session = await o.session(first)
        turn = session.run("What does this folder do? One sentence.", fallback=others)
        async for event in turn:
            if isinstance(event, Notice) and event.code == "fallback":
                print(event.text)
        envelope = await turn
    print(f"{envelope.agent}: {envelope.text}")
    return 0 if envelope.ok else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or ["claude", "codex", "script"])))
