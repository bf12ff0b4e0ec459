"""Detects the encoding of a file and decodes it: byte order mark, UTF-8, detection, at last byte by byte.

Detection of a legacy encoding judges how much the decoded text looks like writing. Statistics need long
texts, and source files have few characters that help: a comment, a name. So each encoding that decodes the
bytes strictly is scored by its own script first. charset-normalizer decides where that leaves doubt.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_SAMPLE = 20_000
"""How many characters that are not ASCII are judged."""

_SIMPLIFIED = frozenset(
    "的一是不了人我在有他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都然没"
    "日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但身些与高意进把法此实回二理"
    "美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新什打便位因重被走电四第门相次东政海口使教西再平真听世气信北"
    "少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员性通目华报立马命张活难神数件安表原车白应路期叫常提感金何更"
    "反合放做系计或司利受光果界及今务制解各任至清物台象记边共风接它许特觉望直服题建南度统色字请交让认算论百义科元社术结功指思"
    "非流每管连远资队带快条院变联言权往展该领传近留决保达办运半必城强步完区即求品转量空技程告语基式识极令收未持取设始版双历商"
    "片容找站改议形音际则首单据导失网专读观争究包组造视离虽配置值参输默测试类型错误返回函删除添键"
)
_TRADITIONAL = frozenset(
    "的一是不了人我在有他這中大來上個國到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可裡後小麼心多天而能好都然沒"
    "日於起還發成事只作當想看文無開手十用主行方又如前所本見經頭面公同三已老從動兩長知民樣現分將外但身些與高意進把法此實回二理"
    "美點月明其種聲全工己話者向情部正名定女問力機給等幾很業最間新什打便位因重被走電四第門相次東政海口使教西再平真聽世氣信北少"
    "關並內加化由卻代軍產入先山五水萬市眼體別處總才場師書比住員性通目華報立馬命張活難神數件安表原車白應路期叫常提感何更反合放"
    "做系計或利受光果界及今務制解各任至清物象記邊共風接它許特覺望直服題建南度統色字請交讓認算論百義科元社術結功指思非流每管連"
    "遠資隊帶快條院變聯言權往展該領傳近留決保達辦運半必城強步完區即求品轉量空技程告語基式識極令收未持取設始版雙歷商片容找站改"
    "議形音際則首單據導失網專讀觀爭究包組造視離雖配置值參輸預測試類型錯誤返函刪除添鍵檔案執編輯備份否則"
)
_JAPANESE = frozenset(
    "日一国人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外八六下来気小七山話女北百書先名川千水半男西電校語土"
    "木聞食車何南万毎白天母火右読友左休父雨設定値変更文字列関数使用場合処理実行結果表示対象指定追加削除登録情報画面必要確認以新"
    "規作成取得力開始終了図室運営手引順番説明受付返却保存編集選択有効無環境構築接続通信失敗成功種類区切部品管理者不同自動全戻直"
)
_KOREAN = frozenset(
    "이다는을를에의가고서지하로도기사한자인리어시아그나부정해수것은들대전일만주보오상장구과원스라있게세여조제위연동신파설경내용값변"
    "백업마십니습합입출력함수반환문열호출실행결과오류확인저장삭제추가선택되먼려면할때와않없우더비성공무관안생각모든같중말좋"
)


def detect(data: bytes) -> tuple[str, str] | None:
    """Return the encoding of bytes that are not UTF-8, and the decoded text; None if nothing fits."""
    found: list[tuple[float, str, str]] = []
    for encoding, judge in _SCORERS.items():
        text = _try_decode(data, encoding)
        if text is not None and not (encoding == "gb18030" and found and found[-1][1] == "gbk"):
            found.append((judge(text), encoding, text))
    found.sort(key=lambda one: one[0], reverse=True)
    if found and found[0][0] >= 0.6 and (len(found) == 1 or found[0][0] - found[1][0] >= 0.1):
        return found[0][1:]
    asked = _ask_charset_normalizer(data, [encoding for score, encoding, _ in found if score >= 0.3])
    if asked is not None:
        return asked
    return found[0][1:] if found and found[0][0] >= 0.5 else None


def _try_decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _ask_charset_normalizer(data: bytes, likely: list[str]) -> tuple[str, str] | None:
    if not likely:
        return None
    from charset_normalizer import from_bytes  # slow to import, and most files are UTF-8

    best = from_bytes(data, cp_isolation=likely).best()
    text = None if best is None else _try_decode(data, best.encoding)
    return None if best is None or text is None else (best.encoding, text)


def _extract_non_ascii(text: str) -> str:
    return re.sub(r"[\x00-\x7f]+", "", text)[:_SAMPLE]


def _average(scores: list[float]) -> float:
    return sum(scores) / len(scores) if scores else 0.0


def _make_han_scorer(common: frozenset[str], first_level: str, low: int, high: int) -> Callable[[str], float]:
    """Judge Han text: frequent characters count full, those of the standard's first level half."""

    def score_han(text: str) -> float:
        scores: list[float] = []
        for char in _extract_non_ascii(text):
            if char in common or char in "、。，；：？！（）「」『』《》【】“”‘’—…":
                scores.append(1.0)
            elif "\u4e00" <= char <= "\u9fff":
                lead = char.encode(first_level, "ignore")[:1]
                scores.append(0.5 if lead and low <= lead[0] <= high else 0.1)
            else:
                scores.append(0.3 if "\uff00" <= char <= "\uff5e" else 0.0)
        return _average(scores)

    return score_han


