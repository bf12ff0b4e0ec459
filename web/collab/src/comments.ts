// Comments on passages: their threads beside the text, and what happens when one is written.
import type { EditorView } from "@codemirror/view";
import { ask, type Comment, Refused, segment, type Thread } from "./api";
import { $, announce, button, el, say, sign } from "./dom";
import { activeThread, draftOf, enterThread, passage, setDraft, showThreads } from "./marks";
import { fragment } from "./preview";
import { spoken, t } from "./texts";

const AGAIN = 1_000;  // ms until the comments are asked for again that could not be had
const MOST = 2_000;  // characters of a passage
const MENTION = /(?<![A-Za-z0-9_.@＠-])[@＠](?:[A-Za-z0-9_-]+|[\p{L}\p{N}_-]+)/gu;

interface Around {
  page: string;
  writable: boolean;
  name: () => string;
  pane: (which: "page" | "assistant") => void;
  trouble: (error: unknown) => void;
}

interface Problem { code: string; message: string; hint: string }

export class Comments {
  private view: EditorView | null = null;
  private threads: Thread[] = [];
  private readonly cards = new Map<string, Card>();
  private version = "";  // of the comments that are shown
  private wanted = "";  // as the server told it last
  private fetching = false;
  private closed = false;
  private heard = new Set<string>();  // comments that are no news
  private shown: string | null = null;
  private readonly form = $<HTMLFormElement>("new-comment");
  private readonly text = $<HTMLTextAreaElement>("comment-text");

  constructor(private readonly around: Around) {
    $("comment").onclick = () => { if (this.view) this.begin(this.view); };
    $("comment").hidden = !around.writable;
    this.form.onsubmit = (event) => { event.preventDefault(); void this.send(); };
    $("comment-cancel").onclick = () => this.cancel();
    this.text.onkeydown = (event) => {
      if (event.key === "Escape") this.cancel();
      else if (sends(event)) { event.preventDefault(); void this.send(); }
    };
    this.draw();
  }

  attach(view: EditorView): void {
    this.view = view;
    showThreads(view, this.threads);
  }

  close(): void {
    this.closed = true;
    this.form.hidden = true;
    this.text.value = "";
    $("comments").hidden = true;
  }

  /** The server told which version the comments of the page have. */
  shared(version: string | undefined): void {
    if (version) this.wanted = version;
    void this.sync();
  }

  /** The caret moved: the thread that it came to is shown. */
  moved(): void {
    const id = this.view ? activeThread(this.view.state) : null;
    if (id === this.shown) return;
    this.shown = id;
    for (const [each, card] of this.cards) card.root.classList.toggle("chosen", each === id);
    if (id) this.cards.get(id)?.root.scrollIntoView({ block: "nearest" });
  }

  /** Begin to comment on what is selected. */
  readonly begin = (view: EditorView): void => {
    if (!this.around.writable) return;
    const span = passage(view.state);
    if (!span || span.to - span.from > MOST) return this.around.trouble(t(span ? "commentLong" : "commentNothing"));
    setDraft(view, span);
    this.form.hidden = false;
    this.draw();
    this.around.pane("assistant");
    $("comment-words").textContent = short(view.state.doc.sliceString(span.from, span.to));
    this.text.focus();
  };

  private cancel(): void {
    this.form.hidden = true;
    this.text.value = "";
    if (this.view) setDraft(this.view, null);
    this.draw();
    this.around.pane("page");
    this.view?.focus();
  }

  private async send(): Promise<void> {
    const span = this.view && draftOf(this.view.state);
    const text = this.text.value.trim();
    if (!this.view || !span || !text) return;
    const words = this.view.state.doc.sliceString(span.from, span.to);
    const sent = await this.post("", { range: { start: span.from, end: span.to }, words, text });
    if (!sent || this.closed) return;
    this.form.hidden = true;
    this.text.value = "";
    setDraft(this.view, null);
    this.draw();
  }

  /** Ask the server to change comments; tells whether it did. */
  readonly post = async (path: string, body: Record<string, unknown> = {}): Promise<boolean> => {
    try {
      const told = await ask<{ problem?: Problem; thread?: Thread }>("POST", `pages/${segment(this.around.page)}/comments${path}`, { ...body, name: this.around.name() });
      for (const each of told.thread?.comments ?? []) this.heard.add(each.id);
      if (told.problem) this.around.trouble(told.problem.code === "no_model" ? t("noModel") : [told.problem.message, told.problem.hint].filter(Boolean).join("; "));
      return true;
    } catch (error) {
      this.around.trouble(error instanceof Refused && error.code === "changed" ? t("commentChanged") : error);
      return false;
    }
  };

