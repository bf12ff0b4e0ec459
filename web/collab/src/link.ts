// The websocket of one page: the text (y-protocols), who is there, and what the server tells beside it.
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import { applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates, type Awareness } from "y-protocols/awareness";
import { readSyncMessage, writeSyncStep1, writeUpdate } from "y-protocols/sync";
import type { Doc } from "yjs";
import { segment, type Shared } from "./api";
import type { Unsent } from "./unsent";

const SYNC = 0, AWARENESS = 1, ASK_AWARENESS = 3, SHARED = 100;
const LOOK = 500;  // ms between looks whether the server answers
const FIRST_PAUSE = 150, LONGEST_PAUSE = 5_000;  // ms between tries
const QUIET = 15_000, DEAD = 25_000;  // ms without a word until we ask, and until we give the connection up
const ASK_AFTER = 200, ASK_AGAIN = 1_000;  // ms: asking whether what was written is there
const SILENT = 3_000, NO_ANSWER = 10_000;  // ms without an answer until we say that we are offline, and give up
const FINAL = new Set([4401, 4403, 4404, 4413]);  // trying again would not help
const OTHER_HISTORY = 4409;

export type LinkState = { is: "connecting" | "connected" | "offline" } | { is: "closed"; code: number };

interface Ears {
  state: (state: LinkState) => void;
  synced: () => void;  // the text is here, for the first time
  shared: (shared: Shared) => void;
  renewed: () => void;  // the server's document has another history: ours has to go
}

export class Link {
  /** The id of the server's document. */
  history: string | null = null;
  private asks: boolean[] = [];  // what the server was asked and has not answered; whether it is about what is unsent
  private told = false;  // whether the server was sent all that it lacked when we connected
  private askedAt = 0;
  private asking = 0;
  private socket: WebSocket | null = null;
  private tries = 0;
  private retry = 0;
  private heard = 0;
  private synced = false;
  private silent = false;  // the server was asked and does not answer: it is told as offline
  private over = false;
  private readonly watch: number;

  constructor(private readonly page: string, private readonly doc: Doc, private readonly awareness: Awareness, private readonly unsent: Unsent, private readonly ears: Ears) {
    doc.on("update", this.updated);
    awareness.on("update", this.moved);
    addEventListener("online", this.connect);
    addEventListener("pagehide", this.leave);
    this.watch = window.setInterval(this.look, LOOK);
    this.connect();
  }

  close(): void {
    this.leave();
    this.over = true;
    this.doc.off("update", this.updated);
    this.awareness.off("update", this.moved);
    removeEventListener("online", this.connect);
    removeEventListener("pagehide", this.leave);
    clearInterval(this.watch);
    clearTimeout(this.retry);
    clearTimeout(this.asking);
    this.socket?.close();
  }

  get isConnected(): boolean {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  private readonly connect = (): void => {
    if (this.over || this.socket) return;
    clearTimeout(this.retry);
    this.ears.state({ is: this.tries ? "offline" : "connecting" });
    const address = new URL(`/ws/${segment(this.page)}`, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    if (this.history !== null) address.searchParams.set("history", this.history);
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.heard = Date.now();
      this.ask(false);
      if (this.awareness.getLocalState()) this.sayWho([this.doc.clientID]);
    };
    socket.onmessage = ({ data }) => { if (data instanceof ArrayBuffer) this.hear(new Uint8Array(data)); };
    socket.onclose = ({ code }) => this.closed(code);
    this.socket = socket;
  };

  private closed(code: number): void {
    this.socket = null;
    this.asks = [];
    this.told = false;
    this.silent = false;
    clearTimeout(this.asking);
    this.asking = 0;
    if (this.over) return;
    const others = [...this.awareness.getStates().keys()].filter((each) => each !== this.doc.clientID);
    removeAwarenessStates(this.awareness, others, this);
    if (code === OTHER_HISTORY && this.history !== null) return this.ears.renewed();
    if (FINAL.has(code)) return this.ears.state({ is: "closed", code });
    this.tries += 1;
    this.ears.state({ is: "offline" });
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.tries) * (0.75 + Math.random() / 2);
    this.retry = window.setTimeout(this.connect, code === 4429 ? LONGEST_PAUSE : pause);
  }

