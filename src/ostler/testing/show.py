"""What the scripted agent does when nobody tells it anything: a small real program, written, run, reported."""

from __future__ import annotations

import sys

from ostler.testing.steps import Play

NAME = "mandelbrot.py"
PROGRAM = '''\
"""Draws the Mandelbrot set in the terminal."""


def steps(c: complex) -> int:
    z = 0j
    for n in range(40):
        if abs(z) > 2:
            return n
        z = z * z + c
    return 40


for y in range(-11, 12):
    print("".join(" .:-=+*#%@"[steps(complex(x / 22 - 0.7, y / 10)) // 4 % 10] for x in range(-34, 34)).rstrip())
'''
PLAN = ("write a small program", "run it", "report")


def show(play: Play) -> None:
    """Thinks, plans, writes a program if it may, runs it and reports, in about five seconds."""
    prompt = " ".join(play.setting.prompt.split())
    play.step_think("A small program that draws something would show that everything works.")
    play.pause(0.6)
    _plan(play, 0)
    play.step_stream(f"You said “{_short(prompt)}”. I am scripted, so I draw you the Mandelbrot set instead.")
    play.pause(0.6)
    written = play.step_write({"path": NAME, "content": PROGRAM})
    play.pause(0.6)
    _plan(play, 1)
    argv = [sys.executable, NAME] if written else [sys.executable, "-c", PROGRAM]
    play.step_run({"command": argv, "title": f"python {NAME}" if written else "python -c …"})
    play.pause(0.8)
    _plan(play, 3)
    play.step_usage({"input_tokens": 1200, "output_tokens": 340, "cached_tokens": 1000, "cost_usd": 0.0})
    play.step_stream(_report(written, len(play.setting.history)))


def _plan(play: Play, done: int) -> None:
    """The to-do list with that many steps done and the next one under way."""
    status = ["done" if i < done else "active" if i == done else "pending" for i in range(len(PLAN))]
    play.step_plan([{"text": text, "status": status[i]} for i, text in enumerate(PLAN)])


def _report(written: bool, earlier: int) -> str:
    did = (
        f"Done: {NAME} is written and it runs."
        if written
        else f"Done: it runs. I was not allowed to keep it as {NAME}; with --access write I am."
    )
    remembered = f" I remember {earlier} earlier prompt{'s' if earlier > 1 else ''} of this session."
    return did + (remembered if earlier else "")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