  private async sync(): Promise<void> {
    const { wanted } = this;
    if (!wanted || wanted === this.version || this.fetching || this.closed) return;
    this.fetching = true;
    let failed = false;
    try {
      const told = await ask<{ version: string; threads: Thread[] }>("GET", `pages/${segment(this.around.page)}/comments`);
      if (this.closed) return;
      const first = !this.version;
      this.version = told.version;
      if (this.wanted === wanted) this.wanted = told.version;
      this.take(told.threads, first);
    } catch (error) {
      failed = !(error instanceof Refused) || error.status >= 500;
      if (!failed) this.version = wanted;
    } finally {
      this.fetching = false;
    }
    if (failed) setTimeout(() => void this.sync(), AGAIN);
    else void this.sync();
  }

  private take(threads: Thread[], first: boolean): void {
    this.threads = threads;
    for (const thread of threads) for (const each of thread.comments) {
      if (!first && !this.heard.has(each.id) && each.by !== this.around.name()) announce(t(mentions(each, this.around.name()) ? "commentMention" : "commentNew", { name: each.by }));
      this.heard.add(each.id);
    }
    if (this.view) showThreads(this.view, threads);
    this.draw();
  }

  draw(): void {
    const known = new Set(this.threads.map((each) => each.id));
    for (const id of this.cards.keys()) if (!known.has(id)) this.cards.delete(id);
    for (const thread of this.threads) {
      const card = this.cards.get(thread.id) ?? new Card(this.around, this.post, () => this.enter(thread.id));
      this.cards.set(thread.id, card);
      card.show(thread);
      card.root.classList.toggle("chosen", thread.id === this.shown);
    }
    const open = this.threads.filter((each) => !each.resolved_by);
    const resolved = this.threads.filter((each) => each.resolved_by);
    fill($("comment-list"), open.map((each) => this.cards.get(each.id)!.root));
    fill($("resolved-list"), resolved.map((each) => this.cards.get(each.id)!.root));
    $("resolved").hidden = !resolved.length;
    say($("resolved-count"), "resolvedCount", { n: resolved.length });
    $("comments").hidden = this.form.hidden && !this.threads.length;
    $("comment-count").textContent = String(open.length || "");
  }

  private enter(id: string): void {
    if (!this.view) return;
    this.around.pane("page");
    enterThread(this.view, id);
  }
}

/** One thread as it is shown; what is being written in it stays when it is shown anew. */
class Card {
  private id = "";
  private thread: Thread | null = null;
  private editing: { comment: string; root: HTMLLIElement } | null = null;
  private readonly place = el("button", { type: "button", class: "place", onclick: () => this.go() });
  private readonly said = el("ol", { class: "said" });
  private readonly state = el("p", { class: "quiet" });
  private readonly text = say(el("textarea", { rows: "1", maxlength: "5000", onkeydown: (event) => {
    if (sends(event as KeyboardEvent)) { event.preventDefault(); void this.reply(); }
  } }), "replyHint", undefined, "placeholder");
  private readonly form = el("form", { class: "reply", onsubmit: (event) => { event.preventDefault(); void this.reply(); } },
    say(this.text, "reply", undefined, "label"), say(el("button", { type: "submit" }), "reply"));
  private readonly resolve = sign("✓", "resolve", () => void this.post(`/${this.id}/resolve`), { class: "yes" });
  private readonly after = el("p", { class: "actions" },
    button("reopen", () => void this.post(`/${this.id}/reopen`)), button("removeThread", () => void this.post(`/${this.id}/delete`)));
  readonly root = el("li", {}, el("p", { class: "top" }, this.place, this.resolve), this.said, this.state, this.form, this.after);

  constructor(
    private readonly around: Around, private readonly post: (path: string, body?: Record<string, unknown>) => Promise<boolean>, private readonly go: () => void,
  ) {}

