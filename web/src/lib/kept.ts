// What this browser remembers. Storage may be forbidden: then nothing is remembered, and nothing breaks.

export function keep(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`ostler.${key}`);
    else localStorage.setItem(`ostler.${key}`, value);
  } catch {
    // not remembered
  }
}

export function kept(key: string): string | null {
  try {
    return localStorage.getItem(`ostler.${key}`);
  } catch {
    return null;
  }
}
