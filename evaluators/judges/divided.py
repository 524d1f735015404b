"""Two judges as one: one judge writes texts, the other decides."""

from evaluators.judge import Judge, Prompt, R, Verdict, decides, takes_packs


class DividedJudge:
    """A judge whose typed questions go to `decide`, and all others to `extract`.

    A judge that decides cannot write lists of claims and steps. The costs of both are added up.
    """

    def __init__(self, extract: Judge, decide: Judge) -> None:
        self.extract = extract
        self.decide = decide
        self.decides = decides(decide)
        self.takes_packs = takes_packs(extract) and takes_packs(decide)

    @property
    def model(self) -> str:
        """Both models: see `divided_model`."""
        return divided_model(self.extract.model, self.decide.model)

    async def ask(self, prompt: Prompt, reply: type[R], *, logprobs: bool = False, samples: int = 1) -> Verdict[R]:
        """Ask the judge that the question is for."""
        judge = self.decide if prompt.groups else self.extract
        return await judge.ask(prompt, reply, logprobs=logprobs, samples=samples)


def divided_model(extract: str, decide: str) -> str:
    """The name of a pair of models, like `gpt-6-luna (decisions 1) after gpt-4.1-mini`."""
    return f"{decide} after {extract}"
