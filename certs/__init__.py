"""The gateway's certificate authority: how it is made, checked and kept. No key is ever in this folder.

    authority  load_or_create_authority: the one call made at every start
    issuing    what a new authority looks like, and what any authority must hold to
    files      private directory, lock between starting processes, atomic writes, tight permissions
    errors     CertificateAuthorityError

Keys live in the state directory. README.md says how to trust, replace and bring an authority.
"""
