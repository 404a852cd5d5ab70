// What this browser remembers. Storage may be forbidden: then nothing is remembered, and nothing breaks.

export function keep(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`ostler.${key}`);
    else localStorage.setItem(`ostler.${key}`, value);
  } catch {
    // not remembered
  }
}

/** Forgets everything whose key begins so, or only what is not wanted any more. */
export function forget(prefix: string, unwanted: (key: string) => boolean = () => true): void {
  try {
    for (const name of Object.keys(localStorage)) {
      const key = name.slice("ostler.".length);
      if (name.startsWith(`ostler.${prefix}`) && unwanted(key)) keep(key, null);
    }
  } catch {
    // nothing was remembered
  }
}

export function kept(key: string): string | null {
  try {
    return localStorage.getItem(`ostler.${key}`);
  } catch {
    return null;
  }
}
