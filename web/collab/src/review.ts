// Reviewing: the bar above the text, the list beside it, and what happens when a suggestion is settled.
import type { EditorView } from "@codemirror/view";
import type { Text } from "yjs";
import { ask, type Changed, Refused, segment, type Suggestion } from "./api";
import { $, announce, button, el, say, sign } from "./dom";
import { inline } from "./preview";
import { current, differences, enter, reviewing, show, step, told } from "./suggestions";
import { t } from "./texts";
import { PersonalUndo } from "./undo";

type How = "accept" | "reject";
interface Outcome { accepted?: string[]; rejected?: string[]; reopened?: string[]; failed?: { id: string; code: string }[] }

export class Review {
  private view: EditorView | null = null;
  private suggestions: Suggestion[] = [];
  private readonly conflicts = new Map<string, Changed>();
  private readonly busy = new Set<string>();
  private heard: string | null = null;
  readonly undo: PersonalUndo;

  constructor(
    text: Text, private readonly page: string, private readonly writable: boolean, private readonly trouble: (error: unknown) => void,
    private readonly pane: (which: "page" | "assistant") => void,
  ) {
    this.undo = new PersonalUndo(text, (what, ids) => this.again(what, ids));
    const go = (by: 1 | -1) => () => { if (this.view) step(this.view, by); };
    const now = (how: How) => () => {
      const chosen = this.view && (current(this.view.state) ?? this.view.state.field(reviewing).placed.find((each) => each.found));
      if (chosen) void this.settle(chosen.suggestion.id, how);
    };
    $("review-previous").onclick = go(-1);
    $("review-next").onclick = go(1);
    $("review-accept").onclick = now("accept");
    $("review-reject").onclick = now("reject");
    $("review-accept-all").onclick = () => this.settleAll("accept");
    $("review-reject-all").onclick = () => this.settleAll("reject");
  }

  /** The editor is there. */
  attach(view: EditorView): void {
    this.view = view;
    show(view, this.suggestions);
    this.draw();
  }

  /** What the server told of this page. */
  shared(suggestions: Suggestion[]): void {
    const before = new Set(this.suggestions.map((each) => each.id));
    const more = suggestions.filter((each) => !before.has(each.id)).length;
    this.suggestions = suggestions.filter((each) => each.status === "pending" || each.status === "changed");
    for (const id of this.conflicts.keys()) if (!suggestions.some((each) => each.id === id)) this.conflicts.delete(id);
    if (this.view) show(this.view, this.suggestions);
    this.draw();
    if (more) announce(t("suggestionCount", { n: more }));
  }

  /** The caret moved: the bar follows, and a suggestion that it came to is told. */
  moved(): void {
    if (!this.view) return;
    const chosen = current(this.view.state);
    this.bar();
    if (chosen?.found && chosen.suggestion.id !== this.heard) {
      const { placed } = this.view.state.field(reviewing);
      announce(t("suggestionHeard", { n: placed.indexOf(chosen) + 1, all: placed.length, change: told(chosen.suggestion) }));
    }
    this.heard = chosen?.suggestion.id ?? null;
  }

  readonly settle = async (id: string, how: How, candidate = false): Promise<void> => {
    if (!this.writable || this.busy.has(id)) return;
    this.busy.add(id);
    const done = this.settleOne(id, how, candidate);
    this.undo.add(how, done);
    await done;
    this.busy.delete(id);
  };

  private async settleOne(id: string, how: How, candidate: boolean): Promise<string[]> {
    try {
      await ask("POST", `pages/${segment(this.page)}/suggestions/${segment(id)}/${how}`, candidate ? { candidate } : {});
      announce(t(how === "accept" ? "accepted" : "rejected"));
      return [id];
    } catch (error) {
      if (error instanceof Refused && error.code === "changed") this.conflict(id, error.data as unknown as Changed);
      else if (!(error instanceof Refused && (error.code === "settled" || error.code === "no_such_suggestion"))) this.trouble(error);
      return [];
    }
  }

  private settleAll(how: How): void {
    this.undo.add(how, this.settleMany(how));
  }

  private async settleMany(how: How, ids?: string[]): Promise<string[]> {
    try {
      const { accepted = [], rejected = [], failed = [] } = await ask<Outcome>("POST", `pages/${segment(this.page)}/suggestions/${how}`, { ids });
      const said = how === "accept" ? t("acceptedMany", { n: accepted.length }) : t("rejectedMany", { n: rejected.length });
      announce(failed.length ? `${said} ${t("someFailed", { n: failed.length })}` : said);
      if (failed.length) {
        say($("review-trouble"), "someFailed", { n: failed.length });
        for (const { id, ...data } of failed) if (data.code === "changed" && "text" in data) this.conflict(id, data as unknown as Changed);
      }
      return how === "accept" ? accepted : rejected;
    } catch (error) {
      this.trouble(error);
      return [];
    }
  }

