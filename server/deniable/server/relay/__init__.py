"""The relay, which accepts sealed reports from anyone and forwards them in shuffled batches.

It needs no key, no survey and no database and, of the server's libraries, only the HTTP server.
Its operator should not be the server's operator.
"""
