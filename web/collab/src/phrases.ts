// What the editor's own panel for finding says, in the languages of the page.
import type { Language } from "./texts";

// What CodeMirror asks for, and what is said in English, Japanese and Chinese.
const FINDING = [
  ["Find", "Find", "検索", "查找"],
  ["Replace", "Replace with", "置換", "替换"],
  ["next", "Next", "次", "下一个"],
  ["previous", "Previous", "前", "上一个"],
  ["all", "Select all", "すべて", "全部"],
  ["match case", "Match case", "大文字と小文字を区別", "区分大小写"],
  ["regexp", "Regular expression", "正規表現", "正则表达式"],
  ["by word", "Whole words", "単語単位", "全字匹配"],
  ["replace", "Replace", "置換", "替换"],
  ["replace all", "Replace all", "すべて置換", "全部替换"],
  ["close", "Close", "閉じる", "关闭"],
  ["current match", "current match", "現在の一致", "当前匹配"],
  ["replaced $ matches", "replaced $ matches", "$ 件を置換しました", "已替换 $ 处"],
  ["replaced match on line $", "replaced match on line $", "$ 行目を置換しました", "已替换第 $ 行的匹配"],
  ["on line", "on line", "行", "行"],
  ["Go to line", "Go to line", "行へ移動", "转到行"],
  ["go", "Go", "移動", "转到"],
] as const;

export function phrases(language: Language): Record<string, string> {
  return Object.fromEntries(FINDING.map(([asked, en, ja, zh]) => [asked, { en, ja, zh }[language]]));
}
