"""Words before passwords, telephone numbers, accounts, codes and national ids, by language.

Separated by `|`; capitals count where a word has them, so that a SIN is not a sin.
`*` stands for any ending: `telefon*` is also `telefonnummer`. Between words there is one
space. Scripts without spaces need no `*`.
"""

from collections.abc import Mapping

PASSWORDS = {
    "en": "pass|pin|passcode|db_pass|pw",
    "de": "password ist|password lautet|passwort|kennwort|passwörter|zugangscode|zugangspasswort",
    "fr": "mot de passe|mdp|code d'accès|password est",
    "es": "contraseña|contrasena|clave|clave de acceso",
    "pt": "senha|palavra-passe|palavra passe",
    "it": "password è|parola d'ordine|parola chiave",
    "nl": "wachtwoord",
    "pl": "hasło|haslo",
    "sv": "lösenord|lösenordet",
    "da": "adgangskode|adgangskoden|kodeord",
    "no": "passord|passordet",
    "fi": "salasana|salasanani",
    "cs": "heslo",
    "ro": "parola|parolă",
    "hu": "jelszó|jelszavam|jelszava",
    "ru": "пароль",
    "bg": "парола|паролата",
    "el": "κωδικός πρόσβασης|κωδικός|συνθηματικό",
    "tr": "şifre|şifrem|sifre|sifrem|parolam",
    "ar": "كلمة المرور|كلمة السر|الرقم السري",
    "fa": "رمز عبور|گذرواژه",
    "he": "סיסמה|הסיסמה|סיסמא",
    "hi": "पासवर्ड",
    "bn": "পাসওয়ার্ড",
    "zh": "密码|密碼|口令",
    "ja": "パスワード|暗証番号",
    "ko": "비밀번호|암호",
    "vi": "mật khẩu",
    "th": "รหัสผ่าน",
    "id": "kata sandi|sandi",
}

COPULAS = (
    "is|ist|lautet|war|est|es|era|é|è|to|är|er|on|je|este|este:|mea|mea este|meu é|saya|saya adalah|adalah|của tôi là"
    "|là|это|мой|είναι|هي|هو|است|היא|שלי היא|है|—|–|-|->|は|是|为|은|는|이|가"
)
"""The pattern that may stand between such a word and a password instead of a colon."""

PHONES = {
    "en": "phone|ring|phone number|telephone|tel|mobile|cell|cellphone|fax|call me|call us|text me|ring me|reach me"
    "|my number|number's|whatsapp|sms|contact no|wa.me",
    "de": "telefon*|handy*|mobil*|mobilnummer|rufnummer|ruf mich|meine nummer|anrufen|erreichen|fax*|festnetz*",
    "fr": "téléphone|tél|portable|appelez*|appelle*|numéro de téléphone|rappelez*|mon numéro|me joindre",
    "es": "teléfono|telefono|móvil|celular|mi número|contacto|llámame|llame|llamar|whatsapp",
    "pt": "telefone|celular|telemóvel|ligue|ligar|me liga|meu número|contato|zap",
    "it": "telefono|cellulare|chiamami|chiamare|chiamate|il mio numero",
    "nl": "telefoon*|mobiel|mobiele|bel me|bellen|telefoonnummer|gsm|mijn nummer",
    "pl": "telefon*|zadzwoń|komórk*|tel|mój numer",
    "sv": "telefon*|mobilnummer|mobil|ring mig",
    "da": "telefonnummer|ring til|mobil",
    "no": "telefonnummer|ring meg|mobil",
    "fi": "puhelin*|puh|soita|soittakaa|numeroon",
    "cs": "telefon*|zavolejte|zavolej|mobil",
    "ro": "telefon*|sunați*|sunati*|mobil",
    "hu": "telefon*|hívjon|mobil|telefonszám*",
    "ru": "телефон*|тел|звоните|позвони*|мобильн*|сотовый|мой номер",
    "uk": "телефон*|тел|зателефонуйте|дзвоніть|подзвони*|мобільний|мій номер",
    "bg": "телефон*|обадете|тел",
    "el": "τηλέφωνο*|τηλ|κινητό|κινητο",
    "tr": "telefon*|cep|numaram|arayın|arayin|beni",
    "ar": "هاتف*|هاتفي|الهاتف|جوال|الجوال|موبايل|اتصل|تواصل",
    "fa": "تلفن|موبایل|همراه|تماس",
    "he": "טלפון|הטלפון|נייד|הנייד",
    "hi": "फ़ोन|फोन|फ़ोन|मोबाइल|कॉल|संपर्क",
    "bn": "ফোন|মোবাইল",
    "zh": "电话|電話|手机|手機|致电|联系方式|微信|打",
    "ja": "電話|携帯|電話番号|tel",
    "ko": "전화|휴대폰|핸드폰|연락처",
    "vi": "điện thoại|số điện thoại|đt|gọi",
    "th": "โทร|เบอร์|มือถือ",
    "id": "telepon|hp|nomor hp|telp|ponsel|nomor saya",
}

