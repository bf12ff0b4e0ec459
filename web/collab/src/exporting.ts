// Saving a page as it is: its text, or what it looks like as one file of HTML, or on paper.
import { $, el } from "./dom";
import { markup } from "./preview";
import { spoken } from "./texts";

interface Current { page: string; text: string }

const LOOKS = "body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.7 system-ui,sans-serif;overflow-wrap:anywhere}pre{overflow-x:auto}"
  + "table{border-collapse:collapse}th,td{padding:.3rem .8rem;border-bottom:1px solid}.task{list-style:none;margin-left:-1.3rem}pre.plain{white-space:pre-wrap}";

export class Exporting {
  constructor(private readonly current: () => Current | null, done: () => void) {
    const all: Record<string, (current: Current) => void> = {
      "export-text": ({ page, text }) => save(last(page), text, "text/plain"),
      "export-html": ({ page, text }) => save(`${last(page).replace(/\.[^.]+$/, "")}.html`, whole(page, text), "text/html"),
      "export-print": () => { done(); print(); },
    };
    for (const [id, act] of Object.entries(all)) $(id).onclick = () => {
      const now = this.current();
      if (now) act(now);
    };
  }
}

function last(page: string): string {
  return page.slice(page.lastIndexOf("/") + 1);
}

function save(name: string, content: string, type: string): void {
  const href = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/** A page of HTML that loads nothing and runs nothing. */
function whole(page: string, text: string): string {
  const title = el("title", {}, last(page)).outerHTML;
  const language = spoken() === "zh" ? "zh-Hans" : spoken();
  return `<!DOCTYPE html>\n<html lang="${language}">\n<head>\n<meta charset="utf-8">\n`
    + `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">\n`
    + `${title}\n<style>${LOOKS}</style>\n</head>\n<body>\n${markup(page, text)}</body>\n</html>\n`;
}
