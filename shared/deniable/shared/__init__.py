"""The base of client, server and simulator: mechanisms, surveys, the wire format, the command.

`privacy` has the proven mechanisms, `survey` the document that names them. `envelope` and
`sealed_envelope` carry reports, `errors` is the tree of errors, `cli` the `deniable` command.
"""
