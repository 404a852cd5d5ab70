// Recordings: asciicast version 2, one JSON value a line. A file that is still written may end in half a line.

export interface CastEvent {
  at: number; // seconds since the start
  kind: "o" | "i" | "r" | "m" | string;
  data: string;
}

export interface Cast {
  cols: number;
  rows: number;
  /** Seconds since the epoch at which it began, where known. */
  began: number | null;
  events: CastEvent[];
  length: number;
}

/** The recording, or null for what is none. Lines that are broken are passed over; times never go back. */
export function readCast(text: string): Cast | null {
  const [first = "", ...lines] = text.split("\n");
  const header = decoded(first) as { version?: number; width?: number; height?: number; timestamp?: number } | null;
  if (header?.version !== 2 || !header.width || !header.height) return null;
  const events: CastEvent[] = [];
  let last = 0;
  for (const line of lines) {
    const found = decoded(line);
    if (!Array.isArray(found) || typeof found[0] !== "number" || typeof found[2] !== "string") continue;
    last = Math.max(last, found[0]);
    events.push({ at: last, kind: String(found[1]), data: found[2] });
  }
  return { cols: header.width, rows: header.height, began: header.timestamp ?? null, events, length: last };
}

/** "100x40" as a size, or null. */
export function readSize(data: string): { cols: number; rows: number } | null {
  const found = /^(\d{1,4})x(\d{1,4})$/.exec(data);
  return found ? { cols: Number(found[1]), rows: Number(found[2]) } : null;
}

function decoded(line: string): unknown {
  try {
    return line === "" ? null : JSON.parse(line);
  } catch {
    return null;
  }
}