  private hear(bytes: Uint8Array): void {
    this.heard = Date.now();
    const from = decoding.createDecoder(bytes);
    const kind = decoding.readVarUint(from);
    if (kind === SYNC) {
      const answer = encoding.createEncoder();
      encoding.writeVarUint(answer, SYNC);
      const step = readSyncMessage(from, answer, this.doc, this);
      if (encoding.length(answer) > 1) {  // the server asked for what it lacks
        this.send(encoding.toUint8Array(answer));
        this.told = true;
        if (!this.unsent.isEmpty) this.askSoon();
      }
      if (step === 1) this.answered();
    } else if (kind === AWARENESS) {
      applyAwarenessUpdate(this.awareness, decoding.readVarUint8Array(from), this);
    } else if (kind === ASK_AWARENESS) {
      this.sayWho([...this.awareness.getStates().keys()]);
    } else if (kind === SHARED) {
      const shared = JSON.parse(decoding.readVarString(from)) as Shared;
      const { history = null } = shared;
      if (this.history !== null && history !== this.history) return this.ears.renewed();
      this.history = history;
      this.ears.shared(shared);
    }
  }

  /** The server answers in order: it has all that was sent before it was asked. */
  private answered(): void {
    if (this.asks.shift()) this.unsent.confirm();
    if (!this.unsent.isEmpty) this.askSoon();
    this.settled();
  }

  private askSoon(): void {
    if (this.asks.includes(true)) return;
    const pause = Math.max(ASK_AFTER, this.askedAt + ASK_AGAIN - Date.now());
    this.asking ||= window.setTimeout(() => {
      this.asking = 0;
      if (this.told && !this.unsent.isEmpty && this.ask(true)) this.unsent.ask();
    }, pause);
  }

  private ask(unsent: boolean): boolean {
    if (!this.say(SYNC, (to) => writeSyncStep1(to, this.doc))) return false;
    this.asks.push(unsent);
    this.askedAt = Date.now();
    return true;
  }

  private settled(): void {
    if (this.tries || this.silent || !this.synced) this.ears.state({ is: "connected" });
    this.tries = 0;
    this.silent = false;
    if (!this.synced) this.ears.synced();
    this.synced = true;
  }

  private readonly updated = (update: Uint8Array, origin: unknown): void => {
    if (origin === this) return;
    this.unsent.add(update);
    if (this.say(SYNC, (to) => writeUpdate(to, update))) this.askSoon();
  };

  private readonly moved = ({ added, updated, removed }: Record<"added" | "updated" | "removed", number[]>, origin: unknown): void => {
    if (origin !== this) this.sayWho([...added, ...updated, ...removed].filter((each) => each === this.doc.clientID));
  };

  private readonly leave = (): void => removeAwarenessStates(this.awareness, [this.doc.clientID], "leave");

  /** A connection that says nothing may be dead: ask, say that it is, and in the end begin anew. */
  private readonly look = (): void => {
    const quiet = Date.now() - this.heard;
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const waits = this.asks.length ? Date.now() - this.askedAt : 0;
    if (quiet > DEAD || waits > NO_ANSWER) return this.abandon(this.socket);
    if (waits > SILENT && !this.silent) {
      this.silent = true;
      this.ears.state({ is: "offline" });
    }
    if (quiet > QUIET && !this.asks.length) this.ask(false);
  };

  /** A dead connection says goodbye to nobody for a minute or more: do not wait for it. */
  private abandon(socket: WebSocket): void {
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.closed(1006);
  }

  private sayWho(who: number[]): void {
    if (who.length) this.say(AWARENESS, (to) => encoding.writeVarUint8Array(to, encodeAwarenessUpdate(this.awareness, who)));
  }

  private say(kind: number, write: (to: encoding.Encoder) => void): boolean {
    const to = encoding.createEncoder();
    encoding.writeVarUint(to, kind);
    write(to);
    return this.send(encoding.toUint8Array(to));
  }

  private send(bytes: Uint8Array): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(bytes as Uint8Array<ArrayBuffer>);
    return true;
  }
}
