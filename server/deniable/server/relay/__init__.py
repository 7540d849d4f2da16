"""Relay, which accepts sealed reports from anyone and forwards them in shuffled batches.

It needs no key, no survey and no database. Of the server's libraries it uses only the HTTP server.
Its operator should not be the server's operator. `relay_process` accepts envelopes, `held_batches`
stores them, and `forwarder` sends them.
"""
