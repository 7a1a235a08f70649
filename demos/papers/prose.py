"""Sentences between the facts."""

INTRO = {
    "de": "Wir erlauben uns, Ihnen folgende Leistungen zu berechnen:", "fr": "Nous vous facturons les prestations suivantes :",
    "es": "Le facturamos los siguientes servicios:", "it": "Vi fatturiamo le seguenti prestazioni:",
    "en": "We charge you for the following:", "zh": "现开具以下项目：",
}  # fmt: skip
THANKS = {
    "de": "Vielen Dank für Ihren Einkauf.", "fr": "Merci de votre confiance.", "es": "Gracias por su compra.",
    "it": "Grazie per la fiducia.", "en": "Thank you for your business.", "zh": "感谢您的惠顾。",
}  # fmt: skip
ORDER = {
    "de": "Bitte bestätigen Sie den Auftrag innerhalb von 3 Tagen.", "fr": "Merci de confirmer sous 3 jours.",
    "es": "Rogamos confirmen en 3 días.", "it": "Si prega di confermare entro 3 giorni.",
    "en": "Please confirm this order within 3 days.", "zh": "请在3天内确认。",
}  # fmt: skip
BETWEEN = {
    "de": "Zwischen\n{one}\n(im Folgenden „{a}“)\nund\n{other}\n(im Folgenden „{b}“)\nwird Folgendes vereinbart:",
    "fr": "Entre\n{one}\n(ci-après « {a} »)\net\n{other}\n(ci-après « {b} »)\nil est convenu ce qui suit :",
    "es": "Entre\n{one}\n(en adelante «{a}»)\ny\n{other}\n(en adelante «{b}»)\nse acuerda lo siguiente:",
    "it": "Tra\n{one}\n(di seguito «{a}»)\ne\n{other}\n(di seguito «{b}»)\nsi conviene quanto segue:",
    "en": "This agreement is made between\n{one}\n(the “{a}”)\nand\n{other}\n(the “{b}”),\nwho agree as follows:",
    "zh": "{a}：{one}\n{b}：{other}\n双方达成如下协议。",
}
NOTICES = {
    "de": ("drei Monate zum Quartalsende", "sechs Wochen"), "fr": ("trois mois", "six semaines"), "es": ("tres meses", "seis semanas"),
    "it": ("tre mesi", "sei settimane"), "en": ("three months", "six weeks in writing"), "zh": ("三个月", "六周"),
}  # fmt: skip
LAWS = {
    "DE": "Recht der Bundesrepublik Deutschland", "CH": "Schweizer Recht", "FR": "droit français", "ES": "derecho español",
    "IT": "diritto italiano", "GB": "England and Wales", "US": "State of Delaware", "CN": "中华人民共和国法律",
}  # fmt: skip
CLAUSES = {
    "de": ("§ 1 Der Auftragnehmer erbringt die vereinbarten Leistungen.", "§ 2 Änderungen bedürfen der Schriftform."),
    "fr": ("Article 1 Le prestataire fournit les services convenus.", "Article 2 Toute modification se fait par écrit."),
    "es": ("Cláusula 1 El proveedor presta los servicios acordados.", "Cláusula 2 Los cambios se hacen por escrito."),
    "it": ("Articolo 1 Il fornitore presta i servizi convenuti.", "Articolo 2 Le modifiche richiedono la forma scritta."),
    "en": ("1. The provider renders the services as agreed.", "2. Changes to this agreement must be in writing."),
    "zh": ("第一条 乙方提供约定的服务。", "第二条 变更须以书面形式作出。"),
}
SUBJECTS = {
    "de": ("Kündigung des Wartungsvertrags", "Ihre Anfrage vom letzten Monat"), "fr": ("Résiliation du contrat d'entretien", "Votre demande de devis"),
    "es": ("Cancelación del mantenimiento", "Su consulta reciente"), "it": ("Disdetta della manutenzione", "Vostra richiesta recente"),
    "en": ("Termination of the maintenance plan", "Your recent enquiry"), "zh": ("关于维护合同的终止", "关于贵方询价"),
}  # fmt: skip
LETTERS = {
    "de": ["Sehr geehrte Damen und Herren,", "wir beziehen uns auf unser Gespräch und bitten um Bestätigung.", "Mit freundlichen Grüßen"],
    "fr": ["Madame, Monsieur,", "nous faisons suite à notre entretien et attendons votre réponse.", "Cordialement"],
    "es": ["Estimados señores:", "en relación con nuestra conversación, esperamos su respuesta.", "Atentamente"],
    "it": ["Gentili signori,", "facciamo seguito al nostro colloquio e attendiamo un riscontro.", "Cordiali saluti"],
    "en": ["Dear Sir or Madam,", "we refer to our conversation and kindly ask you to confirm.", "Yours faithfully"],
    "zh": ["尊敬的先生/女士：", "就我们的谈话，请予以确认。", "此致敬礼"],
}
