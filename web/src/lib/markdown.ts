// An agent's Markdown as HTML that can do nothing: no scripts, no styles, no images, no forms, no frames.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const PLAIN = /&#60;(\/?(?:b|br|code|del|em|i|kbd|li|ol|p|s|strong|sub|sup|ul))\s*\/?&#62;/gi; // tags that only shape text
const marked = new Marked({
  gfm: true,
  breaks: false,
  async: false,
  renderer: {
    // "Use the <Button> component": an agent that writes a tag most often means the tag.
    html: ({ text }) => escaped(text).replace(PLAIN, "<$1>"),
    // The title of the session stands above the headings of a text.
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 1);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    // An image would be a request to another origin: its text and address are shown instead.
    image: ({ text, href }) => `<code>[image${text ? `: ${escaped(text)}` : ""} ${escaped(href)}]</code>`,
  },
});

const TAGS = [
  "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "strong", "b", "em", "i", "del", "s", "sub", "sup", "kbd", "code", "pre",
  "blockquote", "a", "table", "thead", "tbody", "tr", "th", "td", "input",
];

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") safeLink(node as HTMLAnchorElement);
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

const LONG_CELL = 30; // characters from which a table's cell is a text, which wraps, and not a value

export function markdown(text: string): string {
  let html: string;
  try {
    html = marked.parse(text) as string;
  } catch {
    html = `<pre>${escaped(text)}</pre>`; // e.g. nested too deep for the parser
  }
  const shown = document.createElement("div");
  shown.append(purify.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "start", "type", "checked", "disabled", "align", "colspan", "rowspan"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ["type", "start", "align", "colspan", "rowspan"], // no addresses
    ALLOW_DATA_ATTR: false,
  }));
  arrange(shown);
  return shown.innerHTML;
}

/** Each block has the direction of its own text; what may be wider than the page scrolls by itself, also by keys. */
function arrange(shown: HTMLElement): void {
  for (const block of shown.children) block.setAttribute("dir", block.tagName === "PRE" ? "ltr" : "auto");
  for (const box of shown.querySelectorAll("input")) box.setAttribute("aria-label", box.checked ? "done" : "to do");
  for (const code of shown.querySelectorAll("pre")) reachable(code, "Code");
  for (const table of shown.querySelectorAll("table")) {
    const box = document.createElement("div");
    box.className = "wide";
    reachable(box, "Table");
    table.replaceWith(box);
    box.append(table);
    for (const cell of table.querySelectorAll("td")) if ((cell.textContent ?? "").length > LONG_CELL) cell.classList.add("long");
  }
}

function reachable(box: HTMLElement, label: string): void {
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
}

function safeLink(link: HTMLAnchorElement): void {
  if (!link.hasAttribute("href")) return;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
  link.title = link.href; // where it leads, whatever its text says
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
