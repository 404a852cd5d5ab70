"""Panes of tmux: turns whose agents go on while ostler is restarted, and are found again."""
