// Making elements. What is shown comes in as text, never as markup.
import { t, type Text } from "./texts";

type Child = Node | string | null | undefined | false;
type Attributes = { [name: string]: string | boolean | null | undefined | ((event: Event) => void) };

export function el<K extends keyof HTMLElementTagNameMap>(
  name: K, attributes: Attributes = {}, ...content: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (typeof value === "string") made.setAttribute(key, value);
  }
  made.append(...content.flat().filter((each): each is Node | string => each !== null && each !== undefined && each !== false));
  return made;
}

export function $<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element #${id}`);
  return found as T;
}

type Values = Record<string, string | number>;

/** Give an element a text of the table; it follows when the language is switched. */
export function say<T extends HTMLElement>(element: T, text: Text, values?: Values, as: "text" | "label" | "placeholder" = "text"): T {
  element.dataset[as] = text;
  if (values) element.dataset[`${as}Values`] = JSON.stringify(values);
  else delete element.dataset[`${as}Values`];
  put(element, as);
  return element;
}

function put(element: HTMLElement, as: "text" | "label" | "placeholder"): void {
  const key = element.dataset[as] as Text | undefined;
  if (!key) return;
  const said = t(key, JSON.parse(element.dataset[`${as}Values`] ?? "{}") as Values);
  if (as === "text") { if (element.textContent !== said) element.textContent = said; }
  else if (as === "placeholder") element.setAttribute("placeholder", said);
  else { element.setAttribute("aria-label", said); element.title = said; }
}

/** Say everything below anew, in the language of now. */
export function relabel(root: ParentNode = document): void {
  for (const element of root.querySelectorAll<HTMLElement>("[data-text],[data-label],[data-placeholder]"))
    for (const as of ["text", "label", "placeholder"] as const) put(element, as);
}

export function button(text: Text, press: () => void, attributes: Attributes = {}, values?: Values): HTMLButtonElement {
  return say(el("button", { type: "button", onclick: () => press(), ...attributes }), text, values);
}

/** A button that is only a sign; its name is said to those who do not see it. */
export function sign(glyph: string, label: Text, press: () => void, attributes: Attributes = {}, values?: Values): HTMLButtonElement {
  return say(el("button", { type: "button", onclick: () => press(), ...attributes }, glyph), label, values, "label");
}

let last = "";
/** Tell those who do not see the page. */
export function announce(text: string): void {
  const news = $("news");
  last = text === last ? `${text}\u00a0` : text;  // the same again is told again
  news.textContent = last;
}
