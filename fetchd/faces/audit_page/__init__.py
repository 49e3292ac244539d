"""The operator's pages: what every agent did, and why it was refused.

`views` renders templates and has the fields every page is served with; `sign_in` lets the operator in and out;
`forms` reads what browsers send back. Nothing comes from another server; no page has script or style of its own.
"""
