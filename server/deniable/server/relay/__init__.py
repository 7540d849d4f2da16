"""The relay: takes sealed reports from anyone, and passes them on in shuffled batches.

It needs no key, no survey and no database, and none of the libraries that the server needs but the
one that speaks HTTP. Its operator should not be the server's operator.
"""
