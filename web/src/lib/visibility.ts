// A tab that nobody has looked at for a while lets go of what it follows, and takes it up again when it is seen.

const HIDDEN = 30_000; // ms

/** `sleep` is called once the tab was hidden for so long, `wake` whenever it is seen again. Returns what ends that. */
export function whenHidden(sleep: () => void, wake: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(sleep, HIDDEN);
    else wake();
  };
  document.addEventListener("visibilitychange", changed);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
  };
}
