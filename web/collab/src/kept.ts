// What outlives a tab: changes that the server has not confirmed, kept in this browser (IndexedDB).
// Where a browser keeps nothing, everything here quietly finds nothing.

/** What one tab wrote on one page. Texts have "\n" only. */
export interface Kept {
  key: string;  // of the tab and the page that it has open
  page: string;
  history: string | null;  // the id of the document that it was written in
  update: Uint8Array | null;  // the changes, as Yjs tells them
  base: string;  // the text without them
  own: unknown;  // they themselves, as CodeMirror's ChangeSet tells them
  left: string[];  // passages for which no place was found; the person has not seen to them yet
}

/** Whether it is known which tabs are open: not where the page comes over plain HTTP from another machine. */
export const seesTabs = "locks" in navigator;

const STORE = "unsent";
const LOCK = "kakite:unsent:";

let opened: Promise<IDBDatabase> | null = null;

function database(): Promise<IDBDatabase> {
  return opened ??= new Promise((resolve, reject) => {
    const asked = indexedDB.open("kakite", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE, { keyPath: "key" });
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

/** Do something in one transaction; undefined when this browser keeps nothing. */
async function within<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T> | null): Promise<T | undefined> {
  try {
    const transaction = (await database()).transaction(STORE, mode);
    const asked = act(transaction.objectStore(STORE));
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
    return asked?.result;
  } catch (error) {
    console.debug("nothing is kept in this browser:", error);
    return undefined;
  }
}

/** Keep this, and forget others whose changes are in it. Returns whether it is kept. */
export async function keep(kept: Kept, instead: string[] = []): Promise<boolean> {
  return await within("readwrite", (store) => {
    for (const key of instead) store.delete(key);
    return store.put(kept);
  }) !== undefined;
}

export async function forget(...keys: string[]): Promise<void> {
  await within("readwrite", (store) => { for (const key of keys) store.delete(key); return null; });
}

/** A page was renamed: what closed tabs left on it is for the page of the new name. */
export async function rename(page: string, now: string): Promise<void> {
  const found = (await left()).filter((each) => each.page === page);
  await within("readwrite", (store) => { for (const each of found) store.put({ ...each, page: now }); return null; });
}

/** All that tabs left that are closed now. */
export async function left(): Promise<Kept[]> {
  const all = await within<Kept[]>("readonly", (store) => store.getAll() as IDBRequest<Kept[]>) ?? [];
  const alive = await living();
  return all.filter(({ key }) => !alive.has(key));
}

/** Hold what is kept under this key, as long as this tab lives. Returns: let go. */
export function hold(key: string): () => void {
  let release = () => {};
  const held = new Promise<void>((resolve) => { release = resolve; });
  if (seesTabs) navigator.locks.request(LOCK + key, () => held).catch(() => undefined);
  return release;
}

async function living(): Promise<Set<string>> {
  const { held = [] } = seesTabs ? await navigator.locks.query() : {};
  return new Set(held.map(({ name = "" }) => name).filter((name) => name.startsWith(LOCK)).map((name) => name.slice(LOCK.length)));
}
