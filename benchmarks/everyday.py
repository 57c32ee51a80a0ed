"""Sentences about everyday life, made from templates: calibration data for models of sentences."""

from __future__ import annotations

import random
import re

TEMPLATES = (
    "{who} {did} {thing} {where} {when}.",
    "{When}, {who} {did} {thing}.",
    "{Thing} {where} is {quality} and {quality}.",
    "{who} said that {thing} would be {quality} {when}.",
    "Why did {who} {do} {thing} {where}?",
    "{who} and {who} {did} {thing} because it was {quality}.",
    "{weather} {where} {when}.",
    "After {weather_noun}, {who} {did} {thing}.",
    "The price of {stuff} {rose} by {number} percent {when}.",
    "{number} {people} {came} {where} {when}.",
    "To cook {stuff}, {do} {thing} for {number} minutes.",
    "{who} will {do} {thing} {when} if {who} is {quality}.",
    "There are {number} {people} {where}, and all of them are {quality}.",
    "{Field} helps {people} to {do} {thing}.",
    "My {family} never {did} {thing} {where}.",
    "The {animal} {slept} {where} while {who} {did} {thing}.",
    "{who} is too {quality} to {do} {thing} {when}.",
    "How many {people} {do} {thing} {when}?",
)
WORDS = {
    "who": (
        "the doctor|a young teacher|our neighbour|my sister|the old man|the president|a tourist|"
        "the engineer|the team|her grandmother|the police|a scientist|the company|the children|his boss|"
        "a musician|the driver|the farmer|the mayor|a student|the nurse|their lawyer|the goalkeeper|"
        "an astronaut|the waiter|a journalist"
    ),
    "did": (
        "bought|repaired|forgot|painted|sold|discovered|broke|cleaned|lost|described|photographed|"
        "borrowed|carried|found|opened|closed|measured|praised|criticised|ordered|delivered|watched|"
        "studied|built|won|cancelled|burned"
    ),
    "do": (
        "buy|repair|forget|paint|sell|discover|break|clean|lose|describe|photograph|borrow|carry|find|"
        "open|close|measure|praise|heat|order|deliver|watch|study|build|win|cancel|stir|program|"
        "invest in|plant"
    ),
    "thing": (
        "the bicycle|an expensive watch|a new phone|the kitchen window|a glass of water|the match|"
        "a long letter|the report|her keys|the engine|an old painting|a bowl of soup|the roof|"
        "a small computer|the concert|the exam|a vaccine|the contract|a flight ticket|the garden|"
        "a novel|the software|a bridge|the election|a satellite|the bread"
    ),
    "where": (
        "in the park|at the airport|near the river|in the hospital|on the train|behind the school|"
        "at home|in a small village|on the beach|at the market|in the museum|across the ocean|"
        "in the mountains|at the office|under the table|in the stadium|on the motorway|"
        "in the laboratory|at the restaurant|in the forest|on the roof"
    ),
    "when": (
        "yesterday|every morning|last summer|on Friday|next year|during the night|at noon|two weeks ago|"
        "before breakfast|in the winter|this weekend|after work|for several hours|"
        "in the twentieth century|soon|later than usual"
    ),
    "quality": (
        "cheap|tired|broken|beautiful|dangerous|quiet|cold|famous|hungry|late|heavy|empty|useful|modern|"
        "angry|delicious|difficult|healthy|rich|polite|fragile|wet|bright|boring|ready|green|loud|"
        "honest"
    ),
    "weather": (
        "Snow covered the hills|It rained heavily|The sun shone|Fog delayed all flights|"
        "A storm destroyed several houses|Temperatures fell below zero|The heat was unbearable|"
        "Clouds gathered|Strong winds blew"
    ),
    "weather_noun": "the storm|a week of rain|the first snow|the drought|the flood|sunset|the earthquake",
    "stuff": (
        "rice|oil|coffee|electricity|houses|gold|milk|steel|potatoes|shares|bread|fish|pasta|vegetables|petrol"
    ),
    "rose": "rose|fell|increased|dropped|grew|changed",
    "number": "two|three|five|ten|twelve|twenty|thirty|a hundred|a thousand|several",
    "people": (
        "students|patients|passengers|workers|visitors|players|voters|families|soldiers|customers|researchers"
    ),
    "came": "arrived|waited|protested|danced|slept|met|worked|were injured|celebrated",
    "field": (
        "Mathematics|Physics|Music|Sport|Medicine|Machine learning|Good sleep|A healthy diet|History|Walking"
    ),
    "family": "brother|mother|uncle|daughter|husband|cousin|grandfather",
    "animal": "dog|cat|horse|bird|elephant|rabbit|puppy|cow",
    "slept": "slept|ran|barked|ate|hid|played|waited|drank",
}


def everyday_sentences(number: int) -> list[str]:
    """Return different sentences; always the same ones."""
    generator = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < number:
        sentence = re.sub(r"{(\w+)}", lambda match: _word(match[1], generator), generator.choice(TEMPLATES))
        found[sentence[0].upper() + sentence[1:]] = None
    return list(found)


def _word(kind: str, generator: random.Random) -> str:
    word = generator.choice(WORDS[kind.lower()].split("|"))
    return word[0].upper() + word[1:] if kind[0].isupper() else word
