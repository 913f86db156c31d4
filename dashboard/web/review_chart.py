"""Charts on a page: SVG, which Streamlit's own HTML leaves out."""

import streamlit as st

_JS = """\
export default function ({ data, parentElement }) {
  const place = parentElement.querySelector(".surface");
  if (place.fleetHtml !== data.html) place.innerHTML = place.fleetHtml = data.html;
}
"""
_component = st.components.v2.component(
    "chart_of_report",
    html='<div class="surface"></div>',
    js=_JS,
    isolate_styles=False,  # the one style sheet of the pages gives the bars their colours
)


def chart(html: str, *, key: str) -> None:
    """Draw a chart of `report.svg_chart`, whose foreign text is escaped."""
    _component(key=key, data={"html": html})
