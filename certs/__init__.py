"""The gateway's certificate authority: how it is made, checked and kept. No key is ever in this folder.

    authority  load_or_create_authority: the one call made at every start
    issuing    what a new authority looks like, and how one is read
    chain      what any authority must hold to, from its certificate to its root
    own        an authority of the operator's own, in files of his
    rotation   the next authority beside the current one, and the switch
    export     what clients trust, in the forms they take
    files      private directory, lock between starting processes, atomic writes, tight permissions
    errors     CertificateAuthorityError

Keys live in the state directory. README.md says how to trust, replace and bring an authority.
"""
