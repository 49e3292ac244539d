"""Which countries a provider knows, and under which names. Tables alone.

Brave: codes of its reference, of any letter case, and ALL. Tavily: the names of its reference, here by their codes in
ISO 3166-1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BRAVE_COUNTRIES: Final = frozenset(
    "ALL AR AT AU BE BR CA CH CL CN DE DK ES FI FR GB HK ID IN IT JP KR MX MY NL NO NZ PH PL PT RU SA SE TR TW US"
    " ZA".split()
)

BRAVE_LANGUAGES: Final = frozenset(
    "ar bg bn ca cs da de el en en-gb es et eu fi fr gl gu he hi hr hu is it jp kn ko lt lv ml mr ms nb nl pa pl"
    " pt-br pt-pt ro ru sk sl sr sv ta te th tr uk vi zh-hans zh-hant".split()
)
BRAVE_SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"ja": "jp", "no": "nb", "pt": "pt-br or pt-pt", "zh": "zh-hans or zh-hant"}
)
"""What other services call a language that Brave calls otherwise."""

_TAVILY: Final = """
af afghanistan | al albania | dz algeria | ad andorra | ao angola | ar argentina | am armenia |
au australia | at austria | az azerbaijan | bs bahamas | bh bahrain | bd bangladesh | bb barbados |
by belarus | be belgium | bz belize | bj benin | bt bhutan | bo bolivia | ba bosnia and herzegovina |
bw botswana | br brazil | bn brunei | bg bulgaria | bf burkina faso | bi burundi | kh cambodia |
cm cameroon | ca canada | cv cape verde | cf central african republic | td chad | cl chile | cn china |
co colombia | km comoros | cg congo | cr costa rica | hr croatia | cu cuba | cy cyprus |
cz czech republic | dk denmark | dj djibouti | do dominican republic | ec ecuador | eg egypt |
sv el salvador | gq equatorial guinea | er eritrea | ee estonia | et ethiopia | fj fiji | fi finland |
fr france | ga gabon | gm gambia | ge georgia | de germany | gh ghana | gr greece | gt guatemala |
gn guinea | ht haiti | hn honduras | hu hungary | is iceland | in india | id indonesia | ir iran |
iq iraq | ie ireland | il israel | it italy | jm jamaica | jp japan | jo jordan | kz kazakhstan |
ke kenya | kw kuwait | kg kyrgyzstan | lv latvia | lb lebanon | ls lesotho | lr liberia | ly libya |
li liechtenstein | lt lithuania | lu luxembourg | mg madagascar | mw malawi | my malaysia | mv maldives |
ml mali | mt malta | mr mauritania | mu mauritius | mx mexico | md moldova | mc monaco | mn mongolia |
me montenegro | ma morocco | mz mozambique | mm myanmar | na namibia | np nepal | nl netherlands |
nz new zealand | ni nicaragua | ne niger | ng nigeria | kp north korea | mk north macedonia | no norway |
om oman | pk pakistan | pa panama | pg papua new guinea | py paraguay | pe peru | ph philippines |
pl poland | pt portugal | qa qatar | ro romania | ru russia | rw rwanda | sa saudi arabia | sn senegal |
rs serbia | sg singapore | sk slovakia | si slovenia | so somalia | za south africa | kr south korea |
ss south sudan | es spain | lk sri lanka | sd sudan | se sweden | ch switzerland | sy syria | tw taiwan |
tj tajikistan | tz tanzania | th thailand | tg togo | tt trinidad and tobago | tn tunisia | tr turkey |
tm turkmenistan | ug uganda | ua ukraine | ae united arab emirates | gb united kingdom |
us united states | uy uruguay | uz uzbekistan | ve venezuela | vn vietnam | ye yemen | zm zambia |
zw zimbabwe
"""

TAVILY_COUNTRIES: Final[Mapping[str, str]] = MappingProxyType(
    {code: name for code, _, name in (one.strip().partition(" ") for one in _TAVILY.split("|"))}
)
