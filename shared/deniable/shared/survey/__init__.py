"""The survey document, from its text to the object that client, server and simulator share.

`reader` reads a table key by key; `labels`, `kinds` and `questions` read its parts; `document`
joins them into a Survey. `periods` cuts days into rounds, `keys` signs documents, and `phrases`
describes a survey in sentences.
"""
