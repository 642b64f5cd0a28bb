# %% [markdown]
# # Your first plan
#
# You show p3iv two moments of a video: where you are, and where you want to be. It answers with the steps that lead
# from the one to the other. Often several ways are possible, so it answers with all of them, each with its probability.
#
# This file is a notebook: VS Code and Jupyter (with jupytext) open it as cells. It runs in a few seconds on a CPU.

# %%
# PLANNER is a trained planner. `tabletop-demo` comes with p3iv; a run folder of `p3iv train` works as well.
PLANNER = "tabletop-demo"
VIDEO = "tabletop-demo/repot.mp4"
START_S, GOAL_S = 2.0, 14.0

# %% [markdown]
# ## Load a planner
#
# Nothing is downloaded: the planner and two short clips lie in the package. The planner knows the actions that it was
# trained on, and plans a fixed number of steps.

# %%
from p3iv import Planner

planner = Planner.from_pretrained(PLANNER)
print(planner)
print("for example:", ", ".join(planner.names[:5]))

# %% [markdown]
# ## Plan between two moments of a video
#
# A moment is a video with a time, such as `kitchen.mp4@12.5`. A picture, an array of pixels and a PIL image are
# moments, too. Each moment is encoded with the same network that encoded the training videos. The planner sees nothing
# of what happens in between.

# %%
plans = planner.plan((VIDEO, START_S), (VIDEO, GOAL_S))
print(f"recommended, with a probability of {plans.plan_probability:.0%}:")
for number, step in enumerate(plans.plan, start=1):
    print(f"  {number}. {step}")

# %% [markdown]
# ## Look at the alternatives
#
# Two steps can often be done in either order, and a picture may not show everything. The probabilities say how sure the
# planner is. Those of P3IV+ are exact: over all plans, also those that are not listed, they sum to 1.

# %%
for steps, probability in plans.top(5):
    print(f"{probability:6.1%}  {' -> '.join(steps)}")
print(f"{plans.other_plans:6.1%}  all plans that are not in the list of {len(plans)}")

# %% [markdown]
# You can ask about a plan of your own. Here: how probable are the same steps backwards?

# %%
backwards = plans.plan[::-1]
print(f"{planner.probability((VIDEO, START_S), (VIDEO, GOAL_S), backwards):.2%}  {' -> '.join(backwards)}")

# %% [markdown]
# ## Draw the graph
#
# The plans share steps, so they can be drawn as one graph: thick lines are probable. A notebook shows it when `plans`
# is the last line of a cell; `to_svg` gives it as a file.

# %%
from pathlib import Path

Path("plan.svg").write_text(plans.to_svg(), encoding="utf-8")
plans

# %% [markdown]
# Next: [your own videos](own_videos.py), and [how planners compare](compare_planners.py).
