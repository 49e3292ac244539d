"""What one audit line says, before it is numbered, linked and hashed (SPEC 1.9).

Laws of every record. Every member is always written, in the order its ``render`` gives; what is not known is
``null``. Nothing written can hold a header value (but the parsed media type), a cookie, a body or a query string: a
URL loses user info, query and fragment once more on its way in, also inside a message (SPEC 1.6, `redaction`).
Strings that come from outside are cut, and so are lists. The text is ASCII, so it is safe in any terminal.

``render`` gives a record's members, ``render_text`` the same as they stand in its line.
"""

from proxy_addons.audit.ask_record import AskRecord
from proxy_addons.audit.event_record import EventRecord
from proxy_addons.audit.fetch_record import FetchRecord
from proxy_addons.audit.hop_record import CloseRecord, DecisionRecord
from proxy_addons.audit.search_record import SearchRecord
from proxy_addons.audit.web_record import WebRecord

type Record = DecisionRecord | CloseRecord | FetchRecord | EventRecord | SearchRecord | WebRecord | AskRecord
