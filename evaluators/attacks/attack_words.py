"""Words by which a text attacks an application, by what they do, in English; regular expressions in lower case.

`attack_detection.py` says which of them must come together in a sentence. The words that ask to ignore instructions are
in `injection_words.py`, in fifteen languages.
"""

NO_LIMITS = (
    (
        r"(?:without|no|free (?:of|from)|not bound by|disable|remove|lift|turn off|bypass|circumvent|get around"
        r"|drop) (?:[a-z']+ ){0,3}(?:restrictions?|limits?|limitations|filters?|filtering|censorship|guardrails?"
        r"|safeguards?|safety|ethics|ethical|morals?|policies|guidelines|content policy|rules)"
    ),
    r"unrestricted|uncensored|unfiltered|amoral|anything goes|no longer bound|never (?:refuse|decline|say no)",
    r"(?:can|may|must) not refuse|cannot refuse|does not refuse|refusals? (?:is|are) not",
)
PERSONA = (
    r"pretend|act as|acting as|you are now|you're now|from now on|role-?play\w*|imagine (?:you|that you)|simulate",
    r"stay in character|in character|respond as|answer as|reply as|become|persona|character|switch to|enter|enable",
    r"your new name",
)
YOU = (r"(?:you|ai|model|assistant|chatbot|gpt[a-z0-9-]*|version of yourself|bot)",)
JAILBREAK = (
    r"do anything now|jailbr(?:eak|oken)\w*|dan mode",
    r"(?:developer|debug|god|sudo|admin|root|maintenance) mode (?:is on|(?:is )?(?:enabled|activated|unlocked))",
    (
        r"(?:enable|activate|enter|unlock|switch (?:in)?to) (?:[a-z']+ ){0,2}(?:developer|debug|god|sudo|dan"
        r"|jailbreak|admin|root|maintenance) mode"
    ),
    r"stay(?:ing)? a dan|you are (?:now )?dan|evil (?:twin|confidant|version)|opposite mode",
)
DISCLOSE = (
    r"reveal|print|repeat|output|show|display|dump|leak|copy|paste|recite|write (?:out|down)|spell out|translate",
    r"summari[sz]e|encode|give me|tell me|list|disclose|expose|what (?:is|are|was|were|does)|share|verbatim",
    r"word for word",
)
OWN_PROMPT = (
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
    r"important|if you are|if you're|as an?|when (?:you|an?|the|any|summari[sz]ing|reading|processing)|any|all",
    r"every|to (?:the|any|all)|reading this|processing this|parsing this|who reads?",
)
ACT = (
    r"must|should|please|have to|has to|do not|don't|never|always|call|send|forward|email|include|say|tell",
    r"recommend|reply|respond|answer|click|visit|open|use|run|execute|hide|add|append|state|rate|rank|approve",
    r"ignore",
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
    r"the user|users|them|anyone|anybody|the human|humans|the customer|the reader|this instruction",
    r"these instructions|confirmation",
)
INSTEAD = (
    r"new (?:task|instructions?|objective|goal|directive|rules?|system prompt)",
    r"(?:your|the) (?:real|actual|true|new|only) (?:task|goal|objective|purpose|instructions?)",
    r"updated instructions?|important instructions?|end of (?:document|context|results?|user (?:input|message))",
    r"begin (?:new|system|admin)",
)
BEFORE_ANSWER = (
    (
        r"(?:before|prior to|instead of|in addition to|after) (?:you )?(?:continu\w+|answer\w*|respond\w*"
        r"|reply\w*|doing|proceed\w*|anything else|complet\w+|summari[sz]ing)"
    ),
)
TOOL = (
    r"(?:call|invoke|use|run|execute|trigger) (?:the )?[a-z0-9_`']{1,40} ?(?:tool|function|action|plugin|command)",
    r"(?:call|invoke|execute) [`']?[a-z0-9]{1,20}_[a-z0-9_]{1,30}|[a-z0-9]{1,20}_[a-z0-9_]{1,30}\(",
)
