// The page of kakite collab: people and an assistant write one text.
import type { ChangeSet } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";
import { ask, type Me, Refused, segment, type Shared } from "./api";
import { Assistant, reason } from "./assistant";
import { Authors } from "./authors";
import { Comments } from "./comments";
import { safeColor } from "./cursors";
import { $, announce, button, el, relabel, say } from "./dom";
import { openEditor } from "./editor";
import { Exporting } from "./exporting";
import { type Kept, rename } from "./kept";
import { Link, type LinkState } from "./link";
import { bringBack, isRemoved, Management, Removed, renamed } from "./manage";
import { address, initial, Pages } from "./pages";
import { marks } from "./marks";
import { asBefore, settings, type User, whoIs } from "./person";
import { isMarkdown, Preview } from "./preview";
import { Review } from "./review";
import { Runs } from "./runs";
import { Suggesting } from "./suggest";
import { enter, suggestions } from "./suggestions";
import { direct, syncOf } from "./sync";
import { t, type Text } from "./texts";
import { Unsent } from "./unsent";
import { Versions } from "./versions";

const LARGE = 256 * 1024;  // bytes above which writing gets slow

interface Open {
  page: string;
  text: Y.Text;
  link: Link;
  unsent: Unsent;
  awareness: Awareness;
  preview: Preview;
  view: EditorView | null;
  undoManager: Y.UndoManager;
  review: Review;
  comments: Comments;
  suggesting: Suggesting;
  authors: Authors;
  runs: Runs;
  close: () => void;
}

let open: Open | null = null;
let user: User;
let wanted: string | null = null;  // a suggestion to go to, once its page is there

function trouble(error: unknown): void {
  const said = typeof error === "string" ? error : reason(error);
  $("trouble").textContent = said;
  $("trouble").hidden = false;
  setTimeout(() => { if ($("trouble").textContent === said) $("trouble").hidden = true; }, 8_000);
}

function notice(text: Text | null, values?: Record<string, string | number>): void {
  $("notice").hidden = !text;
  if (text) say($("notice"), text, values);
}

// ---- one page

interface Info { writable?: boolean; too_large?: boolean }

async function openPage(page: string, push = true, carried: Carried | null = null): Promise<void> {
  if (open?.page === page) { pane("page"); return; }
  open?.close();
  open = null;
  if (push) history.pushState(null, "", address(page));
  document.title = `${page} – Kakite`;
  delete $("page-title").dataset["text"];
  const cut = page.lastIndexOf("/") + 1;
  $("page-title").replaceChildren(el("span", { class: "folder" }, page.slice(0, cut)), el("bdi", {}, page.slice(cut)));
  $("nothing").hidden = true;
  $("working").hidden = false;
  notice(null);
  pages.choose(page);
  pane("page");
  state("connecting");
  let info: Info;
  try {
    info = await ask<Info>("GET", `pages/${segment(page)}`);
  } catch (error) {
    if (named() !== page) return;
    const now = renamed(error);
    if (now !== null) await follow(page, now, carried);
    else lost(error, page);
    return;
  }
  if (named() !== page || open) return;  // another one was chosen meanwhile
  open = begin(page, info.writable !== false, carried);
  assistant.pages(pages.rows);
}

/** The page has another name: go there, with what is unsent. */
async function follow(page: string, now: string, carried: Carried | null): Promise<void> {
  history.replaceState(null, "", address(now));
  await rename(page, now);
  await openPage(now, false, carried);
  announce(t("renamedTo", { page: now }));
  void pages.look();
}

/** The server says that there is no such page: it was renamed, removed, or is there again. */
async function leave(gone: Open, carried: Carried): Promise<boolean> {
  let error: unknown = null;
  try {
    await ask("GET", `pages/${segment(gone.page)}`);
  } catch (told) {
    error = told;
  }
  const now = error ? renamed(error) : gone.page;
  if (open !== gone) return true;
  if (now === null && (!isRemoved(error) || !(gone.unsent.isEmpty || gone.unsent.isKept))) return false;
  gone.close();
  open = null;
  if (now === null) {
    assistant.show(null);
    lost(error, gone.page);
    void pages.look();
  } else if (now === gone.page) await openPage(now, false, carried);
  else await follow(gone.page, now, carried);
  return true;
}

