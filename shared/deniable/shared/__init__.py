"""The base of client, server and simulator: mechanisms, surveys, the wire format, the command.

`privacy` has the proven mechanisms, `survey` the document that names them. `envelope` and
`sealed_envelope` define the wire format, `errors` the tree of errors, `cli` the `deniable` command.
"""
