"""An answer that fits a JSON schema, or an error that says why not. Run: python examples/schema.py [AGENT]"""

import sys

import ostler

RISK = {
    "type": "object",
    "properties": {"risk": {"type": "string"}, "severity": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["risk", "severity"],
    "additionalProperties": False,
}


def main(agent: str) -> int:
    envelope = ostler.run("What is the greatest risk in this folder?", agent, schema=RISK)
    if envelope.error is not None:
        print(f"{envelope.error.kind}: {envelope.error.message}")
        return 1
    print(f"{envelope.structured['severity']}/5 {envelope.structured['risk']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["script"]))
