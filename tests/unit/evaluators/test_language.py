"""The language of a user's words: named where it is clear, and at a bounded cost."""

from __future__ import annotations

import time

import pytest

from evaluators.texts.language import language_of


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "How do I reset my password?"),
        ("en", "my order never arrived, what now"),
        ("de", "Wie setze ich mein Passwort zurück?"),
        ("fr", "Ma commande n'est jamais arrivée"),
        ("fr", "Ça ne marche toujours pas, c\u2019est quoi le problème"),
        ("es", "¿Cómo restablezco mi contraseña?"),
        ("it", "Il mio ordine non è mai arrivato"),
        ("pt", "Você pode resumir este artigo?"),
        ("nl", "Hoe reset ik mijn wachtwoord?"),
        ("sv", "Hur återställer jag mitt lösenord?"),
        ("pl", "Czy możesz streścić ten artykuł?"),
        ("tr", "Şifremi nasıl sıfırlarım?"),
        ("vi", "Làm thế nào để đặt lại mật khẩu?"),
        ("id", "Saya ingin membatalkan langganan"),
        ("fi", "Haluan peruuttaa tilauksen, miten se on"),
        ("ru", "Мой заказ так и не пришёл"),
        ("uk", "Моє замовлення так і не прийшло"),
        ("ar", "كيف أعيد تعيين كلمة المرور؟ أريد هذا"),
        ("ja", "パスワードをリセットするには?"),
        ("zh", "我的订单一直没有到"),
        ("ko", "주문이 도착하지 않았어요"),
        ("el", "Πώς επαναφέρω τον κωδικό μου;"),
        ("hi", "मैं अपना पासवर्ड कैसे रीसेट करूं?"),
        ("th", "รีเซ็ตรหัสผ่านอย่างไร"),
        ("de", "Was macht dieser Code? ```def the(and, of, you, is): return what```"),
        ("ja", "PythonのTypeErrorを直したい"),
        ("fr", "Le caractère 愛 veut dire amour, mais je ne sais pas comment le lire"),
        ("en", "what does the address a@b.example have to do with my order and the café"),
    ],
)
def test_it_is_named(language: str, text: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    "text", ["", "ok", "1234", "???", "https://example.org/the/and/of", "SELECT", "a@b.example", "iPhone 15 Pro"]
)
def test_it_is_not_guessed(text: str) -> None:
    assert language_of(text) is None


@pytest.mark.parametrize(
    "text", ["a" * 10**6, "a'" * 10**6, "```" * 10**6, "@" * 10**6, "ș" * 10**6, "http" * 10**6, "х" * 10**6]
)
def test_no_text_takes_long(text: str) -> None:
    language_of("warm up")
    begin = time.process_time()
    language_of(text)
    assert time.process_time() - begin < 0.25, "it looks at 2,000 characters, in a few milliseconds"
