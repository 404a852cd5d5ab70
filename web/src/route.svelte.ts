// Where we are, by the address's fragment: #/ · #/new · #/s/ID · #/s/ID/SEQ · #/grid · #/t/ID (full screen) · #/p · #/p/RUN · #/p/RUN/NODE.

export type Route =
  | { view: "home" }
  | { view: "new" }
  | { view: "session"; id: string; seq: number | null }
  | { view: "grid" }
  | { view: "pipelines" }
  | { view: "run"; id: string; node: string }
  | { view: "terminal"; id: string };

export const here = $state<{ route: Route }>({ route: parse(location.hash) });

export function go(route: Route, replace = false): void {
  const hash = address(route);
  if (replace) history.replaceState(null, "", hash);
  else if (location.hash !== hash) history.pushState(null, "", hash);
  here.route = route;
}

export function address(route: Route): string {
  switch (route.view) {
    case "home":
      return "#/";
    case "session":
      return `#/s/${encodeURIComponent(route.id)}${route.seq === null ? "" : `/${route.seq}`}`;
    case "terminal":
      return `#/t/${encodeURIComponent(route.id)}`;
    case "pipelines":
      return "#/p";
    case "run":
      return `#/p/${encodeURIComponent(route.id)}${route.node === "" ? "" : `/${encodeURIComponent(route.node)}`}`;
    default:
      return `#/${route.view}`;
  }
}

export const toSession = (id: string, seq: number | null = null) => address({ view: "session", id, seq });
export const toRun = (id: string, node = "") => address({ view: "run", id, node });

export function parse(hash: string): Route {
  const [, view = "", id = "", seq = ""] = hash.replace(/^#/, "").split("/").map(plain);
  if (view === "s" && id) return { view: "session", id, seq: /^\d+$/.test(seq) ? Number(seq) : null };
  if (view === "t" && id) return { view: "terminal", id };
  if (view === "p") return id ? { view: "run", id, node: seq } : { view: "pipelines" };
  if (view === "grid" || view === "new") return { view };
  return { view: "home" };
}

/** `#t=…`: what `ostler link` prints ends so. */
export const isLoginLink = (hash: string) => hash.startsWith("#t=");

function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function moved(): void {
  // A login link that is opened in this very tab changes nothing but the fragment: only a new start takes it.
  if (isLoginLink(location.hash)) location.reload();
  else here.route = parse(location.hash);
}
addEventListener("hashchange", moved);
addEventListener("popstate", moved);
