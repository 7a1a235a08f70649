"""Takes what the slice needs from Natural Earth and CLDR, into `countries.jsonl` and `states.jsonl` beside this file.

Only for whoever renews these files: it needs `pip install rdata pandas babel`, and the unpacked Debian package
r-cran-rnaturalearthdata (1.0.0).

    python -m tools.knowledge_slice.extract …/rnaturalearthdata/data/Rdata
"""

import bz2
import importlib
import json
import lzma
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STATE_LANGUAGES = ["de", "es", "fr", "it", "ja", "pt", "ru", "zh"]
LANGUAGES = [*STATE_LANGUAGES, "ar", "el", "fa", "he", "hi", "hu", "id", "ko", "nl", "pl", "sv", "tr", "uk", "vi"]
STATES = {"United States of America", "Canada", "Australia"}
DEPENDENCIES = {"GL", "PR", "BM", "GU", "AW", "CW", "FO", "PF", "NC", "KY"}
CONTINENTS = {
    "RU": ["Europe", "Asia"], "TR": ["Asia", "Europe"], "KZ": ["Asia", "Europe"], "EG": ["Africa", "Asia"],
    "MV": ["Asia"], "MU": ["Africa"], "SC": ["Africa"], "CY": [], "GE": [], "AM": [], "AZ": [],
}  # fmt: skip
"""Continents where Natural Earth differs, or geographers disagree."""


def main() -> None:
    rdata = importlib.import_module("rdata")
    base = Path(sys.argv[1])
    index = rdata.read_rds(base.with_suffix(".rdx"))
    raw = base.with_suffix(".rdb").read_bytes()

    def table(name: str) -> list[dict[str, Any]]:
        start, length = map(int, index["variables"][name])
        parsed = rdata.parser.parse_data(_unpacked(raw[start : start + length]))
        frame = rdata.conversion.convert(parsed)
        kept = [str(column) for column in frame.columns if str(column) != "geometry"]
        return [
            {key: None if str(value) in ("<NA>", "nan") else value for key, value in row.items()}
            for row in frame[kept].to_dict("records")
        ]

    _save("countries.jsonl", [_country(row) for row in table("countries50") if _is_country(row)])
    _save("states.jsonl", [_state(row) for row in table("states50") if row["admin"] in STATES])


def _is_country(row: dict[str, Any]) -> bool:
    return len(row["iso_a2_eh"] or "") == 2 and (
        row["type"] in ("Sovereign country", "Country", "Sovereignty")
        or row["iso_a2_eh"] in DEPENDENCIES
        or row["iso_a2_eh"] in ("XK", "PS", "IL")
    )


def _country(row: dict[str, Any]) -> dict[str, Any]:
    languages = importlib.import_module("babel.languages")
    numbers = importlib.import_module("babel.numbers")
    english = importlib.import_module("babel").Locale("en")
    code = row["iso_a2_eh"]
    spoken = [tag.split("_")[0] for tag in languages.get_official_languages(code, regional=False, de_facto=True)]
    money = numbers.get_territory_currencies(code, tender=True)
    return {
        "code": code,
        "name": row["name_en"],
        "formal": row["formal_en"],
        "wikidata": row["wikidataid"],
        "continent": CONTINENTS.get(code, [row["continent"]]),
        "languages": [english.languages[tag] for tag in dict.fromkeys(spoken) if tag in english.languages],
        "currencies": [english.currencies[tag] for tag in money if tag != "BTC"],
        "names": _names(row, LANGUAGES),
    }


def _state(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "country": row["admin"],
        "kind": row["type_en"],
        "wikidata": row["wikidataid"],
        "names": _names(row, STATE_LANGUAGES),
    }


def _names(row: dict[str, Any], languages: list[str]) -> list[str]:
    return list(dict.fromkeys(row[f"name_{tag}"] for tag in languages if row.get(f"name_{tag}")))


def _unpacked(data: bytes) -> bytes:
    """Unpack R's three formats: a length, and a letter unless it is zlib."""
    struct.unpack(">I", data[:4])
    match data[4:5]:
        case b"Z":
            return lzma.decompress(data[5:], lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
        case b"2":
            return bz2.decompress(data[5:])
    return zlib.decompress(data[4:])


def _save(name: str, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in sorted(rows, key=lambda row: str(row["name"]))]
    (HERE / name).write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
