"""Letters and tables in many languages, each with the encodings in which programs still write it."""

Sample = tuple[str, list[str]]

LETTERS: dict[str, Sample] = {
    "German": (
        "Sehr geehrte Damen und Herren, für die Lieferung vom 3. März berechnen wir Ihnen 1.190,50 €. "
        "Bitte überweisen Sie den Betrag bis spätestens 30. April auf unser Konto. "
        "Mit freundlichen Grüßen, Jürgen Weiß",
        ["cp1252", "iso8859-15", "cp850", "mac_roman"],
    ),
    "French": (
        "Veuillez trouver ci-joint la facture n° 2024-118 d'un montant de 1 250,00 €, payable à réception. "
        "Le règlement peut être effectué par virement bancaire. Société Générale, siège social à Orléans.",
        ["cp1252", "iso8859-15", "cp850", "mac_roman"],
    ),
    "Spanish": (
        "Estimado señor Muñoz: adjuntamos la factura número 77 correspondiente al mes de enero. "
        "El importe total asciende a 845,20 euros. ¿Podría confirmar la recepción? Atentamente, José Ibáñez, Málaga",
        ["cp1252", "iso8859-1", "cp850", "mac_roman"],
    ),
    "Swedish": (
        "Betalningsvillkor: 30 dagar. Vänligen ange fakturanummer när ni betalar. Vid försenad betalning debiteras "
        "dröjsmålsränta. Företaget är godkänt för F-skatt. Åsa Öberg, Göteborg",
        ["cp1252", "iso8859-1", "cp850"],
    ),
    "Portuguese": (
        "Segue em anexo a fatura referente à prestação de serviços. O pagamento deverá ser efetuado até ao dia 15. "
        "Não hesite em contactar-nos. João Conceição, Lisboa",
        ["cp1252", "iso8859-1", "cp850"],
    ),
    "Polish": (
        "Szanowni Państwo, w załączeniu przesyłamy fakturę za usługi świadczone w październiku. "
        "Prosimy o wpłatę należności w ciągu czternastu dni. Z poważaniem, Łukasz Żółkiewski, Gdańsk",
        ["cp1250", "iso8859-2", "cp852"],
    ),
    "Czech": (
        "Vážení zákazníci, zasíláme vám fakturu za dodané zboží. Částku prosím uhraďte převodem na účet nejpozději "
        "do čtrnácti dnů. S přátelským pozdravem Jiří Dvořák, Plzeň",
        ["cp1250", "iso8859-2", "cp852"],
    ),
    "Hungarian": (
        "Tisztelt Ügyfelünk! Mellékelten küldjük a szállításról szóló számlát. Kérjük, hogy az összeget tizenöt napon "
        "belül átutalni szíveskedjenek. Üdvözlettel: Kőszegi Győző, Székesfehérvár",
        ["cp1250", "iso8859-2"],
    ),
    "Russian": (
        "Уважаемые господа! Направляем вам счёт за оказанные услуги. Просим оплатить его в течение десяти дней. "
        "С уважением, Наталья Щербакова, Нижний Новгород",
        ["cp1251", "koi8-r", "cp866", "iso8859-5", "mac_cyrillic"],
    ),
    "Ukrainian": (
        "Шановні колеги! Надсилаємо вам рахунок за надані послуги. Просимо сплатити його протягом десяти днів. "
        "З повагою, Євген Їжакевич, Київ",
        ["cp1251", "koi8-u"],
    ),
    "Greek": (
        "Αγαπητοί πελάτες, σας αποστέλλουμε το τιμολόγιο για τις υπηρεσίες του Μαΐου. "
        "Παρακαλούμε να εξοφλήσετε το ποσό εντός τριάντα ημερών. Με εκτίμηση, Γιώργος Παπαδόπουλος, Αθήνα",
        ["cp1253", "iso8859-7"],
    ),
    "Turkish": (
        "Sayın yetkili, ekim ayında verilen hizmetlere ait faturayı ekte bulabilirsiniz. Ödemenin on beş gün içinde "
        "yapılmasını rica ederiz. Saygılarımızla, Gülşah Yıldırım, İstanbul",
        ["cp1254", "iso8859-9"],
    ),
    "Hebrew": (
        "לקוחות יקרים, מצורפת חשבונית עבור השירותים שניתנו בחודש מאי. נא לשלם בתוך שלושים יום. בברכה, יעל כהן",
        ["cp1255"],
    ),
    "Arabic": (
        "عملاءنا الكرام، نرسل إليكم فاتورة الخدمات المقدمة في شهر مايو. يرجى الدفع خلال ثلاثين يوما. مع خالص التحية",
        ["cp1256"],
    ),
    "Japanese": (
        "平素より大変お世話になっております。五月分の請求書をお送りいたします。月末までにお振り込みくださいますようお願い申し上げます。",
        ["shift_jis", "euc_jp", "iso2022_jp"],
    ),
    "Chinese": (
        "尊敬的客户，现寄上五月份服务费的发票，请在三十天内付款。如有任何问题，请与我们联系。谢谢您的合作。",
        ["gb18030", "gbk"],
    ),
    "Chinese (Taiwan)": (
        "敬愛的客戶，隨信附上五月份服務費的發票，請於三十天內付款。如有任何問題，請與我們聯絡。謝謝您的合作。",
        ["big5"],
    ),
    "Korean": (
        "고객님께, 오월 서비스 요금 청구서를 보내 드립니다. 삼십 일 이내에 결제해 주시기 바랍니다. 감사합니다.",
        ["euc_kr", "cp949"],
    ),
}
TABLES: dict[str, Sample] = {
    "German": (
        "Firma;Ort;Betrag\nMüller & Söhne;Köln;12,50\nBäckerei Groß;Düsseldorf;7,00\nSchäfer;München;3,20\n",
        ["cp1252", "iso8859-15", "cp850"],
    ),
    "French": (
        "société;ville;prix\nPâtisserie Dupré;Orléans;12,50\nCrédit Agricole;Besançon;7,00\n",
        ["cp1252", "cp850"],
    ),
    "Spanish": (
        "nombre,ciudad\nPeña,Málaga\nNúñez,Cádiz\nIbáñez,León\n",
        ["cp1252"],
    ),
    "Danish": (
        "navn;by\nJørgensen;Århus\nSørensen;Nørre Åby\nKjær;Tårnby\n",
        ["cp1252", "cp850"],
    ),
    "a city": (
        "name,note\nZürich,x\n",
        ["cp1252"],
    ),
    "pounds": (
        "name,price\nCafé Royal,£12\nBrontë House,£7\n",
        ["cp1252"],
    ),
    "euros": (
        "item,price\nPaper,€12.50\nPen,€3.20\n",
        ["cp1252"],
    ),
    "typographic quotes": (
        "name,note\nO’Brien,“first”\nSmith – Sons,ok\n",
        ["cp1252"],
    ),
    "Polish": (
        "nazwa;miasto\nŁukasz Żak;Łódź\nSpółka Śląsk;Częstochowa\nGrażyna Wójcik;Kraków\n",
        ["cp1250", "iso8859-2", "cp852"],
    ),
    "Czech": (
        "jméno;město\nJiří Dvořák;Plzeň\nŽaneta Šťastná;Ústí nad Labem\n",
        ["cp1250", "iso8859-2"],
    ),
    "Russian": (
        "имя;город\nИванов;Москва\nПетрова;Казань\nЩербакова;Пермь\n",
        ["cp1251", "koi8-r", "cp866"],
    ),
    "Greek": (
        "όνομα;πόλη\nΠαπαδόπουλος;Αθήνα\nΝικολάου;Θεσσαλονίκη\n",
        ["cp1253"],
    ),
    "Turkish": (
        "ad;şehir\nGülşah Yıldırım;İstanbul\nÇağlar Şahin;Eskişehir\n",
        ["cp1254"],
    ),
    "Japanese": (
        "会社名,住所\n株式会社山田,東京都\n田中商店,大阪府\n",
        ["shift_jis", "euc_jp"],
    ),
    "Chinese": (
        "公司,城市\n阿里巴巴,杭州\n华为,深圳\n",
        ["gb18030"],
    ),
    "Korean": (
        "회사,도시\n삼성전자,수원\n현대자동차,서울\n",
        ["euc_kr"],
    ),
}
