"""Survey documents, from their text to the `Survey` that client, server and simulator share.

`reader` reads a table key by key; `kinds` and `questions` parse the questions; `document` combines
them into a Survey and divides its days into rounds. `keys` signs documents, and `phrases` describes
a survey in sentences.
"""
