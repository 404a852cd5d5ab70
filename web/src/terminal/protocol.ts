// What a viewer and a terminal say to each other over a WebSocket (src/ostler/terminal/viewer_protocol.py).

import type { Key } from "../api_types";

export type { AnyTerminalMessage, AnyViewerMessage, Author, Key as KeyPress, Progress } from "../api_types";

export type Mod = NonNullable<Key["mods"]>[number];

const OFFSET = 8; // bytes before the output in a frame of bytes

/** A frame of bytes as the offset that it begins at, and the program's output. */
export function readOutput(frame: ArrayBuffer): { offset: number; data: Uint8Array } {
  return { offset: Number(new DataView(frame).getBigUint64(0)), data: new Uint8Array(frame, OFFSET) };
}
