// Everything that the page says, in its three languages.
const TABLE = {
  pages: ["Pages", "ページ", "页面"],
  newPage: ["New page", "新しいページ", "新建页面"],
  newName: ["Its name, such as notes/plan.md", "名前（例：notes/plan.md）", "名称，如 notes/plan.md"],
  make: ["Make", "作成", "创建"],
  managePage: ["Rename or remove", "名前の変更・削除", "重命名或删除"],
  pageName: ["Name of the page", "ページの名前", "页面名称"],
  rename: ["Rename", "名前を変更", "重命名"],
  renamedTo: ["This page is called {page} now.", "このページの名前は {page} になりました。", "此页面现名为 {page}。"],
  removePage: ["Remove this page", "このページを削除", "删除此页面"],
  removeHow: ["Whoever may write can bring a removed page back, from the list below the pages.", "削除したページは、ページ一覧の下から編集権限のある人が元に戻せます。", "有编辑权限的人可从页面列表下方恢复已删除的页面。"],
  removeSure: ["Remove {page} for everybody? It can be brought back.", "{page} を全員から削除しますか。後で元に戻せます。", "要为所有人删除 {page} 吗？之后可以恢复。"],
  removedPages: ["Removed pages ({n})", "削除したページ（{n}）", "已删除的页面（{n}）"],
  removedPage: ["{page} was removed.", "{page} は削除されました。", "{page} 已被删除。"],
  bringBack: ["Bring it back", "元に戻す", "恢复"],
  bringBackPage: ["Bring {page} back", "{page} を元に戻す", "恢复 {page}"],
  nameTaken: ["Another page, perhaps a removed one, has this name.", "この名前のページ（削除済みを含む）がすでにあります。", "已有同名页面（可能已删除）。"],
  nameBad: ["A page cannot be called so. End its name with .md or .txt.", "この名前は使えません。末尾を .md か .txt にしてください。", "不能使用此名称。请以 .md 或 .txt 结尾。"],
  notAllowed: ["You may not do this.", "この操作の権限がありません。", "你无权执行此操作。"],
  pageBusy: ["Not now: the assistant is at work on this page, its text is not all in the file, or other processes serve it.", "今はできません。アシスタントが作業中か、未保存の内容があるか、別のプロセスが提供中です。", "现在无法执行：助手正在处理、内容未全部写入文件，或有其他进程在提供此页面。"],
  mayOnlyRead: ["You may read here. Whoever may write can ask the assistant.", "閲覧のみ可能です。アシスタントには編集権限のある人が頼めます。", "你只能阅读。有编辑权限的人可以使用助手。"],
  findPage: ["Find a page", "ページを探す", "查找页面"],
  noPages: ["No pages here yet.", "ページはまだありません。", "还没有页面。"],
  noPageFound: ["No page is called so.", "該当するページはありません。", "没有这样的页面。"],
  choosePage: ["Choose a page to write in.", "書くページを選んでください。", "请选择要编写的页面。"],
  pendingCount: ["{n} to review", "確認待ち {n} 件", "{n} 条待审"],
  here: ["{names} here", "{names} が閲覧中", "{names} 在此"],
  write: ["Text", "本文", "正文"],
  both: ["Both", "並べる", "并排"],
  read: ["Preview", "プレビュー", "预览"],
  view: ["View", "表示", "视图"],
  assistant: ["Assistant", "アシスタント", "助手"],
  toText: ["To the text", "本文へ", "跳到正文"],
  toAssistant: ["To the assistant", "アシスタントへ", "跳到助手"],
  undo: ["Undo", "元に戻す", "撤销"],
  redo: ["Redo", "やり直す", "重做"],
  settings: ["You and this page", "あなたと表示の設定", "你与显示设置"],
  meNamed: ["{name}: you and this page", "{name}：あなたと表示の設定", "{name}：你与显示设置"],
  name: ["Your name", "名前", "你的名字"],
  color: ["Your colour", "色", "你的颜色"],
  colorNumber: ["Colour {n}", "色 {n}", "颜色 {n}"],
  language: ["Language", "言語", "语言"],
  theme: ["Light or dark", "明暗", "明暗"],
  themeAuto: ["As the system", "システムに合わせる", "跟随系统"],
  themeLight: ["Light", "ライト", "浅色"],
  themeDark: ["Dark", "ダーク", "深色"],
  close: ["Close", "閉じる", "关闭"],
  editorLabel: ["Text of {page}", "{page} の本文", "{page} 的正文"],
  people: ["People on this page", "このページにいる人", "此页面上的人"],
  connecting: ["Connecting…", "接続中…", "正在连接…"],
  saved: ["Saved", "保存済み", "已保存"],
  saving: ["Saving…", "保存中…", "正在保存…"],
  offline: ["Offline. What you write is kept in this browser and sent when the connection is back.", "オフラインです。書いた内容はこのブラウザに保持され、再接続すると送信されます。", "已离线。你写的内容保存在此浏览器中，重新连接后会发送。"],
  offlineShort: ["Offline", "オフライン", "已离线"],
  offlineKept: ["Offline, kept in this browser", "オフライン（ブラウザに保持）", "已离线，已存于浏览器"],
  unsent: ["not sent", "未送信", "未发送"],
  rescued: ["This was written here without a connection, and its place is no longer in the text. Copy what you need.", "接続が切れている間にここで書かれた内容です。本文に対応する箇所がなくなりました。必要な部分をコピーしてください。", "这些内容是离线时在此写下的，正文中已没有相应位置。请复制需要的部分。"],
  copy: ["Copy", "コピー", "复制"],
  copied: ["Copied", "コピーしました", "已复制"],
  dismiss: ["Dismiss", "閉じる", "关闭"],
  online: ["Connected again", "再接続しました", "已重新连接"],
  fileProblem: ["Not on disk: {problem}", "ディスクに保存できません：{problem}", "未写入磁盘：{problem}"],
  readOnly: ["Read only", "閲覧のみ", "只读"],
  closed4401: ["You are not signed in. Open the link that kakite collab printed.", "サインインしていません。kakite collab が表示したリンクを開いてください。", "你尚未登录。请打开 kakite collab 给出的链接。"],
  closed4403: ["You may not open this page.", "このページを開く権限がありません。", "你无权打开此页面。"],
  closed4404: ["There is no such page any more.", "このページはもうありません。", "此页面已不存在。"],
  closed4413: ["This page is too large to be edited here.", "このページは大きすぎて、ここでは編集できません。", "此页面过大，无法在此编辑。"],
  large: ["This page is {size} KB. Above 256 KB writing gets slower; consider several pages.", "このページは {size} KB です。256 KB を超えると動作が遅くなります。分割をおすすめします。", "此页面有 {size} KB。超过 256 KB 会变慢，建议拆分。"],
  suggestions: ["Suggestions", "提案", "建议"],
  suggestionOf: ["{n} of {all}", "{n} / {all}", "{n} / {all}"],
  suggestionCount: ["{n} {n|suggestion|suggestions}", "提案 {n} 件", "{n} 条建议"],
  accept: ["Accept", "採用", "采纳"],
  reject: ["Reject", "却下", "拒绝"],
  acceptAll: ["Accept all", "すべて採用", "全部采纳"],
  rejectAll: ["Reject all", "すべて却下", "全部拒绝"],
  previous: ["Previous suggestion (Alt-P)", "前の提案（Alt-P）", "上一条建议（Alt-P）"],
  next: ["Next suggestion (Alt-N)", "次の提案（Alt-N）", "下一条建议（Alt-N）"],
  acceptThis: ["Accept this suggestion: {change}", "この提案を採用：{change}", "采纳此建议：{change}"],
  rejectThis: ["Reject this suggestion: {change}", "この提案を却下：{change}", "拒绝此建议：{change}"],
  suggestionHeard: ["Suggestion {n} of {all}: {change}. Tab accepts, Escape rejects.", "提案 {n} / {all}：{change}。Tab で採用、Esc で却下。", "建议 {n} / {all}：{change}。Tab 采纳，Esc 拒绝。"],
  replaceBy: ["replace “{old}” by “{new}”", "「{old}」を「{new}」に置き換え", "将“{old}”改为“{new}”"],
  insertNew: ["insert “{new}”", "「{new}」を挿入", "插入“{new}”"],
  deleteOld: ["delete “{old}”", "「{old}」を削除", "删除“{old}”"],
  accepted: ["Accepted", "採用しました", "已采纳"],
  rejected: ["Rejected", "却下しました", "已拒绝"],
  reopened: ["Undone: {n} {n|suggestion is|suggestions are} open again", "元に戻しました：提案 {n} 件が再び確認待ちです", "已撤销：{n} 条建议重新待审"],
  notReopened: ["That is too long ago to be undone. The earlier versions of the page have it.", "時間が経ったため元に戻せません。以前の版から戻せます。", "时间过久，无法撤销。可从早期版本恢复。"],
  acceptedMany: ["{n} accepted", "{n} 件を採用しました", "已采纳 {n} 条"],
  rejectedMany: ["{n} rejected", "{n} 件を却下しました", "已拒绝 {n} 条"],
  someFailed: ["{n} could not be applied: their place has changed.", "{n} 件は適用できませんでした。その箇所が変更されています。", "{n} 条未能应用：该处已改动。"],
  changedTitle: ["This place has changed since", "この箇所はその後変更されました", "此处之后有改动"],
  standsNow: ["Stands there now", "現在の本文", "现在的文字"],
  wouldBecome: ["Would become", "適用後", "将变为"],
  wasSuggested: ["Was suggested", "元の提案", "原建议"],
  applyHere: ["Apply it here", "ここに適用", "应用到此处"],
  noPlace: ["No place like it is left in the text.", "対応する箇所が本文に見つかりません。", "正文中已找不到相应位置。"],
  line: ["line {n}", "{n} 行目", "第 {n} 行"],
  by: ["by {name}", "{name} より", "来自 {name}"],
  forgiven: ["found although not equal to the letter", "完全一致ではない箇所に対応", "非逐字匹配"],
  ask: ["Ask the assistant", "アシスタントに頼む", "向助手提问"],
  askHint: ["What should change? It works on this page; select a passage to point at it.", "どこをどう変えますか。このページが対象です。範囲を選択して示せます。", "想改什么？助手处理此页面；可先选中一段文字。"],
  askEmpty: ["Ask for a change in your own words. Edits come as suggestions that you accept or reject, one by one.", "変えたいことを言葉で伝えてください。編集は提案として届き、一つずつ採用・却下できます。", "用自己的话说出想要的改动。修改以建议的形式出现，可逐条采纳或拒绝。"],
  send: ["Send", "送信", "发送"],
  sendHow: ["Ctrl-Enter sends", "Ctrl-Enter で送信", "Ctrl-Enter 发送"],
  mode: ["Edits", "編集", "修改"],
  review: ["Review first", "確認してから", "先审阅"],
  auto: ["Apply at once", "すぐに適用", "立即应用"],
  morePages: ["Other pages, too", "他のページも対象にする", "同时处理其他页面"],
  otherPages: ["{n} other {n|page|pages}", "他 {n} ページ", "另外 {n} 页"],
  selected: ["{n} {n|character|characters} selected", "{n} 文字を選択中", "已选 {n} 个字符"],
  cancel: ["Stop", "中止", "停止"],
  thinking: ["Thinking…", "考えています…", "正在思考…"],
  resuming: ["The connection was lost; going on…", "接続が切れました。続きを取得しています…", "连接中断，正在继续…"],
  doneRun: ["{edits} {edits|edit|edits}, {failures} without a place", "編集 {edits} 件、該当箇所なし {failures} 件", "{edits} 处修改，{failures} 处未找到位置"],
  doneEdits: ["{edits} {edits|edit|edits}", "編集 {edits} 件", "{edits} 处修改"],
  doneNothing: ["No edits", "編集なし", "没有修改"],
  cancelled: ["Stopped", "中止しました", "已停止"],
  cut: ["The reply became too long and was cut off", "応答が長すぎたため途中で切れました", "回复过长，已被截断"],
  refusedRun: ["The model would not answer", "モデルは回答を拒否しました", "模型拒绝回答"],
  interrupted: ["Broken off: the server stopped", "サーバーが止まり、途中で終わりました", "服务器已停止，回答中断"],
  clearTalk: ["Clear", "消去", "清除"],
  clearTalkSure: ["Clear the conversation for everybody on this page? The assistant forgets it, too.", "この会話を全員の画面から消しますか。アシスタントも忘れます。", "要为此页面上的所有人清除对话吗？助手也会忘记。"],
  failedRun: ["The assistant could not finish.", "アシスタントは完了できませんでした。", "助手未能完成。"],
  tokens: ["{input} tokens in, {output} out", "入力 {input}・出力 {output} トークン", "输入 {input}，输出 {output} 个 token"],
  editAt: ["Edit in line {n}", "{n} 行目を編集", "修改第 {n} 行"],
  editAtPage: ["Edit in {page}, line {n}", "{page} の {n} 行目を編集", "修改 {page} 第 {n} 行"],
  why_not_found: ["The page has no such words.", "該当する文がページにありません。", "页面中没有这样的文字。"],
  why_near_miss: ["The page has such words, but not quite these.", "似た文はありますが、一致しません。", "页面中有相似的文字，但不完全相同。"],
  why_ambiguous: ["The words stand in several places, and it is not clear which is meant.", "同じ文が複数あり、どれを指すか分かりません。", "这些文字出现在多处，不清楚指哪一处。"],
  why_changed: ["Somebody changed these words in the meantime.", "その間に誰かがこの文を変更しました。", "在此期间有人改动了这些文字。"],
  why_already_applied: ["The page says this already.", "ページはすでにそうなっています。", "页面已是如此。"],
  why_no_effect: ["It would change nothing.", "変更がありません。", "不会有任何改变。"],
  why_no_such_page: ["It is for a page that was not part of the request.", "依頼に含まれないページへの編集です。", "它针对的页面不在请求之内。"],
  why_page_unclear: ["It does not say for which page it is.", "どのページへの編集か分かりません。", "没有说明针对哪个页面。"],
  why_too_many_edits: ["There were too many edits in one answer.", "一度の編集が多すぎます。", "一次回答的修改过多。"],
  why_other: ["The assistant wrote it in a way that cannot be used.", "アシスタントの書き方が不正で使えません。", "助手的写法无法使用。"],
  failureTitle: ["An edit was not made.", "編集できなかった箇所があります。", "有一处修改未能完成。"],
  failureWords: ["What the assistant was told", "アシスタントへの説明", "告知助手的说明"],
  closest: ["Closest places", "近い箇所", "相近的位置"],
  keep: ["Keep", "残す", "保留"],
  revert: ["Revert", "取り消す", "还原"],
  revertPages: ["Revert on {n} pages", "{n} ページで取り消す", "还原全部 {n} 个页面"],
  autoRun: ["The assistant changed {n} {n|place|places}.", "アシスタントが {n} か所を変更しました。", "助手修改了 {n} 处。"],
  thisPage: ["this page", "このページ", "此页面"],
  times: ["×{n}", "{n} か所", "{n} 处"],
  kept: ["Kept", "残しました", "已保留"],
  reverted: ["Reverted", "取り消しました", "已还原"],
  takeBack: ["Take it back", "取り消す", "撤回"],
  takeBackHow: ["Take back what was accepted of this answer, and reject the rest", "この回答から採用した分を取り消し、残りを却下", "撤回此回答中已采纳的部分，并拒绝其余"],
  noModel: ["No model is set. Start kakite collab with --model.", "モデルが設定されていません。--model を付けて kakite collab を起動してください。", "未设置模型。请用 --model 启动 kakite collab。"],
  unreachable: ["The server does not answer.", "サーバーが応答しません。", "服务器没有响应。"],
  tooFast: ["Too fast. Wait a moment.", "操作が速すぎます。少しお待ちください。", "操作过快，请稍候。"],
  joined: ["{name} is here", "{name} が来ました", "{name} 来了"],
  left: ["{name} has left", "{name} が離れました", "{name} 离开了"],
  image: ["Image: {alt}", "画像：{alt}", "图片：{alt}"],
  versions: ["Earlier versions", "以前の版", "早期版本"],
  versionName: ["Name the page as it is now", "今の版に名前を付ける", "为当前版本命名"],
  nameVersion: ["Keep", "保存", "保存"],
  versionNamed: ["This version is kept", "この版を保存しました", "已保存此版本"],
  noVersions: ["There is no earlier version yet.", "以前の版はまだありません。", "还没有早期版本。"],
  versionSame: ["The page is the same as this version.", "ページはこの版と同じです。", "页面与此版本相同。"],
  moreDifferences: ["{n} more {n|difference|differences}", "他 {n} か所の違い", "另有 {n} 处不同"],
  restoreReview: ["Suggest these changes", "提案として戻す", "以建议形式恢复"],
  restoreAuto: ["Restore at once", "すぐに戻す", "立即恢复"],
  removeVersion: ["Remove this version", "この版を削除", "删除此版本"],
  restored: ["Restored. The page as it was a moment ago is a version, too.", "戻しました。直前の状態も版として残っています。", "已恢复。刚才的页面也保留为一个版本。"],
  restoreSuggested: ["The changes back are suggested", "元に戻す変更を提案しました", "已给出恢复建议"],
  fromOutside: ["written elsewhere", "ページ外での変更", "在页面之外写入"],
  licences: ["Licences", "ライセンス", "许可证"],
} as const satisfies Record<string, readonly [string, string, string]>;

export type Text = keyof typeof TABLE;

/** Why an edit was not made, for people: the engine's own words are for the model. */
export function why(code: string): Text {
  const text = `why_${code}`;
  return text in TABLE ? (text as Text) : "why_other";
}
export const LANGUAGES = { en: "English", ja: "日本語", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

let language: Language = "en";

export function speak(which: Language): void {
  language = which;
  document.documentElement.lang = which === "zh" ? "zh-Hans" : which;
}

export function spoken(): Language {
  return language;
}

/** The text in the language of now, with its `{name}`s filled in; `{name|one|many}` is a word by number. */
export function t(text: Text, values: Record<string, string | number> = {}): string {
  const said: string = TABLE[text][language === "en" ? 0 : language === "ja" ? 1 : 2];
  const counted = said.replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name: string, one: string, many: string) => (values[name] === 1 ? one : many));
  return counted.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? number(value) : value;
  });
}

export function number(value: number): string {
  return new Intl.NumberFormat(language).format(value);
}

/** The first of the browser's languages that the page speaks. */
export function preferred(): Language {
  const known = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each in LANGUAGES);
  return (known as Language | undefined) ?? "en";
}
