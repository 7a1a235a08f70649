"""Generate sheets of every type, with their fields."""

from collections.abc import Callable, Mapping
from decimal import Decimal

from demos.papers import numbers
from demos.papers.companies import company
from demos.papers.goods import basket
from demos.papers.paper import Sheet
from demos.papers.world import text as text_of
from demos.papers.world import words
from demos.papers.writer import Writer


def invoice(it: Writer) -> Sheet:
    goods = basket(it.chance, it.local.language, it.local.country)
    it.sides("seller", "buyer", my_label="seller", your_label="buyer")
    it.contact(bank=True)
    it.number("invoice_number", "RE-{year}-{n} INV-{n} {year}/{n} F{n} {n} R{year}.{short}")
    it.day("issue_date")
    if it.chance.random() < 0.6:
        it.day("due_date", it.chance.choice((14, 30, 45)))
    if it.chance.random() < 0.4:
        it.day("delivery_date", -it.chance.randint(1, 9))
    if it.chance.random() < 0.5:
        it.number("order_number", "PO-{n} {n} B{short}-{n} 45{n}")
    if it.chance.random() < 0.5:
        it.number("customer_number", "K-{n} {n} C{short}")
    if it.you.vat and it.chance.random() < 0.25:
        it.pair("your_vat", it.you.vat, it.you.vat)
    it.distract()
    it.table(goods)
    it.sums(goods)
    it.terms()
    it.sheet.intro, it.sheet.outro = (
        [text_of("intro", it.local.language)],
        [*it.sheet.outro, text_of("thanks", it.local.language)],
    )
    return it.done()


def purchase_order(it: Writer) -> Sheet:
    goods = basket(it.chance, it.local.language, it.local.country)
    it.sides("buyer", "seller", my_label="buyer", your_label="seller")
    it.contact(bank=False)
    it.number("order_number", "PO-{n} PO{year}{short} {year}-{n} {n}")
    it.day("po_date")
    if it.chance.random() < 0.7:
        it.day("delivery_date", it.chance.randint(10, 40))
    if it.chance.random() < 0.5:
        place = company(it.chance, it.local.language, it.local.country)
        it.sheet.others.append((it.words("ship_to"), [it.me.name, *place.lines]))
        it.sheet.expected["delivery_address"] = place.address
    it.distract()
    it.table(goods)
    it.sums(goods)
    it.terms()
    it.sheet.outro.append(text_of("order", it.local.language))
    return it.done()


def delivery_note(it: Writer) -> Sheet:
    it.sides("seller", "buyer", my_label="seller", your_label="buyer")
    it.contact(bank=False)
    it.number("delivery_note_number", "LS-{n} DN{year}{short} {n}")
    it.day("plain_date")
    it.number("order_number", "PO-{n} {n} 45{n}")
    it.day("delivery_date", it.chance.randint(1, 9))
    if it.chance.random() < 0.6:
        code = numbers.ean13(it.chance)
        it.sheet.meta.append((it.words("ean"), code))
        it.sheet.expected["gtin"] = [code]
    it.table(basket(it.chance, it.local.language, it.local.country), priced=False)
    return it.done()


def receipt(it: Writer) -> Sheet:
    goods = basket(it.chance, it.local.language, it.local.country)
    me = it.me
    it.sheet.sender = [me.name, *me.lines]
    it.sheet.contact = [f"{it.words('phone')}: {me.phone}"]
    it.sheet.expected |= {"seller": me.name, "seller_address": me.address, "phone": me.phone}
    if me.vat:
        it.sheet.contact.append(f"{it.words('vat')} {me.vat}")
        it.sheet.expected["vat_id"] = me.vat
    it.number("receipt_number", "{n} R-{n} {short}-{n}")
    it.day("plain_date")
    it.table(goods)
    it.sums(goods)
    text = it.words("method_value")
    it.sheet.totals.append((it.words("method"), text))
    it.sheet.expected["payment_method"] = text
    it.sheet.outro = [text_of("thanks", it.local.language)]
    return it.done()


def contract(it: Writer) -> Sheet:
    me, you, local = it.me, it.you, it.local
    it.sheet.expected["parties"] = [you.name, me.name]
    one, other = f"{you.name}, {you.address}", f"{me.name}, {me.address}"
    sides = {"one": one, "other": other, "a": it.words("party_a"), "b": it.words("party_b")}
    it.sheet.intro = [text_of("between", local.language).format(**sides)]
    it.number("contract_number", "V-{year}-{short} C{n} {n}/{year}")
    it.day("plain_date")
    it.day("start", 20)
    it.day("end", 20 + 365 * it.chance.randint(1, 3))
    value = Decimal(it.chance.randint(10, 900)) * 100
    it.sheet.meta.append((it.words("value"), local.write_amount(value)))
    it.sheet.expected["total_amount"] = it.amount(value)
    it.pair("notice", text := it.chance.choice(words("notices", local.language)), text)
    it.pair("law", text := text_of("laws", local.country), text)
    if it.chance.random() < 0.4:
        code = numbers.lei(it.chance)
        it.sheet.meta.append((it.words("lei"), code))
        it.sheet.expected["lei"] = [code]
    it.sheet.outro = list(words("clauses", local.language))
    return it.done()


def letter(it: Writer) -> Sheet:
    it.sides("sender", "recipient", my_label="seller", your_label="buyer")
    it.sheet.sender_label = it.sheet.recipient_label = ""
    it.contact(bank=it.chance.random() < 0.5)
    it.number("reference", "{short}/{n} AZ-{n} MK-{short}")
    if it.chance.random() < 0.5:
        it.day("plain_date")
    else:
        town = {"CN": "上海", "US": "Austin", "GB": "London"}.get(
            it.local.country, it.me.city.split(" ", 1)[-1].split(" (")[0]
        )
        it.sheet.meta.append(("", f"{town}, {it.local.write_date(it.today)}"))
        it.sheet.expected["issue_date"] = it.today.isoformat()
    subject = it.chance.choice(words("subjects", it.local.language))
    if it.chance.random() < 0.6:
        it.sheet.intro.append(f"{it.words('subject')}: {subject}")
    else:
        it.sheet.intro.append(subject)
    it.sheet.expected["subject"] = subject
    it.sheet.intro += words("letters", it.local.language)
    return it.done()


SHEETS: Mapping[str, Callable[[Writer], Sheet]] = {
    "invoice": invoice,
    "purchase_order": purchase_order,
    "delivery_note": delivery_note,
    "receipt": receipt,
    "contract": contract,
    "letter": letter,
}
