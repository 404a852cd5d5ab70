"""The report of a run as one HTML file: no scripts, nothing from elsewhere, both themes. Pure."""

from collections.abc import Mapping
from html import escape

from markdown_it import MarkdownIt

from ostler.pipelines.model import NodeRow, RunRow
from ostler.pipelines.report import report

# What agents wrote is text: HTML in it is shown, and links that could run something are none.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")

_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1f1d1a, #ecebe8); --quiet: light-dark(#6b675f, #a5a19a);
  --pane: light-dark(#fbfaf8, #191816); --sunken: light-dark(#f1f0ec, #232220); --line: light-dark(#dedbd5, #35322e); }
body { margin: 0 auto; padding: 24px 16px 64px; max-width: 860px; background: var(--pane); color: var(--ink);
  font: 14px/1.55 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: break-word; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin-top: 32px; padding-top: 12px; border-top: 1px solid var(--line); }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 4px 16px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; }
pre { background: var(--sunken); border: 1px solid var(--line); border-radius: 6px; padding: 10px; overflow-x: auto; }
code { font: 12.5px/1.5 ui-monospace, monospace; } em { color: var(--quiet); }
"""


def report_html(run: RunRow, nodes: Mapping[str, NodeRow]) -> str:
    """A whole page."""
    title = escape(f"{run.pipeline.name}: {run.state} · {run.id}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{_PARSER.render(report(run, nodes))}</body>\n</html>\n"
    )