  /** Undo how suggestions were settled, or redo it. */
  private async again(what: How | "reopen", ids: string[]): Promise<string[]> {
    if (what !== "reopen") return this.settleMany(what, ids);
    try {
      const { reopened = [] } = await ask<Outcome>("POST", `pages/${segment(this.page)}/suggestions/reopen`, { ids });
      announce(t("reopened", { n: reopened.length }));
      return reopened;
    } catch (error) {
      this.trouble(error instanceof Refused && error.code === "not_revertable" ? t("notReopened") : error);
      return [];
    }
  }

  /** The place reads otherwise than when the suggestion was made: show how, and let the person decide. */
  private conflict(id: string, { text = "", candidate = null }: Partial<Changed>): void {
    this.conflicts.set(id, { text, candidate });
    this.draw();
    announce(t("changedTitle"));
    const card = document.getElementById(`suggestion-${id}`);
    this.pane("assistant");
    card?.scrollIntoView({ block: "nearest" });
    card?.querySelector<HTMLElement>(".actions button")?.focus();
  }

  draw(): void {
    this.bar();
    const cards = this.suggestions.map((each) => this.card(each));
    $("suggestion-list").replaceChildren(...cards);
    $("review-list").hidden = !cards.length;
    $("review-list-count").textContent = String(cards.length || "");
  }

  private bar(): void {
    const bar = $("review");
    const n = this.suggestions.length;
    bar.hidden = !n;
    if (!n) { $("review-trouble").textContent = ""; return; }
    const placed = this.view?.state.field(reviewing).placed ?? [];
    const chosen = this.view ? current(this.view.state) : undefined;
    if (chosen) say($("review-count"), "suggestionOf", { n: placed.indexOf(chosen) + 1, all: n });
    else say($("review-count"), "suggestionCount", { n });
    $("review-reason").replaceChildren(inline(chosen?.suggestion.reason ?? ""));
    for (const name of ["accept", "reject"]) $(`review-${name}`).hidden = !this.writable || !chosen?.found;
    for (const name of ["accept-all", "reject-all"]) $(`review-${name}`).hidden = !this.writable;
    for (const card of document.querySelectorAll("#suggestion-list > li")) card.classList.toggle("chosen", card.id === `suggestion-${chosen?.suggestion.id}`);
  }

  private card(suggestion: Suggestion): HTMLLIElement {
    const { id, search, replace, line, reason, by, forgiven, status } = suggestion;
    const conflict = this.conflicts.get(id);
    const forgave = Array.isArray(forgiven) ? forgiven.length > 0 : !!forgiven;
    const lost = status === "changed" && !conflict;
    const parts = (label: Parameters<typeof say>[1], text: string, kind: string) =>
      [say(el("dt", {}), label), el("dd", { class: kind }, text)];
    const settle = (how: How, candidate = false) => () => void this.settle(id, how, candidate);
    return el("li", { id: `suggestion-${id}`, class: conflict || lost ? "changed" : "" },
      el("p", { class: "top" }, el("button", { type: "button", class: "place", onclick: () => { if (this.view) { this.pane("page"); enter(this.view, id); } } },
        say(el("span", {}), "line", { n: line }), by && say(el("span", { class: "quiet" }), "by", { name: by })),
        this.writable && !conflict && [
          sign("✓", "acceptThis", settle("accept"), { class: "yes" }, { change: told(suggestion) }),
          sign("✗", "rejectThis", settle("reject"), { class: "no" }, { change: told(suggestion) })]),
      reason && el("p", { class: "reason" }, inline(reason)),
      forgave && say(el("p", { class: "quiet" }), "forgiven"),
      conflict || lost ? [
        say(el("p", { class: "alert" }), "changedTitle"),
        el("dl", {},
          ...parts("wasSuggested", replace, "now"),
          ...(conflict ? parts("standsNow", conflict.text, "old") : []),
          ...(conflict?.candidate ? parts("wouldBecome", conflict.candidate.replace, "now") : [])),
        conflict && !conflict.candidate && say(el("p", { class: "quiet" }), "noPlace"),
      ] : el("p", { class: "change" }, ...change(search, replace)),
      this.writable && conflict && el("p", { class: "actions" },
        conflict.candidate && button("applyHere", settle("accept", true), { class: "main" }),
        button("reject", settle("reject"))));
  }
}

const AROUND = 30;  // characters of what stays that are shown beside a change

/** What a suggestion changes, with a little of what stays around. */
export function change(search: string, replace: string): (Node | string)[] {
  const shown: (Node | string)[] = [];
  const pieces = differences(search, replace);
  pieces.forEach(({ from, to, insert }, index) => {
    const before = search.slice(pieces[index - 1]?.to ?? 0, from);
    if (index === 0) shown.push(before.length > AROUND ? `…${before.slice(-AROUND)}` : before);
    else shown.push(before.length > 2 * AROUND ? `${before.slice(0, AROUND)}…${before.slice(-AROUND)}` : before);
    if (to > from) shown.push(el("del", {}, search.slice(from, to)));
    if (insert) shown.push(el("ins", {}, insert));
  });
  const after = search.slice(pieces.at(-1)?.to ?? search.length).trimEnd();
  shown.push(after.length > AROUND ? `${after.slice(0, AROUND)}…` : after);
  return shown;
}
