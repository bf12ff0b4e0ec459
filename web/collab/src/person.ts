// Who writes, and how they want to see the page: kept in this browser.
import type { Me } from "./api";
import { $, el, relabel, say } from "./dom";
import { LANGUAGES, type Language, preferred, speak, spoken } from "./texts";

const COLORS = ["#b3472e", "#a8651a", "#6f7a1e", "#2f7d4f", "#1f7a86", "#33658a", "#5b57a6", "#8d4b8f", "#a8446b"];

export interface User { name: string; color: string; colorLight: string }

let user: User = { name: "", color: COLORS[0]!, colorLight: `${COLORS[0]}33` };

function kept(key: string): string | null {
  try { return localStorage.getItem(`kakite.${key}`); } catch { return null; }
}

function keep(key: string, value: string): void {
  try { localStorage.setItem(`kakite.${key}`, value); } catch { /* a browser that keeps nothing */ }
}

export function whoIs(me: Me): User {
  const color = kept("color") ?? (COLORS.includes(me.color ?? "") ? me.color! : COLORS[Math.floor(Math.random() * COLORS.length)]!);
  keep("color", color);
  return be(kept("name") || me.name || "", color);
}

function be(name: string, color: string): User {
  user = { name: name.trim().slice(0, 40) || "?", color, colorLight: `${color}33` };
  return user;
}

export function theme(which: string): void {
  const root = document.documentElement;
  if (which === "light" || which === "dark") root.dataset["theme"] = which;
  else delete root.dataset["theme"];
}

/** As the person had it last: before anything is drawn. */
export function asBefore(): void {
  theme(kept("theme") ?? "");
  const language = kept("language");
  speak(language !== null && language in LANGUAGES ? language as Language : preferred());
}

/** Wire up the dialog of settings. */
export function settings(changed: (user: User) => void, spokenAnew: () => void): void {
  const dialog = $<HTMLDialogElement>("settings");
  const name = $<HTMLInputElement>("my-name");
  const language = $<HTMLSelectElement>("language");
  const themes = $<HTMLSelectElement>("theme");
  const told = () => { keep("name", user.name === "?" ? "" : user.name); keep("color", user.color); changed(user); };
  $("my-color").append(...COLORS.map((color, index) => {
    const choice = el("input", { type: "radio", name: "color", value: color, onchange: () => { be(user.name, color); told(); } });
    choice.style.setProperty("--peer", color);
    return say(choice, "colorNumber", { n: index + 1 }, "label");
  }));
  language.append(...Object.entries(LANGUAGES).map(([code, called]) => el("option", { value: code, lang: code }, called)));
  themes.append(...([["", "themeAuto"], ["light", "themeLight"], ["dark", "themeDark"]] as const).map(([value, text]) => say(el("option", { value }), text)));
  name.addEventListener("change", () => { be(name.value, user.color); told(); });
  language.addEventListener("change", () => {
    keep("language", language.value);
    speak(language.value as Language);
    relabel();
    spokenAnew();
  });
  themes.addEventListener("change", () => { keep("theme", themes.value); theme(themes.value); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  $("settings-close").addEventListener("click", () => dialog.close());
  $("me").addEventListener("click", () => {
    name.value = user.name === "?" ? "" : user.name;
    language.value = spoken();
    themes.value = document.documentElement.dataset["theme"] ?? "";
    for (const choice of document.querySelectorAll<HTMLInputElement>("#my-color input")) choice.checked = choice.value === user.color;
    dialog.showModal();
  });
}
