// How many terminals of the wall may be watched at once. The others are looked at now and then.

const MOST = 20;
let taken = 0;

export const seats = {
  /** True: a seat is ours until `free`. */
  take(): boolean {
    if (taken >= MOST) return false;
    taken += 1;
    return true;
  },
  free(): void {
    taken -= 1;
  },
};
