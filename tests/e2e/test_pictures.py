"""The comparison of screenshots fails when an area changed, and only then."""

from __future__ import annotations

from PIL import Image, ImageDraw

from tests.e2e.pictures import difference

SIZE = (320, 240)


def test_equal_pictures_and_shades_nobody_sees_are_equal() -> None:
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
