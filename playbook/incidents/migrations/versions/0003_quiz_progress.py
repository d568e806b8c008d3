"""Progress of the quiz: the cards that a learner has met, and every answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "quiz_card",
        sa.Column("learner", sa.String, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("due", sa.String, nullable=False),
        sa.Column("memory", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("learner", "item", name="pk_quiz_card"),
    )
    op.create_table(
        "quiz_answer",
        sa.Column("key", sa.Integer, nullable=False),
        sa.Column("learner", sa.String, nullable=False),
        sa.Column("at", sa.String, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("rating", sa.Integer, nullable=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("topics", sa.Text, nullable=False),
        sa.Column("stated", sa.Float),
        sa.Column("truth", sa.Float),
        sa.PrimaryKeyConstraint("key", name="pk_quiz_answer"),
    )
    op.create_index("ix_quiz_answer_learner", "quiz_answer", ["learner"])
