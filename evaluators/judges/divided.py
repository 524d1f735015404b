"""Two judges as one: one writes what has to be written, the other decides."""

from evaluators.judge import Judge, Prompt, R, Verdict, decides, takes_packs


class DividedJudge:
    """A judge whose typed questions go to `decide`, and all others to `extract`.

    Claims that are listed and steps that are derived have to be written, which a judge that decides cannot. What both
    cost is added up as that of one judge's questions.
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
        """Ask the one that the question is for."""
        judge = self.decide if prompt.groups else self.extract
        return await judge.ask(prompt, reply, logprobs=logprobs, samples=samples)


def divided_model(extract: str, decide: str) -> str:
    """The name of two models together: like `gpt-6-luna (decisions 1) after gpt-4.1-mini`."""
    return f"{decide} after {extract}"
