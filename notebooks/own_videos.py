# %% [markdown]
# # A planner for your own videos
#
# You need a folder with videos and one table, `steps.csv`, that says which steps each video shows and when. From these
# you get a planner in three calls: extract, train, plan.
#
# So that this notebook runs anywhere, it first makes ten short videos, as if you had filmed a few things that people do
# at a table. With your own videos, skip that cell and set FOLDER. It takes a minute or two on a CPU.

# %%
FOLDER = "my_table"
NUM_VIDEOS = 10
EPOCHS = 20

# %%
import csv
import shutil
from pathlib import Path

import p3iv

filmed = p3iv.make_tabletop("filmed", videos=NUM_VIDEOS, skip_features=True, overwrite=True)
folder = Path(FOLDER)
folder.mkdir(exist_ok=True)
shutil.copytree(filmed / "videos", folder / "videos", dirs_exist_ok=True)
shutil.copyfile(filmed / "steps.csv", folder / "steps.csv")

# %% [markdown]
# ## What is in the folder
#
# `steps.csv` has a row per step. The name of a step is what a plan will say, so write it as you would tell a person. If
# you do not know the times, leave them empty: the order is enough to learn from, and each video is then one example.

# %%
with (folder / "steps.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
for row in rows[:4]:
    print({name: row[name] for name in ("video", "task", "step", "start_s", "end_s")})
print(f"... {len(rows)} steps of {len({row['step'] for row in rows})} actions")

# %% [markdown]
# `check` finds what would be in the way later: videos without steps, steps without videos, rows that cannot be read.

# %%
for finding in p3iv.check(folder):
    print(f"{finding.severity}: {finding.message}")

# %% [markdown]
# ## Extract
#
# Pictures become rows of numbers, one per second, by a network that was trained on photographs. `only_needed=True`
# reads only the seconds around the beginning and the end of each step, which are the ones that planners look at. You
# can stop this cell: the next call continues with the videos that are left.


# %%
def show(at: p3iv.Progress) -> None:
    if at.done % 1 == 0:  # not after every step of an epoch
        print(f"\r{at.what}: {at.done:.0f} of {at.total} {at.about}    ", end="")


report = p3iv.extract(folder, only_needed=True, overwrite=True, progress=show)
print(f"\n{report.features.num_videos} videos, {report.features.width} numbers per second")

# %% [markdown]
# ## Train
#
# Whole videos are put aside to choose the best epoch (validation) and for the final score (test). Ten videos are very
# little, and the notes will tell you so: with one or two examples of an action, nobody could learn it. Your planner
# gets useful from about three to five examples of every action on.

# %%
notes: list[str] = []
result = p3iv.train(
    folder,
    "runs/my_table",
    planner="p3iv-plus",
    settings={"optim.epochs": EPOCHS},
    overwrite=True,
    progress=show,
    on_note=notes.append,
)
print(f"\nthe best epoch is {result.best_epoch} of {result.epochs}")
for note in notes:
    print("note:", note)

# %% [markdown]
# ## Plan
#
# The moments are in a video that the planner may have seen in training; for a fair number, see `p3iv.evaluate`. Here we
# only want to see that everything fits together: from the beginning of the first step to the end of the third.

# %%
video = rows[0]["video"]
steps = [row for row in rows if row["video"] == video][:3]
clip = folder / "videos" / f"{video}.mp4"
planner = p3iv.Planner.from_pretrained(result.run, on_note=notes.append)
plans = planner.plan(f"{clip}@{steps[0]['start_s']}", f"{clip}@{steps[-1]['end_s']}")
print("in the video:", " -> ".join(row["step"] for row in steps))
plans

# %%
print(plans)

# %% [markdown]
# ## How good is it?
#
# `evaluate` scores the test videos, which were not used before. Look at the interval, not only at the number: with so
# few videos it is wide, and that is the honest answer.

# %%
found = p3iv.evaluate(result.run, samples=200, on_note=notes.append)
rate = found.plan_scores["success_rate"]
ends = f", 95 % interval {rate.low:.0%} to {rate.high:.0%}" if rate.has_ends else ""
print(f"{found.num_windows} test windows of {found.num_videos} videos: {rate.value:.0%} of the plans are right{ends}")