  show(thread: Thread): void {
    const { id, quote, line, comments, detached, resolved_by: by, answering } = thread;
    this.id = id;
    const writes = this.around.writable;
    this.root.id = `thread-${id}`;
    this.root.classList.toggle("mentions", !by && comments.some((each) => mentions(each, this.around.name())));
    this.place.replaceChildren(el("q", {}, short(quote)), say(el("span", { class: "quiet" }), detached ? "passageGone" : "line", { n: line }));
    this.place.disabled = detached || !!by;
    this.thread = thread;
    if (!comments.some((each) => each.id === this.editing?.comment)) this.editing = null;
    const held = this.said.querySelector<HTMLElement>("[data-comment]:has(.edit-comment:focus)")?.dataset["comment"];
    fill(this.said, comments.map((each) => (each.id === this.editing?.comment ? this.editing.root : row(each, this.mayEdit(each) ? () => this.edit(each) : null))));
    if (held) this.focus(held);
    this.state.hidden = !answering && !by;
    this.state.classList.toggle("busy", answering);
    if (answering) say(this.state, "thinking");
    else if (by) say(this.state, "resolvedBy", { name: by });
    this.resolve.hidden = !writes || !!by;
    this.form.hidden = !writes || !!by;
    this.after.hidden = !writes || !by;
  }

  private mayEdit({ by, run }: Comment): boolean {
    return this.around.writable && !run && by === this.around.name();
  }

  /** Write one's own comment anew. */
  private edit({ id, text: before }: Comment): void {
    const text = say(el("textarea", { rows: "2", maxlength: "5000", onkeydown: (event) => {
      const key = event as KeyboardEvent;
      if (key.key === "Escape" && !key.isComposing) this.edited(id);
      else if (sends(key)) { key.preventDefault(); void save(); }
    } }), "editComment", undefined, "label");
    text.value = before;
    const save = async () => {
      const now = text.value.trim();
      if (now && (now === before || await this.post(`/${this.id}/edit`, { comment: id, text: now }))) this.edited(id);
    };
    const form = el("form", { class: "edit", onsubmit: (event) => { event.preventDefault(); void save(); } }, text,
      el("p", { class: "actions" }, say(el("button", { type: "submit" }), "saveComment"), button("commentCancel", () => this.edited(id))));
    this.editing = { comment: id, root: el("li", {}, form) };
    if (this.thread) this.show(this.thread);
    text.focus();
  }

  private edited(comment: string): void {
    this.editing = null;
    if (this.thread) this.show(this.thread);
    this.focus(comment);
  }

  private focus(comment: string): void {
    this.said.querySelector<HTMLElement>(`[data-comment="${comment}"] .edit-comment`)?.focus();
  }

  private async reply(): Promise<void> {
    const text = this.text.value.trim();
    if (text && await this.post(`/${this.id}/reply`, { text })) this.text.value = "";
  }
}

function row({ id, by, text, time, run, status, edited }: Comment, edit: (() => void) | null): HTMLLIElement {
  const when = new Date(time * 1000);
  const shown = new Intl.DateTimeFormat(spoken(), { dateStyle: "medium", timeStyle: "short" }).format(when);
  const body = run ? el("div", { class: "answer" }, text ? fragment(text) : say(el("span", { class: "quiet" }), status === "done" ? "answeredEdits" : "failedRun"))
    : el("div", { class: "words" }, ...named(text));
  return el("li", { "data-comment": id }, el("p", { class: "by" }, el("bdi", {}, by), " ", el("time", { datetime: when.toISOString() }, shown),
    !!edited && [" · ", say(el("span", {}), "editedComment")], edit && button("editComment", edit, { class: "link edit-comment" })), body);
}

/** A text with those whom it mentions marked. */
function named(text: string): (Node | string)[] {
  const shown: (Node | string)[] = [];
  let at = 0;
  for (const { 0: name, index } of text.matchAll(MENTION)) {
    shown.push(text.slice(at, index), el("strong", {}, name));
    at = index + name.length;
  }
  return [...shown, text.slice(at)];
}

function mentions({ text }: Comment, name: string): boolean {
  const who = name.trim().toLowerCase().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // Japanese and Chinese have no blanks around it.
  return !!who && new RegExp(`(?<![a-z0-9_.@＠-])[@＠]${who}(?![a-z0-9_-])`, "u").test(text.toLowerCase());
}

function sends({ key, ctrlKey, metaKey, isComposing }: KeyboardEvent): boolean {
  return key === "Enter" && (ctrlKey || metaKey) && !isComposing;
}

function short(words: string): string {
  const line = words.replace(/\s+/g, " ");
  return line.length > 90 ? `${line.slice(0, 89)}…` : line;
}

/** Show these in the list. Those that are there already are not taken out, so that who writes in one goes on. */
function fill(list: HTMLElement, items: HTMLElement[]): void {
  const stays = new Set<Element>(items);
  for (const each of [...list.children]) if (!stays.has(each)) each.remove();
  items.forEach((each, at) => { if (list.children[at] !== each) list.insertBefore(each, list.children[at] ?? null); });
}
