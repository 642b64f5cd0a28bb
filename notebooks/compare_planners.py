# %% [markdown]
# # Which planner is best on my data?
#
# `p3iv.compare` trains several planners on the same windows and puts them into one table. This notebook does it on a
# small dataset and explains how to read the table, in particular the intervals. It takes about two minutes on a CPU.

# %%
NUM_VIDEOS = 40
PLANNERS = ["random", "retrieval", "graph", "ddn", "p3iv-plus"]
SEEDS = [0, 1, 2]
MAX_CPU_S = 10  # of each training

# %% [markdown]
# ## Data
#
# The tabletop is a small generated world: people make tea, repot plants and so on. Here we do not even draw the videos.
# The features are the state of the world with noise, so that the comparison is about planners and not about pictures.

# %%
import p3iv

p3iv.make_tabletop("tabletop", videos=NUM_VIDEOS, skip_rendering=True, overwrite=True)
stats = p3iv.stats("tabletop", split="release", horizons=[3])
print(f"{stats.videos} videos, {stats.actions} actions, {stats.windows[3]} windows of three steps")

# %% [markdown]
# ## Train all of them
#
# Every planner is trained once per seed. A run that is finished is kept: if you stop this cell, or add a planner later,
# the same call makes only what is missing. `random` and `retrieval` need no training. They say what a score is worth: a
# planner that does not beat retrieval has only learnt to look things up.


# %%
def show(at: p3iv.Progress) -> None:
    print(f"{at.done:.0f} of {at.total}: {at.about}")


notes: list[str] = []
compared = p3iv.compare(
    "tabletop",
    "compared",
    planners=PLANNERS,
    horizons=[3],
    seeds=SEEDS,
    split="release",
    samples=200,
    settings={"optim.max_cpu_s": MAX_CPU_S},
    progress=show,
    on_note=notes.append,
)
print("failed:", compared.failures or "none")

# %% [markdown]
# ## The table
#
# `success_rate` is the share of test windows in which all three steps are right and in the right order. It is a hard
# measure: two of three is wrong. `mean_accuracy` counts single steps. `nll` is about the whole distribution of plans:
# how surprised the planner is by what really happened, in nats; less is better.

# %%
print(f"{'planner':<12}{'success rate':>14}{'95 % interval':>20}{'mean accuracy':>16}{'NLL':>8}{'CPU s':>8}")
for row in sorted(compared.rows, key=lambda row: row["success_rate"], reverse=True):
    interval = f"{row['success_rate_low']:.1%} to {row['success_rate_high']:.1%}"
    print(
        f"{row['planner']:<12}{row['success_rate']:>14.1%}{interval:>20}{row['mean_accuracy']:>16.1%}"
        f"{row['nll']:>8.2f}{row['training_cpu_s']:>8.1f}"
    )

# %% [markdown]
# ## What the intervals mean
#
# You tested on a handful of videos, and trained with a few seeds. With other videos of the same kind and other seeds,
# the numbers would have been a little different. The interval says how different: made in the same way from other
# videos and seeds, 95 of 100 such intervals would contain the true value.
#
# Windows of one video resemble each other, so the videos are what counts, not the windows: fifty windows of five videos
# are five observations and not fifty. That is why the intervals here are wide.
#
# Two intervals that overlap do not prove that two planners are equally good, because both were tested on the same
# videos, and what is hard for one is hard for the other. If the intervals are far apart, the difference is real. If
# they nearly coincide, you need more videos before you say anything. More seeds do not replace more videos.

# %%
best, *others = sorted(compared.rows, key=lambda row: row["success_rate"], reverse=True)
clear = [row["planner"] for row in others if row["success_rate_high"] < best["success_rate_low"]]
print(f"{best['planner']} has the highest success rate.")
print("Its interval lies above those of:", ", ".join(clear) or "none; this is too little data to choose by")

# %% [markdown]
# The same table with all metrics is in `compared/index.html`, and as CSV in `compared/comparison.csv`. In a report,
# give the interval, the number of test videos, and the seeds.
