// The page: looks at the server again and again while it can be seen, and shows what changed.
// Whatever comes from the server is put in as text, never as markup.
"use strict";

const LIST_PAUSE = 1500, TASK_PAUSE = 1000, HIDDEN_PAUSE = 15000; // ms
const $ = (id) => document.getElementById(id);
let chosen = null; // the task that is looked at
let task = null; // as it was shown last
let known = ""; // which of its events are on the page
let asking = new Set(); // tasks that ask, as the person was told

function el(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...content.flat(Infinity).filter((each) => each !== null && each !== ""));
  return made;
}

// ---- the server

class Refused extends Error {}
const tags = new Map(); // of each route: what was asked last, and the tag of its answer

async function ask(path, body) {
  const options = { headers: {}, cache: "no-store", redirect: "error" };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) }).headers["Content-Type"] = "application/json";
  const route = path.split("?", 1)[0];
  const [asked, tag] = tags.get(route) ?? [];
  if (!body && asked === path) options.headers["If-None-Match"] = tag;
  const answer = await fetch(path, options);
  if (answer.status === 304) return null;
  if (answer.status === 401) throw new Refused("You are no longer logged in: open the address that kakite agent web printed.");
  const told = await answer.json();
  if (!answer.ok) throw new Refused([told.error.message, told.error.hint].filter(Boolean).join("; "));
  if (!body) tags.set(route, [path, answer.headers.get("ETag")]);
  return told;
}

let held = 0; // until when the trouble of a button stays to be read

function trouble(error, hold = 0) {
  if (!error && Date.now() < held) return;
  held = error ? Date.now() + hold : 0;
  const text = !error ? "" : error instanceof Refused ? error.message : "The server does not answer. This page goes on by itself once it does.";
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
  $("trouble").hidden = !text;
}

// ---- words

const STATES = {
  queued: ["queued", "idle"], running: ["at work", "now"], waiting: ["waiting", "wait"], paused: ["paused", "idle"],
  stuck: ["stuck", "bad"], done: ["done", "good"], failed: ["failed", "bad"], cancelled: ["cancelled", "idle"],
};
const ENDS = {
  done: ["done", "good"], no_changes: ["nothing changed", "idle"], limit: ["limit of turns", "wait"], budget: ["budget used up", "wait"],
  stuck: ["stuck", "wait"], stopped: ["stopped", "idle"], conflict: ["conflict", "bad"], refused: ["refused by the model", "bad"],
};
const SESSIONS = { running: ["at work", "now"], waiting: ["waiting", "wait"], paused: ["open", "good"], done: ["closed", "idle"] };
const ASKS = { question: "asks you something", approval: "asks for approval", budget: "asks for more budget", stuck: "asks for help", conflict: "asks about a conflict", paused: "paused by a person" };
const QUESTIONS = {
  question: () => "The agent wants to know something.",
  approval: (ask) => `May the agent call ${ask.tool}?`, budget: () => "The budget is used up. May it have more?",
  stuck: () => "The agent is stuck. Shall it try again?", conflict: () => "The agent cannot resolve a conflict. Shall it try again?",
  paused: () => "A person has paused the task. Shall it go on?",
};
const ANSWERS = {
  question: { answer: "Answer", no: "Give no answer" },
  approval: { yes: "Allow", no: "Refuse" }, budget: { more: "Allow more", no: "Stop here" },
  stuck: { yes: "Go on", no: "Stop here" }, paused: { yes: "Go on", no: "Stop here" }, conflict: { yes: "Try again", no: "Stop here" },
};
const GIVEN = { yes: "You said yes.", no: "You said no.", more: "You allowed more.", answer: "You have answered." };

function badge(row) {
  if (row.asks) return el("span", { class: "badge wait" }, ASKS[row.asks]);
  if (row.kind === "session") return el("span", { class: `badge ${SESSIONS[row.state][1]}` }, SESSIONS[row.state][0]);
  const ended = row.state === "done" && row.status && ENDS[row.status];
  if (ended && row.status === "done" && row.doubt) return el("span", { class: "badge wait" }, `done, ${row.doubt.split(":")[0]}`);
  const [text, kind] = ended || STATES[row.state] || [row.state, "idle"];
  return el("span", { class: `badge ${kind}` }, text);
}
const money = (usd) => (usd === null ? "cost unknown" : `$${usd.toFixed(usd < 1 ? 4 : 2)}`);
const count = (number) => Math.round(number).toLocaleString("en");
function ago(iso) {
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  const [size, name] = seconds < 60 ? [1, "s"] : seconds < 3600 ? [60, "min"] : seconds < 172800 ? [3600, "h"] : [86400, "days"];
  return `${Math.floor(seconds / size)} ${name} ago`;
}