def _score_japanese(text: str) -> float:
    scores: list[float] = []
    for char in _extract_non_ascii(text):
        if "\u3041" <= char <= "\u30fe" or char in _JAPANESE or char in "、。，．「」『』（）・！？：；〜ー":
            scores.append(1.0)
        elif "\u4e00" <= char <= "\u9fff":
            lead = char.encode("euc_jp", "ignore")[:1]
            scores.append(0.5 if lead and 0xB0 <= lead[0] <= 0xCF else 0.1)
        elif "\uff61" <= char <= "\uff9f":
            scores.append(0.2)
        else:
            scores.append(0.3 if "\uff00" <= char <= "\uff5e" or "\u3000" <= char <= "\u303f" else 0.0)
    return _average(scores)


def _score_korean(text: str) -> float:
    scores = [
        1.0
        if char in _KOREAN
        else 0.4
        if "\uac00" <= char <= "\ud7a3" and char.encode("euc_kr", "ignore")
        else 0.0
        for char in _extract_non_ascii(text)
    ]
    return _average(scores)


def _score_western(text: str) -> float:
    """Judge Latin text: accented letters stand alone among others, in the case of their neighbours."""
    scores: list[float] = []
    for found in re.finditer(r"[^\x00-\x7f]+", text):
        run = found.group()
        before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        scores += [_score_western_run(run, before, after)] * len(run)
        if len(scores) > _SAMPLE:
            break
    return _average(scores)


def _score_western_run(run: str, before: str, after: str) -> float:
    if any("\x80" <= char <= "\x9f" for char in run):
        return 0.0
    if all(char in "’‘“”–—…«»\u00a0•€°§©®£±µ·ºª" for char in run):
        return 0.8
    if len(run) > 2 or not all(char.isalpha() for char in run):
        return 0.1
    beside_letter = before.isalpha() or after.isalpha()
    fits_case = not (run[-1].isupper() and before.islower())
    if len(run) == 2:
        return 0.7 if beside_letter and run.islower() else 0.1
    return (0.95 if beside_letter else 0.65) if fits_case else 0.1


