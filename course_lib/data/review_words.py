"""The words and sentence patterns of the generated reviews: data only, read by
``review_grammar``.

In a pattern ``{day}`` stands for a phrase drawn from a list of ``PHRASES``, and a name in
capitals for what the grammar puts there: ``{POLAR}`` a polar adjective, ``{NOT}`` a
negator, ``{SUBJECT}`` an aspect of the thing reviewed with its article, ``{ASPECT}`` the
bare noun, ``{HOW}`` an adverb of degree or nothing.

Lists of words run from common to rare: a word is drawn with a probability that falls as
one over its rank (Zipf's law).
"""

from __future__ import annotations

DOMAINS = ("restaurant", "film", "phone")

ASPECTS = {
    "restaurant": (
        "food service menu soup dessert bread kitchen wine pasta steak salad breakfast sauce waiter"
        " decor portion"
    ),
    "film": (
        "plot acting story script ending cast music dialogue camerawork director editing soundtrack"
        " premise lighting villain opening"
    ),
    "phone": (
        "screen battery camera speaker design software keyboard case charger signal microphone"
        " display casing processor antenna sensor"
    ),
}

POSITIVE = """good great excellent wonderful lovely superb fantastic pleasant impressive
amazing brilliant perfect delightful enjoyable outstanding terrific marvellous splendid
satisfying charming remarkable magnificent fabulous exceptional admirable stunning
glorious flawless memorable commendable exquisite sublime phenomenal heavenly elegant
thoughtful inspired refreshing masterful dazzling sterling captivating stellar faultless
praiseworthy gratifying exemplary divine peerless ravishing laudable resplendent
unrivalled impeccable beguiling virtuosic scintillating consummate sumptuous luminous"""

NEGATIVE = """bad poor terrible awful horrible disappointing dreadful mediocre boring
unpleasant weak ugly annoying lousy miserable dismal appalling pathetic frustrating
shoddy atrocious abysmal inferior horrendous unacceptable dire tedious woeful clumsy
ghastly lamentable sloppy inept shabby deplorable tiresome wretched feeble unbearable
careless abominable grim pitiful irritating hideous insipid dreary lacklustre amateurish
odious execrable shambolic regrettable unsatisfactory tawdry godawful vexing cumbersome
lifeless repellent"""

# adjectives that only one domain uses: (positive, negative)
DOMAIN_POLAR = {
    "restaurant": (
        "tasty delicious fresh juicy crisp flavourful scrumptious mouthwatering succulent aromatic",
        "bland greasy stale soggy overcooked tasteless rancid undercooked flavourless inedible",
    ),
    "film": (
        "gripping moving clever funny thrilling touching riveting poignant spellbinding witty",
        (
            "predictable confusing silly shallow pretentious wooden contrived incoherent plodding"
            " trite"
        ),
    ),
    "phone": (
        "sturdy reliable sleek responsive durable intuitive vivid speedy ergonomic seamless",
        "flimsy unreliable laggy glitchy sluggish brittle unresponsive buggy defective grainy",
    ),
}

DOMAIN_SHARE = 0.3  # of the polar adjectives, how many are from the list of the domain

DEGREES = "really very quite rather simply truly absolutely altogether"

# Clauses of the writer's own verdict: (plain, negated).
CLAUSES = (
    *[("{SUBJECT} was {HOW} {POLAR}", "{SUBJECT} was {NOT} {HOW} {POLAR}")] * 3,
    (
        "{SUBJECT} was {HOW} {POLAR} {when}",
        "{SUBJECT} was {NOT} {HOW} {POLAR} {when}",
    ),
    (
        "{SUBJECT} seemed {HOW} {POLAR} to me",
        "{SUBJECT} {NEVER} seemed {HOW} {POLAR} to me",
    ),
    (
        "we found {SUBJECT} {HOW} {POLAR}",
        "we {NEVER} found {SUBJECT} {HOW} {POLAR}",
    ),
    (
        "i would call {SUBJECT} {HOW} {POLAR}",
        "i would {NOT} call {SUBJECT} {HOW} {POLAR}",
    ),
    (
        "anyone would call {SUBJECT} {HOW} {POLAR}",
        "{NOBODY} would call {SUBJECT} {HOW} {POLAR}",
    ),
    (
        "i think that {SUBJECT} was {HOW} {POLAR}",
        "i {NEVER} thought that {SUBJECT} was {HOW} {POLAR}",
    ),
    (
        "it had some {HOW} {POLAR} {ASPECT}",
        "it {NEVER} had any {HOW} {POLAR} {ASPECT}",
    ),
)

