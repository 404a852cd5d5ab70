import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { go, isLoginLink } from "./route.svelte";
import { page } from "./state.svelte";
import "./theme.svelte";

void page.start(tokenOfLink());
mount(App, { target: document.body });

/** The token of a login link (`/#t=…`). It leaves the address, and so the history, before anything else happens. */
function tokenOfLink(): string | null {
  if (!isLoginLink(location.hash)) return null;
  const token = location.hash.slice("#t=".length);
  go({ view: "home" }, true);
  return token || null;
}
