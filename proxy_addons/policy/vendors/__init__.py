"""Web access that a vendor of models executes for the model: what is known of it, and how it is held (SPEC 6).

Pure, as all of `policy`; the gateway holds agents' own calls to these tables, the daemon renders its own by them.

    dialects    what each shape of asking for the web can say
"""
