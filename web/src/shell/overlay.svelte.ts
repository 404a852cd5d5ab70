// Which of the few things that lie over the page is shown.

export const overlay = $state<{ shown: "" | "palette" | "keys" | "link" }>({ shown: "" });
