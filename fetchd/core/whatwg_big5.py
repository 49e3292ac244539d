"""Big5 pairs of the WHATWG Encoding Standard that Python's big5hkscs lacks: 192 of 18,594.

Facts of the standard (https://encoding.spec.whatwg.org/indexes.json, commit a985b62a); copyright WHATWG, used
under its BSD 3-clause licence for source code. A row a lead byte: trail bytes in hex, then their characters.
"""

from collections.abc import Mapping
from types import MappingProxyType

_ROWS: tuple[tuple[int, str, str], ...] = (
    (
        0x87,
        (
            "7a7b7c7d7ea1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8"
            "c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
        ),
        (
            "\u3875\U00021d53\U0002369e\U00026021\u3eec\U000258de\u3af5\u7afc\u9f97\U00024161\U0002890d"
            "\U000231ea\U00020a8a\U0002325e\u430a\u8484\u9f96\u942f\u4930\u8613\u5896\u974a\u9218\u79d0"
            "\u7a32\u6660\u6a29\u889d\u744c\u7bc5\u6782\u7a2c\u524f\u9046\u34e6\u73c4\U00025db9\u74c6"
            "\u9fc7\u57b3\u492f\u544c\u4131\U0002368e\u5818\u7a72\U00027b65\u8b8f\u46ae\U00026e88\u4181"
            "\U00025d99\u7bae\U000224bc\u9fc8\U000224c1\U000224c9\U000224cc\u9fc9\u8504\U000235bb\u40b4"
            "\u9fca\u44e1\U0002adff\u62c1\u706e\u9fcb"
        ),
    ),
    (
        0x8E,
        "696f7eabb4cdd0",
        "\u7bb8\u7c06\u7cce\u7dd2\u7e1d\u8005\u8028",
    ),
    (
        0x8F,
        "57696ecbccfe",
        "\u83c1\u84a8\u840f\u89a6\u89a9\u8d77",
    ),
    (
        0x90,
        "6d7adcf1",
        "\u90fd\u92b9\u975c\u97ff",
    ),
    (
        0x91,
        "bf",
        "\u9f16",
    ),
    (
        0x92,
        "44afb0b1b2c8d1",
        "\u8503\u5159\u515b\u515d\u515e\u936e\u7479",
    ),
    (
        0x94,
        "47ca",
        "\u6d67\u799b",
    ),
    (
        0x95,
        "d9",
        "\u9097",
    ),
    (
        0x96,
        "44edfc",
        "\u975d\u701e\u5b28",
    ),
    (
        0x9B,
        "76787bc6deecf6",
        "\u7201\u77d7\u7e87\u99d6\u91d4\u60de\u6fb6",
    ),
    (
        0x9C,
        "425362686b77bcbdd0",
        "\u8f36\u4fbb\u71df\u9104\u9df0\u83cf\u5c10\u79e3\u5a67",
    ),
    (
        0x9D,
        "575ac4",
        "\u8f0b\u7b51\u62d0",
    ),
    (
        0x9E,
        "a9effd",
        "\u6062\u75f9\u6c4a",
    ),
    (
        0x9F,
        "6066cbd8",
        "\u9b2e\u9f17\u50ed\u5f0c",
    ),
    (
        0xA0,
        "6377d5dfe4",
        "\u880f\u62ce\u7468\u7162\u7250",
    ),
    (
        0xA3,
        "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1",
        (
            "\u2400\u2401\u2402\u2403\u2404\u2405\u2406\u2407\u2408\u2409\u240a\u240b\u240c\u240d\u240e"
            "\u240f\u2410\u2411\u2412\u2413\u2414\u2415\u2416\u2417\u2418\u2419\u241a\u241b\u241c\u241d"
            "\u241e\u241f\u2421\u20ac"
        ),
    ),
    (
        0xC6,
        "cfd3d5d7dedf",
        "\u5ef4\u65e0\u7676\u96b6\u3003\u4edd",
    ),
    (
        0xFA,
        "5f66bdc5d5",
        "\u5029\u507d\u5305\u5344\u537f",
    ),
    (
        0xFB,
        "48b8f3f9",
        "\u5605\u5a77\u5e75\u5ed0",
    ),
    (
        0xFC,
        "4f6cb9e2f1",
        "\u5f58\u60a4\u6490\u6674\u675e",
    ),
    (
        0xFD,
        "b7b8bbf1",
        "\u6c9c\u6e1d\u6e2f\u716e",
    ),
    (
        0xFE,
        "526faadd",
        "\u732a\u745c\u74e9\u7809",
    ),
)

MISSING_PAIRS: Mapping[bytes, str] = MappingProxyType(
    {
        bytes((lead, trail)): character
        for lead, trails, characters in _ROWS
        for trail, character in zip(bytes.fromhex(trails), characters, strict=True)
    }
)
