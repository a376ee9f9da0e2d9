"""What is searched in the Chroma part: thirty texts with a question each, and as many others as it takes.

The texts are about one small harbour town, two or three about each thing, so that the wrong ones are near. The
questions say it in other words. The others are the sections of this repository's documentation.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

#: (name, text, question)
KNOWN = [
    (
        "ferry-summer",
        "From May to September the ferry to the island leaves the east quay every forty minutes, the first "
        "one at six and the last one at ten in the evening.",
        "How often can I get across to the island in July?",
    ),
    (
        "ferry-winter",
        "Between November and March the island ferry sails only three times a day, and not at all when the "
        "wind is above eight Beaufort.",
        "Does the boat run during a storm in January?",
    ),
    (
        "ferry-bicycles",
        "Bicycles travel on the ferry for two crowns. Tandems and cargo bikes need a place on the car deck, "
        "which is booked at the ticket office.",
        "What does it cost to bring my bike aboard?",
    ),
    (
        "library-cards",
        "A library card is free for everybody who lives in the town. Visitors leave a deposit of fifteen "
        "crowns, which is returned with the card.",
        "Do tourists have to pay something in order to borrow books?",
    ),
    (
        "library-fines",
        "Books that come back late cost ten pennies a day, but never more than the price of the book. "
        "Children under twelve pay no fines.",
        "What happens when a novel is overdue?",
    ),
    (
        "library-piano",
        "The reading room on the second floor has a piano that may be played on Thursdays after the library "
        "has closed for readers.",
        "Is there an instrument that I could practise on?",
    ),
    (
        "market-fish",
        "On Saturdays the fishermen sell their catch straight from the boats at the north quay, from five in "
        "the morning until nothing is left.",
        "Where do I buy freshly caught cod at the weekend?",
    ),
    (
        "market-stalls",
        "A stall on the weekly market is rented for a season at a time. Applications go to the town hall "
        "before the end of February.",
        "By when must a trader ask for a place to sell vegetables?",
    ),
    (
        "market-scales",
        "All scales on the market are tested once a year by the weights office; a green seal shows that a "
        "scale may be used.",
        "How can customers see that goods are weighed correctly?",
    ),
    (
        "waste-glass",
        "Bottles and jars go into the white containers behind the swimming hall. Window panes and mirrors are "
        "not taken there.",
        "Where do I get rid of empty wine bottles?",
    ),
    (
        "waste-batteries",
        "Old batteries are handed in at any shop that sells them. They must never go into the household bin, "
        "where they catch fire.",
        "What should be done with used power cells?",
    ),
    (
        "waste-furniture",
        "Sofas and wardrobes are picked up from the kerb twice a year. Call the depot at least a week before.",
        "Who takes away my old couch?",
    ),
    (
        "school-start",
        "Lessons at the primary school begin at ten to eight. Children who come by the early ferry are looked "
        "after in the gym until then.",
        "What time do the youngest pupils have their first class?",
    ),
    (
        "school-lunch",
        "Lunch in the school canteen is ordered a week ahead on paper. There is always one dish without meat.",
        "Can vegetarian kids eat at school?",
    ),
    (
        "school-trip",
        "Each spring the fourth form spends five days on the island to count seabirds and sleep in the old "
        "lighthouse.",
        "Which class goes away to study gulls?",
    ),
    (
        "water-hardness",
        "The drinking water comes from two wells in the hills and is soft, at four degrees, so little washing "
        "powder is enough.",
        "Is there a lot of lime in the tap water?",
    ),
    (
        "water-outage",
        "When the mains are repaired, the houses concerned get a note two days ahead, and a tank wagon stands "
        "at the corner.",
        "How will I learn that my water is going to be cut off because of works?",
    ),
    (
        "water-meter",
        "Water meters are read by the tenants themselves in the first week of December and reported by card.",
        "Who notes down how much water our flat has used at the end of the year?",
    ),
    (
        "dogs-beach",
        "From June to August dogs are not allowed on the town beach between nine and seven. The cove behind "
        "the mole is open to them all year.",
        "Where may my spaniel swim in high summer?",
    ),
    (
        "dogs-tax",
        "Keeping a dog costs forty crowns a year. Guide dogs and the rescue dogs of the coastguard are free.",
        "How much is the annual levy for a pet hound?",
    ),
    (
        "cats-stray",
        "Stray cats are caught by the animal shelter, neutered, and set free again where they were found.",
        "What does the town do about ownerless felines?",
    ),
    (
        "sauna-times",
        "The sauna beside the swimming hall is for women on Mondays and Wednesdays, for men on Tuesdays, and "
        "mixed on all other days.",
        "On which evening can gentlemen sweat among themselves?",
    ),
    (
        "pool-lessons",
        "Swimming lessons for adults who never learnt it start in October in the small basin; the water there "
        "has thirty-two degrees.",
        "I am forty and can not keep afloat, is there a course?",
    ),
    (
        "pool-lockers",
        "Lockers in the swimming hall take a one crown coin, which comes back. What is left in them overnight "
        "is kept at the till for a month.",
        "I forgot my towel at the baths, where is it now?",
    ),
    (
        "fire-volunteers",
        "The volunteer fire brigade trains every second Friday. Whoever is between seventeen and fifty and "
        "can climb a ladder may join.",
        "How does one become a part-time firefighter?",
    ),
    (
        "fire-garden",
        "Garden fires need a permit from April to October. In the other months it is enough to tell the fire "
        "station by telephone.",
        "Am I allowed to burn dry branches behind my house in August?",
    ),
    (
        "lighthouse-visit",
        "The lighthouse can be climbed on the first Sunday of a month. There are one hundred and ninety-two "
        "steps and no lift.",
        "When is the tower with the beacon open to visitors?",
    ),
    (
        "lighthouse-light",
        "The beacon flashes white twice every twelve seconds and is seen for nineteen nautical miles in clear "
        "air.",
        "How far out at sea is the signal visible?",
    ),
    (
        "bus-night",
        "The night bus leaves the station at half past eleven and at one, and stops anywhere on request after "
        "the last regular stop.",
        "How do I get home by public transport after midnight?",
    ),
    (
        "bus-lost",
        "Things found in the buses are kept at the depot for six weeks and then given to the church bazaar.",
        "I left my umbrella in a bus, what becomes of it?",
    ),
]

#: A document in three versions that can be told apart, of different lengths.
VERSIONS = [
    " ".join(
        f"Edition {word}, paragraph {at}: the tide tables of the harbour office for month {at}, heights and hours at "
        "the mole."
        for at in range(count)
    )
    for word, count in (("amber", 12), ("basalt", 1), ("cobalt", 30))
]


def others(count: int) -> list[tuple[str, str]]:
    """`count` sections of the documentation, as (name, text)."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        parts = re.split(r"(?m)^(?=#{1,3} )", page.read_text())
        found += [(f"{page.name}-{at}", part) for at, part in enumerate(parts) if len(part.split()) > 25]
    # Where there are too few sections, their paragraphs do as well.
    for page in sorted(DOCS.glob("*.md")):
        parts = page.read_text().split("\n\n")
        found += [(f"{page.name}-p{at}", part) for at, part in enumerate(parts) if len(part.split()) > 40]
    if len(found) < count:
        raise ValueError(f"the documentation has only {len(found)} parts")
    return found[:count]


def large(paragraphs: int) -> str:
    """A text of which every paragraph is another."""
    words = "anchor buoy crane dock engine fender gangway hawser inlet jetty keel lantern mast net oar pier".split()
    line = "Stock list {}: {} {} and {} {}, stored in shed {} behind the {}."
    return "\n\n".join(
        line.format(at, at % 90, words[at % 16], at % 70, words[at // 16 % 16], at % 37, words[at // 256 % 16])
        for at in range(paragraphs)
    )
