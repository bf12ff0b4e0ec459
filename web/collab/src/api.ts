// What the server is asked, and what it tells.

export interface Suggestion {
  id: string;
  page: string;
  run: string;
  search: string;  // what stands there and would go
  replace: string;
  status: "pending" | "accepted" | "rejected" | "changed";
  line: number;
  range: { start: number; end: number };  // UTF-16, as the server saw the text
  reason?: string;
  by?: string;
  forgiven?: unknown;
}

export interface Run {
  id: string;
  by: string;
  mode: "review" | "auto";
  status: string;
  counts?: { edits?: number; failures?: number };
  pages?: Record<string, number>;  // how many edits are on which
  accepted?: number;  // of its suggestions on this page
  kept?: boolean;
  reverted?: boolean;
}

/** A request to the assistant, and what it answered. */
export interface Asked {
  id: string;  // that of the run
  by: string;
  message: string;
  mode: "review" | "auto";
  status: string;
  text: string;
  events: { event: string; data: Record<string, unknown> }[];  // its edits and failures, and how it ended
}

/** What somebody said in a thread. */
export interface Comment {
  id: string;
  by: string;
  text: string;
  time: number;  // seconds since 1970
  edited?: number;  // when its author wrote it anew; 0 if they did not
  run: string;  // the assistant's, of which it is the answer
  status: string;  // how that run ended
}

/** The comments on a passage. */
export interface Thread {
  id: string;
  quote: string;  // what the passage read when the thread was begun
  words: string;  // what it reads, or read before it was removed
  range: { start: number; end: number };  // UTF-16, as the server saw the text
  line: number;
  detached: boolean;  // the passage was removed
  resolved_by: string;
  answering: boolean;  // the assistant is about to
  comments: Comment[];
}

/** What is shared beside the text: the whole of it, told on every change. */
export interface Shared {
  suggestions: Suggestion[];
  runs: Run[];
  file: { saved: boolean; problem: string | null };
  conversation?: string;  // another one whenever there is news in the conversation with the assistant
  comments?: string;  // another one whenever there is news in the comments
  history?: string | null;  // the id of the document; another one means that all begins anew
}

export interface PageRow {
  name: string;
  size?: number;
  writable?: boolean;
  people?: unknown;
  pending?: number;
}

export interface Me {
  name?: string | null;
  color?: string | null;
  can?: Record<string, boolean>;
  signed_in_by?: string;
}

export interface Changed { text: string; candidate: { search: string; replace: string; line: number } | null }

/** The server said no: `code`, what it said, and further data of that code. */
export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly hint: string, readonly data: Record<string, unknown>) {
    super(message);
  }
}

/** One segment of an address, whatever the page is called. */
export const segment = encodeURIComponent;

export async function refusal(answer: Response): Promise<Refused> {
  const told = await answer.json().catch(() => ({})) as { error?: Record<string, unknown> };
  const { code = `http_${answer.status}`, message = answer.statusText, hint = "", ...data } = told.error ?? {};
  return new Refused(answer.status, String(code), String(message), String(hint ?? ""), data);
}

/** Ask the server. Raises Refused, or TypeError when it does not answer. */
export async function ask<T>(method: "GET" | "POST" | "PUT", path: string, body?: unknown, keepalive = false): Promise<T> {
  const answer = await fetch(`/api/${path}`, {
    method, cache: "no-store", redirect: "error", keepalive,
    ...(method !== "GET" && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) }),
  });
  if (!answer.ok) throw await refusal(answer);
  return await answer.json() as T;
}
