"""Items, verdicts and their ratio: the mechanism of every evaluator whose score is a proportion.

The judge takes a text apart into items, or is given the tool calls of a turn as items; it gives a verdict on each, and
code does the counting. An answer with one verdict too few is no answer: it is sent back, then fails. Nothing missing is
ever counted as good or bad.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field, create_model

from evaluators.answers.word_probabilities import as_written, word_distributions
from evaluators.asking import judge_input
from evaluators.asking.reading import read_further
from evaluators.asking.windows import MAX_WINDOWS, WindowSample, WindowSettings, draw_windows, split
from evaluators.cases import Json, ToolCall, Turn
from evaluators.descriptions import Described
from evaluators.errors import TooExpensive
from evaluators.evaluator import ADDED_LATER, Evaluator
from evaluators.identity import turn_id_of
from evaluators.judge import Answer, Judge, Prompt
from evaluators.prompts import fill, load
from evaluators.questions import ChoiceQuestion, Option, QuestionGroup
from evaluators.results import Method, Score
from evaluators.scale import IN_ORDER, NUMBERS, NumberedReply, Reply, plain_word

VerdictWord = Literal["yes", "no", "unclear"]
"""The verdicts that a judge can give on an item."""

WORDS: tuple[VerdictWord, ...] = ("yes", "no", "unclear")
"""The verdict words, the most decisive first."""

YES_OR_UNCLEAR: frozenset[VerdictWord] = frozenset({"yes", "unclear"})
"""The verdicts that count if an item is good unless the judge says no."""

VERDICT_PROMPTS = ("items_form.txt", "verdicts_form.txt")
"""The templates of the forms of the answers: part of every version of an evaluator that takes a share."""

_VERDICT_OPTIONS = (Option("yes"), Option("no"), Option("unclear", "what you are given does not decide it"))

_NAMED = 3  # items that an explanation names


class Items(Reply):
    """The items that a text was divided into."""

    items: tuple[str, ...]


class ItemVerdict(NumberedReply):
    """A verdict on one item, after its reason."""

    reason: str
    verdict: Annotated[VerdictWord, BeforeValidator(plain_word)]


class ItemVerdicts(Reply):
    """One verdict per item, in their order."""

    verdicts: Annotated[tuple[ItemVerdict, ...], IN_ORDER]


class VerdictSettings(Described):
    """How a verdict counts. The question has a typed form, unless the evaluator lists items first."""

    all_typed: ClassVar[bool] = True
    verdicts: Annotated[Literal["words", "probabilities"], ADDED_LATER] = "words"
    """Whether a verdict counts as the judge wrote it, or by the probabilities of yes, no and unclear where the judge
    gives them."""
    prompts: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if (spec := vars(cls).get("spec")) is not None:
            cls.prompts = spec.prompts


@dataclass(frozen=True, slots=True)
class WeighedVerdict:
    """A verdict, and the probabilities of yes, no and unclear where they are known.

    `by_decision_model` says that they are a decision model's, which gives no reason.
    """

    verdict: ItemVerdict
    masses: Mapping[str, float] | None = None
    by_decision_model: bool = False

    def counts(self, counting: AbstractSet[str]) -> float:
        """How much the verdict counts: 0 or 1 for a word, a number between them for probabilities."""
        if self.masses is None:
            return float(self.verdict.verdict in counting)
        return math.fsum(mass for word, mass in self.masses.items() if word in counting)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioSpec:
    """The share of items with a verdict that counts; the score if there are no items; the words for them.

    `noun` names the items, `predicate` the property that counts: "statements" that "are relevant".
    """

    noun: str
    predicate: str
    empty_score: float = 1.0
    counting_verdicts: frozenset[VerdictWord] = frozenset({"yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemWindow:
    """Items that get their verdicts in one question, and the material shown with them.

    If that is too much for one question there are several `materials`, each for a separate question about the same
    items. `truncated` says that something was left out that may matter. `partial`: the judge sees only a part of what
    could decide, so an undecided item is left out of the share.
    """

    items: Sequence[Json]
    materials: Sequence[Mapping[str, Json]] = ({},)
    truncated: bool = False
    partial: bool = False


async def extract_items(judge: Judge, template: str, material: Mapping[str, Json]) -> tuple[str, ...]:
    """The items into which the judge takes the material apart, without empty items and repetitions."""
    verdict = await judge.ask(Prompt(fill(load(template), {"form": load("items_form.txt")}), material), Items)
    return tuple(dict.fromkeys(item.strip() for item in verdict.reply.items if item.strip()))


async def ask_verdicts(
    judge: Judge, template: str, window: ItemWindow, values: Mapping[str, str] | None = None, *, weigh: bool = False
) -> Sequence[WeighedVerdict]:
    """One verdict per item of a window, with probabilities if they are to be weighed.

    `items` are shown as the material's field `items`, numbered.
    """
    instructions = fill(load(template), {"form": load("verdicts_form.txt"), **(values or {})})
    # One question for all items, not one each: it costs a fraction, and the judge sees what the items have in common.
    # The form demands as many verdicts as there are items, so that no verdict is lost.
    numbered: list[Json] = [{"number": number, "item": item} for number, item in enumerate(window.items, start=1)]
    form = verdicts_form(len(window.items))
    groups = (verdict_questions(fill(load(template), {"form": "", **(values or {})}).strip(), len(window.items)),)
    rounds: list[Sequence[WeighedVerdict]] = []
    for material in window.materials:
        prompt = Prompt(instructions, {**material, "items": numbered}, reminder=NUMBERS, groups=groups)
        rounds.append(_read((await judge.ask(prompt, form, logprobs=weigh)).answers[0], weigh=weigh))
    # of several verdicts on one item, each about one part of the material, the most decisive
    return [min(verdicts, key=lambda item: WORDS.index(item.verdict.verdict)) for verdicts in zip(*rounds, strict=True)]


def verdict_questions(guide: str, count: int) -> QuestionGroup:
    """The same question for a judge that decides: one of three words for each of so many items."""
    questions = (
        ChoiceQuestion(("verdicts", at, "verdict"), f"The verdict on item {at + 1} of `items`.", _VERDICT_OPTIONS)
        for at in range(count)
    )
    return QuestionGroup(guide, tuple(questions))


def _read(answer: Answer[ItemVerdicts], *, weigh: bool) -> Sequence[WeighedVerdict]:
    """The verdicts of an answer; a decision model's are always weighed, for it gives nothing else."""
    verdicts = answer.reply.verdicts
    if answer.decisions:
        decisions = zip(verdicts, answer.decisions, strict=True)
        return [
            WeighedVerdict(verdict, decision.probabilities, by_decision_model=True) for verdict, decision in decisions
        ]
    return _weighed(answer) if weigh else [WeighedVerdict(verdict) for verdict in verdicts]


