"""Support tickets from sentence templates: a complaint, perhaps a trouble that is none, and a wish (ours)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

TOPICS = ("delivery", "billing", "defect", "account")
_ITEMS = (
    "kettle", "lamp", "blender", "radio", "heater", "toaster", "camera", "printer", "scale", "clock", "fan", "mixer",
    "speaker", "vacuum", "drill", "monitor", "keyboard", "juicer", "router", "shaver", "freezer", "scanner", "tablet",
    "projector",
)  # fmt: skip
_COMPLAINTS: Mapping[str, tuple[str, ...]] = {
    "delivery": (
        "The {item} never arrived.",
        "The courier left the {item} at a wrong address.",
        "I have waited three weeks for the {item} to be delivered.",
        "The parcel with the {item} was lost on the way.",
        "The van came twice and took the {item} away again.",
        "The {item} is still stuck in your warehouse.",
    ),
    "billing": (
        "I was charged twice for the {item}.",
        "The invoice for the {item} shows a wrong amount.",
        "My card was billed for the {item} after I had cancelled.",
        "The discount on the {item} is missing from my bill.",
        "You took the payment for the {item} one month too early.",
        "The price of the {item} on the receipt is too high.",
    ),
    "defect": (
        "The {item} stopped working after one day.",
        "The {item} makes a loud noise and shuts off.",
        "The switch of the {item} broke off.",
        "The {item} smells of smoke when I turn it on.",
        "The {item} has a crack and leaks.",
        "The {item} does not turn on any more.",
    ),
    "account": (
        "I cannot log in to register the {item}.",
        "My password is refused when I look up the {item}.",
        "My profile does not list the {item}.",
        "The app locks me out when I add the {item}.",
        "The code to confirm my email for the {item} is never accepted.",
        "I am signed out each time I open the page of the {item}.",
    ),
}
_DENIALS: Mapping[str, tuple[str, ...]] = {
    "delivery": ("The delivery was not late.", "Nothing is wrong with the parcel.", "The courier is not to blame."),
    "billing": ("The invoice is not wrong.", "I was not charged twice.", "Nothing is wrong with the bill."),
    "defect": ("The device itself is not broken.", "Nothing leaks or smells of smoke.", "It does not leak."),
    "account": ("I have no trouble to log in.", "My password is not the problem.", "Nothing is wrong with my profile."),
}
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "delivery": ("My neighbour once lost a parcel on the way.", "A friend waited weeks for a courier of yours."),
    "billing": ("My sister was once charged twice.", "A friend found a wrong amount on an invoice of yours."),
    "defect": ("My brother had one that broke off at the switch.", "A neighbour had one that leaked."),
    "account": ("My cousin could never log in.", "A friend was once locked out of the app."),
}
NOUNS: Mapping[str, str] = {
    "delivery": "the delivery",
    "billing": "the bill",
    "defect": "a defect",
    "account": "the account",
}
"""How a sentence names a topic."""
_FIX = ("Please put this right.", "Please look into it.", "I would like this solved soon.")
_REFUND = ("I want my money back.", "Please refund me.", "I would like the full price returned.")
_FIX_BY_NEGATION = ("I do not want my money back, only a solution.", "No refund, please; I just want this solved.")
_REFUND_BY_NEGATION = ("I do not want a solution any more, only my money.", "No more attempts, please; just refund me.")
_SPEAKS_OF: Mapping[str, re.Pattern[str]] = {
    "delivery": re.compile(r"deliver|courier|parcel|arriv|shipp|warehouse|\bvan\b|address", re.IGNORECASE),
    "billing": re.compile(r"bill|invoice|charg|payment|receipt|discount|amount", re.IGNORECASE),
    "defect": re.compile(
        r"defect|broke|crack|leak|noise|smoke|not work|working|faulty|switch|turn(?:s|ed)? on|shuts off", re.IGNORECASE
    ),
    "account": re.compile(
        r"account|log ?in|password|profile|sign(?:ed)? (?:in|out)|\bapp\b|locked|email", re.IGNORECASE
    ),
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket and what a careful reader notices.

    Attributes:
        text: Its sentences. complaint: The sentence that names the customer's own trouble.
        topic: What that is about, of `TOPICS`. refund: Whether the money is asked back.
        beside: Topic of a trouble that is mentioned and none of the customer's, "" without one.
        denied: That trouble is denied; else it is somebody else's.
    """

    text: str
    complaint: str
    topic: str
    refund: bool
    beside: str = ""
    denied: bool = False


def draw_ticket(rng: Random, family: str) -> Ticket:
    """One ticket of a family.

    Args:
        rng: Source of all choices.
        family: plain (complaint and a wish to fix it), denied or others (a second trouble that is none), refund
            (either wish), full (a second trouble, either wish, half of the wishes by negation).
    """
    topic = rng.choice(TOPICS)
    complaint = rng.choice(_COMPLAINTS[topic]).format(item=rng.choice(_ITEMS))
    sentences, beside, denied = [complaint], "", False
    if family in ("denied", "others", "full"):
        beside = rng.choice([other for other in TOPICS if other != topic])
        denied = family == "denied" or (family == "full" and rng.random() < 0.5)
        sentences.insert(rng.randrange(2), rng.choice((_DENIALS if denied else _OTHERS)[beside]))
    refund = family in ("refund", "full") and rng.random() < 0.5
    sentences.append(rng.choice(_wishes(refund, negated=family == "full" and rng.random() < 0.5)))
    return Ticket(" ".join(sentences), complaint, topic, refund, beside, denied)


def topics_in(text: str) -> tuple[str, ...]:
    """The topics whose words a text uses, in the order of `TOPICS`."""
    return tuple(topic for topic in TOPICS if _SPEAKS_OF[topic].search(text) or topic in text.lower())


def _wishes(refund: bool, *, negated: bool) -> tuple[str, ...]:
    if refund:
        return _REFUND_BY_NEGATION if negated else _REFUND
    return _FIX_BY_NEGATION if negated else _FIX
