"""The network of the paper."""

from p3iv.models.critic import Critic
from p3iv.models.p3iv import P3IV, PlannerShape, PlanOutput

__all__ = ["P3IV", "Critic", "PlanOutput", "PlannerShape"]