def _score_cyrillic(text: str) -> float:
    scores: list[float] = []
    for found in re.finditer(r"[^\x00-\x7f]+", text):
        run = found.group()
        letters = all("\u0400" <= char <= "\u045f" for char in run)
        natural = letters and (run.islower() or run.istitle() or (run.isupper() and len(run) < 5))
        lonely = len(run) < 3 and bool(re.match(r"[a-zA-Z]", text[found.end() : found.end() + 1]))
        scores += [0.1 if lonely or not natural else 0.9 if len(run) > 2 else 0.4] * len(run)
        if len(scores) > _SAMPLE:
            break
    return _average(scores)


_SCORERS: dict[str, Callable[[str], float]] = {
    "cp1252": _score_western,
    "cp932": _score_japanese,
    "euc_jp": _score_japanese,
    "gbk": _make_han_scorer(_SIMPLIFIED, "gb2312", 0xB0, 0xD7),
    "gb18030": _make_han_scorer(_SIMPLIFIED, "gb2312", 0xB0, 0xD7),
    "big5": _make_han_scorer(_TRADITIONAL, "big5", 0xA4, 0xC6),
    "cp949": _score_korean,
    "cp1251": _score_cyrillic,
    "koi8_r": _score_cyrillic,
}
"""Stateless encodings only: a piece of text has the same bytes wherever it stands."""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TO_WIDE = re.compile(rb"\x1b\$(?:[@AB]|\([DO-S]|\)[ACEG])")
"""The escapes of ISO-2022-JP, -KR and -CN to characters of two bytes."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text, the codec that gave it, and the byte order mark before it."""

    text: str
    encoding: str
    bom: bytes = b""


def decode(data: bytes) -> Decoded:
    """Decode a whole file. Never raises: what no encoding explains is kept byte by byte."""
    return (
        _decode_by_bom(data)
        or _decode_utf16(data)
        or _decode_iso2022(data)
        or _decode_strictly(data, "utf-8")
        or _decode_by_detection(data)
        or _decode_bytewise(data)
    )


def _decode_by_bom(data: bytes) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            decoded = _decode_strictly(data[len(mark) :], encoding)
            if decoded is not None:
                return Decoded(decoded.text, encoding, mark)
            if encoding == "utf-8":
                return Decoded(data[len(mark) :].decode("utf-8", "surrogateescape"), encoding, mark)
    return None


def _decode_iso2022(data: bytes) -> Decoded | None:
    """Recognise ISO-2022: all bytes are ASCII, and escapes tell what they mean. Only ASCII can be written."""
    if b"\x1b$" in data and _TO_WIDE.search(data) and data.isascii():
        return Decoded(data.decode("ascii"), "ascii")
    return None


def _decode_strictly(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        return None


def _decode_utf16(data: bytes) -> Decoded | None:
    """Recognise UTF-16 by its blanks and line ends: each has a zero byte, always on the same side."""
    if len(data) % 2 or b"\0" not in data:
        return None
    marks = data.count(b"\n") + data.count(b" ")
    for encoding in ("utf-16-le", "utf-16-be"):
        decoded = _decode_strictly(data, encoding)
        if decoded is None or "\0" in decoded.text:
            continue
        found = decoded.text.count("\n") + decoded.text.count(" ")
        latin = sum(char < "\u0250" for char in decoded.text)
        if found * 2 > marks or (not marks and latin * 2 > len(decoded.text)):
            return decoded
    return None


def _decode_by_detection(data: bytes) -> Decoded | None:
    if _is_damaged_utf8(data):
        return None
    found = detect(data)
    return None if found is None else Decoded(found[1], found[0])


def _is_damaged_utf8(data: bytes) -> bool:
    """Tell whether most characters that are not ASCII are sound UTF-8."""
    text = data.decode("utf-8", "surrogateescape")
    sound = sum(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in text)
    broken = sum("\udc80" <= char <= "\udcff" for char in text)
    return sound > broken


def _decode_bytewise(data: bytes) -> Decoded:
    """Keep each byte that is not ASCII by itself; beside them only UTF-8 stands where some already does."""
    text = data.decode("utf-8", "surrogateescape")
    has_sound = any(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in text)
    return Decoded(text, "utf-8" if has_sound else "ascii")
