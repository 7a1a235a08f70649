"""Write sheets. Every field that goes onto a sheet is recorded as an expected answer."""

import random
from datetime import date, timedelta
from decimal import Decimal

from demos.papers import numbers
from demos.papers.companies import Company, company
from demos.papers.formats import Locale, locale
from demos.papers.goods import Basket
from demos.papers.paper import Sheet
from demos.papers.wording import Words
from demos.papers.world import words

# Which thing of the wording names which field.
FIELDS = {
    "po_date": "issue_date", "plain_date": "issue_date", "net": "net_amount", "tax": "tax_amount",
    "total": "total_amount", "ship_to": "delivery_address", "vat": "vat_id", "register": "register_number",
    "start": "effective_date", "end": "end_date", "value": "total_amount", "law": "governing_law",
    "notice": "notice_period", "terms": "payment_terms", "method": "payment_method", "columns": "line_items",
    "your_vat": "buyer_vat_id",
}  # fmt: skip


class Writer:
    def __init__(self, chance: random.Random, doc_type: str, language: str, country: str, *, held_out: bool) -> None:
        self.chance, self.words = chance, Words(chance, language, held_out=held_out)
        self.local: Locale = locale(chance, language, country)
        self.sheet = Sheet(doc_type, language, title=self.words(f"title_{doc_type}"))
        self.me = self.you = company(chance, language, country)
        while self.you.name == self.me.name:
            self.you = company(chance, language, country)
        self.sheet.mail = (self.me.email, self.you.email)
        self.today = date(2026, 1, 5) + timedelta(days=chance.randint(0, 330))

    def day(self, key: str, after: int = 0) -> None:
        day = self.today + timedelta(days=after)
        self.pair(key, self.local.write_date(day), day.isoformat())

    def pair(self, key: str, text: str, value: object) -> None:
        self.sheet.meta.append((self.words(key), text))
        self.sheet.expected[FIELDS.get(key, key)] = value

    def number(self, key: str, prefixes: str) -> str:
        prefix = self.chance.choice(prefixes.split())
        text = prefix.format(
            year=self.today.year, n=self.chance.randint(1000, 99999), short=self.chance.randint(100, 999)
        )
        self.pair(key, text, text)
        return text

    def amount(self, value: Decimal) -> dict[str, str]:
        return {"amount": f"{value:.2f}", "currency": self.local.currency}

    def total(self, key: str, value: Decimal, rate: Decimal | None = None) -> None:
        label = self.words(key).format(
            rate=str(rate).replace(".", "," if self.local.country in ("DE", "FR", "ES", "IT") else ".")
        )
        self.sheet.totals.append((label, self.local.write_amount(value)))
        self.sheet.expected[FIELDS[key]] = self.amount(value)

    def distract(self) -> None:
        """Add other dates and labelled values."""
        if self.chance.random() < 0.5:
            day = self.today - timedelta(days=self.chance.randint(5, 40))
            self.sheet.meta.insert(
                self.chance.randint(0, len(self.sheet.meta)), (self.words("distract_date"), self.local.write_date(day))
            )
        if self.chance.random() < 0.5:
            self.sheet.meta.append(
                (self.words("distract_text"), self.chance.choice(words("people", self.local.language)))
            )

    def sides(self, mine: str, yours: str, *, my_label: str, your_label: str) -> None:
        """Add both companies, as fields of these names."""
        me, you = self.me, self.you
        self.sheet.sender, self.sheet.recipient = [me.name, *me.lines], [you.name, *you.lines]
        self.sheet.sender_label, self.sheet.recipient_label = self.words(my_label), self.words(your_label)
        self.sheet.expected |= {
            mine: me.name,
            f"{mine}_address": me.address,
            yours: you.name,
            f"{yours}_address": you.address,
        }

    def contact(self, *, bank: bool) -> None:
        """Add phone and mail below the letterhead, bank and registers in the footer."""
        me, words, expected = self.me, self.words, self.sheet.expected
        self.sheet.contact = [f"{words('phone')}: {me.phone}", f"{words('email')}: {me.email}"]
        expected |= {"phone": me.phone, "email": me.email}
        registers = [me.web]
        if me.vat:
            registers.append(f"{words('vat')} {self.vat_text(me)}")
            expected["vat_id"] = me.vat
        if me.register:
            known = me.register.startswith("RCS")
            registers.append(me.register if known else f"{words('register')} {me.register}")
            expected["register_number"] = me.register
        self.sheet.footer = [[me.name, *me.lines], registers]
        if bank and me.iban:
            self.sheet.footer.insert(1, self.accounts())

    def vat_text(self, owner: Company) -> str:
        country, rest = owner.vat[:2], owner.vat[2:]
        if country == "CH":
            return f"CHE-{rest[1:4]}.{rest[4:7]}.{rest[7:]}"
        return f"{country} {rest}" if self.chance.random() < 0.3 else owner.vat

    def accounts(self) -> list[str]:
        me, words, expected = self.me, self.words, self.sheet.expected
        lines = [
            f"{words('bank')}: {self.chance.choice(('Marktbank', 'Nova Bank', 'Unionbank'))}",
            f"{words('iban')}: {numbers.grouped(me.iban)}",
            f"{words('bic')}: {me.bic}",
        ]
        expected |= {"iban": [me.iban], "bic": [me.bic]}
        if self.chance.random() < 0.25:
            second = numbers.iban(self.chance, self.local.country)
            lines.append(f"{words('iban')}: {numbers.grouped(second)}")
            expected["iban"] = [me.iban, second]
        return lines

    def table(self, goods: Basket, *, priced: bool = True) -> None:
        columns = self.words("columns").split(",")
        number = self.local.write_number
        keys = ("description", "quantity", "price", "total") if priced else ("description", "quantity")
        for item in goods.items:
            cells = [item.name + (f"\n{item.detail}" if item.detail else ""), str(item.quantity)]
            self.sheet.rows.append([*cells, number(item.price), number(item.total)] if priced else cells)
        self.sheet.columns = columns[: len(keys)]
        self.sheet.expected["line_items"] = [
            dict(zip(keys, (cell.replace("\n", " ") for cell in row), strict=True)) for row in self.sheet.rows
        ]

    def sums(self, goods: Basket) -> None:
        self.total("net", goods.net)
        self.total("tax", goods.tax, goods.rate)
        self.total("total", goods.total)
        self.sheet.expected["tax_rate"] = str(goods.rate.normalize()) if goods.rate % 1 else str(int(goods.rate))

    def terms(self) -> None:
        if self.chance.random() < 0.5 or self.local.language == "zh":
            self.pair("terms", text := self.words("terms_value"), text)
        else:
            self.sheet.outro.append(text := self.words("terms_sentence"))
            self.sheet.expected["payment_terms"] = text

    def done(self) -> Sheet:
        self.sheet.unseen = [FIELDS.get(key, key) for key in sorted(self.words.unseen)]
        return self.sheet
