// Files that go with a prompt: sent to the server as soon as they are chosen.

import { api, asProblem, type AttachmentRef, type Problem } from "../api";

export interface Attached {
  key: number;
  name: string;
  size: number;
  image: boolean;
  upload: string | null; // null: under way, or failed
  problem: Problem | null;
}

/** A file that the server has, for a day. */
export interface Sent {
  name: string;
  size: number;
  image: boolean;
  upload: string;
}

const LIMIT = 32_000_000;
let keys = 0;

export class Attachments {
  files = $state<Attached[]>([]);
  #waiting: (() => void)[] = [];

  get sending(): boolean {
    return this.files.some((file) => file.upload === null && file.problem === null);
  }

  /** Waits for those under way. Throws where one of them failed: no prompt goes without a file that was meant to go with it. */
  async arrived(): Promise<void> {
    const keys = this.files.filter(({ upload, problem }) => upload === null && problem === null).map(({ key }) => key);
    while (this.sending) await new Promise<void>((done) => this.#waiting.push(done));
    const failed = this.files.find(({ key, problem }) => problem !== null && keys.includes(key));
    if (failed?.problem) throw failed.problem;
  }

  /** What a turn is started with. */
  get refs(): AttachmentRef[] {
    return this.files.flatMap((file) => (file.upload === null ? [] : [{ upload: file.upload }]));
  }

  /** Those that have arrived at the server. */
  get sent(): Sent[] {
    return this.files.flatMap(({ name, size, image, upload }) => (upload === null ? [] : [{ name, size, image, upload }]));
  }

  /** Puts back what was sent before the page was loaded. */
  restore(files: Sent[]): void {
    this.files = files.map(({ name, size, image, upload }) => ({ key: ++keys, name, size, image: image === true, upload, problem: null }));
  }

  add(files: Iterable<File>): void {
    for (const file of files) void this.#send(file);
  }

  remove(key: number): void {
    this.files = this.files.filter((file) => file.key !== key);
    this.#changed();
  }

  /** Those uploads went with a prompt. */
  drop(uploads: string[]): void {
    this.files = this.files.filter(({ upload }) => upload === null || !uploads.includes(upload));
  }

  clear(): void {
    this.files = [];
    this.#changed();
  }

  async #send(file: File): Promise<void> {
    const key = ++keys;
    const name = file.name || `pasted-${key}.${file.type.split("/")[1] ?? "bin"}`;
    this.files.push({ key, name, size: file.size, image: file.type.startsWith("image/"), upload: null, problem: null });
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
    this.#changed();
  }

  #changed(): void {
    for (const done of this.#waiting.splice(0)) done();
  }
}

/** Files of a drop or a paste; text that is pasted stays text. */
export function filesOf(data: DataTransfer | null): File[] {
  if (!data) return [];
  if (data.types.includes("text/plain") && !data.types.includes("Files")) return [];
  return [...data.files];
}
