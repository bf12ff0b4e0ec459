// A run of the assistant as it happens: server-sent events over fetch, gone on with when the connection breaks.
import { refusal, Refused } from "./api";

export interface Told { event: string; id: string; data: Record<string, unknown> }

const TRIES = 14;
const PAUSE = 400, LONGEST = 2_000;  // ms before the first further try; then twice as long each time, up to this

/** Yield the events of an answer that is a stream. */
async function* events(answer: Response): AsyncGenerator<Told> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let told: { event: string; id: string; data: string[] } = { event: "message", id: "", data: [] };
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "") {
          if (told.data.length) yield { ...told, data: JSON.parse(told.data.join("\n")) as Record<string, unknown> };
          told = { event: "message", id: told.id, data: [] };
          continue;
        }
        const [, field, said = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!;
        if (field === "data") told.data.push(said);
        else if (field === "event") told.event = said;
        else if (field === "id") told.id = said;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/**
 * Begin a run, or join one that is under way, and yield all its events, each once; `lost` is told when the connection
 * broke and is tried again.
 */
export async function* follow(path: string, body: unknown, signal: AbortSignal, lost: () => void, run = ""): AsyncGenerator<Told> {
  let last = "";
  let over = false;
  for (let tries = 0; ;) {
    try {
      const answer = run
        ? await fetch(`/api/runs/${run}/events`, { headers: { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) }, signal })
        : await fetch(`/api/${path}`, { method: "POST", headers: { "Content-Type": "application/json", Accept: "text/event-stream" }, body: JSON.stringify(body), signal });
      if (!answer.ok) throw await refusal(answer);
      for await (const told of events(answer)) {
        tries = 0;
        if (told.id) last = told.id;
        if (told.event === "run") run = String(told.data["id"]);
        over ||= told.event === "error";  // `done` comes after it, if anything does
        yield told;
        if (told.event === "done") return;
      }
      if (over) return;
      throw new TypeError("the stream ended early");
    } catch (error) {
      if (signal.aborted || !run || over || error instanceof Refused || ++tries > TRIES) throw error;
      lost();
      await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST, PAUSE * 2 ** (tries - 1))));
    }
  }
}
