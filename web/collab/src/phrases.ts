// What the editor's own panel for finding says, in the languages of the page.
import type { Language } from "./texts";

const FINDING = [
  ["Find", "検索", "查找"],
  ["Replace", "置換", "替换"],
  ["next", "次", "下一个"],
  ["previous", "前", "上一个"],
  ["all", "すべて", "全部"],
  ["match case", "大文字と小文字を区別", "区分大小写"],
  ["regexp", "正規表現", "正则表达式"],
  ["by word", "単語単位", "全字匹配"],
  ["replace", "置換", "替换"],
  ["replace all", "すべて置換", "全部替换"],
  ["close", "閉じる", "关闭"],
  ["current match", "現在の一致", "当前匹配"],
  ["replaced $ matches", "$ 件を置換しました", "已替换 $ 处"],
  ["replaced match on line $", "$ 行目を置換しました", "已替换第 $ 行的匹配"],
  ["on line", "行", "行"],
  ["Go to line", "行へ移動", "转到行"],
  ["go", "移動", "转到"],
] as const;

export function phrases(language: Language): Record<string, string> {
  return language === "en" ? {} : Object.fromEntries(FINDING.map(([en, ja, zh]) => [en, language === "ja" ? ja : zh]));
}
