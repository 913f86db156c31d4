"""What is chosen stands in the URL, and what stands in the URL is chosen."""

from streamlit.testing.v1 import AppTest


def script() -> None:
    """One widget of each kind."""
    import streamlit as st

    from dashboard.web import choices

    choices.begin()
    st.selectbox("Pool", ["a", "b"], **choices.bound("pool", ["a", "b"]))
    st.segmented_control("Show", ["few", "all"], **choices.bound("show", ["few", "all"]), required=True)
    st.text_input("Search", **choices.bound("search"))
    st.toggle("Only", **choices.bound("only", default=False))
    st.text(dict(st.query_params))
    st.text(choices.not_followed())


def opened(**url: str) -> AppTest:
    """Open the script with choices in its URL."""
    app = AppTest.from_function(script)
    for name, value in url.items():
        app.query_params[name] = value
    return app.run()


def chosen(app: AppTest) -> list[object]:
    """What the four widgets show."""
    assert not app.exception
    return [
        app.selectbox(key="pool").value,
        app.segmented_control(key="show").value,
        app.text_input(key="search").value,
        app.toggle(key="only").value,
    ]


def test_a_choice_can_be_read_before_its_widget_is_drawn() -> None:
    def early() -> None:
        import streamlit as st

        from dashboard.web import choices

        st.text(choices.chosen("pool", ["a", "b"]))

    app = AppTest.from_function(early)
    assert app.run().text[0].value == "a"
    app.query_params["pool"] = "b"
    assert app.run().text[0].value == "b"
    app.query_params["pool"] = "no such"
    assert app.run().text[0].value == "a"


def test_without_an_url_the_first_is_chosen() -> None:
    """And nothing is written into the URL."""
    app = opened()

    assert chosen(app) == ["a", "few", "", False]
    assert app.text[0].value == "{}"


def test_the_url_chooses() -> None:
    """A link shows what was linked to."""
    assert chosen(opened(pool="b", show="all", search="x y", only="true")) == ["b", "all", "x y", True]


def test_what_is_no_option_is_not_chosen() -> None:
    """An old link to a pool that is gone opens the first one; what could not be followed is known."""
    app = opened(pool="gone", show="all", only="maybe", search="anything")

    assert chosen(app) == ["a", "all", "anything", False]
    assert app.text[1].value == "{'pool': 'gone', 'only': 'maybe'}"
    assert opened(only="false").text[1].value == "{}"


def test_a_choice_is_written_into_the_url_and_the_default_leaves_it() -> None:
    """The address can be handed on, and is as short as can be."""
    app = opened(search="x")
    app.selectbox(key="pool").set_value("b")
    app.toggle(key="only").set_value(True).run()
    assert app.text[0].value == "{'search': 'x', 'pool': 'b', 'only': 'true'}"

    app.selectbox(key="pool").set_value("a")
    app.toggle(key="only").set_value(False)
    app.text_input(key="search").set_value("").run()
    assert app.text[0].value == "{}"