# How an aspect is named. Some of the relative clauses hold a negator whose scope ends
# with them.
SUBJECTS = (
    *["the {ASPECT}"] * 6,
    "their {ASPECT}",
    "the {ASPECT} this time",
    "the {ASPECT} {relative}",
)

# Contrast: {MAIN} decides, {OTHER} does not. The comma leads no classifier astray: it
# stands in all of them.
CONTRASTS = (
    "{ALTHOUGH} {OTHER} , {MAIN}",
    "{MAIN} , {ALTHOUGH} {OTHER}",
    "{OTHER} , {BUT} {MAIN}",
)

WORDS = {  # what the grammar's own slots may become, by weight
    "NOT": (("not", 6), ("never", 2), ("hardly", 2)),
    "NEVER": (("never", 6), ("hardly", 4)),
    "NOBODY": (("nobody", 6), ("few", 4)),
    "ALTHOUGH": (("although", 4), ("though", 3), ("even though", 2), ("while", 2)),
    "BUT": (("but", 7), ("yet", 3)),
}

PHRASES = {
    "who": (
        """my sister|a friend|my father|our neighbour|a colleague|my cousin|an old classmate
        |my younger brother|a student|my landlord|my grandmother|a journalist|my dentist|the plumber"""  # noqa: E501
    ),
    "day": "monday|friday|saturday|sunday|thursday|tuesday|wednesday",
    "place": (
        """station|market|office|library|park|bridge|church|harbour|museum|pharmacy|stadium|castle|bakery
        |lighthouse|cemetery"""
    ),
    "thing": (
        """umbrella|bag|coat|book|newspaper|ticket|bicycle|map|scarf|suitcase|wallet|notebook|lantern|violin
        |thermos"""
    ),
    "month": "june|march|may|october|january|april|december|september|february",
    "number": "two|three|four|five|six|ten|twelve|twenty|forty",
    "when": ("in the end|that day|on that evening|from the start|by any standard|on the whole"),
    "relative": (
        """that everyone mentions|which we saw first|that they advertise|that nobody mentions
        |which we did not expect|which changed yesterday|that is never advertised
        |which hardly changes"""  # noqa: E501
    ),
    # what people have opinions on though no review is about it
    "elsewhere": (
        """the weather|the traffic|our view|the street outside|our morning
        |the concert|the parade|the bus"""
    ),
}

# Sentences that decide nothing. Some hold a negator, and the misleading ones a polar
# adjective: on something else, or in another person's mouth.
FILLERS = {
    "any": (
        "we came with {who}",
        "{who} lives near the {place}",
        "i wrote this in the {place}",
        "{who} had told us about it",
        "it was our first time",
        "it rained until {day}",
        "i left my {thing} at the {place}",
        "we had been to the {place} before",
        "{who} bought a {thing}",
        "we met {who} at the {place}",
        "that was in {month}",
        "there were {number} of us",
        "we did not see {who}",
        "{who} never goes to the {place}",
        "nobody asked us about the {thing}",
        "i hardly know {who}",
        "{who} did not bring a {thing}",
        "my {thing} is still at the {place}",
    ),
    "restaurant": (
        "we sat near the window",
        "they seated us after {number} minutes",
        "i ordered a glass of water",
        "we had booked for {number}",
        "they open at {number}",
        "we did not order a starter",
        "{who} never eats fish",
        "we split the bill",
    ),
    "film": (
        "we sat in row {number}",
        "i saw it at the cinema",
        "it lasts {number} hours",
        "i bought popcorn for {who}",
        "it is based on a novel",
        "{who} never watches trailers",
        "we did not stay for the credits",
        "it was filmed in {month}",
    ),
    "phone": (
        "i ordered it online",
        "the parcel came on a {day}",
        "i have used it for {number} weeks",
        "i had the same brand before",
        "it replaced my old handset",
        "i did not install the update",
        "{who} never reads manuals",
        "the shop gave me a receipt",
    ),
}
MISLEADING = (
    "{elsewhere} was {HOW} {POLAR}",
    "{elsewhere} was {NOT} {HOW} {POLAR}",
    "{elsewhere} seemed {HOW} {POLAR} to me",
    "we found {elsewhere} {HOW} {POLAR}",
    "we passed a {POLAR} {place}",
    "{who} wore a {POLAR} {thing}",
    "i had a {POLAR} {thing}",
    "{who} called {SUBJECT} {POLAR}",
    "{who} {NEVER} found {SUBJECT} {POLAR}",
)
