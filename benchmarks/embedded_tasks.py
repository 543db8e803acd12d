"""Four families of tasks for the embedded model, made from seeds: sentiment, topic, extraction, worked arithmetic.

Each comes with a playbook as somebody drafts it, instructions to try instead, and a score that is 0 or 1.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.playbooks.playbook import Playbook

SIZES = {"train": 60, "dev": 60, "test": 120}

Example = tuple[str, str]
"""A text, and the answer that is wanted."""


@dataclass(frozen=True)
class Family:
    """Tasks of one kind. `examples` draws them one after another, for ever; `is_right` compares an answer with the one
    that is wanted. An answer is one line of at most so many `tokens`."""

    name: str
    instruction: str
    prompt: str
    tokens: int
    bank: tuple[str, ...]
    examples: Callable[[random.Random], Iterator[Example]]
    is_right: Callable[[str, str], bool]

    @property
    def start(self) -> Playbook:
        role = {"model": "raw", "system": self.instruction, "max_tokens": self.tokens, "stop": ["\n"]}
        steps = [{"name": "answer", "role": "worker", "prompt": self.prompt}]
        return Playbook.from_document({"roles": {"worker": role}, "steps": steps})

    def tasks(self, seed: int) -> dict[str, Dataset]:
        """All tasks of a seed by what they are for. No text comes twice."""
        drawn: dict[str, str] = {}
        for text, answer in self.examples(random.Random(f"{self.name} {seed}")):
            drawn.setdefault(text, answer)
            if len(drawn) == sum(SIZES.values()):
                break
        rest, found = iter(drawn.items()), {}
        for part, size in SIZES.items():
            some = [next(rest) for _ in range(size)]
            found[part] = Dataset(
                tuple(Task(f"{part}-{number}", {"text": text}, answer) for number, (text, answer) in enumerate(some))
            )
        return found


# Labels

GOODS = (
    *("kettle", "lamp", "blanket", "suitcase", "keyboard", "garden chair", "tent", "mixer", "clock", "rain jacket"),
    *("bike", "camera", "mattress", "wallet", "printer", "pan", "headset", "desk", "vase", "pair of boots"),
)
PRAISE = (
    "The {} is lovely and I use it every day.",
    "I could not be happier with the {}.",
    "What a wonderful {}, thank you so much.",
    "The {} came early and works perfectly.",
    "My sister saw our {} and ordered one at once.",
    "Best {} I have had in twenty years.",
    "The {} looks even better than in the picture.",
    "After a month the {} still makes me smile.",
    "The {} was worth every cent.",
    "Your team replaced the {} within a day, great service.",
    "We took the {} on holiday and it did not let us down.",
    "I had doubts about the {}, but it is excellent.",
    "No complaints at all, the {} is solid and easy to clean.",
    "The {} is not cheap, yet I would buy it again.",
)
BLAME = (
    "The {} broke on the second day.",
    "I am very disappointed with the {}.",
    "What a useless {}, I want my money back.",
    "The {} came three weeks late and was dirty.",
    "My sister laughed at our {} and so did everyone else.",
    "Worst {} I have had in twenty years.",
    "The {} looks nothing like the picture.",
    "After a month the {} fell apart.",
    "The {} was a waste of money.",
    "Nobody answers when I write about the broken {}.",
    "We took the {} on holiday and it let us down.",
    "I had hopes for the {}, but it is awful.",
    "The {} smells of glue and one part is missing.",
    "The {} was cheap, and I would never buy it again.",
)


def _moods(chance: random.Random) -> Iterator[Example]:
    while True:
        label, remarks = chance.choice((("positive", PRAISE), ("negative", BLAME)))
        yield chance.choice(remarks).format(chance.choice(GOODS)), label


TOPICS = {
    "sport": (
        ("The goalkeeper", "The home team", "Our captain", "The young runner", "The champion", "The coach"),
        (
            *("scored twice in the second half", "won the final after extra time", "broke the record of the club"),
            *("will miss the next match with a sore knee", "trained all winter for the race", "lifted the cup"),
            *("lost the last set", "was booked by the referee", "leads the league by two points"),
        ),
    ),
    "business": (
        ("The bank", "The car maker", "The new owner", "The airline", "A large retailer", "The board"),
        (
            *("reported lower profits this quarter", "raised its prices by four percent", "will close two factories"),
            *("bought a rival for nine million", "sold its shares", "cut the dividend", "hired three hundred people"),
            *("warned investors about falling sales", "moved its office to save rent"),
        ),
    ),
    "science": (
        ("Researchers", "The telescope", "A team of physicists", "The laboratory", "Biologists", "The new probe"),
        (
            *("found water in old moon rock", "measured the light of a distant star", "tested a vaccine on mice"),
            *("described a new species of frog", "recorded waves from two black holes", "mapped the genes of wheat"),
            *("cooled atoms close to absolute zero", "drilled deep into the ice", "counted the rings of the fossil"),
        ),
    ),
    "food": (
        ("My grandmother", "The new restaurant", "The baker", "This recipe", "The cook", "The village inn"),
        (
            *("adds a pinch of salt to the dough", "serves soup with fresh bread", "fries the onions until golden"),
            *("takes two eggs and a cup of flour", "roasts the chicken with lemon", "bakes apple cake on Sundays"),
            *("lets the sauce simmer for an hour", "puts too much garlic on everything", "melts butter for the crust"),
        ),
    ),
}
ENDINGS = (".", ", as many had hoped.", " this week.", ", we hear.", " once more.", ", to everyone's surprise.")


def _topics(chance: random.Random) -> Iterator[Example]:
    while True:
        label = chance.choice(list(TOPICS))
        who, what = TOPICS[label]
        yield f"{chance.choice(who)} {chance.choice(what)}{chance.choice(ENDINGS)}", label


def first_word(answer: str) -> str:
    found = re.search(r"[^\W\d_]+", answer)
    return found[0].lower() if found else ""


def _same_label(answer: str, wanted: str) -> bool:
    return first_word(answer) == wanted


# Extraction

NAMES = ("Anna", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Leo")
CITIES = (
    "Oslo",
    "Lisbon",
    "Vienna",
    "Dublin",
    "Prague",
    "Madrid",
    "Turin",
    "Bergen",
    "Lyon",
    "Porto",
    "Ghent",
    "Basel",
)
THINGS = ("lamps", "chairs", "cups", "books", "plates", "candles", "towels", "pens", "baskets", "mirrors")
ORDERS = (
    "{name} from {city} ordered {count} {things}.",
    "Please send {count} {things} to {name} in {city}.",
    "{count} {things} go to {city}, for {name}.",
    "In {city}, {name} is waiting for {count} {things}.",
    "{name} would like {count} {things} delivered to {city}.",
    "The {count} {things} that {name} paid for leave for {city} today.",
)


def _orders(chance: random.Random) -> Iterator[Example]:
    while True:
        name, city, count = chance.choice(NAMES), chance.choice(CITIES), chance.randint(2, 40)
        text = chance.choice(ORDERS).format(name=name, city=city, count=count, things=chance.choice(THINGS))
        yield text, f"{name}, {city}, {count}"


def _same_fields(answer: str, wanted: str) -> bool:
    """Whether all fields are right; what comes after them in the same line is not looked at."""
    given, right = ([field.strip(" .\"'").lower() for field in each.split(",")] for each in (answer, wanted))
    return given[: len(right)] == right


# Arithmetic

STORIES = {
    "+": (
        "{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?",
        "There are {a} {things} on the table and {b} on the shelf. How many {things} are there?",
        "{name} buys {a} {things} in the morning and {b} in the evening. How many {things} is that?",
    ),
    "-": (
        "{name} has {a} {things} and gives {b} away. How many {things} are left?",
        "Of {a} {things}, {b} are broken. How many {things} are whole?",
        "{name} needs {a} {things} and has {b}. How many {things} are missing?",
    ),
    "*": (
        "{name} fills {a} boxes with {b} {things} each. How many {things} is that?",
        "Each of {a} children gets {b} {things}. How many {things} are needed?",
    ),
}


def _sums(chance: random.Random) -> Iterator[Example]:
    while True:
        sign = chance.choice(list(STORIES))
        a, b = chance.randint(2, 9), chance.randint(2, 9)
        if sign != "*":
            a, b = chance.randint(11, 30), chance.randint(2, 10)
        result = {"+": a + b, "-": a - b, "*": a * b}[sign]
        story = chance.choice(STORIES[sign])
        text = story.format(name=chance.choice(NAMES), a=a, b=b, things=chance.choice(THINGS))
        yield text, f"{a} {sign} {b} = {result}"


def _same_result(answer: str, wanted: str) -> bool:
    given = re.findall(r"\d+", answer.replace(",", ""))
    return bool(given) and given[-1] == re.findall(r"\d+", wanted)[-1]


FAMILIES = {
    each.name: each
    for each in (
        Family(
            "sentiment",
            "Is the mood of the message positive or negative?",
            "Message: {text}\nMood:",
            4,
            (
                "Sort each message into positive or negative.",
                "Every message is either positive or negative. Say which.",
                "Decide whether the customer is happy. Answer with one word: positive or negative.",
                "If the customer is unhappy, answer negative. If the customer is happy, answer positive.",
                "Classify the sentiment of the message as positive or negative.",
                "Label the message. The label is positive or negative.",
                "Read the message of a customer. Happy customers are positive, angry customers are negative.",
                "Think about how the writer feels and describe it.",
            ),
            _moods,
            _same_label,
        ),
        Family(
            "topic",
            "What is the text about?",
            "Text: {text}\nTopic:",
            4,
            (
                "Sort each text into sport, business, science or food.",
                "The topic of every text is one of: sport, business, science, food.",
                "Choose the topic of the text. Answer with one word: sport, business, science or food.",
                "Texts about matches are sport. Texts about money are business. Texts about research are science. "
                "Texts about cooking are food.",
                "Classify the news by topic: sport, business, science, food.",
                "Say which page of the newspaper the text belongs to: sport, business, science or food.",
                "Name the field that the text belongs to.",
                "Sum up the text in one word.",
            ),
            _topics,
            _same_label,
        ),
        Family(
            "extraction",
            "Write down who gets the order, where, and how many.",
            "Order: {text}\nEntry:",
            14,
            (
                "Write the name, the city and the count, with commas between them.",
                "Turn each order into an entry such as: Maria, Rome, 5",
                "Extract three fields from the order: name, city, count.",
                "Answer in the form: name, city, count. Nothing else.",
                "Name is a person. City is a place. Count is a number. Write name, city, count.",
                "List the person, the town and the number of things.",
                "Find the customer, the city and the quantity. Separate them by commas.",
                "Sum up the order.",
            ),
            _orders,
            _same_fields,
        ),
        Family(
            "arithmetic",
            "Solve the problem.",
            "Problem: {text}\nAnswer:",
            14,
            (
                "Write the calculation and its result, like 7 + 3 = 10.",
                "Solve each problem with one calculation.",
                "Answer with a number.",
                "Decide whether to add, subtract or multiply. Then write the calculation and the result.",
                "Write down the numbers of the problem, then calculate.",
                "You are good at sums. Give the result of each problem.",
                "More means plus, away means minus, each means times. Write the calculation.",
                "Think step by step and explain.",
            ),
            _sums,
            _same_result,
        ),
    )
}
