// The names of the shapes in Sprite.svelte.

export type IconName =
  | "list" | "grid" | "pipe" | "text" | "term" | "file" | "edit" | "run" | "find" | "plus" | "chev" | "back" | "down" | "x"
  | "keys" | "lock" | "folder" | "branch" | "clip" | "send" | "full" | "pin" | "more" | "sun" | "moon" | "auto"
  | "play" | "pause" | "gear" | "stop" | "trash" | "copy" | "link" | "globe" | "agent" | "notice" | "up" | "out" | "raw" | "image" | "bell" | "shield";

export type Mark =
  | "busy" | "asking" | "done" | "failed" | "queued" | "idle" | "cancelled" | "unproven" | "limited" | "lost";