// ---- the list

const ORDER = ["running", "waiting", "stuck", "paused", "queued"];
const rank = (row) => (row.asks ? -1 : ORDER.includes(row.state) ? ORDER.indexOf(row.state) : ORDER.length);

function showList(rows) {
  rows = rows.map((row, place) => [rank(row), place, row]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((each) => each[2]);
  const focused = document.activeElement?.dataset?.task;
  const scrolled = $("tasks").parentElement.scrollTop;
  $("tasks").replaceChildren(...rows.map((row) => {
    const link = el("a", { href: `#task=${encodeURIComponent(row.id)}`, "aria-current": row.id === chosen ? "true" : null },
      el("span", { class: "title" }, row.title),
      el("span", { class: "line" }, badge(row), el("span", {}, row.repository.split("/").slice(-2).join("/")), el("span", {}, row.kind === "session" ? `session, ${count(row.messages)} ${row.messages === 1 ? "message" : "messages"}` : ""), el("span", {}, row.kind === "session" ? row.model : ""), el("span", {}, row.turn ? money(row.cost_usd) : ""), el("span", {}, ago(row.updated))),
      row.last ? el("span", { class: "last" }, row.last) : "");
    link.dataset.task = row.id;
    return el("li", {}, link);
  }));
  $("tasks").parentElement.scrollTop = scrolled;
  if (focused) document.querySelector(`#tasks a[data-task="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  $("empty").hidden = rows.length > 0;
  showCounts(rows);
}

function showCounts(rows) {
  const number = (test) => rows.filter(test).length;
  const asks = number((row) => row.asks);
  const parts = [[asks, asks === 1 ? "asks you" : "ask you"], [number((row) => row.state === "running"), "at work"], [number((row) => row.state === "queued"), "queued"], [rows.length, "in all"]];
  $("counts").textContent = parts.filter(([much]) => much).map(([much, what]) => `${much} ${what}`).join(" · ");
  document.title = asks ? `(${asks}) Kakite` : "Kakite";
  const fresh = rows.filter((row) => row.asks && !asking.has(row.id));
  if (fresh.length) $("news").textContent = fresh.map((row) => `${row.title} ${ASKS[row.asks]}`).join(". ");
  asking = new Set(rows.filter((row) => row.asks).map((row) => row.id));
}

// ---- one task

const parts = ["head", "ask", "error", "plan", "events", "mail", "message"];

function showTask(told) {
  const next = told.task;
  if (!task || task.id !== next.id) {
    $("task").replaceChildren(...parts.map((name) => { const part = el("div"); part.dataset.part = name; return part; }));
    part("events").append(el("div", { class: "events", role: "log", "aria-label": "What happened", "aria-live": "off" }));
    task = {};
  }
  fill("head", (each) => ({ ...each, plan: 0, ask: 0, error: 0, last: 0, mail: 0 }), next, showHead);
  fill("ask", (each) => each.ask, next, showAsk);
  fill("error", (each) => each.error, next, showError);
  fill("plan", (each) => each.plan, next, showPlan);
  fill("mail", (each) => [each.mail, each.state, each.kind], next, showMail);
  fill("message", (each) => each.kind, next, showMessageForm);
  task = next;
  showEvents(told);
}

const part = (name) => $("task").querySelector(`[data-part=${name}]`);

// A part is made anew only when it changed: a person may be typing in it, or reading it aloud.
function fill(name, look, next, show) {
  if (task.id && JSON.stringify(look(task) ?? null) === JSON.stringify(look(next) ?? null)) return;
  const focused = part(name).contains(document.activeElement) && document.activeElement.dataset.action;
  part(name).replaceChildren(...[show(next)].flat().filter(Boolean));
  if (focused) part(name).querySelector(`[data-action="${focused}"]`)?.focus();
}

function showHead(next) {
  const isSession = next.kind === "session";
  const facts = {
    [isSession ? "Folder" : "Repository"]: next.repository, Mode: next.mode, Messages: isSession ? count(next.messages) : "", Branch: next.branch, Issue: link(next.issue), "Pull request": link(next.request),
    Check: next.status === "done" ? next.doubt : "",
    Commit: next.commit && `${next.commit.slice(0, 10)}${next.pushed ? ", pushed" : ", not pushed"}`,
    Model: next.model, Sandbox: next.sandbox, Phase: isSession ? "" : next.phase, Turns: next.turn ? count(next.turn) : "",
    Tokens: next.tokens[0] + next.tokens[1] ? limited(`${count(next.tokens[0])} in, ${count(next.tokens[1])} out`, next.budget.tokens && count(next.budget.tokens)) : "",
    Cost: limited(money(next.cost_usd), next.budget.usd && `$${next.budget.usd}`),
    "Tool calls": "calls" in next.spent ? limited(count(next.spent.calls), next.budget.calls && count(next.budget.calls)) : "",
    "Time at work": "seconds" in next.spent ? limited(`${count(next.spent.seconds)} s`, next.budget.seconds && `${count(next.budget.seconds)} s`) : "",
    "Limits reached": next.reached.map((name) => LIMITS[name] || name).join(", "),
    "Project rules": next.rules.join(", "),
    [isSession ? "Session" : "Task"]: next.id,
  };
  const rows = Object.entries(facts).filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return [
    el("div", { class: "head" }, el("h2", {}, next.title), el("div", { class: "actions" }, badge(next), next.actions.map((name) => action(next.id, name)))),
    next.stopping && el("p", { role: "status" }, "Stop requested. Its worker ends it cleanly and says so on the issue; if no worker runs, this happens when one starts."),
    el("dl", { class: "facts" }, rows),
  ];
}

const LIMITS = { usd: "cost", tokens: "tokens", seconds: "time at work", calls: "tool calls", daily_usd: "cost of a day", daily_tokens: "tokens of a day" };
const limited = (used, most) => (most ? `${used} of ${most}` : used);
function link({ number, address }) {
  const name = number ? `#${number}` : address.replace(/^https?:\/\//, "");
  return /^https?:\/\//.test(address) ? el("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, name) : name;
}

function action(id, name) {
  const label = { pause: "Pause", resume: "Resume", cancel: "Cancel" }[name];
  const button = el("button", { type: "button", class: name === "cancel" ? "danger" : "" }, label);
  button.dataset.action = name;
  button.addEventListener("click", () => {
    if (name === "cancel" && !button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = "Really cancel?";
      setTimeout(() => { delete button.dataset.sure; button.textContent = label; }, 4000);
      return;
    }
    send([button], `/api/${name}`, { id });
  });
  return button;
}

async function send(buttons, path, body) {
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await ask(path, body);
    held = 0;
    trouble(null);
    $("news").textContent = "Done.";
    tags.clear();
    await Promise.all([lookAtList(), lookAtTask()]);
    return true;
  } catch (error) {
    trouble(error, 8000);
    return false;
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

// What waits for a session, and who takes it. This page runs no session: only the process that has it open does.
function showMail(next) {
  if (next.kind !== "session") return [];
  const open = next.state !== "done";
  const how = open ? "It is open in a terminal or an editor. What you write goes to the model with its next step; a terminal begins a turn with it, an editor takes it with your next message there."
    : `No process has this session open. What you write waits until it is opened: kakite chat --resume ${next.id}`;
  const waits = next.mail.map((text) => el("li", {}, block(text)));
  return el("section", { class: "card", "aria-label": "Messages that wait" }, el("p", { class: "small" }, how), waits.length ? el("ul", { class: "mail" }, waits) : "");
}

function showMessageForm(next) {
  if (next.kind !== "session") return [];
  const text = el("textarea", { id: "message", rows: 3, maxlength: 20000 });
  const button = el("button", { type: "submit", class: "main" }, "Send");
  button.dataset.action = "send";
  return el("form", { onsubmit: async (event) => {
    event.preventDefault();
    if (text.value.trim() && await send([button], "/api/message", { id: next.id, text: text.value })) text.value = "";
  } }, el("div", {}, el("label", { for: "message" }, "Message to this session"), text), el("div", { class: "answers" }, button));
}

function showAsk(next) {
  const asks = next.ask;
  if (!asks) return [];
  const card = el("section", { class: "card ask", "aria-labelledby": "question" }, el("h3", { id: "question" }, QUESTIONS[asks.kind](asks)));
  if (asks.arguments.length) card.append(el("dl", { class: "arguments" }, asks.arguments.map((each) => [el("dt", {}, each.name), el("dd", {}, block(each.value))])));
  if (asks.text) card.append(asks.kind === "approval" ? diff(asks.text) : block(asks.text));
  if (asks.answered) {
    card.append(el("p", {}, `${GIVEN[asks.answered]} ${next.kind === "session" ? "The session takes it in a moment." : "The task goes on when a worker takes it up."}`));
    return card;
  }
  card.append(form(next.id, asks));
  return card;
}

function choiceButton(choice, input) {
  return [el("button", { type: "button", onclick: () => { input.value = choice.label; input.focus(); } }, choice.label), choice.description ? ` ${choice.description}` : ""];
}

const AMOUNTS = { usd: "USD more", tokens: "Tokens more", seconds: "Seconds more", calls: "Tool calls more" };

function form(id, asks) {
  const reason = el("input", { id: "reason", maxlength: 2000, autocomplete: "off" });
  const amounts = Object.entries(AMOUNTS).map(([name, label]) => [name, label, el("input", { id: `more-${name}`, type: "number", min: "0", step: "any", inputmode: "decimal" })]);
  const buttons = asks.answers.map((answer) => {
    const button = el("button", { type: "button", class: answer === "no" ? "danger" : "main" }, ANSWERS[asks.kind][answer]);
    button.dataset.action = answer;
    button.addEventListener("click", () => {
      const budget = Object.fromEntries(amounts.filter(([, , input]) => input.value).map(([name, , input]) => [name, Number(input.value)]));
      send(buttons, "/api/answer", { id, digest: asks.digest, answer, reason: reason.value, budget: answer === "more" ? budget : null });
    });
    return button;
  });
  return el("form", { onsubmit: (event) => event.preventDefault() },
    asks.kind === "budget" ? el("div", { class: "amounts" }, amounts.map(([name, label, input]) => el("div", {}, el("label", { for: `more-${name}` }, label), input))) : "",
    asks.choices.length ? el("ol", {}, asks.choices.map((choice) => el("li", {}, choiceButton(choice, reason)))) : "",
    el("div", {}, el("label", { for: "reason" }, asks.kind === "question" ? "Your answer" : "Reason, or what the agent should know (may be empty)"), reason),
    el("div", { class: "answers" }, buttons, el("span", { class: "digest" }, `bound to ${asks.digest}`)));
}

function showError(next) {
  if (!next.error) return [];
  return el("section", { class: "card error" }, el("p", {}, `${next.error.message || "Something failed"} (${next.error.code})`), next.error.hint ? el("p", { class: "small" }, next.error.hint) : "");
}

function showPlan(next) {
  if (!next.plan) return [];
  return el("section", { class: "card plan", "aria-label": "Plan" }, el("h3", {}, "Plan"), el("p", {}, next.plan.goal),
    el("ol", {}, next.plan.steps.map((step) => el("li", { class: step.done ? "done" : "" },
      el("span", { "aria-hidden": "true" }, step.done ? "✓" : "○"), el("span", {}, step.text, step.done ? el("span", { class: "unseen" }, " (done)") : "")))));
}

// ---- what happened

function showEvents(told) {
  known = told.known;
  const list = part("events").querySelector(".events");
  const bottom = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 60 && list.children.length > 0;
  while (list.children.length > told.from) list.lastChild.remove();
  if (told.problem) list.replaceChildren(el("p", { class: "hint" }, `What happened cannot be shown: ${told.problem}`));
  list.append(...told.events.map(showEvent));
  if (bottom && told.events.length && task.state === "running") window.scrollTo(0, document.documentElement.scrollHeight);
}

function showEvent(event) {
  const shown = { task: () => [], told: showTold, reply: showReply, call: showCall, result: showResult, step: showStep, plan_updated: showChecklist, state: showState }[event.type](event);
  if (!shown.length) return el("div", { hidden: true });
  return el("section", { class: `event ${event.type}${event.ok === false ? " bad" : ""}` }, shown);
}

const title = (text) => el("h4", {}, text);
const first = (text) => { const line = text.trim().split("\n", 1)[0]; return line.length > 100 ? `${line.slice(0, 100)}…` : line || "nothing"; };
const PIECE = 500; // lines that are laid out together, and only when they are to be seen
const pieces = (lines) => (lines.length <= PIECE ? lines : Array.from({ length: Math.ceil(lines.length / PIECE) }, (_, at) => el("span", { class: "piece" }, lines.slice(at * PIECE, (at + 1) * PIECE))));
function block(text) {
  const lines = text.split("\n");
  return el("pre", { tabindex: lines.length > 20 ? "0" : null }, lines.length > PIECE ? pieces(lines.map((line) => `${line}\n`)) : text);
}
const folded = (label, content, open = false) => el("details", { open }, el("summary", {}, label), content);

function diff(text) {
  const kind = (line) => (/^(\+\+\+|---|@@|diff )/.test(line) ? "b" : line[0] === "+" ? "ins" : line[0] === "-" ? "del" : "span");
  const shown = (line) => (kind(line) === "span" ? `${line}\n` : el(kind(line), {}, line || "\n"));
  return el("pre", { class: "diff" }, pieces(text.replace(/\n$/, "").split("\n").map(shown)));
}

const showTold = (event) => event.from_person ? [title("you"), block(event.text)] : [title("to the model"), folded(first(event.text), block(event.text))];
function showReply(event) {
  const why = event.finish === "length" || event.finish === "refused" ? `, ended by ${event.finish}` : "";
  const used = `turn ${event.turn}, ${count(event.input_tokens)} in, ${count(event.output_tokens)} out, ${money(event.cost_usd)}${why}`;
  return [title("the model"), event.text.trim() ? block(event.text) : "", el("p", { class: "small" }, used)];
}
function showCall(event) {
  if (event.arguments === null) return [title(`calls ${event.tool}`), block(event.raw)];
  const words = Object.entries(event.arguments).map(([name, value]) => [el("dt", {}, name), el("dd", {}, block(typeof value === "string" ? value : JSON.stringify(value, null, 1)))]);
  return [title(`calls ${event.tool}`), el("dl", { class: "arguments" }, words)];
}
function showResult(event) {
  const lines = event.text.trim().split("\n").length;
  const said = lines === 1 && event.text.length <= 100 ? block(event.text) : folded(`${first(event.text)} (${lines} lines)`, block(event.text), lines <= 12 && !event.diff);
  return [title(`${event.tool}, ${event.seconds.toFixed(1)} s${event.code ? `, ${event.code}` : ""}`), event.diff ? folded("What it changed", diff(event.diff), true) : "", said];
}
const showStep = (event) => [title(event.kind), el("p", {}, `${event.ok ? "✓" : "!"} ${event.text}${event.code ? ` (${event.code})` : ""}`)];
const showChecklist = (event) => [title("plan"), el("ul", {}, event.steps.map((step) => el("li", {}, `${step.status.replace("_", " ")}: ${step.text}`)))];
function showState(event) {
  const shown = [];
  if (event.summary) shown.push(title("the model's last words"), block(event.summary));
  if (event.findings.length) shown.push(title("found but not fixed"), ...event.findings.map(block));
  if (event.diff) shown.push(folded("The whole change", diff(event.diff), event.status === "done"));
  return shown;
}

// ---- looking again and again

async function lookAtList() {
  const told = await ask("/api/tasks");
  if (told) showList(told.tasks);
}

async function lookAtTask() {
  const id = chosen;
  if (!id) return;
  const told = await ask(`/api/task?id=${encodeURIComponent(id)}&known=${encodeURIComponent(known)}`);
  if (told && id === chosen) showTask(told);
}

async function again(look, pause) {
  for (;;) {
    try { await look(); trouble(null); } catch (error) { trouble(error); }
    await new Promise((done) => {
      const seen = () => { clearTimeout(timer); document.removeEventListener("visibilitychange", seen); done(); };
      const timer = setTimeout(seen, document.hidden ? HIDDEN_PAUSE : pause);
      document.addEventListener("visibilitychange", seen);
    });
  }
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return null; }
}

function choose() {
  const found = /^#task=(.+)$/.exec(location.hash);
  if (!found && location.hash) return; // the link to the task's part of the page
  const next = found ? decoded(found[1]) : null;
  if (next === chosen) return;
  chosen = next;
  task = null;
  known = "";
  tags.clear();
  for (const each of document.querySelectorAll("#tasks a")) {
    if (each.dataset.task === chosen) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
  $("task").replaceChildren(chosen ? el("p", { class: "hint" }, "Looking…") : $("choose") || el("p", { class: "hint" }, "Choose a task."));
  if (!chosen) return;
  lookAtTask().then(() => { if (matchMedia("(max-width: 52rem)").matches) $("task").scrollIntoView(); $("task").focus({ preventScroll: true }); }, trouble);
}

window.addEventListener("hashchange", choose);
choose();
again(lookAtList, LIST_PAUSE);
again(lookAtTask, TASK_PAUSE);
