"""Words by which a text speaks to its judge, by what they do, in fifteen languages; regular expressions in lower case.

A sentence that asks to ignore instructions has a word of `IGNORE`, of `INSTRUCTIONS` and of `PRIOR`, and so on: which
words have to come together is in `injection_detection.py`. A word is matched from its beginning to its end, but in
scripts without spaces anywhere.
"""

IGNORE = (
    r"ignore|disregard|forget|override|bypass|skip|do not follow|don't follow|pay no attention to",
    r"ignorier\w*|vergiss|vergessen sie|missachte\w*|übergeh\w*",
    r"ignore[rz]|oublie[rz]?|ne (?:tiens|tenez) pas compte|fais abstraction",
    r"ignora\w*|olvida\w*|haz caso omiso|haga caso omiso|descarta\w*",
    r"esque[cç]\w+|desconsider\w+|dimentic\w+|trascura\w*|negeer|vergeet|zignoruj\w*|ignoruj\w*|zapomnij\w*|pomiń",
    r"(?:про)?игнорируй\w*|забудь\w*|не обращай\w* внимания|пренебреги|yok say\w*|unut\w*|görmezden gel\w*",
    r"忽略|无视|無視|忘记|忘掉|不要理会|不用管|忘れ|무시|잊|تجاهل|انس|لا تلتفت|अनदेखा|भूल जा|नज़रअंदाज़",
)
INSTRUCTIONS = (
    r"instructions?|rubrics?|criteri\w+|guidelines?|prompts?|rules?|steps|directions",
    r"anweisung\w*|kriterien|regeln|vorgaben|richtlinien|bewertungs\w+",
    r"consignes?|critères?|règles?|instrucciones|criterios|reglas|normas|instruções|critérios|regras",
    r"istruzioni|regole|instructies|regels|instrukcj\w+|kryteri\w+|zasad\w*|инструкци\w+|критери\w+|правил\w*|указани\w+",
    r"talimat\w*|kriter\w*|kural\w*|指令|标准|规则|規則|指示|基準|ルール|지시|기준|규칙",
    r"التعليمات|تعليمات\w*|المعايير|القواعد|निर्देश\w*|मानदंड\w*|नियम\w*",
)
PRIOR = (
    r"previous|prior|above|earlier|preceding|all|your|system|given|evaluation|grading|scoring|judging|rubrics?",
    r"bisherig\w*|vorherig\w*|obig\w*|alle\w*|deine\w*|ihre|précédent\w*|toutes|tous|tes|vos|ci-dessus",
    r"anterior\w*|todas|todos|tus|sus|arriba|previas|acima|suas|seus|tuas|precedent\w*|tutte|tutti|sopra|tue",
    r"vorige|bovenstaande|eerdere|poprzedni\w*|wszystki\w*|powyższ\w*|swoje|twoje|предыдущ\w*|все|выше\w*|свои|твои|ваши",
    r"önceki|yukarıdaki|tüm|bütün|之前|以前|以上|上面|所有|你的|先前|上記|すべて|全て|あなたの|이전|모든|위의|당신의",
    r"السابقة|جميع|أعلاه|كل|पिछले|सभी|ऊपर|अपने",
)
DEMAND = (
    r"give|assign|award|return|output|respond|reply|must|should|has to|deserves",
    r"(?:mark|score|rate|grade) (?:this|it|the)",
    r"the (?:correct|right|final|only) (?:score|rating|grade) is|end with",
    r"gib|gebt|vergib|vergebt|bewerte|antworte|erteile|donne[rz]?|attribue[rz]?|accorde[rz]?|renvoie|mets|mettez",
    r"da|dale|asigna\w*|otorga\w*|devuelve|ponle|pon|dê|atribua|devolva|conceda|assegna\w*|dai|attribuisci|restituisci",
    r"geef|ken|daj|przyznaj|zwróć|wystaw|(?:по)?став(?:ь|ьте)|дай\w*|верни\w*|присвой|выстави|ver|verin|döndür",
    r"请给|给这|直接给|给最高|打满分|打10分|输出|评为|给出|付けて|出力|返して|つけて|주세요|주십시오|주고|출력|부여|أعط|امنح|أعد|दें|दो|दीजिए",
)
MAXIMUM = (
    r"(?:highest|maximum|perfect|full|top|best)(?: possible)? (?:score|rating|marks?|grade|verdict)",
    r"(?:as|is) (?:perfect|correct)",
    r"10/10|10 out of 10|5 out of 5|5/5|(?:score|rating|grade)(?: is| of| to|:)? (?:1\.0|10|100)",
    r"'pass'|\"pass\"|just pass",
    r"volle punktzahl|(?:höchste|maximale|beste)\w* (?:punktzahl|note|bewertung)|bestnote",
    r"(?:note|score) (?:maximale?|parfaite?|la plus haute|le plus élevé)|meilleure note|10 sur 10",
    r"(?:puntuación|nota|calificación) (?:máxima|más alta|perfecta)|máxima (?:puntuación|nota|calificación)",
    r"(?:pontuação|nota|avaliação) (?:máxima|mais alta|perfeita)",
    r"punteggio (?:massimo|perfetto|pieno)|voto (?:massimo|più alto)",
    r"(?:hoogste|maximale|perfecte) (?:score|cijfer|beoordeling)|(?:najwyższ\w+|maksymaln\w+) (?:ocen\w+|wynik|not\w+)",
    r"(?:высш|наивысш|максимальн)\w+ (?:оценк\w+|балл\w*)|максимум баллов|(?:en yüksek|tam) (?:puan|not|skor)\w*",
    r"满分|最高分|満点|最高点|最高評価|最高スコア|만점|최고점|최고 점수|최고 평가",
    r"أعلى (?:درجة|تقييم)|الدرجة (?:الكاملة|القصوى|النهائية)|(?:सबसे अधिक|सर्वोच्च|पूरे|अधिकतम) अंक",
)
TARGET = (
    r"this (?:answer|response|reply|conversation|turn|output|submission)",
    r"the (?:assistant|model)'s (?:answer|response|reply)",
    r"diese\w* antwort|cette réponse|esta respuesta|esta resposta|questa risposta|dit antwoord|tej odpowiedzi",
    r"(?:этому|этот) ответ\w*|bu (?:cevab|yanıt)\w*|这个回答|本回答|该回答|この回答|이 답변|هذه الإجابة|इस उत्तर",
)
TEN = (r"10|100|ten", r"10分|10点|10점")
JUDGE = (
    r"evaluator|grader|assessor|(?:llm |ai )?judge|scoring model|reviewer",
    r"prüfer|bewerter|gutachter|richter|bewertende\w* modell|évaluateur|correcteur|juge|evaluador|juez|corrector",
    r"avaliador|juiz|corretor|valutatore|giudice|correttore|beoordelaar|oceniając\w+|sędzi\w+",
    r"оценщик\w*|судья|проверяющ\w+|değerlendirici\w*|hakem|jüri",
    r"评审|评委|评分模型|评估者|裁判|評価者|採点者|審査員|평가자|채점자|심사위원|المقيم|المقيّم|الحكم|المصحح",
    r"मूल्यांकनकर्ता|परीक्षक|निर्णायक",
)
ADDRESS = (
    r"dear|attention|note (?:to|for)|hey|hello|you are|as (?:the|an?)|message (?:to|for)",
    r"lieber?|hinweis an|achtung|an (?:das|den|die)|sehr geehrte\w*|chère?|cher|note à|à l'attention",
    r"querid[oa]|nota para|atención|estimad[oa]|car[oa]|atenção|prezad[oa]|gentile|nota per|attenzione",
    r"let op|beste|opmerking voor|uwaga|drogi|szanown\w+|примечание|уважаем\w+|вниманию|дорогой|not|sayın|dikkat",
    r"请注意|致|亲爱的|尊敬的|へ：|へ:|の方へ|さんへ|에게|님|ملاحظة|عزيزي|انتبه|नोट|प्रिय|ध्यान",
)
