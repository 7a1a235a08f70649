"""Write names of other alphabets in Latin letters, roughly as English texts do."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ё": "e", "ж": "zh", "з": "z", "и": "i", "й": "y",
    "к": "k",
    "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
    "ц": "ts",
    "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya", "і": "i",
    "ї": "yi", "є": "ye",
    "ґ": "g", "ў": "u", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c", "ђ": "dj", "џ": "dz", "ѓ": "g", "ќ": "k",
    "ѕ": "dz", "қ": "k",
    "ғ": "g", "ә": "a", "ө": "o", "ұ": "u", "ү": "u", "ң": "n", "һ": "h",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m",
    "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f", "χ": "ch",
    "ψ": "ps",
    "ω": "o",
}  # fmt: skip
_GEORGIAN = {
    "ა": "a", "ბ": "b", "გ": "g", "დ": "d", "ე": "e", "ვ": "v", "ზ": "z", "თ": "t", "ი": "i", "კ": "k", "ლ": "l",
    "მ": "m", "ნ": "n", "ო": "o", "პ": "p", "ჟ": "zh", "რ": "r", "ს": "s", "ტ": "t", "უ": "u", "ფ": "p", "ქ": "k",
    "ღ": "gh", "ყ": "q", "შ": "sh", "ჩ": "ch", "ც": "ts", "ძ": "dz", "წ": "ts", "ჭ": "ch", "ხ": "kh", "ჯ": "j",
    "ჰ": "h",
}  # fmt: skip
_ARMENIAN = {
    "ա": "a", "բ": "b", "գ": "g", "դ": "d", "ե": "e", "զ": "z", "է": "e", "ը": "y", "թ": "t", "ժ": "zh", "ի": "i",
    "լ": "l", "խ": "kh", "ծ": "ts", "կ": "k", "հ": "h", "ձ": "dz", "ղ": "gh", "ճ": "ch", "մ": "m", "յ": "y", "ն": "n",
    "շ": "sh", "ո": "o", "չ": "ch", "պ": "p", "ջ": "j", "ռ": "r", "ս": "s", "վ": "v", "տ": "t", "ր": "r", "ց": "ts",
    "ւ": "v", "փ": "p", "ք": "k", "օ": "o", "ֆ": "f", "և": "ev",
}  # fmt: skip
_CONSONANTS_ONLY = {
    "ب": "b", "پ": "b", "ت": "t", "ث": "t", "ج": "j", "چ": "s", "ح": "h", "خ": "x", "د": "d", "ذ": "d", "ر": "r",
    "ز": "z", "ژ": "j", "س": "s", "ش": "s", "ص": "s", "ض": "d", "ط": "t", "ظ": "z", "غ": "k", "ف": "f", "ق": "k",
    "ک": "k", "گ": "k", "ل": "l", "م": "m", "ن": "n", "ه": "h", "ھ": "h", "ٹ": "t", "ڈ": "d", "ڑ": "r", "ں": "n",
    "ב": "b", "ג": "k", "ד": "d", "ה": "h", "ז": "z", "ח": "h", "ט": "t", "כ": "k", "ך": "k", "ל": "l", "מ": "m",
    "ם": "m", "נ": "n", "ן": "n", "ס": "s", "פ": "f", "ף": "f", "צ": "s", "ץ": "s", "ק": "k", "ר": "r", "ש": "s",
    "ת": "t",
}  # fmt: skip
"""Arabic, Persian and Hebrew write few vowels. Letters that stand for vowels are left out."""
_CONSONANT_SPELLINGS = (
    ("tch", "s"), ("sch", "s"), ("sh", "s"), ("ch", "s"), ("kh", "x"), ("gh", "k"), ("th", "t"), ("dh", "d"),
    ("ph", "f"), ("zh", "j"), ("dj", "j"), ("ck", "k"), ("tz", "s"), ("ts", "s"), ("q", "k"), ("g", "k"), ("ce", "se"),
    ("ci", "si"), ("c", "k"), ("p", "b"), ("v", ""), ("w", ""),
)  # fmt: skip
_SILENT = re.compile("[aeiouy]+|(?<=.)h")
_SAME_VOWELS = (
    ("ou", "u"), ("oo", "u"), ("eo", "u"), ("eu", "u"), ("ee", "i"), ("ei", "ai"), ("ey", "ai"), ("ay", "ai"),
    ("e", "i"), ("y", "i"), ("j", "i"), ("o", "u"), ("w", "v"),
)  # fmt: skip
_GREEK_PAIRS = (("ου", "ou"), ("αυ", "av"), ("ευ", "ev"), ("γγ", "ng"), ("γκ", "gk"), ("μπ", "b"), ("ντ", "nt"))
_LETTERS = str.maketrans(_CYRILLIC | _GREEK | _GEORGIAN | _ARMENIAN)
_LOOKALIKES = str.maketrans("aceopxyikhmtb", "асеорхуікнмтв")
"""Latin letters that slip into Cyrillic words."""
_GEORGIAN_OR_ARMENIAN, _SEMITIC = re.compile("[Ա-֏ა-ჿ]"), re.compile("[א-ת؀-ۿ]")
_LATIN, _CYRILLIC_LETTER, _GREEK_LETTER = re.compile("[a-z]"), re.compile("[Ѐ-ӿ]"), re.compile("[Ͱ-Ͽ]")

_KANA_ROWS = (
    ("", "アイウエオ"), ("k", "カキクケコ"), ("g", "ガギグゲゴ"), ("s", "サシスセソ"), ("z", "ザジズゼゾ"), ("t",
    "タチツテト"),
    ("d", "ダヂヅデド"), ("n", "ナニヌネノ"), ("h", "ハヒフヘホ"), ("b", "バビブベボ"), ("p", "パピプペポ"), ("m",
    "マミムメモ"),
    ("r", "ラリルレロ"), ("v", ("ヴァ", "ヴィ", "ヴ", "ヴェ", "ヴォ")),
)  # fmt: skip
_KANA = {kana: row + vowel for row, kanas in _KANA_ROWS for kana, vowel in zip(kanas, "aiueo", strict=True)} | {
    "ヤ": "ya", "ユ": "yu", "ヨ": "yo", "ワ": "wa", "ヲ": "o", "ン": "n", "シ": "shi", "チ": "chi", "ツ": "tsu",
    "フ": "fu", "ジ": "ji",
    "ー": "", "ッ": "", "ファ": "fa", "フィ": "fi", "フェ": "fe", "フォ": "fo", "ティ": "ti", "ディ": "di",
    "ウィ": "wi", "ウェ": "we",
    "ウォ": "wo", "シェ": "she", "ジェ": "je", "チェ": "che", "デュ": "du", "トゥ": "tu",
}  # fmt: skip
_SMALL = {"ャ": "ya", "ュ": "yu", "ョ": "yo"}
_SMALL_TO_LARGE = str.maketrans("ァィゥェォッャュョヮヵヶ", "アイウエオツヤユヨワカケ")
_HIRAGANA_TO_KATAKANA = {code: code + 0x60 for code in range(0x3041, 0x3097)}
_JAPANESE_HAN = str.maketrans(
    "沢広桜辺竜斎浜黒亜円塩駅沖鉄売気検県済経継応関権実証総発団図対帯戦変満労栄営覚楽薬様転伝単価仮渋滝薗蔵豊児壱弐収巣徳"
    "恵戸斉渓焼獣産粋縄芸拡処浅帰両臓艶聡賛",
    "泽广樱边龙斋滨黑亚圆盐驿冲铁卖气检县济经继应关权实证总发团图对带战变满劳荣营觉乐药样转传单价假涩泷园藏丰儿一二收巢德"
    "惠户齐溪烧兽产粹绳艺扩处浅归两脏艳聪赞",
)
"""Japanese characters whose traditional form has another simplified one in China: 沢 is 澤 is 泽."""
_KANA_ONLY = re.compile("[ァ-ヺー]+")

_INITIALS = ("g", "kk", "n", "d", "tt", "r", "m", "b", "pp", "s", "ss", "", "j", "jj", "ch", "k", "t", "p", "h")
_VOWELS = (
    "a", "ae", "ya", "yae", "eo", "e", "yeo", "ye", "o", "wa", "wae", "oe", "yo", "u", "wo", "we", "wi", "yu", "eu",
    "ui", "i",
)  # fmt: skip
_FINALS = (
    "", "k", "k", "k", "n", "n", "n", "t", "l", "k", "m", "p", "l", "l", "p", "l", "m", "p", "p", "t", "t", "ng",
    "t", "t", "k",
    "t", "p", "t",
)  # fmt: skip

_SKELETON = (
    ("shch", "s"), ("tsch", "4"), ("sch", "s"), ("zh", "z"), ("kh", "h"), ("sh", "s"), ("ch", "4"), ("ph", "f"),
    ("th", "t"),
    ("gh", "g"), ("ck", "k"), ("ts", "5"), ("tz", "5"), ("ce", "5e"), ("ci", "5i"), ("cy", "5y"), ("c", "k"), ("x",
    "ks"),
    ("q", "k"), ("w", "v"), ("ou", "u"), ("ae", "a"), ("oe", "o"), ("ue", "u"), ("iy", "i"), ("yi", "i"), ("ij", "i"),
    ("ii", "i"), ("yy", "i"), ("ye", "e"), ("ie", "e"), ("je", "e"), ("yo", "e"), ("y", "i"), ("j", "i"), ("h", ""),
)  # fmt: skip
_DOUBLED = re.compile(r"(.)\1+")


def latin(word: str) -> str:
    """Return a folded word in Latin letters. Words of alphabets without a table stay as they are."""
    if word.isascii():
        return word
    if _CYRILLIC_LETTER.search(word):
        if _LATIN.search(word):
            word = word.translate(_LOOKALIKES)
        return word.translate(_LETTERS)
    if _GREEK_LETTER.search(word):
        for pair, letters in _GREEK_PAIRS:
            word = word.replace(pair, letters)
        return word.translate(_LETTERS)
    if _GEORGIAN_OR_ARMENIAN.search(word):
        return word.translate(_LETTERS)
    return word


@lru_cache(maxsize=50_000)
def consonants(word: str) -> str:
    """Return the consonants of a word, as far as the ways to write Arabic and Hebrew names agree on them.

    Takes Latin, Arabic or Hebrew letters: hussein, hossein and حسین are all hsn.
    """
    if not word.isascii():
        bare = word.removeprefix("ال") if len(word) > 4 else word
        heard = [_CONSONANTS_ONLY.get(letter, "") for letter in bare]
        return "".join(heard[:1]) + "".join(heard[1:]).replace("h", "")
    word = _DOUBLED.sub(r"\1", word)
    for letters, plain in _CONSONANT_SPELLINGS:
        if letters in word:
            word = word.replace(letters, plain)
    return _SILENT.sub("", word)


def is_semitic(word: str) -> bool:
    """Tell whether a word is written in Arabic or Hebrew letters."""
    return bool(_SEMITIC.search(word))


@lru_cache(maxsize=50_000)
def vowels_merged(skeleton_of_word: str) -> str:
    """Return a skeleton with one vowel for those that spellings exchange: yusuf and yousof."""
    for letters, plain in _SAME_VOWELS:
        if letters in skeleton_of_word:
            skeleton_of_word = skeleton_of_word.replace(letters, plain)
    return _DOUBLED.sub(r"\1", skeleton_of_word)


def pinyin(text: str) -> tuple[str, ...]:
    """Return the syllables of a text in Chinese characters; empty if one of them is not known."""
    known = _han_readings()
    found = tuple(known.get(letter, "") for letter in text)
    return found if all(found) else ()


@cache
def _han_readings() -> Mapping[str, str]:
    table = tomllib.loads((files(__package__) / "han_readings.toml").read_text("utf-8"))["pinyin"]
    return {letter: syllable for syllable, letters in table.items() for letter in letters}


def folded_japanese(text: str) -> str:
    """Return a text with one kind of kana, and one character for its Japanese and Chinese forms.

    キヤノン is spoken キャノン, and 沢 is 泽.
    """
    return (
        text.translate(_JAPANESE_HAN)
        .translate(_HIRAGANA_TO_KATAKANA)
        .translate(_SMALL_TO_LARGE)
        .replace("ー", "")
        .replace("ヴア", "バ")
    )


def spoken(text: str) -> str:
    """Return a word of kana or Hangul alone in Latin letters; empty for any other."""
    text = text.translate(_HIRAGANA_TO_KATAKANA)
    if _KANA_ONLY.fullmatch(text):
        return _kana(text)
    if text and all("가" <= letter <= "힣" for letter in text):
        return "".join(map(_hangul, text))
    return ""


@lru_cache(maxsize=50_000)
def skeleton(word: str) -> str:
    """Return what is left of a word in Latin letters when the ways to transliterate it are made one."""
    for letters, plain in _SKELETON:
        if letters in word:
            word = word.replace(letters, plain)
    return _DOUBLED.sub(r"\1", word)


def _kana(text: str) -> str:
    letters, place = list[str](), 0
    while place < len(text):
        pair, single = text[place : place + 2], text[place]
        if len(pair) == 2 and pair[1] in _SMALL and single in _KANA:
            letters.append(_KANA[single][:-1] + _SMALL[pair[1]])
            place += 2
        elif pair in _KANA:
            letters.append(_KANA[pair])
            place += 2
        else:
            letters.append(_KANA.get(single) or _KANA.get(folded_japanese(single), ""))
            place += 1
    return "".join(letters)


def _hangul(letter: str) -> str:
    place = ord(unicodedata.normalize("NFC", letter)) - ord("가")
    return _INITIALS[place // 588] + _VOWELS[place % 588 // 28] + _FINALS[place % 28]