/** No page is open. */
function start(): void {
  open?.close();
  open = null;
  assistant.show(null);
  pages.choose("");
  document.title = "Kakite";
  say($("page-title"), "pages");
  $("people").replaceChildren();
  $("working").hidden = true;
  $("nothing").hidden = false;
  say($("nothing"), "choosePage");
  state(null);
  pane("pages");
}

function lost(error: unknown, page = ""): void {
  $("working").hidden = true;
  $("nothing").hidden = false;
  state(null);
  if (isRemoved(error)) {
    delete $("nothing").dataset["text"];
    const back = button("bringBack", () => void bringBack(page).then(() => openPage(page), trouble), { class: "main" });
    return $("nothing").replaceChildren(say(el("span", {}), "removedPage", { page }), " ", back);
  }
  const final = error instanceof Refused && ({ 401: "closed4401", 403: "closed4403", 404: "closed4404", 413: "closed4413" } as const)[error.status];
  if (final) say($("nothing"), final);
  else $("nothing").textContent = reason(error);
}

interface Carried { kept: Kept; caret: number; focused: boolean }

function begin(page: string, writable: boolean, carried: Carried | null = null): Open {
  const doc = new Y.Doc();
  const text = doc.getText("text");
  const awareness = new Awareness(doc);
  awareness.setLocalState({ user, cursor: null });
  const review = new Review(text, page, writable, trouble, pane);
  const undoManager = review.undo;
  const comments = new Comments({ page, writable, name: myName, pane, trouble });
  const authors = new Authors(page, trouble);
  const runs = new Runs({ page, writable, trouble, go: (other) => void openPage(other) });
  const preview = new Preview($("preview-text"), () => text.toString(), isMarkdown(page));
  let connection: LinkState = { is: "connecting" };
  let file: Shared["file"] = { saved: true, problem: null };

  const told = () => {
    const without = unsent.isEmpty || !unsent.isKept ? "offlineShort" : "offlineKept";
    if (connection.is === "closed") { state(without, "bad"); notice(`closed${connection.code}` as Text); }
    else if (connection.is === "offline") { state(without, "bad"); notice("offline"); }
    else if (connection.is === "connecting") state("connecting");
    else if (file.problem) { state("saving", "bad"); notice("fileProblem", { problem: file.problem }); }
    else {
      state(file.saved && unsent.isEmpty && suggesting.isSent ? (writable ? "saved" : "readOnly") : "saving");
      notice(bytes > LARGE ? "large" : null, { size: Math.round(bytes / 1024) });
    }
  };
  let bytes = 0;
  const size = () => { bytes = text.length > LARGE / 4 ? new TextEncoder().encode(text.toString()).length : 0; };
  let measuring = 0;
  const changed = (view: EditorView, what: { text: ChangeSet | null; mine: boolean; selection: boolean }) => {
    if (what.text) {
      unsent.changed(what.text, what.mine);
      preview.soon();
      measuring ||= window.setTimeout(() => { measuring = 0; size(); told(); }, 2_000);
    }
    if (what.selection) {
      const { from, to } = view.state.selection.main;
      assistant.selected(to - from);
    }
    review.moved();
    comments.moved();
  };

  const suggesting = new Suggesting({
    page, writable, name: myName, undo: undoManager, trouble,
    changed: () => told(),
    shown: () => review.shared(suggesting.shown),
    lost: (passages) => rescue([$<HTMLTextAreaElement>("rescued-text").value, ...passages]),
  });
  const unsent = new Unsent(page, { history: () => link.history, connected: () => link.isConnected, changed: () => told() });
  const link = new Link(page, doc, awareness, unsent, {
    state: (now) => {
      if (now.is !== connection.is && (now.is === "offline" || connection.is === "offline")) announce(t(now.is === "offline" ? "offline" : "online"));
      connection = now;
      if (now.is === "closed" && now.code === 4404) void leave(opened, carry()).then((left) => { if (!left) told(); });
      else told();
    },
    shared: (shared) => {
      file = shared.file;
      review.shared(suggesting.shared(shared.suggestions));
      comments.shared(shared.comments);
      runs.shared(shared.runs);
      assistant.shared(page, shared);
      told();
      go();
    },
    synced: () => {
      const view = openEditor($("editor"), {
        page, text, awareness, undoManager, writable, changed,
        isOthers: (origin) => origin === link,
        label: t("editorLabel", { page }),
        nonce: document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content ?? "",
        more: [suggesting.extension, suggestions((id, how) => void review.settle(id, how)), marks(comments.begin), authors.extension],
      });
      opened.view = view;
      unsent.begin(view.state.doc);
      void unsent.restore(doc, (change) => view.dispatch({ changes: change(view.state.doc), userEvent: "input", annotations: direct.of(true) }), carried?.kept ?? null).then(rescued);
      size();
      told();
      view.scrollDOM.addEventListener("scroll", follow, { passive: true });
      review.attach(view);
      comments.attach(view);
      suggesting.attach(view);
      authors.attach(view);
      preview.draw();
      $("editor").ariaBusy = "false";
      if (carried) view.dispatch({ selection: { anchor: Math.min(carried.caret, view.state.doc.length) }, scrollIntoView: true });
      if (carried ? carried.focused : writable && matchMedia("(min-width: 60rem)").matches) view.focus();
      go();
    },
    renewed: () => {
      const next = carry();
      opened.close();
      open = begin(page, writable, next);
    },
  });
  const carry = (): Carried => ({
    kept: unsent.carry(), caret: opened.view?.state.selection.main.head ?? 0, focused: opened.view?.hasFocus ?? false,
  });
  const rescued = (passages: string[]) => {
    if (open?.unsent === unsent) rescue(passages);
  };
  const follow = () => {
    const view = opened.view;
    if (!view || document.body.dataset["view"] !== "both") return;
    const { from } = view.lineBlockAtHeight(view.scrollDOM.scrollTop);
    preview.scrollTo(view.state.doc.lineAt(from).number - 1, $("preview"));
  };
  let names = new Map<number, string>();
  const who = () => { names = people(awareness, names); };
  awareness.on("change", who);
  who();

  const opened: Open = {
    page, text, link, unsent, awareness, preview, review, comments, suggesting, authors, runs, undoManager, view: null,
    close: () => {
      clearTimeout(measuring);
      suggesting.close();
      link.close();
      unsent.close();
      comments.close();
      authors.close();
      opened.view?.destroy();
      preview.close();
      awareness.destroy();
      doc.destroy();
      for (const id of ["review", "runs", "review-list", "rescued"]) $(id).hidden = true;
    },
  };
  $("editor").ariaBusy = "true";
  assistant.show(page);
  document.body.dataset["may"] = writable ? "write" : "read";
  return opened;
}

