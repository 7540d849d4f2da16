"""Published surveys, from a file to the public list.

`survey_file` reads what people write and adds tables from `optimal_table`. `replacement` compares
it with the survey that it replaces. `catalogue` publishes surveys, finds them and keeps them in
memory; `public_list` is what clients fetch. `clock` gives time and a survey's state.
"""
