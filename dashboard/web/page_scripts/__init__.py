"""Page scripts: run by Streamlit, imported by nobody."""
