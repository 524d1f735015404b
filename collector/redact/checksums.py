"""Check digits: what tells a card or an account from any other number."""

_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # the digit sum of twice the digit

_IBAN_LENGTHS = {
    name: length
    for length, names in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH CR HR LI LV", 22: "BG BH DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for name in names.split()
}  # fmt: skip
"""The length of an IBAN by its country (ISO 13616 registry)."""

IBAN_COUNTRIES = tuple(sorted(_IBAN_LENGTHS))
"""The countries that have IBANs."""


def luhn(digits: str) -> bool:
    """Whether the last digit fits the others (ISO/IEC 7812-1)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = ord(digit) - 48
        total += _DOUBLED[number] if place % 2 else number
    return total % 10 == 0


def iban_length(country: str) -> int | None:
    """How many characters an IBAN of this country has; None if the country has none."""
    return _IBAN_LENGTHS.get(country.upper())


def iban(text: str) -> bool:
    """Whether the check digits of an IBAN, without spaces, fit (ISO 7064, mod 97-10)."""
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1
