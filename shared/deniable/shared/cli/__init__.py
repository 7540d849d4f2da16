"""The `deniable` command: `command` finds the verbs of all installed parts and runs one of them.

Each verb is a `Verb` object in a module of its part; `verbs` lists those of this part. Heavy
libraries are imported when a verb runs, so that `deniable --help` stays fast.
"""
