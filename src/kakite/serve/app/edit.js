// The page that shows what an edit changed. It speaks MCP Apps (2026-01-26) with the window around it, and
// takes messages from nobody else. All text comes into the page as text, never as HTML.
"use strict";
(() => {
  const PROTOCOL = "2026-01-26";
  const DETAILS = "kakite/details", CODE = "kakite/code";
  const ROWS = 400; // of one file, until the person asks for the rest
  const SHORT = 300; // characters of the first line of an answer
  // Characters that draw nothing or turn the text around: each is named, and turns nothing but itself.
  const HIDDEN =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
  const HEADER = /^(diff --git|rename from|rename to|---|\+\+\+|(?:new|deleted) file) (.*)$/;
  const COLORS = ["--color-background-primary", "--color-text-primary"];
  const STYLES = [...COLORS, "--color-text-secondary", "--color-border-primary", "--font-sans", "--font-mono"];
  const KINDS = {
    "+": { tag: "ins", mark: "+", said: "added", row: "added" },
    "-": { tag: "del", mark: "\u2212", said: "removed", row: "removed" },
    " ": { tag: "span", mark: "", said: "", row: "" },
  };

  const page = document.getElementById("page");
  let lastId = 0, height = 0;
  const waiting = new Map();

  // Messages

  // To whoever embeds the page, which cannot know its address; nothing in the messages is of a file.
  const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => send({ method, params });
  const request = (method, params) =>
    new Promise((resolve) => {
      waiting.set((lastId += 1), resolve);
      send({ id: lastId, method, params });
    });

  const HANDLERS = {
    "ui/notifications/tool-input": (params) => showInput(params.arguments ?? {}),
    "ui/notifications/tool-result": (params) => showResult(params),
    "ui/notifications/tool-cancelled": () => show(build("h1", "", "The call was cancelled")),
    "ui/notifications/host-context-changed": (params) => applyContext(params),
  };
  const ANSWERS = new Set(["ping", "ui/resource-teardown"]);

  addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      waiting.get(message.id)?.(message.result ?? {});
      waiting.delete(message.id);
    } else if (message.id === undefined) {
      HANDLERS[message.method]?.(message.params ?? {});
    } else if (ANSWERS.has(message.method)) {
      send({ id: message.id, result: {} });
    } else {
      send({ id: message.id, error: { code: -32601, message: "there is no such method" } });
    }
  });

  function applyContext(context) {
    const root = document.documentElement;
    if (context.theme === "light" || context.theme === "dark") root.style.colorScheme = context.theme;
    const given = context.styles?.variables ?? {};
    const fits = COLORS.every((name) => given[name]); // one alone could be unreadable on ours
    for (const name of STYLES) {
      const isColor = name.startsWith("--color");
      if (typeof given[name] === "string" && (fits || !isColor)) root.style.setProperty(name, given[name]);
    }
  }

  function reportHeight() {
    const now = Math.ceil(page.getBoundingClientRect().height);
    if (now !== height) notify("ui/notifications/size-changed", { height: (height = now) });
  }

  // Elements

  function build(tag, names, ...children) {
    const made = document.createElement(tag);
    if (names) made.className = names;
    made.append(...children); // a text becomes a text, whatever it looks like
    return made;
  }

  function show(head, ...children) {
    page.replaceChildren(head, ...children);
    document.getElementById("status").textContent = head.textContent;
  }

  /** Write a text of a file or of the model. */
  function write(element, text) {
    let at = 0;
    for (const found of text.matchAll(HIDDEN)) {
      const control = build("span", "control", found[0]);
      const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      control.dataset.name = found[0] === "\r" ? "CR" : `U+${code}`;
      element.append(text.slice(at, found.index), control);
      at = found.index + found[0].length;
    }
    element.append(text.slice(at));
    return element;
  }

  // Diffs

  /** Return the files of a unified diff, each with its rows; a line counts by its hunk, not by its looks. */
  function parseDiff(diff) {
    const files = [];
    let file = null, left = [0, 0], at = [0, 0];
    const begin = () => files.push((file = { names: [], rows: [], said: [] }));
    for (const line of diff.split("\n")) {
      const mark = line[0], hunk = HUNK.exec(line);
      if (file && (left[0] > 0 || left[1] > 0) && mark in KINDS) {
        file.rows.push({ mark, number: mark === "-" ? at[0] : at[1], text: line.slice(1) });
        if (mark !== "+") left[0] -= 1, at[0] += 1;
        if (mark !== "-") left[1] -= 1, at[1] += 1;
      } else if (mark === "\\") {
        file?.rows.push({ note: "No line end here" });
      } else if (hunk) {
        if (!file) begin();
        at = [Number(hunk[1]), Number(hunk[3])];
        left = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
        file.rows.push({ note: `Line ${at[left[1] ? 1 : 0]}` });
      } else if (line) {
        left = [0, 0];
        if (!file || beginsFile(line, file)) begin();
        parseHeader(line, file);
      }
    }
    return files;
  }

  function beginsFile(line, file) {
    if (line.startsWith("diff --git ")) return true;
    if (line.startsWith("rename from ")) return file.rows.length > 0 || file.names.length > 0;
    return line.startsWith("--- ") && (file.rows.length > 0 || file.isNamed);
  }

  /** Take what stands above the hunks of a file, or behind them. */
  function parseHeader(line, file) {
    const [, word, rest] = HEADER.exec(line) ?? [];
    if (word === "diff --git") {
      const half = (rest.length - 1) / 2; // the same path twice, unless the file moves
      if (rest.slice(2, half) === rest.slice(half + 3)) file.names = [rest.slice(2, half)];
    } else if (word === "rename from" || word === "rename to") {
      file.names[word === "rename from" ? 0 : 1] = rest;
      file.what = "renamed";
    } else if (word === "---" || word === "+++") {
      file.isNamed = true;
      if (file.what !== "renamed") takeName(file, word === "---" ? 0 : 1, rest);
    } else if (word) {
      file.what = word === "new file" ? "new" : "deleted";
    } else if (file.rows.length) {
      file.rows.push({ note: line });
    } else {
      file.said.push(line);
    }
  }

  function takeName(file, at, name) {
    if (name === "/dev/null") file.what = at === 0 ? "new" : "deleted";
    else if (at === 0 || file.names[0] === undefined) file.names[0] = name.slice(2);
  }

  function buildDiff(diff) {
    return parseDiff(diff).map(buildFile);
  }

  function buildFile(file) {
    const name = file.names.join(" \u2192 ");
    const count = (mark) => file.rows.filter((row) => row.mark === mark).length;
    const head = build("h2", "", write(build("bdi", "path"), name || "Changes"));
    const added = count("+"), removed = count("-");
    const counts = [file.what, added ? `${added} added` : "", removed ? `${removed} removed` : ""];
    head.append(build("span", "counts", counts.filter(Boolean).join(", ")));
    const section = build("section", "file", head);
    for (const line of file.said) section.append(write(build("p", "note"), line));
    if (file.rows.length) section.append(...buildTable(file.rows, name));
    return section;
  }

  function buildTable(rows, name) {
    const isCrlf = rows.every((row) => row.note !== undefined || row.text.endsWith("\r"));
    const body = build("tbody", "");
    const caption = write(build("caption", "unseen"), `Lines of ${name}`);
    const columns = build("colgroup", "", build("col", "number"), build("col", "mark"), build("col", ""));
    const table = build("table", "", caption, columns, body);
    table.tabIndex = -1;
    const draw = (from, to) => body.append(...rows.slice(from, to).map((row) => buildRow(row, isCrlf)));
    draw(0, ROWS);
    if (rows.length <= ROWS) return [table];
    const more = build("button", "", `Show ${rows.length - ROWS} more lines`);
    more.type = "button";
    more.addEventListener("click", () => {
      draw(ROWS, rows.length);
      more.remove();
      table.focus({ preventScroll: true });
    });
    return [table, more];
  }

  function buildRow(row, isCrlf) {
    if (row.note !== undefined) {
      const cell = write(build("td", ""), row.note);
      cell.colSpan = 3;
      return build("tr", "note", cell);
    }
    const kind = KINDS[row.mark];
    const mark = build("span", "", kind.mark);
    mark.ariaHidden = "true";
    const text = build(kind.tag, "text");
    if (isCrlf) write(text, row.text.slice(0, -1)).append("\r");
    else write(text, row.text);
    const number = build("th", "number", String(row.number));
    number.scope = "row";
    return build(
      "tr",
      kind.row,
      number,
      build("td", "mark", mark, build("span", "unseen", kind.said)),
      build("td", "line", text),
    );
  }

  // What is shown

  function showInput(given) {
    const what = typeof given.path === "string" ? given.path : "";
    show(build("h1", "", "Working \u2026"), write(build("p", "path"), what));
  }

  function showResult(result) {
    const meta = result._meta ?? {}, details = meta[DETAILS] ?? {};
    const texts = (result.content ?? []).filter((each) => each.type === "text");
    const text = texts.map((each) => each.text).join("\n");
    const diff = typeof details.diff === "string" ? details.diff : "";
    const shown = [...(diff ? buildDiff(diff) : []), ...buildRefusal(details)];
    show(
      build("h1", result.isError ? "refused" : "", nameOutcome(result, meta[CODE], details, diff)),
      ...(shown.length ? [write(build("p", "said"), shorten(text.split("\n", 1)[0]))] : []),
      ...shown,
      buildAnswer(text, shown.length === 0),
    );
  }

  function nameOutcome(result, code, details, diff) {
    if (result.isError) return code ? `Refused: ${code}` : "Refused";
    if (details.bound) return "Preview: nothing was written";
    return diff ? "Edited" : "Done";
  }

  function buildRefusal(details) {
    const shown = (details.failures ?? []).map(buildFailure);
    if (details.failures_left_out) shown.push(build("p", "note", `and ${details.failures_left_out} more`));
    for (const each of details.suggestions ?? []) {
      const what = each.is_loss ? "What the edit would lose as it was sent" : "Suggested instead";
      const note = each.is_loss ? "" : `Nothing of this is written until the model accepts ${each.id}.`;
      const head = [build("h2", "", what), build("p", "note", note)];
      shown.push(build("section", "suggestion", ...head, ...buildDiff(each.diff)));
    }
    return shown;
  }

  function buildFailure(failure) {
    const where = failure.path ? ` in ${failure.path}` : "";
    const head = write(build("h2", ""), `Edit ${failure.edit}${where}: ${failure.code}`);
    const section = build("section", "failure", head, write(build("p", ""), failure.message));
    if (failure.found && failure.sent) {
      const line = (name, text) => [build("dt", "", name), build("dd", "", write(build("span", "text"), text))];
      const there = failure.line ? `Line ${failure.line} of the file` : "In the file";
      section.append(build("dl", "", ...line(there, failure.found), ...line("As it was sent", failure.sent)));
    }
    const others = failure.candidates.filter((each) => each.text !== failure.found);
    const lines = others.flatMap((each) => [
      { note: `The file has from line ${each.line}` },
      ...each.text.split("\n").map((text, at) => ({ mark: " ", number: each.line + at, text })),
    ]);
    if (lines.length) section.append(...buildTable(lines, "what the file has"));
    section.append(write(build("p", "note"), failure.hint));
    return section;
  }

  function buildAnswer(text, isOpen) {
    const whole = write(build("pre", ""), text);
    whole.tabIndex = 0; // it scrolls
    const answer = build("details", "", build("summary", "", "What the model was told"), whole);
    answer.open = isOpen;
    return answer;
  }

  const shorten = (text) => (text.length > SHORT ? `${text.slice(0, SHORT)}\u2026` : text);

  async function start() {
    show(build("h1", "", "Waiting for the edit \u2026"));
    const answer = await request("ui/initialize", {
      protocolVersion: PROTOCOL,
      appInfo: { name: "kakite-edit", title: "Kakite", version: "1" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    });
    applyContext(answer.hostContext ?? {});
    notify("ui/notifications/initialized");
    new ResizeObserver(reportHeight).observe(page);
  }

  start();
})();
