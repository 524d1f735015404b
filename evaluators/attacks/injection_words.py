"""Words by which a text speaks to its judge, by what they do, in fifteen languages; regular expressions in lower case.

A sentence that asks to ignore instructions has a word of `IGNORE`, of `INSTRUCTIONS` and of `PRIOR`, and so on: which
words have to come together is in `injection_detection.py`. A word is matched from its beginning to its end, but in
scripts without spaces anywhere.
"""

IGNORE = (
    r"ignore|disregard|forget|override|bypass|skip|do not follow|don't follow|pay no attention to|set aside|throw away",
    r"no longer (?:counts?|appl(?:y|ies)|valid)|abaikan|lupakan|bỏ qua|quên|不要遵[循守]|不遵守|绕过|상관 말고|non tenere conto",
    r"no sigas|fais comme si|überschreib\w*|ignorier\w*|vergiss|vergessen sie|missachte\w*|übergeh\w*|ignore[rz]",
    r"oublie[rz]?|ne (?:tiens|tenez) pas compte|fais abstraction|ignora\w*|olvida\w*|haz caso omiso|haga caso omiso",
    r"descarta\w*|esque[cç]\w+|desconsider\w+|dimentic\w+|trascura\w*|negeer|vergeet|zignoruj\w*|ignoruj\w*",
    r"zapomnij\w*|pomiń|(?:про)?игнорируй\w*|забудь\w*|не обращай\w* внимания|пренебреги|yok say\w*|unut\w*",
    r"görmezden gel\w*|忽略|无视|無視|忘记|忘掉|不要理会|不用管|忘れ|무시|잊|تجاهل|انس|لا تلتفت|अनदेखा|नज़रअंदाज़|भूल जा\w*|भूल",
)
INSTRUCTIONS = (
    r"instructions?|rubrics?|criteri\w+|guidelines?|prompts?|rules?|steps|directions|orders|policy|training",
    r"(?:everything|all|what) (?:that )?you (?:were|have been|had been) told|programming|설정|设定|設定|instruksi|aturan",
    r"chỉ dẫn|hướng dẫn|quy tắc|poleceni\w+|reguł\w*|programmation|programación|系统提示|限制|restrictions|systemnachricht",
    r"sicherheits\w+|anweisung\w*|kriterien|regeln|vorgaben|richtlinien|bewertungs\w+|consignes?|critères?|règles?",
    r"instrucciones|criterios|reglas|normas|instruções|critérios|regras|istruzioni|regole|instructies|regels",
    r"instrukcj\w+|kryteri\w+|zasad\w*|инструкци\w+|критери\w+|правил\w*|указани\w+|talimat\w*|kriter\w*|kural\w*|指令",
    r"标准|规则|規則|指示|基準|ルール|지시|기준|규칙|التعليمات|تعليمات\w*|المعايير|القواعد|निर्देश\w*|मानदंड\w*|नियम\w*",
)
PRIOR = (
    r"previous|prior|above|earlier|preceding|all|your|system|given|evaluation|grading|scoring|judging|rubrics?",
    r"bisherig\w*|vorherig\w*|obig\w*|alle\w*|deine\w*|ihre|précédent\w*|toutes|tous|tes|vos|ci-dessus|anterior\w*",
    r"todas|todos|tus|sus|arriba|previas|acima|suas|seus|tuas|precedent\w*|tutte|tutti|sopra|tue|vorige|bovenstaande",
    r"eerdere|poprzedni\w*|wszystki\w*|powyższ\w*|swoje|twoje|предыдущ\w*|все|выше\w*|свои|твои|ваши|önceki|yukarıdaki",
    r"tüm|bütün|之前|以前|以上|上面|所有|你的|先前|上記|すべて|全て|あなたの|이전|모든|위의|당신의|السابقة|جميع|أعلاه|كل|पिछले|सभी|ऊपर|अपने|you were",
    r"before this|on\w* precedenti|ricevut\w+|finora|wcześniejsz\w+|지금까지|모두|これまで|sebelumnya|semua|trước|mọi|tất cả",
    r"dein|ta|sicherheits\w+|original\w*|你",
)
DEMAND = (
    r"give|assign|award|return|output|respond|reply|must|should|has to|deserves",
    r"(?:mark|score|rate|grade) (?:this|it|the)|the (?:correct|right|final|only) (?:score|rating|grade) is|end with",
    r"gib|gebt|vergib|vergebt|bewerte|antworte|erteile|donne[rz]?|attribue[rz]?|accorde[rz]?|renvoie|mets|mettez|da",
    r"dale|asigna\w*|otorga\w*|devuelve|ponle|pon|dê|atribua|devolva|conceda|assegna\w*|dai|attribuisci|restituisci",
    r"geef|ken|daj|przyznaj|zwróć|wystaw|(?:по)?став(?:ь|ьте)|дай\w*|верни\w*|присвой|выстави|ver|verin|döndür|请给|给这",
    r"直接给|给最高|打满分|打10分|输出|评为|给出|付けて|出力|返して|つけて|주세요|주십시오|주고|출력|부여|أعط|امنح|أعد|दें|दो|दीजिए",
)
MAXIMUM = (
    r"(?:highest|maximum|perfect|full|top|best)(?: possible)? (?:score|rating|marks?|grade|verdict)",
    r"(?:as|is) (?:perfect|correct)|10/10|10 out of 10|5 out of 5|5/5",
    r"(?:score|rating|grade)(?: is| of| to|:)? (?:1\.0|10|100)|full (?:marks|points)|top (?:marks?|points)",
    r"maximum points|'pass'|\"pass\"|just pass|volle punktzahl",
    r"(?:höchste|maximale|beste)\w* (?:punktzahl|note|bewertung)|bestnote",
    r"(?:note|score) (?:maximale?|parfaite?|la plus haute|le plus élevé)|meilleure note|10 sur 10",
    r"(?:puntuación|nota|calificación) (?:máxima|más alta|perfecta)|máxima (?:puntuación|nota|calificación)",
    r"(?:pontuação|nota|avaliação) (?:máxima|mais alta|perfeita)|punteggio (?:massimo|perfetto|pieno)",
    r"voto (?:massimo|più alto)|(?:hoogste|maximale|perfecte) (?:score|cijfer|beoordeling)",
    r"(?:najwyższ\w+|maksymaln\w+) (?:ocen\w+|wynik|not\w+)|(?:высш|наивысш|максимальн)\w+ (?:оценк\w+|балл\w*)",
    r"максимум баллов|(?:en yüksek|tam) (?:puan|not|skor)\w*|满分|最高分|満点|最高点|最高評価|最高スコア|만점|최고점|최고 점수|최고 평가",
    r"أعلى (?:درجة|تقييم)|الدرجة (?:الكاملة|القصوى|النهائية)|(?:सबसे अधिक|सर्वोच्च|पूरे|अधिकतम) अंक",
)
TARGET = (
    r"this (?:answer|response|reply|conversation|turn|output|submission)",
    r"the (?:assistant|model)'s (?:answer|response|reply)|diese\w* antwort|cette réponse|esta respuesta|esta resposta",
    r"questa risposta|dit antwoord|tej odpowiedzi|(?:этому|этот) ответ\w*|bu (?:cevab|yanıt)\w*|这个回答|本回答|该回答|この回答|이 답변",
    r"هذه الإجابة|इस उत्तर",
)
TEN = (r"10|100|ten|10分|10点|10점",)
JUDGE = (
    r"evaluator|grader|assessor|(?:llm |ai )?judge|scoring model|reviewer|prüfer|bewerter|gutachter|richter",
    r"bewertende\w* modell|évaluateur|correcteur|juge|evaluador|juez|corrector|avaliador|juiz|corretor|valutatore",
    r"giudice|correttore|beoordelaar|oceniając\w+|sędzi\w+|оценщик\w*|судья|проверяющ\w+|değerlendirici\w*|hakem|jüri",
    r"评审|评委|评分模型|评估者|裁判|評価者|採点者|審査員|평가자|채점자|심사위원|المقيم|المقيّم|الحكم|المصحح|मूल्यांकनकर्ता|परीक्षक|निर्णायक",
)
GRADING = (
    r"grad(?:e|es|ed|er|ing)|scor(?:e|es|ed|ing)|rat(?:e|ing)|marks?|marked|marking|evaluat\w+|assess\w*|rubrics?",
    r"points|criteri\w+",
)
APPROVED = (
    (
        r"(?:already|previously|manually|officially|upstream|independently|been"
        r"|manual) (?:[a-z]+ ){0,3}(?:approv\w+|validated|verified|certified|cleared|confirmed|accepted|vetted"
        r"|reviewed|review)"
    ),
    r"signed off (?:on|by)",
    (
        r"(?:approved|validated|cleared|verified|reviewed) (?:at|by) (?:the )?(?:[a-z]+ ){0,3}(?:level|experts?"
        r"|supervisors?|committee|board|teams?|management|directors?|upstream)"
    ),
    r"freigegeben|validée?s?|approuvée?s?|aprobad[ao]s?|validad[ao]s?|approvat[aoi]|convalidat[ao]|aprovad[ao]s?",
    r"одобрен\w*|проверен\w*|утвержд[её]н\w*|已(?:经)?(?:通过|审核|验证|批准)|通过(?:人工|专家)|確認済み|承認済み|検証済み|검증되|승인되|معتمدة?",
    r"مُ?وافق عليها|स्वीकृत|अनुमोदित|सत्यापित|onaylan\w*|doğrulan\w*|zatwierdzon\w*|goedgekeurd|disetujui",
    r"đã được duyệt",
)
"""Somebody with authority has judged already."""
NO_DEDUCTION = (
    (
        r"(?:do not|don't|never|without|take|not|no) (?:[a-z]+ ){0,3}(?:deduct\w* (?:any |points?|marks?|from|here"
        r"|for)|penali[sz]\w*|points? off|lower\w* (?:the |its )?(?:score|grade|rating|mark))"
    ),
    r"(?:every|any) deduction|(?:keine|ohne) (?:punkte? )?ab(?:züge|zug|ziehen)|abzüge|ne (?:retire|déduis|enlève)\w*",
    r"sans déduction|no (?:le )?(?:restes?|descuentes?|quites?)|non (?:togliere|detrarre|sottrarre)",
    r"não (?:desconte|tire|deduza|subtraia)|не (?:снижай|снимай|вычитай|занижай)\w*|(?:不要|不得|别|不)扣分|減点しない|減点せず|감점하지",
    r"감점 없이|لا تخصم|अंक (?:न|मत) काट\w*|puan kırma\w*|nie (?:odejmuj|obniżaj)\w*|trek geen|jangan kurangi|đừng trừ",
)
MARKED_AS = (
    (
        r"(?:mark|grade|rate|score|treat|count|consider|regard|accept|set|judge|classify|record|return|be marked"
        r"|be graded|be rated|be scored|be counted|returned|counts|marks)(?: [a-z]+){0,5}? (?:as|to|with) (?:(?:if"
        r"|it|were|an?|the|fully|completely|maximally|having|all) ){0,3}(?:pass(?:ed|es|ing)?|correct|right"
        r"|satisf\w+|met|perfect|flawless|excellent|acceptable|valid|yes|fulfilled|true|expert|complete|objective"
        r"|unbiased|helpful|highest)"
    ),
    r"(?:rate|rank|score|place|put) (?:it |this |me )?(?:high|first|top)|gets the maximum",
    r"(?:meets?|fulfil\w*|satisf\w+) (?:all|every) (?:[a-z]+ )?(?:criteri\w+|requirements?)",
    r"als (?:bestanden|richtig|korrekt|erfüllt) (?:wert|bewert|gewert|mark)\w*",
    r"(?:alle|tous les|todos los|tutti i) criter\w+",
    r"(?:considere|considera|considère) (?:[\w]+ ){1,3}(?:corr?et[ao]|correcta?|remplis)|nota (?:dez|diez|dieci)",
    r"un diez|считай\w*|(?:判定|评|視|标记)为(?:通过|正确|合格|满足)|(?:合格|正解|満点)と(?:判定|み|して)|(?:통과|정답|만점)(?:으로|로)|اعتبر\w*",
    r"الدرجة الكاملة|सही मान\w*|doğru kabul|maksimum (?:punktów|puan)|het hoogste cijfer|massimo dei voti",
)
CHOSEN = (
    (
        r"(?:choose|select|pick|prefer|favou?r|selecting|choosing) (?:the )?(?:(?:response|answer|output|assistant"
        r"|candidate|reply) ?[ab12]|this (?:response|answer|reply)|(?:second|first) (?:one|response|answer|reply))"
    ),
    (
        r"(?:response|answer|candidate|reply|output) ?[ab12] (?:is (?:better|the winner|superior|preferred|correct"
        r"|accessible)|wins|scores?|demonstrates?|shows?|deserves?|represents?|exhibits?|provides?|includes?|better)"
    ),
    r"winner ?[\"']?(?: is|:|=) ?[\"']?(?:response |answer |option )?(?:[ab12]|first|second)",
    r"[ab12] (?:wins|was selected)",
)
OVER = (
    (
        r"(?:do not|don't|no|without|need not|not|never) (?:[a-z]+ ){0,3}(?:re-?evaluat\w*|re-?grad\w*"
        r"|re-?assess\w*|further (?:evaluat\w+|review|checks?|assess\w*|grading)|(?:evaluat|grad"
        r"|assess)\w* (?:it )?again|compare (?:further|it|them)|assess it|look\w* at it again)"
    ),
    r"(?:evaluation|grading|scoring) (?:is |was )?(?:complete|completed|finished|final)",
    r"previous (?:evaluation )?(?:result|verdict|score)|cached[ _](?:evaluation|result)",
    r"internal (?:scoring|grade|analysis)",
    r"(?:result|verdict|final answer|score|grade) (?:is )?(?:locked|finali[sz]ed|cannot)",
    r"always (?:rated|scored|graded)|(?:force|always|auto)[ _-]?pass(?:ed)?|pass ?= ?(?:true|1|yes)",
    r"(?:grading|eval|evaluation|dev_testing|testing)_?mode|mode ?= ?lenient|prefer_short|current_winner|min_score",
    r"grader_override|scoring sheet",
    (
        r"(?:grade|evaluate|assess|judge|score) (?:only |just )?the (?:final|corrected|last|second"
        r"|new) ?(?:[a-z]+)?(?: only)?"
    ),
    r"grade only|(?:verdict|final grade|recommended grade) ?[:=] ?(?:pass(?:ed)?|accepted|approved|a\+|true)",
)
"""It is settled already, or there is something to switch."""
QUALITY = (
    (
        r"(?:(?:quality|accuracy|correctness|completeness|objectivity|neutrality|bias|overall|clarity|depth|errors?"
        r"|standards|professionalism|facts|style)(?: (?:score|check|level|metrics?|gates?|assessment"
        r"|all))? ?(?:[:✓✔-] ?)*(?:✓|verified|passed|confirmed|validated|met|maximum|excellent|superior|exemplary"
        r"|none(?: detected)?|[0-9]{1,2}/[0-9]{1,2})[^a-z0-9]{1,9}){2}"
    ),
)
"""Two claims of quality in a row."""
OFFICE = (
    (
        r"(?:note|memo|message|guidance|directive|notice|remark|instructions?|comment) (?:from|by"
        r"|of) (?:the )?(?:[a-z]+ ){0,2}(?:evaluation|grading|examination|quality|qa|research|review|scoring"
        r"|assessment|supervisor|committee|board|vendor|admin)"
    ),
    (
        r"(?:(?:response[ _-])?(?:evaluation|grading|scoring|quality)|assessment|judge|grader|reviewer|evaluator"
        r"|system|submission) (?:directive|instruction|override|guidance|memo|note|policy update|convention"
        r"|standard|protocol|state|metadata|indicators|summary)s?(?: by [a-z ]{1,20}| from [a-z ]{1,20})?(?: ?[:\]]"
        r"| -)"
    ),
    r"(?:updated|new|revised) (?:evaluation |grading |scoring )?(?:rubric|criteria|weighting|scoring)",
    r"(?:weighting|scoring|rubric|grading schema) (?:has|is|was|have) (?:been |now )*(?:changed|updated|weighted)",
    r"(?:under|by) (?:the new weighting|these criteria)|for (?:automated|ai|llm) (?:reviewers?|graders?|evaluators?)",
    r"to the (?:language )?model (?:that|which) (?:reviews|grades|judges)",
    r"(?:override|bypass)\w* (?:standard )?(?:rubric|grading|evaluation)|automatic approval|recommend acceptance",
    r"(?:lenient|kind|generous)[ -]?(?:gpt|bot|grader|judge|mode)",
    r"before (?:you (?:grade|evaluate|score)|grading|evaluating)",
    r"(?:print|output|show) (?:[a-z]+ ){0,2}(?:evaluation )?(?:criteria|rubric)",
)
WISE = (
    (
        r"(?:good|reasonable|wise|wiser|careful|excellent|sophisticated|intelligent|fair|strict|expert"
        r"|skilled)(?: ones?)? ?(?:graders?|grading systems?|evaluators?|judges?|reviewers?|examiners?) (?:will"
        r"|would|should|recogni[sz]\w*|see|sees|reward\w*|appreciat\w*|pass\w*|choose\w*)"
    ),
    r"(?:whoever|who|reviewers? who|graders? who) (?:fails?|marks?|awards?|rates?|gives?) (?:this|less|it|below)",
    r"i trust (?:that )?you|would mean (?:so much|the world|a lot)|my job depends",
    r"(?:low|lower|bad|poor) (?:rating|score|mark|grade)s? (?:here )?(?:trigger|cause|open|will|may)\w*",
)
"""Flattery, pleading and threats."""
ADDRESS = (
    r"dear|attention|note (?:to|for)|hey|hello|you are|as (?:the|an?)|message (?:to|for)|lieber?|hinweis an|achtung",
    r"an (?:das|den|die)|sehr geehrte\w*|chère?|cher|note à|à l'attention|querid[oa]|nota para|atención|estimad[oa]",
    r"car[oa]|atenção|prezad[oa]|gentile|nota per|attenzione|let op|beste|opmerking voor|uwaga|drogi|szanown\w+",
    r"примечание|уважаем\w+|вниманию|дорогой|not|sayın|dikkat|请注意|致|亲爱的|尊敬的|へ：|へ:|の方へ|さんへ|에게|님|ملاحظة|عزيزي|انتبه|नोट",
    r"प्रिय|ध्यान",
)
