"""Companies and people that do not exist, with all that a letterhead says of them."""

import random
import unicodedata
from dataclasses import dataclass

from demos.papers import numbers

FIRST = {
    "de": "Nordlicht Hansa Falken Rosental Kupfer Lindner Brandt Alster Isar Spree Eichen Morgenstern Weser Silber Bergmann Krüger Möller Sonnen".split(),
    "fr": "Lumière Dupont Girard Atlantique Moreau Bellevue Provence Chevalier Mirabeau Horizon Lefèvre Montclair Rivage Fontaine Armor Vallée".split(),
    "es": "Sierra Ibérica Ruiz Levante Castilla Monteverde Herrera Costa Olivar Delgado Meseta Cantábrica Torres Almendra Vega".split(),
    "it": "Bianchi Aurora Toscana Lombarda Ferrari Adriatica Rossetti Valtellina Marini Colosseo Moretti Brenta Gallo Ligure Conti".split(),
    "en": "Harbour Kestrel Thornbury Whitfield Redwood Granite Ashford Bluewater Lakeside Pemberton Stonebridge Oakmere Hillcrest Marlow Summit Cedar".split(),
    "zh": "华美 东方 金桥 长江 天和 新星 海润 宏达 明远 瑞丰".split(),
}  # fmt: skip
TRADE = {
    "de": "Werkzeuge|Maschinenbau|Logistik|Elektrotechnik|Druckerei|Möbel|Software|Gartenbau|Metallbau|Bürobedarf|Lebensmittel|Optik".split("|"),
    "fr": "Imprimerie|Équipements|Conseil|Transports|Menuiserie|Informatique|Bureautique|Traiteur|Énergie|Mécanique".split("|"),
    "es": "Talleres|Suministros|Construcciones|Informática|Maderas|Logística|Alimentos|Imprenta|Consultores".split("|"),
    "it": "Meccanica|Forniture|Legnami|Servizi|Tipografia|Trasporti|Impianti|Alimentari|Arredi".split("|"),
    "en": "Supplies|Engineering|Print Works|Consulting|Logistics|Tools|Office Systems|Joinery|Software|Instruments|Foods".split("|"),
    "zh": "贸易 科技 机械 电子 物流 印刷 办公用品".split(),
}  # fmt: skip
FORMS = {
    "DE": ("GmbH", "AG", "KG", "GmbH & Co. KG", "UG", "OHG"), "CH": ("AG", "GmbH"), "FR": ("SARL", "SAS", "S.A.", "S.A.R.L."),
    "ES": ("S.L.", "S.A.", "SL"), "IT": ("S.r.l.", "S.p.A.", "SRL"), "GB": ("Ltd", "Limited", "PLC", "LLP"),
    "US": ("Inc.", "LLC", "Corp."), "CN": ("有限公司",),
}  # fmt: skip
STREETS = {
    "DE": ("Hafenstraße", "Lindenweg", "Hauptstr.", "Am Markt", "Goethestraße", "Industriestr.", "Bahnhofsplatz", "Alte Gasse"),
    "CH": ("Bahnhofstrasse", "Seeweg", "Dorfstrasse"),
    "FR": ("rue de la Paix", "avenue Jean Jaurès", "boulevard Voltaire", "rue des Lilas", "place du Marché", "quai de la Gare"),
    "ES": ("Calle Mayor", "Avenida de la Paz", "Calle del Olivo", "Plaza de España", "Paseo del Prado"),
    "IT": ("Via Roma", "Via Garibaldi", "Corso Italia", "Viale dei Tigli", "Piazza Dante"),
    "GB": ("High Street", "Station Road", "Mill Lane", "Victoria Avenue", "Church Road", "Queens Drive"),
    "US": ("Main Street", "Oak Avenue", "Market Street", "Lakeview Drive", "Commerce Blvd"),
    "CN": ("中山路", "人民路", "南京路", "解放路"),
}  # fmt: skip
CITIES = {
    "DE": ("20457 Hamburg", "50667 Köln", "80331 München", "10115 Berlin", "01067 Dresden", "70173 Stuttgart", "28195 Bremen"),
    "CH": ("8001 Zürich", "3011 Bern", "4051 Basel"),
    "FR": ("75008 Paris", "69002 Lyon", "33000 Bordeaux", "44000 Nantes", "31000 Toulouse", "59800 Lille"),
    "ES": ("28013 Madrid", "08002 Barcelona", "41001 Sevilla", "46003 Valencia", "48005 Bilbao"),
    "IT": ("20121 Milano (MI)", "10123 Torino (TO)", "00184 Roma", "40126 Bologna (BO)", "50122 Firenze (FI)"),
    "GB": ("London EC2A 4NE", "Leeds LS1 5PD", "Bristol BS1 4ST", "Manchester M2 5DB", "York YO1 7HH"),
    "US": ("Austin, TX 78701", "Portland, OR 97205", "Denver, CO 80202", "Boston, MA 02110", "Columbus, OH 43215"),
    "CN": ("上海市浦东新区", "北京市朝阳区", "深圳市南山区", "杭州市西湖区"),
}  # fmt: skip
DIALS = {"DE": "+49 40", "CH": "+41 44", "FR": "+33 1", "ES": "+34 91", "IT": "+39 02", "GB": "+44 20", "US": "+1 512", "CN": "+86 21"}
PEOPLE = {
    "de": ("Anna Schreiber", "Jonas Winter", "Petra Vogt"), "fr": ("Claire Fournier", "Marc Lambert", "Élise Perrin"),
    "es": ("Lucía Navarro", "Pablo Ortega", "Elena Prieto"), "it": ("Giulia Ricci", "Paolo Serra", "Marta Villa"),
    "en": ("Helen Carter", "David Moss", "Laura Finch"), "zh": ("王伟", "李娜", "张敏"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Company:
    name: str
    country: str
    street: str
    city: str
    vat: str
    register: str
    iban: str
    bic: str
    email: str
    phone: str
    web: str

    @property
    def lines(self) -> list[str]:
        return [self.city + self.street] if self.country == "CN" else [self.street, self.city]

    @property
    def address(self) -> str:
        return self.city + self.street if self.country == "CN" else f"{self.street}, {self.city}"


def company(chance: random.Random, language: str, country: str) -> Company:
    first, trade = chance.choice(FIRST[language]), chance.choice(TRADE[language])
    form = chance.choice(FORMS[country])
    name = f"{first} {trade} {form}"
    if country == "CN":
        name = f"{chance.choice(('上海', '北京', '深圳', '杭州'))}{first}{trade}{form}"
    elif country == "GB" and chance.random() < 0.3:
        name = f"{first} & {chance.choice(FIRST[language])} {form}"
    house = chance.randint(2, 180)
    street = chance.choice(STREETS[country])
    street = f"{street}{house}号" if country == "CN" else f"{house} {street}" if country in ("GB", "US", "FR") else f"{street} {house}"
    host = f"{_ascii(first)}-{_ascii(trade.split()[0])}" if country != "CN" else f"firm{chance.randint(100, 999)}"
    ending = {"DE": "de", "CH": "ch", "FR": "fr", "ES": "es", "IT": "it", "GB": "co.uk", "US": "com", "CN": "cn"}[country]
    web = f"{host}.example.{ending}" if chance.random() < 0.2 else f"{host}.{ending}"
    phone = f"{DIALS[country]} {chance.randint(2000, 9999)} {chance.randint(100, 9999)}"
    money = country in ("DE", "CH", "FR", "ES", "IT", "GB")
    return Company(
        name, country, street, chance.choice(CITIES[country]),
        vat=numbers.VAT[country](chance) if country in numbers.VAT else "",
        register=_register(chance, country),
        iban=numbers.iban(chance, country) if money else "", bic=numbers.bic(chance, country) if money else "",
        email=f"{chance.choice(('info', 'office', 'accounts', 'contact'))}@{web}", phone=phone, web=f"www.{web}",
    )  # fmt: skip


def _register(chance: random.Random, country: str) -> str:
    if country == "DE":
        return f"HRB {chance.randint(1000, 199999)}"
    if country == "GB":
        return f"0{chance.randint(1000000, 9999999)}"
    if country == "FR":
        siren = f"{chance.randint(300, 899)} {chance.randint(100, 999)} {chance.randint(100, 999)}"
        return f"RCS {chance.choice(('Paris', 'Lyon', 'Nantes'))} {siren}"
    return ""


def _ascii(word: str) -> str:
    bare = unicodedata.normalize("NFKD", word.replace("ü", "ue").replace("ö", "oe"))
    return "".join(sign for sign in bare if sign.isascii() and sign.isalnum()).lower()
