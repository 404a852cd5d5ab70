"""A turn as it happens: text, tools, and what changed. Run: python examples/stream_events.py [AGENT]"""

import asyncio
import sys

import ostler
from ostler.model import AnyEvent, Notice, TextDelta, Thought, ToolEnded, ToolStarted


async def main(agent: str) -> int:
    async with ostler.open() as o:
        session = await o.session(agent, access="write")
        turn = session.run("Write a greeting script and run it.")
        async for event in turn:
            show(event)
        envelope = await turn
    print(f"\n{envelope.outcome}; changed: {[f'{file.change} {file.path}' for file in envelope.files]}")
    for denial in envelope.denied:
        print(f"refused: {denial.tool} {denial.target}, would need {denial.access}")
    return 0 if envelope.ok else 1


def show(event: AnyEvent) -> None:
    match event:
        case TextDelta(text=text):
            print(text, end="", flush=True)
        case Thought(text=text):
            print(f"thinks: {text}")
        case ToolStarted(name=name, title=title):
            print(f"> {name} {title}")
        case ToolEnded(ok=ok, output=output):
            print(f"  {'ok' if ok else 'failed'}: {output.strip()}")
        case Notice(text=text):
            print(f"note: {text}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or ["script"])))
