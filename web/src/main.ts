import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { go } from "./route.svelte";
import { page } from "./state.svelte";
import "./theme.svelte";

void page.start(tokenOfLink());
mount(App, { target: document.body });

/** The token of a login link (`/#t=…`). It leaves the address, and so the history, before anything else happens. */
function tokenOfLink(): string | null {
  const found = /^#t=(.+)$/.exec(location.hash);
  if (!found?.[1]) return null;
  go({ view: "home" }, true);
  return found[1];
}
