"""One addon, one job. The chain, in the order in which the composition root adds it:

    deadlines         what a client must have said by when
    identity          whose hop this is, under which profile
    admission         the target, and the ladder of SPEC 1.1
    integrity         CONNECT target, SNI, Host and authority are one name; nothing smuggled; upgrades
    chains            which hop of a redirect chain this is; refused redirects
    web_tools         what a vendor of models would reach the web for, in agents' calls to it; its answers read
    request_body      bodies counted as they stream up
    anonymity         what never reaches an origin, what never reaches a client
    byte_cap          decompressed bytes counted as they stream down
    verdict_response  the Fetchd-* fields of an origin's answer
    connecting        look-up, judgement, dial, origin TLS
    audit             decision and close lines

Each refuses by `hop.refuse(verdict)`; the first refusal stands and later addons step aside.
"""
