"""The `deniable` command: `command` finds the verbs that each part brings and runs one of them.

A verb (`verb`) is one object in one module; `verbs` lists those of this part. Heavy libraries are
imported when a verb runs, so that `deniable --help` stays fast.
"""
