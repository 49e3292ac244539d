"""Who may look: sign-in at the operator's listener, by token, one-time link, or session.

Terms. The *token* is what the operator keeps; a *link* signs in once; a *session* is a browser that signed in; a
*failure* is a token, link or form that was none of ours. Everything here lives in memory and is bounded; a restart
signs everybody out.

`gate` (ASGI middleware) asks `access`, which knows `sessions`, `links`, `attempts` and `forms`; what needs a clock
is given one. The pages that sign in and out are in `audit_page`.
"""
