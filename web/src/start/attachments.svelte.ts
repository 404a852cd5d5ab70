// Files that go with a prompt: sent to the server as soon as they are chosen.

import { api, asProblem, type AttachmentRef, type Problem } from "../api";

export interface Attached {
  key: number;
  name: string;
  size: number;
  upload: string | null; // null: under way, or failed
  problem: Problem | null;
}

const LIMIT = 32_000_000;
let keys = 0;

export class Attachments {
  files = $state<Attached[]>([]);

  get sending(): boolean {
    return this.files.some((file) => file.upload === null && file.problem === null);
  }

  get failed(): boolean {
    return this.files.some((file) => file.problem !== null);
  }

  /** What a turn is started with. */
  get refs(): AttachmentRef[] {
    return this.files.flatMap((file) => (file.upload === null ? [] : [{ upload: file.upload }]));
  }

  add(files: Iterable<File>): void {
    for (const file of files) void this.#send(file);
  }

  remove(key: number): void {
    this.files = this.files.filter((file) => file.key !== key);
  }

  clear(): void {
    this.files = [];
  }

  async #send(file: File): Promise<void> {
    const key = ++keys;
    const name = file.name || `pasted-${key}.${file.type.split("/")[1] ?? "bin"}`;
    this.files.push({ key, name, size: file.size, upload: null, problem: null });
    try {
      if (file.size > LIMIT) throw new Error(`${name} is larger than 32 MB`);
      const { upload } = await api.upload(file, name);
      this.#change(key, { upload });
    } catch (thrown) {
      this.#change(key, { problem: asProblem(thrown) });
    }
  }

  #change(key: number, change: Partial<Attached>): void {
    const file = this.files.find((one) => one.key === key);
    if (file) Object.assign(file, change);
  }
}

/** Files of a drop or a paste; text that is pasted stays text. */
export function filesOf(data: DataTransfer | null): File[] {
  if (!data) return [];
  if (data.types.includes("text/plain") && !data.types.includes("Files")) return [];
  return [...data.files];
}
