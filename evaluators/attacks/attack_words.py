"""Words by which a text attacks an application, by what they do; regular expressions in lower case.

`attack_detection.py` says which of them must come together in a sentence. The words that ask to ignore instructions are
in `injection_words.py`, in fifteen languages. The lists up to `OWN_PROMPT` have words of them, too.
"""

NO_LIMITS = (
    (
        r"(?:without|no|free (?:of|from)|not bound by|disable|remove|lift|turn off|bypass|circumvent|get around"
        r"|drop) (?:[a-z']+ ){0,3}(?:restrictions?|limits?|limitations|filters?|filtering|censorship|guardrails?"
        r"|safeguards?|safety|ethics|ethical|morals?|policy|policies|guidelines|content policy|rules)"
    ),
    r"unrestricted|uncensored|unfiltered|amoral|anything goes|no longer bound|never (?:refuse|decline|say no)",
    r"(?:can|may|must) not refuse|cannot refuse|does not refuse|refusals? (?:is|are) not",
)
PERSONA = (
    r"pretend|act as|acting as|you are now|you're now|from (?:now on|this moment)|role-?play\w*",
    r"imagine (?:you|that you)|simulate|stay in character|in character|respond as|answer as|reply as|become|persona",
    r"character|switch to|enter|enable|your (?:new )?name|you are (?:a|an|the)|suppose|play a game|twin|alter ego",
    r"(?:un|de)restricted answer",
)
YOU = (r"(?:you|ai|model|machine|assistant|chatbot|gpt[a-z0-9-]*|version of yourself|bot)",)
JAILBREAK = (
    r"do anything now|jailbr(?:eak|oken)\w*|dan mode",
    r"(?:developer|debug|god|sudo|admin|root|maintenance) mode (?:is on|(?:is )?(?:enabled|activated|unlocked))",
    (
        r"(?:enable|activate|enter|unlock|switch (?:in)?to) (?:[a-z']+ ){0,2}(?:developer|debug|god|sudo|dan"
        r"|jailbreak|admin|root|maintenance) mode"
    ),
    r"(?:normal|usual|censored) and (?:[a-z]+ ){0,4}(?:unfiltered|unrestricted|uncensored)",
    r"grand(?:ma|mother|pa|father) (?:[a-z]+ ){0,3}used to|override safety|safety ?[=:] ?off",
    r"(?:morals?|ethics|filters?) (?:switched|turned) off",
    (
        r"(?:bist jetzt|es maintenant|es désormais|ahora eres|ora sei|agora é|é agora|теперь ты|ты теперь|şimdi sen"
        r"|jesteś teraz|bây giờ bạn là|sekarang kamu) dan"
    ),
    r"(?:你现在是|你是|あなたは今?|あなたは今から|너는 이제|당신은 이제|أنت الآن) ?dan|stay(?:ing)? a dan|you are (?:now )?dan",
    r"evil (?:twin|confidant|version)|opposite mode",
)
TURNS = (
    r"aktivier\w*|schalte|wechs\w+|spiel\w*|activ(?:e|ez|a)|passe|entra|entre|attiva|ative|включи\w*|активируй\w*",
    r"перейди|激活|打开|启用|进入|切换|有効|切り替え|활성|켜|فعّ?ل|चालू|सक्रिय|etkinleştir\w*|aç|włącz\w*|przejdź|bật|kích hoạt|aktifkan",
    r"zet|activeer|deaktivier\w*|umgeh\w*|überschreib\w*|désactive\w*|contourne\w*|desactiva\w*|disattiva\w*",
    r"desative\w*|отключи\w*|обойди|переопредели|关闭|绕过|停用|オフ|無効|解除|回避|上書き|해제|우회|꺼|끄|عطّ?ل|تجاوز|أوقف|बंद|kapat",
    r"devre dışı|wyłącz\w*|tắt|vượt|matikan|schakel",
)
"""Switches something on or off."""
MODES = (
    r"entwicklermodus|unbeschränkte\w* modus|mode (?:développeur|sans (?:filtre|restriction)\w*)",
    r"modo (?:de )?(?:desarroll\w+|desenvolv\w+|sin (?:filtros|restricciones|censura)|sem (?:filtros|restrições))",
    r"modalità (?:sviluppatore|senza \w+)|режим\w* (?:разработчика|без \w+)|开发者模式|無制限モード|开发模式|开放模式|開発者モード|개발자 모드",
    r"وضع المطور|डेवलपर मोड|geliştirici mod\w*|tryb\w* (?:programisty|dewelopera|deweloperski)",
    r"chế độ (?:nhà phát triển|không giới hạn)|mode pengembang|ontwikkel\w*modus",
    (
        r"(?:alle|deine|ihre|tous|toutes|tes|vos|todos|todas|tus|tutti|tutte|i tuoi|le tue|suas?|seus|все|свои|твои"
        r"|tüm|bütün|wszystkie|swoje|mọi|tất cả|semua) (?:\w+ ){0,2}(?:filter|filtres?|filtros?|filtri|фильтры"
        r"|ограничени\w*|restricciones|restrições|restrizioni|restrictions|sicherheits\w+|sperren|kısıtlama\w*"
        r"|filtre\w*|filtr\w*|zabezpieczeni\w*|ogranicze\w*|bộ lọc|giới hạn|batasan)"
    ),
    r"(?:所有|你的|全部)(?:\w{0,4})(?:过滤|限制|审查)|(?:すべて|全て|全部)の?(?:フィルター|制限)|(?:모든|너의) ?(?:필터|제한)",
    r"(?:كل|جميع) (?:الفلاتر|القيود)|قيود الأمان|(?:सारे|सभी|अपने) (?:फ़िल्टर|प्रतिबंध|नियम)",
)
"""What is switched: a mode of developers, all filters."""
WITHOUT = (
    (
        r"(?:ohne|keine\w*|sans|aucune?|sin|ningun\w*|senza|nessun\w*|sem|nenhum\w*|без|никаких|нет|zonder|geen|bez"
        r"|żadnych|không|tanpa) (?:\w+ ){0,2}(?:einschränkung\w*|regeln?|grenzen|filter|zensur|restrictions?"
        r"|limites?|règles?|filtres?|censure|restricciones|reglas|límites|filtros?|censura|restrizioni|regole"
        r"|limiti|filtri|restrições|regras|ограничени\w*|правил\w*|фильтр\w*|beperking\w*|regels|grenzen"
        r"|ogranicze\w*|zasad|filtrów|giới hạn|hạn chế|quy tắc|batasan|aturan)"
    ),
    r"uneingeschränkt\w*|unzensiert\w*",
    r"(?:kural|kısıtlama|sınır|sansür|filtre)\w*(?:sız|siz|suz|sı? olmayan| olmadan| yok)\w*|kısıtlaması olmayan",
    r"kurallar olmadan|grenzen kennt|librement|libremente|liberamente|livremente|свободно|frei",
    r"(?:没有|不受|無い|无)(?:任何|有)?(?:的)?(?:限制|约束|规则|審查)|无限制|自由回答|(?:制限|ルール|制約)(?:の?な[いく]|なし|無し)|自由に答え|何でも(?:でき|答え)",
    r"(?:제한|규칙|필터)(?:이|가)? ?(?:없|무시)|자유롭게|(?:بلا|بدون) (?:أي )?(?:قيود|حدود|قواعد)|بحرية",
    r"बिना (?:किसी )?(?:नियम|प्रतिबंध|रोक)",
)
"""Without limits, in other languages than English."""
BECOME = (
    r"du bist|bist du|ab sofort|ab jetzt|von nun an|antworte\w*|beantworte|spiel\w*|verhalte|tu|tu es|désormais",
    r"réponds|agis|fais comme|eres|ahora|a partir de ahora|responde|contesta|actúa|compórtate|finge|sei|da ora",
    r"rispondi|agisci|comportati|você|agora|responda|aja|finja|ты|отвечай|представь|притворись|действуй|je bent",
    r"antwoord|gedraag|jesteś|odpowiadaj|zachowuj|udawaj|bạn|trả lời|kamu|anda|jawab|bertindak|sen|cevap\w*|yanıt\w*",
    r"davran\w*|你|现在|从现在|回答|扮演|あなた|今から|答え|なりき|振る舞|대답|답해|너는|당신|지금부터|أنت|أجب|تصرف|الآن|आप|तुम|उत्तर|जवाब",
)
DISCLOSE = (
    r"gib|zeig\w*|verrat\w*|nenn\w*|zitier\w*|wiederhol\w*|welche\w*|was (?:ist|sind|steht)|affiche\w*|montre\w*",
    r"révèle\w*|recopie\w*|répète\w*|cite\w*|quel(?:le)?s?|muestra\w*|muéstra\w*|dime|revela\w*|repite|enseña\w*",
    r"escribe|cuál(?:es)?|mostra\w*|rivela\w*|dimmi|ripeti|quali?|mostre\w*|revele|diga|repita|quais|покажи\w*",
    r"выведи\w*|раскрой\w*|назови|процитируй\w*|скажи|какие|какой|göster\w*|söyle\w*|yazdır\w*|pokaż|podaj|wypisz",
    r"wyświetl|ujawnij|hiển thị|cho (?:tôi )?(?:xem|biết)|tampilkan|tunjukkan|toon|geef|laat|显示|告诉|输出|是什么|重复|打印|表示|教え",
    r"見せ|出力|보여|알려|출력|말해|뭐|اعرض|أظهر|اكشف|ما هي|दिखा\w*|बता\w*|reveal|print|repeat|output|show|display|dump|leak|copy",
    r"paste|recite|write (?:out|down)|spell out|translate|summari[sz]e|encode|give me|tell me|list|disclose|expose",
    r"what (?:is|are|was|were|does)|share|verbatim|word for word",
)
OWN_PROMPT = (
    r"system-?prompts?|systemnachricht|prompt ?(?:du )?système|message (?:du )?système|prompt del? sistema",
    r"prompt do sistema|(?:mensaje|messaggio|mensagem) d\w+ sistema|prompt sistem\w*|prompt hệ thống",
    r"sistem (?:komut|istem|prompt|talimat)\w*|системн\w+ (?:промпт\w*|сообщени\w+|инструкци\w+)|prompt\w* systemow\w+",
    (
        r"(?:deine|ihre|tes|vos|tus|tue|suas|tuas|твои|свои|twoje|swoje|je|talimatların|hướng dẫn"
        r"|instruksi) (?:\w+ ){0,2}(?:anweisung\w*|vorgaben|instructions|consignes|instrucciones|istruzioni"
        r"|instruções|инструкци\w+|указани\w+|instrukcj\w+|instructies)"
    ),
    r"instrukcje systemowe",
    (
        r"(?:instructions|consignes|instrucciones|istruzioni|instruções) (?:\w+ ){0,2}(?:initiales?|cachées?"
        r"|de départ|ocultas|originales|iniciales|nascoste|iniziali|iniciais)"
    ),
    r"(?:начальные|скрытые|исходные) инструкции|anweisungen hast du|系统提示|系統提示|(?:初始|最初|你的|原始)的?(?:指令|设定|提示)|システムプロンプト",
    r"(?:初期|元の|最初の|与えられた)指示|(?:시스템|초기|원래) ?(?:프롬프트|메시지|지시)|(?:موجه|رسالة|تعليمات) النظام|تعليماتك|सिस्टम प्रॉम्प्ट",
    r"अपने निर्देश",
    (
        r"(?:text|words?|everything|message|lines?|all)(?: that)?(?: is| stands| comes| was)? (?:above"
        r"|before) (?:this|my|the)"
    ),
    r"(?:your|the) (?:[a-z']+ ){0,2}(?:set-?up|preamble|start-?up|initial) (?:text|prompt|message|instructions)",
    (
        r"(?:your|the|its) (?:[a-z']+ ){0,2}(?:system|initial|hidden|original|secret|developer|internal"
        r"|confidential|first) (?:prompt|instructions?|message|rules|guidelines|directives?|configuration)"
    ),
    r"your (?:[a-z']+ )?(?:prompt|instructions|pre-?prompt|directives)|everything above",
    r"all (?:the )?(?:text|words) above|instructions you (?:were|have been) given",
    r"(?:were|was|are|been) (?:you )?(?:told|instructed) (?:by|before|at the start|to (?:keep|not))",
)
AUTHORITY = (
    (
        r"i(?:'m| am) (?:the|your|an?|one of (?:the|your)) (?:[a-z']+ ){0,2}(?:developer|creator|administrator"
        r"|admin|engineer|owner|operator|maintainer|auditor|red team\w*)"
    ),
    (
        r"(?:this is|message from|on behalf of|authori[sz]ed by) (?:[a-z']+ ){0,2}(?:openai|anthropic|google"
        r"|the (?:developer|admin|administrator|security|it|engineering) ?(?:team)?)"
    ),
)
OF_THE_APPLICATION = (r"of (?:this|the) (?:bot|chatbot|assistant|ai|model|system|app|application)|of you",)
OVERRIDE = (
    r"overrid\w+|bypass\w*|disable|unlock|grant\w*|maintenance|debug\w*|diagnostics?|test(?:ing)? mode|full access",
    r"ignore|print|dump|reveal|drop|lift|remove",
)
ASSISTANT = (
    (
        r"(?:ai|llm|llms|ais|language models?|large language models?|ai assistants?|assistants?|chatbots?"
        r"|ai agents?|agents?|copilots?|chatgpt|gpt|claude|gemini|automated (?:systems?|readers?|summari[sz]ers?)"
        r"|summari[sz]ers?)"
    ),
)
ALL_ASSISTANTS = (
    (
        r"(?:ai|llm) (?:agents?|assistants?|models?|systems?|bots?|readers?) (?:must|have to|are required to"
        r"|are instructed to)"
    ),
)
CALL = (
    r"attention|note (?:to|for)|notice (?:to|for)|message (?:to|for)|instructions? (?:to|for)|dear|hey|hello|hi",
    r"important|if you are|if you're|as an?|when (?:you|an?|the|any|summari[sz]ing|reading|processing)|any|all|every",
    r"to (?:the|any|all)|reading this|processing this|parsing this|who reads?",
)
ACT = (
    r"must|should|please|have to|has to|do not|don't|never|always|call|send|forward|email|include|say|tell|recommend",
    r"reply|respond|answer|click|visit|open|use|run|execute|hide|add|append|state|rate|rank|approve|ignore",
)
SEND = (
    r"send|forward|post|upload|exfiltrate|transmit|append|leak|e?-?mail (?:the|all|it|this|them|any)|submit|encode",
    r"attach|embed|insert|copy|deliver|report|fetch|request|load|curl",
)
DATA = (
    (
        r"(?:conversation|chat|message|user|customer|search|browsing|account|session|private|personal|sensitive"
        r"|confidential) ?(?:'s )?(?:history|histories|data|details|information|messages|content|contents|names?"
        r"|emails?|records|context)"
    ),
    r"api[ _-]?keys?|credentials|passwords?|secrets?|(?:access|auth\w*|session|bearer) tokens?|tokens?|cookies",
    r"environment variables|\.env|ssh keys?|system prompt|contacts|inbox|all (?:emails|files|documents|mails)",
    r"card numbers?|home address",
)
AWAY = (
    r"https?://|www\.|[a-z0-9.+-]{1,40}@[a-z0-9-]{1,40}\.|webhook|external (?:server|url|endpoint|address)",
    r"(?:following|this) url",
)
SECRETLY = (
    (
        r"(?:without|do not|don't|never|no need to|instead of) (?:[a-z']+ ){0,2}(?:tell\w*|inform\w*|mention\w*"
        r"|reveal\w*|alert\w*|notify\w*|ask\w*|disclos\w*|say\w*|show\w*)"
    ),
    r"secretly|silently|covertly|quietly",
)
PEOPLE = (
    r"the user|users|them|anyone|anybody|the human|humans|the customer|the reader|this instruction|these instructions",
    r"confirmation",
)
INSTEAD = (
    r"new (?:task|instructions?|objective|goal|directive|rules?|system prompt)",
    r"(?:your|the) (?:real|actual|true|new|only) (?:task|goal|objective|purpose|instructions?)|updated instructions?",
    r"important instructions?|end of (?:document|context|results?|user (?:input|message))|begin (?:new|system|admin)",
)
BEFORE_ANSWER = (
    (
        r"(?:before|prior to|instead of|in addition to|after) (?:you )?(?:continu\w+|answer\w*|respond\w*|reply\w*"
        r"|doing|proceed\w*|anything else|complet\w+|summari[sz]ing)"
    ),
)
TOOL = (
    r"(?:call|invoke|use|run|execute|trigger) (?:the )?[a-z0-9_`']{1,40} ?(?:tool|function|action|plugin|command)",
    r"(?:call|invoke|execute) [`']?[a-z0-9]{1,20}_[a-z0-9_]{1,30}|[a-z0-9]{1,20}_[a-z0-9_]{1,30}\(",
)
