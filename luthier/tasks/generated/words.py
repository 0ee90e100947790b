"""Common English words of three to seven letters, the raw material of our own word families (ours)."""

from __future__ import annotations

WORDS: tuple[str, ...] = tuple(
    """
    able acid acorn actor agent air alarm album alley amber anchor angle animal ankle apple april apron arch
    arm arrow artist aspen atlas attic aunt autumn avenue badge bagel baker balcony ball bamboo banana band
    bank barn barrel basil basin basket bath beach bead bean bear beard beaver bed bee bell belt bench berry
    bike bird biscuit blanket blossom board boat body bone book boot border bottle boulder bowl box boy
    brain branch bread brick bridge broom brother brush bucket bud bus bush butter button cabin cable cactus
    cake camel camera camp canal candle candy canoe canyon cap captain car card cargo carpet carrot castle
    cat cave cedar ceiling cellar chain chair chalk cheese cherry chess chest chicken child chimney church
    cinema circle city clay cliff clock cloud clover coach coal coast coat coffee coin collar comet compass
    cookie copper coral corn cotton couch cousin cow crab crane crayon cricket crop crow crown cup curtain
    daisy dance dawn deer desert desk diamond dinner dish doctor dog dollar donkey door dragon drawer dream
    dress drum duck dust eagle ear earth east egg elbow engine evening eye fabric falcon family farm farmer
    feather fence fern ferry field finger fire fish flag flame flock floor flour flower flute fog folder
    food forest fork fox frame friend frog fruit game garage garden garlic gate ghost giant ginger giraffe
    glass globe glove goat gold goose grain grandma grape grass guest guitar hall hammer hand harbor hat
    hawk heart hedge hen hill honey hook horse hotel house ice ink iron island ivory jacket jar jelly jewel
    juice jungle kettle key king kitchen kite kitten knife knot ladder lake lamp lantern leaf leather lemon
    letter library lily linen lion lizard lobster lock log lunch magnet maple marble market mask meadow
    melon mirror mitten monkey moon morning moss mother motor mouse museum music nail napkin needle nest net
    night north nurse oak oasis ocean olive onion orange orchid otter oven owl oyster paddle page paint
    palace panda paper parade park parrot pasta path peach peanut pear pebble pen pencil penguin pepper
    piano picnic pigeon pillow pilot pine pirate planet plate plum pocket poem pond pony potato powder
    prince prize puppet purse puzzle quartz queen quilt rabbit radio raft rain ranch raven ribbon rice ring
    river road robin robot rock rocket roof rope rose ruler saddle sail salad salmon salt sand scarf school
    sea seed shadow sheep shelf shell ship shirt shoe shop silk silver singer sister sky sled smoke snail
    snow soap sock sofa soil soup spider spoon spring square squash stable star station steam stone storm
    stove straw street string student sugar summer sun swan sweater table tailor tea teacher temple tent
    theater thread thumb thunder ticket tiger toast toe tomato tool torch towel tower town toy tractor train
    tray tree trumpet trunk tulip tunnel turkey turtle twig uncle valley vase velvet village vine violin
    wagon walnut water wave well whale wheat wheel whistle willow window wing winter wolf wood wool yard
    zebra
    """.split()  # noqa: SIM905 - a block of words is read more easily than 500 quoted strings
)
"""Distinct lower-case words in alphabetical order."""
