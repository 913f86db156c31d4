"""The comparison of screenshots reports visible changes only, and draws them side by side."""

from PIL import Image, ImageDraw

from tests.e2e.pictures import CHANGED, GAP, difference, side_by_side

SIZE = (320, 240)


def test_equal_pictures_and_invisible_shades_are_equal() -> None:
    assert difference(Image.new("RGB", SIZE, (200, 200, 200)), Image.new("RGB", SIZE, (210, 195, 200))) is None


def test_a_few_stray_pixels_are_let_pass() -> None:
    stray = Image.new("RGB", SIZE)
    for place in ((3, 3), (100, 50), (200, 200)):
        stray.putpixel(place, (255, 255, 255))

    assert difference(Image.new("RGB", SIZE), stray) is None


def test_a_changed_word_fails_although_it_is_a_small_share_of_a_large_page() -> None:
    large = Image.new("RGB", (1600, 1200))
    word = large.copy()
    ImageDraw.Draw(word).rectangle((800, 600, 822, 612), fill=(255, 255, 255))

    assert "something changed around" in str(difference(large, word))


def test_a_change_all_over_and_another_size_fail() -> None:
    assert "of the pixels" in str(difference(Image.new("RGB", SIZE), Image.new("RGB", SIZE, (255, 255, 255))))
    assert "size" in str(difference(Image.new("RGB", SIZE), Image.new("RGB", (10, 10))))


def test_before_after_and_what_differs_stand_side_by_side() -> None:
    """What stayed is pale in the third picture, what changed is marked at its place."""
    before = Image.new("RGB", SIZE, (0, 0, 0))
    after = before.copy()
    after.putpixel((30, 40), (255, 255, 255))
    sheet = side_by_side(before, after)
    step = SIZE[0] + GAP

    assert sheet.size == (3 * SIZE[0] + 2 * GAP, SIZE[1])
    assert [sheet.getpixel((place * step + 30, 40)) for place in range(3)] == [(0, 0, 0), (255, 255, 255), CHANGED]
    stayed = sheet.getpixel((2 * step, 0))
    assert isinstance(stayed, tuple)
    assert min(stayed) > 150
