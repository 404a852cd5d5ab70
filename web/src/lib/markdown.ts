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

export function markdown(text: string): string {
  let html: string;
  try {
    html = marked.parse(text) as string;
  } catch {
    html = `<pre>${escaped(text)}</pre>`; // e.g. nested too deep for the parser
  }
  return purify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "start", "type", "checked", "disabled", "align", "colspan", "rowspan"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ["type", "start", "colspan", "rowspan"], // no addresses
    ALLOW_DATA_ATTR: false,
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
