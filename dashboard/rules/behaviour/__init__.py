"""Rules on correctness, admission and answers of the API: CO."""
