// What a screen is fed by, and what a viewer knows of its terminal.

import type { Problem } from "../api";
import type { Exit, Rights, TerminalRow, Trouble } from "../words";
import type { Author, Progress } from "./protocol";

/** Where a terminal is shown. Calls come in order, and are to be shown in order. */
export interface Sink {
  /** Forget what was shown: an empty terminal of this size that is fed `vt` is the screen. */
  show(cols: number, rows: number, vt: string): void;
  resize(cols: number, rows: number): void;
  write(data: Uint8Array | string, shown?: () => unknown): void;
}

/** What a screen shows: a live terminal, or a recording. */
export interface Source {
  attach(sink: Sink): () => void;
}

export type TerminalConnection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "retrying"; at: number } // milliseconds since the epoch
  | { state: "ended" }
  | { state: "refused"; problem: Problem };

export interface Lease {
  holder: Author | null;
  yours: boolean;
  waiting: Author | null;
  due: number | null;
}

/** What a viewer knows; replaced as a whole with every change. */
export interface Seen {
  readonly link: TerminalConnection;
  readonly terminal: TerminalRow | null;
  readonly rights: Rights;
  readonly lease: Lease;
  readonly title: string;
  readonly cwd: string;
  readonly progress: Progress | null;
  readonly cols: number;
  readonly rows: number;
  readonly ended: boolean;
  readonly exit: Exit | null;
  /** What the server refused last; gone with the next thing that works. */
  readonly trouble: Trouble | null;
  /** The keyboard is ours. */
  readonly yours: boolean;
  /** We could have it: the program lives, reads keys, and we are allowed to. */
  readonly canType: boolean;
}

export const NOBODY: Lease = { holder: null, yours: false, waiting: null, due: null };
export const NOTHING: Seen = {
  link: { state: "connecting" },
  terminal: null,
  rights: "view",
  lease: NOBODY,
  title: "",
  cwd: "",
  progress: null,
  cols: 80,
  rows: 24,
  ended: false,
  exit: null,
  trouble: null,
  yours: false,
  canType: false,
};
