"""What the scripted agent offers in its dialogs. Commands and models do nothing: `echo` says what it was given."""

COMMANDS = {"shout": "Says it aloud", "tidy": "Tidies the stable"}
MODELS = ("scripted", "scripted-fast")
TALK_MODES = {"default": "Does as it is told", "plan": "Only plans"}
ACP_MODES = {"ask": "Asks before it acts", "auto": "Asks only by the step `ask`"}


def described(found: dict[str, str], key: str = "id") -> list[dict[str, str]]:
    return [{key: id, "description": said} for id, said in found.items()]