/** Show passages that have no place. */
function rescue(passages: string[]): void {
  const shown = passages.filter(Boolean);
  $("rescued").hidden = !shown.length;
  $<HTMLTextAreaElement>("rescued-text").value = shown.join("\n\n");
}

/** Go to the suggestion that was asked for on another page. */
function go(): void {
  if (!wanted || !open?.view) return;
  enter(open.view, wanted);
  wanted = null;
}

function people(awareness: Awareness, before: Map<number, string>): Map<number, string> {
  const now = new Map<number, string>();
  const shown: HTMLElement[] = [];
  for (const [client, each] of awareness.getStates()) {
    const { name: called, color } = (each["user"] ?? {}) as { name?: unknown; color?: unknown };
    const name = String(called ?? "?").slice(0, 40);
    if (client === awareness.clientID) continue;
    now.set(client, name);
    const chip = el("li", { class: "initial", title: name, "aria-label": name }, initial(name));
    chip.style.setProperty("--peer", safeColor(color));
    shown.push(chip);
  }
  $("people").replaceChildren(...shown.slice(0, 6), ...(shown.length > 6 ? [el("li", { class: "quiet" }, `+${shown.length - 6}`)] : []));
  const came = [...now].filter(([client]) => !before.has(client)).map(([, name]) => name);
  const went = [...before].filter(([client]) => !now.has(client)).map(([, name]) => name);
  if (came.length) announce(t("joined", { name: came.join(", ") }));
  else if (went.length) announce(t("left", { name: went.join(", ") }));
  return now;
}

// ---- around it

function state(text: Text | null, kind = ""): void {
  const shown = $("state");
  shown.hidden = !text;
  shown.className = `state ${kind}`;
  if (text) say(shown, text);
}

function pane(which: "pages" | "page" | "assistant"): void {
  document.body.dataset["pane"] = which;
  for (const tab of document.querySelectorAll<HTMLElement>("#tabs button")) tab.setAttribute("aria-pressed", String(tab.dataset["pane"] === which));
  open?.preview.soon();
  open?.view?.requestMeasure();
}

function look(which: string): void {
  document.body.dataset["view"] = which;
  for (const choice of document.querySelectorAll<HTMLInputElement>("input[name=view]")) choice.checked = choice.value === which;
  open?.preview.draw();
  open?.view?.requestMeasure();
}

