/** 32 hex digits. crypto.randomUUID exists in secure contexts only; a forwarded address is none. */
export function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