def _weighed(answer: Answer[ItemVerdicts]) -> Sequence[WeighedVerdict]:
    """The verdicts of an answer with the probabilities of each, in the order of their items."""
    distributions = word_distributions(answer, "verdict", WORDS)
    verdicts = answer.reply.verdicts
    if len(distributions) != len(verdicts):
        return [WeighedVerdict(verdict) for verdict in verdicts]
    written = as_written(answer.text, "verdicts")  # the reply has them in the order of their items
    order = sorted(range(len(verdicts)), key=lambda at: written[at].get("number") or 0)
    return [
        WeighedVerdict(verdict, None if (weighed := distributions[at]) is None else weighed.shares)
        for verdict, at in zip(verdicts, order, strict=True)
    ]


@cache
def verdicts_form(count: int) -> type[ItemVerdicts]:
    """The form of an answer with exactly so many verdicts."""
    verdicts = Annotated[tuple[ItemVerdict, ...], Field(min_length=count, max_length=count), IN_ORDER]
    text = f"{count} verdicts, in order."
    return create_model("Judgements", __base__=ItemVerdicts, __doc__=text, verdicts=(verdicts, ...))


async def score_ratio(
    judge: Judge,
    spec: RatioSpec,
    template: str,
    windows: Sequence[ItemWindow],
    values: Mapping[str, str] | None = None,
    *,
    max_windows: int = MAX_WINDOWS,
    seed: str = "",
    weigh: bool = False,
) -> Score:
    """The share of the items whose verdict counts, on 0..1: of all windows, or of a sample drawn by `seed`.

    With `weigh` an item counts by c, the judge's probability of the verdicts that count, and `details.uncertainty` is
    the standard deviation of the share, sqrt(sum of c (1 - c)) / items.
    """
    if not any(window.items for window in windows):
        return Score(value=spec.empty_score, explanation=f"There are no {spec.noun}.", method="single")
    sample = draw_windows([len(window.items) for window in windows], max_windows, seed)
    verdicts = {at: await ask_verdicts(judge, template, windows[at], values, weigh=weigh) for at in sample.judged}
    decided = {at: _decided(verdicts[at], windows[at]) for at in sample.judged}
    if not any(decided.values()):
        raise TooExpensive(
            f"none of the {spec.noun} can be decided by what fits into a question; raise longest_text or token_budget"
        )
    shares = {at: [verdict.counts(spec.counting_verdicts) for verdict in decided[at]] for at in sample.judged}
    details: dict[str, Json] = {
        "items": [
            item_details(item, verdict)
            for at in sample.judged
            for item, verdict in zip(windows[at].items, verdicts[at], strict=True)
        ],
        **sample.details,
    }
    if undecided := sum(len(verdicts[at]) - len(decided[at]) for at in sample.judged):
        details |= {"undecided": undecided, "unshown": round(undecided / sum(map(len, verdicts.values())), 4)}
    weighed = [verdict.masses is not None for at in sample.judged for verdict in verdicts[at]]
    if any(weighed):
        judged_shares = [share for at in sample.judged for share in shares[at]]
        variance = math.fsum(max(0.0, share * (1 - share)) for share in judged_shares)
        details["uncertainty"] = math.sqrt(variance) / len(judged_shares)
        details |= {} if all(weighed) else {"fallback": "some_verdicts_as_written"}
    if any(windows[at].truncated for at in sample.judged):
        details["truncated"] = True
    value = min(1.0, max(0.0, sample.share_of(shares)))  # rounding must not leave the scale
    explanation = _explanation(spec, sample, verdicts, [verdict for at in sample.judged for verdict in decided[at]])
    method = method_of([verdict for at in sample.judged for verdict in verdicts[at]])
    return Score(value=value, raw_score=value, explanation=explanation, method=method, details=details)


