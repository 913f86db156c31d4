"""Page scripts, run by Streamlit and imported by no module."""
