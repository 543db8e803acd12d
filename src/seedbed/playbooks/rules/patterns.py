"""Patterns and names. In a pattern `*` stands for anything, and everything else for itself."""

from __future__ import annotations

import unicodedata

LOOKALIKES = frozenset(
    # Cyrillic, Greek, Armenian, Cherokee, Coptic and Lisu letters that are drawn like Latin ones
    "авеіјкмнорстухѕһԁԛԝԍѵӏьүґ"
    "αβγεζηικμνορτυχϲϳωϝ"
    "ոսօհցզյքաւ"
    "ᎪᎫᎬᎳᎵᎷᎻᎽᏀᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᎠᎡᎢᎥᎦᏴ"
    "ⲁⲃⲅⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭ"
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓠꓡꓢꓣꓦꓧꓨꓪꓫꓬꓮꓰꓲꓳꓴ"
    # Latin letters that are drawn like others, and clicks
    "ɑɡıɩɪʟʏʀɴʙɢʜꜰᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢꜱƅʋǀǃȷ"
)
FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u3164\uffa0\u2800")
"""Characters that draw nothing although Unicode counts them as letters, marks or symbols; see also `_is_hidden`."""


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name. As `*` is the only wildcard, `name` may itself be a pattern.

    Each part is searched once from the left, so a pattern with many stars takes no longer than its text is long.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == name
    *inner, last = rest
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or len(first) > end:
        return False
    at = len(first)
    for part in inner:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def locks(lock: str, path: str) -> bool:
    """Whether a lock covers a path: it matches the path or one of its parents."""
    return matches(lock, path) or matches(f"{lock}.*", path)


def folded(name: str) -> str:
    """A name as names are compared: in one Unicode form, without letter case and without space around it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def disguise(name: str) -> str:
    """Why a name can be taken for another one; empty if it cannot.

    Names of one script are fine in any script, as long as they cannot be read as Latin.
    """
    text, before = folded(name), ""
    for character in text:
        if _is_hidden(character) or (unicodedata.category(character) == "Mn" and before.isascii()):
            return f"its name has the hidden or overlaid character U+{ord(character):04X}"
        before = character
    letters = [character for character in text if character.isalpha()]
    alike = [character for character in letters if character in LOOKALIKES]
    if alike and (len(alike) == len(letters) or any(map(str.isascii, letters))):
        return f"its name has the character U+{ord(alike[0]):04X}, which looks like another letter"
    return ""


def _is_hidden(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff"
    return selector or character in FILLERS or unicodedata.category(character)[0] in "CZPS"
