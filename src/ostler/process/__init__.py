"""How bytes move: the warden, process trees, lines. Knows no agents."""

from ostler.process.child import SIGNALS, Process
from ostler.process.lines import LineFramer, OutputLine, chunks
from ostler.process.link import raise_fd_limit
from ostler.process.pipes import Size
from ostler.process.spawn import Warden

__all__ = ["SIGNALS", "LineFramer", "OutputLine", "Process", "Size", "Warden", "chunks", "raise_fd_limit"]