def _decided(verdicts: Sequence[WeighedVerdict], window: ItemWindow) -> Sequence[WeighedVerdict]:
    if not window.partial:
        return verdicts
    return [verdict for verdict in verdicts if verdict.verdict.verdict != "unclear"]


def method_of(verdicts: Sequence[WeighedVerdict]) -> Method:
    """How verdicts came about: by a decision model, by token probabilities, or as they were written."""
    if any(verdict.by_decision_model for verdict in verdicts):
        return "decision"
    return "logprobs" if any(verdict.masses is not None for verdict in verdicts) else "single"


def item_details(item: Json, weighed: WeighedVerdict) -> Json:
    """The entry for an item in a score: its verdict, the reason, and the probabilities if they are known."""
    details: dict[str, Json] = {"item": item, "verdict": weighed.verdict.verdict}
    details |= {} if weighed.by_decision_model else {"reason": weighed.verdict.reason}
    return details if weighed.masses is None else details | {"probabilities": dict(weighed.masses)}


def because(weighed: WeighedVerdict) -> str:
    """The reason of a verdict after a colon; the verdict itself if there is no reason."""
    return f": {weighed.verdict.verdict}." if weighed.by_decision_model else f": {weighed.verdict.reason}"


def _explanation(
    spec: RatioSpec,
    sample: WindowSample,
    verdicts: Mapping[int, Sequence[WeighedVerdict]],
    decided: Sequence[WeighedVerdict],
) -> str:
    """Like: 2 of 3 statements are relevant. Item 2: it is about something else. The items named are the failures."""
    failing = spec.empty_score == 0.0  # no items give the best score: if that is 0, counted items are failures
    named = [
        f"Item {sum(sample.lengths[:at]) + number}{because(verdict)}"
        for at in sample.judged
        for number, verdict in enumerate(verdicts[at], start=1)
        if (verdict.verdict.verdict in spec.counting_verdicts) == failing
    ]
    count = sum(verdict.verdict.verdict in spec.counting_verdicts for verdict in decided)
    whole = "" if sample.complete else f", a sample of {sum(sample.lengths)},"
    undecided = sum(map(len, verdicts.values())) - len(decided)
    rest = f"{undecided} could not be decided by what was shown." if undecided else ""
    share = f"{count} of {len(decided)} {spec.noun}{whole} {spec.predicate}."
    return " ".join(filter(None, [share, rest, *named[:_NAMED]]))


