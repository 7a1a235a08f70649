"""What the demo of entities holds its run against."""

from demos.entities.calm import calm_links
from demos.entities.mentions import make_mentions
from demos.entities.world import make_world


async def test_services_that_are_well_find_most_and_hardly_ever_another_one() -> None:
    world = make_world(250)
    mentions = make_mentions(world, 200)
    links = await calm_links(world, mentions)
    right = sum(link is not None and link == made.right for link, made in zip(links, mentions, strict=True))
    wrong = sum(link is not None and link != made.right for link, made in zip(links, mentions, strict=True))
    assert right > 0.8 * sum(made.right is not None for made in mentions)
    assert wrong < 0.03 * right
