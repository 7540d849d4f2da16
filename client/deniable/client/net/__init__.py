"""The network: surveys come in, and envelopes go out. Only this package writes to the wire.

`surveys` chooses a survey from the list that `survey_list` fetches and verifies. `uploader` sends
envelopes in the background and reads replies with `delivery`. Both use a `transport`, which makes
one request per connection with `exchange`.
"""