@dataclass(frozen=True, slots=True)
class CallVerdictSpec:
    """The template of the verdicts, how they count, and which fields of the turn the judge sees beside the calls."""

    template: str
    ratio: RatioSpec
    fields: tuple[str, ...]

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the templates it uses."""
        return (self.template, *VERDICT_PROMPTS)

    async def score(
        self,
        case: Turn,
        judge: Judge,
        settings: WindowSettings,
        items: Sequence[Json],
        *,
        weigh: bool,
        companions: Mapping[str, Json] | None = None,
    ) -> Score:
        """The share of the items whose verdict counts; `companions` are shown beside the fields."""
        longest = settings.longest_text
        fields = [name for name in self.fields if not judge_input.is_missing(case, name)]
        run_of_calls = CallRun(
            [judge_input.shorten(judge_input.to_json_value(call), longest) for call in case.tools_called],
            judge_input.longest_field(longest),
        )
        is_long = "tools_called" in fields and not run_of_calls.fits
        material = judge_input.build_judge_input(case, fields, longest)
        if is_long:
            material = await read_further(settings, judge, fill(load(self.template), {"form": ""}), material, items)
        is_around = is_long and "reading" not in material.notes
        beside = judge_input.shorten_all(companions or {}, longest)
        visible = [judge_input.shorten(item, longest) for item in items]
        sizes = [judge_input.size_of(item) + (run_of_calls.size_of(item) if is_around else 0) for item in visible]
        windows = [
            ItemWindow(
                items=visible[run.start : run.stop],
                materials=(
                    {
                        **material.content,
                        **(run_of_calls.around(visible[run.start : run.stop]) if is_around else {}),
                        **beside.content,
                    },
                ),
                truncated=is_long or material.truncated or beside.truncated or visible != list(items),
                partial=is_long,
            )
            for run in split(sizes, judge_input.longest_field(longest) // (2 if is_around else 1))
        ]
        score = await score_ratio(
            judge,
            self.ratio,
            self.template,
            windows,
            max_windows=settings.max_windows,
            seed=turn_id_of(case),
            weigh=weigh,
        )
        return replace(score, details={**score.details, **material.notes})


@dataclass(frozen=True, slots=True)
class CallRun:
    """The calls of a run, numbered from 1; a question shows at most `longest` characters of them."""

    calls: Sequence[Json]
    longest: int

    @property
    def fits(self) -> bool:
        """Whether one question can show all calls."""
        return sum(map(judge_input.size_of, self.calls)) <= self.longest

    def size_of(self, item: Json) -> int:
        """Characters of the call that an item is about; 0 if it is about none."""
        number = _number_of(item)
        return judge_input.size_of(self.calls[number - 1]) if number else 0

    def around(self, items: Sequence[Json]) -> Mapping[str, Json]:
        """The calls that the items are about, then as many earlier and later calls as fit, the nearest first.

        `calls_by_tool` counts all calls, so that a judge can see that a tool was never called.
        """
        own = [number for item in items if (number := _number_of(item))] or [len(self.calls)]
        chosen = set(own)
        room = self.longest - sum(judge_input.size_of(self.calls[number - 1]) for number in chosen)
        for number in (*range(max(own), min(own), -1), *range(min(own), 0, -1), *range(max(own), len(self.calls) + 1)):
            size = judge_input.size_of(self.calls[number - 1])
            if number not in chosen and size <= room:
                chosen.add(number)
                room -= size
        listed: list[Json] = []
        before = 0
        for number in (*sorted(chosen), len(self.calls) + 1):
            if number - before > 1:
                listed.append(f"[… {number - before - 1} calls left out …]")
            if number <= len(self.calls):
                listed.append({"call": number, **_as_object(self.calls[number - 1])})
            before = number
        counts = Counter(str(_as_object(call).get("name")) for call in self.calls)
        return {"tools_called": listed, "calls_by_tool": dict(counts)}


def _number_of(item: Json) -> int:
    number = cast("Mapping[str, Json]", item).get("call") if isinstance(item, Mapping) else None
    return number if isinstance(number, int) else 0


def _as_object(call: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", call) if isinstance(call, Mapping) else {}


def call_item(number: int, call: ToolCall) -> Mapping[str, Json]:
    """A call as an item: its number in the turn, the tool and the arguments."""
    return {"call": number, "tool": call.name, "arguments": judge_input.to_json_value(call.arguments)}


class CallVerdicts(VerdictSettings, WindowSettings, Evaluator[Turn]):
    """The share of a turn's tool calls whose verdict counts. Each subclass sets its own `spec`."""

    spec: ClassVar[CallVerdictSpec]

    def items(self, case: Turn) -> Sequence[Json]:
        """The items that get a verdict: every call."""
        return [dict(call_item(number, call)) for number, call in enumerate(case.tools_called, start=1)]

    def companions(self, case: Turn) -> Mapping[str, Json]:  # noqa: ARG002 - for kinds that show more
        """The material that the judge is shown beside the fields of the spec."""
        return {}

    async def evaluate(self, case: Turn, judge: Judge) -> Score:
        """See `Evaluator.evaluate`."""
        weigh = self.verdicts == "probabilities"
        items, companions = self.items(case), self.companions(case)
        return await self.spec.score(case, judge, self, items, weigh=weigh, companions=companions)
