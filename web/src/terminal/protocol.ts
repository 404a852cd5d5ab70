// What a viewer and a terminal say to each other over a WebSocket (src/ostler/terminal/viewing.py).

import type { Exit, Rights, TerminalRow, Trouble } from "../words";

export interface Author {
  name: string;
  kind: "person" | "automation";
  id: string;
}

/** What OSC 9;4 told: state and percent. */
export type Progress = [state: "set" | "error" | "indeterminate" | "paused", percent: number | null];

export type Told =
  | { kind: "hello"; terminal: TerminalRow | null; viewer: string; rights: Rights; resumed?: boolean; high?: number }
  | {
      kind: "snapshot";
      offset: number;
      cols: number;
      rows: number;
      vt: string;
      title?: string;
      cwd?: string;
      progress?: Progress | null;
      alternate?: boolean;
    }
  | { kind: "resize"; cols: number; rows: number; offset: number }
  | { kind: "facts"; title?: string | null; cwd?: string | null; progress?: Progress | "none" | null; bells?: number }
  | { kind: "lease"; holder: Author | null; yours: boolean; waiting?: Author | null; due?: number | null }
  | { kind: "exit"; exit: Exit | null; offset: number }
  | { kind: "error"; problem: Trouble; re?: number };

export type Mod = "shift" | "alt" | "ctrl" | "super" | "caps" | "num";

/** One key as the server encodes it for the mode that the program asked for. */
export interface KeyPress {
  name: string;
  text?: string;
  mods?: Mod[];
  event?: "press" | "repeat" | "release";
  shifted?: string;
  base?: string;
}

export type Said =
  | { kind: "key"; key: KeyPress }
  | { kind: "text"; text: string }
  | { kind: "paste"; text: string }
  | { kind: "resize"; cols: number; rows: number }
  | { kind: "control"; name: "interrupt" | "eof" | "suspend" }
  | { kind: "raw"; data: string }
  | { kind: "lease"; action: "take" | "release" }
  | { kind: "ack"; offset: number }
  | { kind: "refresh" };

const OFFSET = 8; // bytes before the output in a frame of bytes

/** A frame of bytes as the offset that it begins at, and the program's output. */
export function readOutput(frame: ArrayBuffer): { offset: number; data: Uint8Array } {
  return { offset: Number(new DataView(frame).getBigUint64(0)), data: new Uint8Array(frame, OFFSET) };
}
