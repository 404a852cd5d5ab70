"""A session that is resumed, then forked. Run: python examples/sessions.py [AGENT]"""

import asyncio
import sys

import ostler
from ostler import LiveSession, OstlerError


async def main(agent: str) -> int:
    async with ostler.open() as o:
        session = await o.session(agent)
        await ask(session, "Remember the word harness.")

    # Another process could do this as well: all that is needed is the id.
    async with ostler.open() as o:
        again = await o.session(session=session.id)
        print("resumed:", await ask(again, "What did I ask you before?"))
        try:
            copy = await again.fork()
        except OstlerError as error:
            print(f"no fork: {error}")
            return 0
        print("forked:", await ask(copy, "What did I ask you before?"))
        print({row.id == session.id: row.turns for row in o.sessions()})
    return 0


async def ask(session: LiveSession, prompt: str) -> str:
    envelope = await session.run(prompt)
    return envelope.text.replace("\n", " | ")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or ["script"])))
