"""What an install has spent of its app's caps, and what is left."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.client.escaping import escaped
from deniable.client.policy import Policy
from deniable.client.state.ledger import Ledger
from deniable.shared.privacy.epsilon import decimal_text


@dataclass(frozen=True)
class QuestionBudget:
    name: str
    spent: str
    left: str  # never more than what is left in all


@dataclass(frozen=True)
class Budget:
    """ε as exact decimal text."""

    spent: str
    left: str
    questions: tuple[QuestionBudget, ...] = ()

    @property
    def text(self) -> str:
        """For a screen, in lines."""
        lines = [f"Spent: ε {self.spent} over all surveys and rounds; left: ε {self.left}."]
        lines += [
            f"    {each.name}: ε {each.spent} spent, ε {each.left} left" for each in self.questions
        ]
        return "\n".join(lines)


def budget(ledger: Ledger, policy: Policy) -> Budget:
    """Caps may be smaller than what was spent under an earlier policy: then nothing is left."""
    left, cap = max(0, policy.total_cap - ledger.total), policy.question_cap
    names = sorted({*ledger.questions, *(policy.questions or ())})
    questions = []
    for name in names:
        spent = ledger.questions.get(name, 0)
        rest = left if cap is None else min(left, max(0, cap - spent))
        questions.append(QuestionBudget(escaped(name), decimal_text(spent), decimal_text(rest)))
    return Budget(decimal_text(ledger.total), decimal_text(left), tuple(questions))