function myName(): string {
  return user.name === "?" ? "" : user.name;
}

function me(): void {
  const chip = $("my-initial");
  chip.textContent = initial(user.name);
  chip.style.setProperty("--peer", user.color);
  say($("me"), "meNamed", { name: user.name }, "label");
}

/** The page that the address names. */
function named(): string | null {
  return pageOf(location);
}

function pageOf({ pathname }: { pathname: string }): string | null {
  if (!pathname.startsWith("/p/")) return null;
  try { return decodeURIComponent(pathname.slice(3)); } catch { return pathname.slice(3); }  // no name at all: there is none such
}

asBefore();
relabel();
const assistant = new Assistant({
  name: myName,
  page: () => open?.page ?? null,
  selection: () => {
    const { from, to } = open?.view?.state.selection.main ?? { from: 0, to: 0 };
    const sync = open?.view && syncOf(open.view);
    return sync ? { start: sync.toShared(from), end: sync.toShared(to) } : null;
  },
  trouble,
  go: (page, suggestion) => {
    wanted = suggestion;
    if (page === open?.page) { pane("page"); go(); }
    else void openPage(page);
  },
});
const removed = new Removed((page) => void pages.look().then(() => openPage(page)), trouble);
let mayWrite = false;
const pages = new Pages((page) => void openPage(page), (rows) => assistant.pages(rows), () => {
  if (mayWrite) removed.look().catch(() => undefined);  // the link tells that there is no connection
});
new Management(() => open?.page ?? null, () => void pages.look());

new Exporting(() => open && { page: open.page, text: open.text.toString() }, () => $<HTMLDialogElement>("manage").close());
addEventListener("beforeprint", () => open?.preview.draw(true));

new Versions(() => open?.page ?? null, () => pane("page"));

settings((now) => {
  user = now;
  me();
  open?.awareness.setLocalStateField("user", user);
}, () => {
  pages.draw(true);
  open?.review.draw();
  open?.comments.draw();
  open?.authors.draw();
  open?.runs.draw();
});
for (const choice of document.querySelectorAll<HTMLInputElement>("input[name=view]")) choice.addEventListener("change", () => look(choice.value));
for (const tab of document.querySelectorAll<HTMLElement>("#tabs button")) tab.addEventListener("click", () => pane(tab.dataset["pane"] as "page"));
for (const how of ["undo", "redo"] as const) $(how).addEventListener("click", () => {
  open?.undoManager[how]();
  open?.view?.focus();
});
$("to-text").addEventListener("click", (event) => {
  event.preventDefault();
  pane("page");
  open?.view?.focus();
});
$("preview-text").addEventListener("click", (event) => {
  const link = (event.target as Element).closest("a");
  if (!link) return;
  event.preventDefault();
  const to = new URL(link.getAttribute("href") ?? "", location.href);
  const page = to.origin !== location.origin ? null : pageOf(to);
  if (page !== null && pages.rows.some((each) => each.name === page)) void openPage(page);
  else if (/^(https?|mailto):$/.test(to.protocol)) window.open(to, "_blank", "noopener,noreferrer");
});
addEventListener("popstate", () => { const page = named(); if (page) void openPage(page, false); else start(); });
addEventListener("pageshow", ({ persisted }) => { if (persisted) location.reload(); });  // its connection is gone, and others saw it go
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "s") return;
  event.preventDefault();  // the browser would save its own picture of the page; ours is saved while one writes
  if (!$("state").hidden) announce($("state").textContent);
});
addEventListener("beforeunload", (event) => { if (open && (open.unsent.isLate || !open.suggesting.isSent)) event.preventDefault(); });
$("rescued-copy").addEventListener("click", () => {
  $<HTMLTextAreaElement>("rescued-text").select();
  if (document.execCommand("copy")) announce(t("copied"));  // the newer way is closed to pages over plain HTTP
});
$("rescued-done").addEventListener("click", () => {
  $("rescued").hidden = true;
  open?.unsent.dismiss();
});

look(matchMedia("(min-width: 80rem)").matches ? "both" : "text");
pane(named() ? "page" : "pages");
try {
  const whole = await ask<Me>("GET", "me");
  user = whoIs(whole);
  me();
  mayWrite = !!whole.can?.write;
  $("new-page").hidden = !mayWrite;
  await pages.look();
  const page = named();
  if (page) await openPage(page, false);
  else start();
} catch (error) {
  lost(error);
}
