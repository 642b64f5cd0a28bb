"""The network of the paper, and what the networks beside it share."""

from p3iv.models.critic import Critic
from p3iv.models.p3iv import P3IV, PlannerShape, PlanOutput, cosine_positions, mlp
from p3iv.models.standardised import Standardised

__all__ = ["P3IV", "Critic", "PlanOutput", "PlannerShape", "Standardised", "cosine_positions", "mlp"]
