"""One turn in one blocking call. Run: python examples/one_turn.py [AGENT]"""

import sys

import ostler


def main(agent: str) -> int:
    envelope = ostler.run("What does this folder do? One sentence.", agent)
    print(envelope.text)
    print(f"{envelope.outcome} by {envelope.agent}, cost: {envelope.cost_usd}")
    print(f"go on with: ostler run --session {envelope.session}")
    return 0 if envelope.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["script"]))
