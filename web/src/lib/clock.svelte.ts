// One clock for everything that ticks on the page. It stands still in a hidden tab.

const clock = $state({ now: Date.now() / 1000 });
setInterval(() => document.hidden || (clock.now = Date.now() / 1000), 1000);
document.addEventListener("visibilitychange", () => (clock.now = Date.now() / 1000));

/** Seconds since the epoch; whoever reads it is drawn again each second. */
export const now = () => clock.now;