ACCOUNTS = {
    "en": "account|acct|a/c|sort code|routing number|routing|card number|card no|card|credit card|debit card|aba",
    "de": "kontonummer|konto|kontonr|blz|bankleitzahl|kreditkarte*|kartennummer|karte",
    "fr": "compte|numéro de compte|carte bleue|carte bancaire|numéro de carte",
    "es": "cuenta|número de cuenta|tarjeta|clabe",
    "pt": "conta|número da conta|cartão",
    "it": "conto|conto corrente|carta di credito|numero di carta",
    "nl": "rekening|rekeningnummer|creditcard",
    "pl": "rachunek|numer konta|numer rachunku|karta|numer karty",
    "sv": "kontonummer|kortnummer",
    "ru": "счёт|счет|номер счета|номер счёта|карта|номер карты",
    "tr": "hesap no|hesap numarası|kart numarası|kart",
    "ar": "رقم الحساب|رقم البطاقة",
    "hi": "खाता संख्या|कार्ड",
    "zh": "账号|账户|卡号|银行卡|帳號",
    "ja": "口座番号|カード番号",
    "ko": "계좌번호|계좌|카드번호",
    "vi": "số tài khoản|số thẻ",
    "id": "rekening|no rekening|nomor kartu",
}

CODES = {
    "en": "PIN|my pin|pin is|pin code|OTP|one-time code|one-time password|one time code|verification code|security code"
    "|login code|CVC|CVV|cvc|cvv",
    "de": "TAN|geheimzahl|bestätigungscode|sicherheitscode|einmalcode|mein pin|meine pin",
    "fr": "code pin|code de vérification|code de sécurité|code secret",
    "es": "código de verificación|código de seguridad|clave de un solo uso",
    "pt": "código de verificação|código de segurança",
    "it": "codice di verifica|codice di sicurezza|codice pin",
    "nl": "pincode|verificatiecode",
    "pl": "kod weryfikacyjny|kod pin",
    "ru": "код подтверждения|пин-код|код из смс",
    "tr": "doğrulama kodu|onay kodu",
    "ar": "رمز التحقق",
    "hi": "ओटीपी|पिन",
    "zh": "验证码|驗證碼|校验码",
    "ja": "認証コード|確認コード|暗証番号",
    "ko": "인증번호|인증 코드",
    "vi": "mã xác minh|mã otp",
    "id": "kode verifikasi|kode otp",
}

SEEDS = {
    "en": "seed phrase|recovery phrase|mnemonic|mnemonic phrase|seed words|wallet seed|secret phrase|private key|wif"
}

NATIONAL_IDS = {
    "en": "ssn|social security|social security number|national insurance|nino|passport|passport number|SIN|nric|tax id"
    "|driver's license|driver's licence|driving licence|drivers license|national id|identity card|id card|tfn|medicare"
    "|nhs number|itin|aadhaar|aadhar|pan card|ni number|driver license|driving license|national id number",
    "de": "steuer-id|steuer-id*|steueridentifikationsnummer|steuernummer|personalausweis*|reisepass*|ausweis*"
    "|sozialversicherungsnummer|ahv-nummer|svnr|führerschein*|idnr",
    "fr": "sécurité sociale|securite sociale|NIR|passeport|carte d'identité|registre national|numéro fiscal|permis",
    "es": "dni|NIE|nif|curp|rut|rfc|cédula|cedula|pasaporte|cuit|cuil",
    "pt": "cpf|nif|RG|cartão de cidadão|passaporte|cnh|contribuinte",
    "it": "codice fiscale|carta d'identità|passaporto|patente",
    "nl": "bsn|burgerservicenummer|rijksregisternummer|paspoort*",
    "pl": "pesel|dowód|dowód osobisty|NIP|paszport*",
    "sv": "personnummer|personnr|samordningsnummer|pass nr",
    "da": "cpr|cpr-nummer|cpr-nr|personnummer",
    "no": "fødselsnummer|personnummer|fødselsnr",
    "fi": "henkilötunnus|henkilötunnukseni|hetu",
    "cs": "rodné číslo|rodne cislo|občansk*",
    "ro": "cnp|cnp-ul|cnp-ul meu|buletin",
    "hu": "személyi*|adóazonosító|TAJ|taj-szám*|útlevél*",
    "ru": "паспорт*|снилс|инн",
    "uk": "паспорт*|рнокпп|іпн",
    "bg": "егн|лична карта",
    "el": "αφμ|αμκα|διαβατήριο*|ταυτότητα*",
    "tr": "tc|t.c|tc kimlik|t.c. kimlik|kimlik|kimlik no|pasaport*",
    "ar": "رقم الهوية|الهوية|الرقم القومي|جواز|جواز السفر",
    "fa": "کد ملی|شماره ملی|گذرنامه",
    "he": "תעודת זהות|ת.ז|דרכון",
    "hi": "आधार|पासपोर्ट",
    "bn": "জাতীয় পরিচয়পত্র|পাসপোর্ট",
    "zh": "身份证|身份證|护照|護照|社保号",
    "ja": "マイナンバー|個人番号|パスポート|旅券",
    "ko": "주민등록번호|주민번호|여권|여권번호",
    "vi": "cccd|cmnd|căn cước|hộ chiếu",
    "th": "บัตรประชาชน|หนังสือเดินทาง",
    "id": "NIK|KTP|paspor",
}


def words_of(by_language: Mapping[str, str]) -> tuple[tuple[str, bool], ...]:
    """Each word once, with whether it may have an ending."""
    each = {word for words in by_language.values() for word in words.split("|")}
    return tuple(sorted((word.rstrip("*"), word.endswith("*")) for word in each))
