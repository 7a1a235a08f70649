"""Short texts with facts that can be asked for, in other words than those of the text."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A file, and a question that it answers."""

    filename: str
    text: str
    question: str


FACTS = (
    PlantedFact(
        "travel.md",
        "# Travel\n\n## Booking\n\nEmployees book trains in second class. Flights need the approval of the head of "
        "the department.\n\n## Hotels\n\nA night in a hotel may cost 140 euros, breakfast included.\n",
        "How much may I spend on accommodation?",
    ),
    PlantedFact(
        "leave.html",
        "<html><body><h1>Leave</h1><p>Every full-time employee has thirty days of annual vacation.</p>"
        "<h2>Illness</h2><p>From the fourth day of illness on, a doctor's certificate is required.</p></body></html>",
        "When do I have to bring a medical certificate if I am sick?",
    ),
    PlantedFact(
        "printer.txt",
        "Printer on the second floor\n\nIf paper is jammed, open the rear door, pull the sheet out slowly, and close "
        "the door again. The toner cartridge is changed by the help desk.\n",
        "What should I do when the printer has a paper jam?",
    ),
    PlantedFact(
        "security.md",
        "# Passwords\n\nA password has at least fourteen characters. Never write it down, and never share it with a "
        "colleague. The help desk will not ask for it.\n",
        "How long must my password be?",
    ),
    PlantedFact(
        "kitchen.txt",
        "Kitchen\n\nThe dishwasher is started in the evening by the last person who leaves. Food in the refrigerator "
        "without a name is thrown away on Friday.\n",
        "What happens to unlabelled food in the fridge?",
    ),
    PlantedFact(
        "warranty.csv",
        "Product,Warranty (months),Returns (days)\nHeadphones,24,30\nBicycle helmet,36,14\nCoffee grinder,60,30\n",
        "warranty of the bicycle helmet in months",
    ),
)


def write_facts(folder: Path) -> list[Path]:
    """Write the files. Return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / fact.filename for fact in FACTS]
    for path, fact in zip(paths, FACTS, strict=True):
        path.write_text(fact.text, "utf-8")
    return paths
