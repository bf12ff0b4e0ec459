// The editor of one page: CodeMirror on the shared text.
import { defaultKeymap } from "@codemirror/commands";
import { deleteMarkupBackward, insertNewlineContinueMarkup, markdownLanguage } from "@codemirror/lang-markdown";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { search, searchKeymap } from "@codemirror/search";
import { type ChangeSet, EditorState, type Extension, Prec } from "@codemirror/state";
import { drawSelection, dropCursor, EditorView, highlightSpecialChars, keymap, type ViewUpdate } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { yCollab, yUndoManagerKeymap } from "y-codemirror.next";
import type { Awareness } from "y-protocols/awareness";
import type { Text, UndoManager } from "yjs";
import { cursors } from "./cursors";
import { phrases } from "./phrases";
import { drafted, fromOthers, inShared, sync } from "./sync";
import { spoken } from "./texts";

const LOOKS = HighlightStyle.define([
  ...([1, 2, 3, 4, 5, 6] as const).map((level) => ({ tag: tags[`heading${level}`], class: `md-heading md-h${level}` })),
  { tag: tags.strong, class: "md-strong" },
  { tag: tags.emphasis, class: "md-emphasis" },
  { tag: tags.strikethrough, class: "md-strike" },
  { tag: [tags.link, tags.url], class: "md-link" },
  { tag: tags.monospace, class: "md-code" },
  { tag: tags.quote, class: "md-quote" },
  { tag: [tags.processingInstruction, tags.contentSeparator, tags.labelName, tags.meta], class: "md-mark" },
  { tag: tags.comment, class: "md-mark" },
]);

/** What an update changes in the shared text: nothing, where a suggestion is typed. */
function changed({ transactions, changes }: ViewUpdate): ChangeSet | null {
  if (transactions.some((each) => each.annotation(drafted))) return null;
  const shared = transactions.map((each) => each.annotation(inShared)).find((each) => each !== undefined);
  return shared === undefined ? changes : shared;
}

interface Parts {
  page: string;
  label: string;
  text: Text;
  awareness: Awareness;
  undoManager: UndoManager;
  writable: boolean;
  nonce: string;
  more: Extension;
  isOthers: (origin: unknown) => boolean;
  changed: (view: EditorView, what: { text: ChangeSet | null; mine: boolean; selection: boolean }) => void;
}

export function openEditor(parent: HTMLElement, parts: Parts): EditorView {
  const markdown = /\.(md|markdown|mdx)$/i.test(parts.page);
  return new EditorView({
    parent,
    state: EditorState.create({
      doc: parts.text.toString(),
      extensions: [
        EditorView.cspNonce.of(parts.nonce),
        EditorState.lineSeparator.of("\n"),  // the shared text knows no other; offsets would move apart
        EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, "\n")),
        EditorState.readOnly.of(!parts.writable),
        EditorState.tabSize.of(4),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": parts.label, spellcheck: "true", autocapitalize: "sentences", autocorrect: "on" }),
        highlightSpecialChars(),
        drawSelection(),
        dropCursor(),
        search({ top: true }),
        EditorState.phrases.of(phrases(spoken())),
        parts.more,
        sync(yCollab(parts.text, null, { undoManager: parts.undoManager }), parts.isOthers),
        cursors(parts.text, parts.awareness),
        markdown ? [markdownLanguage, Prec.high(keymap.of([
          { key: "Enter", run: insertNewlineContinueMarkup },
          { key: "Backspace", run: deleteMarkupBackward },
        ])), syntaxHighlighting(LOOKS)] : [],
        keymap.of([...yUndoManagerKeymap, ...searchKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((update) => {
          const selection = update.selectionSet || update.docChanged;
          if (selection || update.focusChanged || update.transactions.some((each) => each.effects.length))
            parts.changed(update.view, {
              text: update.docChanged ? changed(update) : null,
              mine: !update.transactions.some((each) => each.annotation(fromOthers)),
              selection,
            });
        }),
      ],
    }),
  });
}
