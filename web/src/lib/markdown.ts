// An agent's Markdown as HTML that can do nothing: no scripts, no styles, no images, no forms, no frames.

import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: false, async: false });

const TAGS = [
  "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "strong", "em", "del", "code", "pre",
  "blockquote", "a", "table", "thead", "tbody", "tr", "th", "td", "input",
];

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") safeLink(node as HTMLAnchorElement);
  if (node.tagName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

export function markdown(text: string): string {
  let html: string;
  try {
    html = marked.parse(text) as string;
  } catch {
    html = `<pre>${escaped(text)}</pre>`; // e.g. nested too deep for the parser
  }
  return purify.sanitize(withoutImages(html), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "start", "type", "checked", "disabled", "align", "colspan", "rowspan"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ["type", "start", "colspan", "rowspan"], // no addresses
    ALLOW_DATA_ATTR: false,
  });
}

/** An image would be a request to another origin: its text and address are shown instead. */
function withoutImages(html: string): string {
  return html.replace(/<img\b[^>]*>/gi, (tag) => {
    const alt = /\balt="([^"]*)"/i.exec(tag)?.[1] ?? "";
    const src = /\bsrc="([^"]*)"/i.exec(tag)?.[1] ?? "";
    return `<code>[image${alt ? `: ${alt}` : ""}${src ? ` ${src}` : ""}]</code>`;
  });
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
