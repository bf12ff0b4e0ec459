// Markdown as it will be read. Raw HTML is shown as text, links go nowhere dangerous, and only what changed is drawn anew.
import MarkdownIt, { type Token } from "markdown-it";
import { t } from "./texts";

const LONG = 16_000;  // characters of one paragraph

interface Block { html: string; line: number; node: HTMLElement }

const md = new MarkdownIt({ html: false, linkify: true, typographer: false, breaks: false });

// Images would be fetched from wherever the text says: they are links, until somebody wants to see them.
md.renderer.rules["image"] = (tokens, index) => {
  const token = tokens[index]!;
  const escape = md.utils.escapeHtml;
  const alt = token.content || String(token.attrGet("src") ?? "");
  return `<a class="image" href="${escape(String(token.attrGet("src") ?? ""))}">${escape(t("image", { alt }))}</a>`;
};
md.core.ruler.after("inline", "boxes", (state) => {
  state.tokens.forEach((token, index) => {
    const first = token.children?.[0];
    const item = state.tokens[index - 2];
    const box = first?.type === "text" && token.type === "inline" && item?.type === "list_item_open" && /^\[([ xX])\]\s/.exec(first.content);
    if (!box) return;
    item.attrJoin("class", "task");
    first.content = `${box[1] === " " ? "☐" : "☑"} ${first.content.slice(box[0].length)}`;
  });
});

export class Preview {
  private blocks: Block[] = [];
  private timer = 0;
  private cost = 0;  // ms that the last drawing took

  constructor(private readonly root: HTMLElement, private readonly text: () => string, private readonly markdown: boolean) {}

  /** Draw soon; the longer it takes the more seldom. */
  soon(): void {
    this.timer ||= window.setTimeout(() => { this.timer = 0; this.draw(); }, Math.max(120, this.cost * 6));
  }

  close(): void {
    clearTimeout(this.timer);
    this.root.replaceChildren();
  }

  /** Draw what is new; what nobody sees only if `anyhow`. */
  draw(anyhow = false): void {
    if (!anyhow && !this.root.checkVisibility()) return;
    const began = performance.now();
    const fresh = this.markdown ? rendered(this.text()) : [{ html: plain(this.text()), line: 0 }];
    const old = this.blocks;
    let head = 0, tail = 0;
    while (head < old.length && head < fresh.length && old[head]!.html === fresh[head]!.html) head += 1;
    while (tail < old.length - head && tail < fresh.length - head && old[old.length - 1 - tail]!.html === fresh[fresh.length - 1 - tail]!.html) tail += 1;
    for (const gone of old.slice(head, old.length - tail)) gone.node.remove();
    const after = old[old.length - tail]?.node ?? null;
    const made = fresh.slice(head, fresh.length - tail).map(({ html, line }) => {
      const node = document.createElement("div");
      node.className = "block";
      node.innerHTML = html;  // escaped by markdown-it, with html: false
      return { html, line, node };
    });
    const all = document.createDocumentFragment();
    all.append(...made.map((each) => each.node));
    this.root.insertBefore(all, after);
    this.blocks = [...old.slice(0, head), ...made, ...old.slice(old.length - tail)];
    this.blocks.forEach((each, index) => { each.line = fresh[index]!.line; });
    this.cost = performance.now() - began;
  }

  /** Bring the block of a line (from 0) to the top. */
  scrollTo(line: number, scroller: HTMLElement): void {
    const found = this.blocks.findLast((each) => each.line <= line);
    if (found) scroller.scrollTop = found.node.offsetTop - scroller.offsetTop;
  }
}

function plain(text: string): string {
  return `<pre class="plain">${md.utils.escapeHtml(text)}</pre>`;
}

export const isMarkdown = (page: string): boolean => /\.(md|markdown|mdx)$/i.test(page);

/** All of a page as markup. */
export function markup(page: string, text: string): string {
  return isMarkdown(page) ? rendered(text).map(({ html }) => html).join("") : plain(text);
}

/** The top-level blocks of a text, each as markup, with its first line. */
function rendered(text: string): { html: string; line: number }[] {
  const env = {};
  const tokens = md.parse(text, env);
  const blocks: { html: string; line: number }[] = [];
  for (let start = 0, depth = 0, index = 0; index < tokens.length; index++) {
    depth += tokens[index]!.nesting;
    if (depth > 0) continue;
    const line = tokens[start]!.map?.[0] ?? 0;
    for (const part of parts(tokens.slice(start, index + 1))) blocks.push({ html: md.renderer.render(part, md.options, env), line });
    start = index + 1;
  }
  return blocks;
}

/** Cut a paragraph of very many lines up: browsers lay one block out as a whole, for seconds. */
function parts(tokens: Token[]): Token[][] {
  const [open, inline, close] = tokens;
  if (tokens.length !== 3 || inline?.type !== "inline" || inline.content.length < LONG) return [tokens];
  const cut: Token[][] = [[]];
  let length = 0;
  for (const child of inline.children ?? []) {
    length += child.content.length;
    if (child.type === "softbreak" && child.level === 0 && length > LONG / 4) { cut.push([]); length = 0; }
    else cut.at(-1)!.push(child);
  }
  return cut.map((children) => [open!, Object.assign(Object.create(inline) as Token, { children }), close!]);
}

/** A line as markup, such as a reason. */
export function inline(text: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = md.renderInline(text);
  return template.content;
}

/** A short text as markup, such as a message of the assistant. */
export function fragment(text: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = md.render(text);
  return template.content;
}
