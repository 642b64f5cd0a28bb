"""Folders of videos to annotate."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx

from p3iv.shipped import shipped_clips

Json = dict[str, Any]


def make_folder(folder: Path) -> Path:
    """A folder with the two clips that come with p3iv, and nothing else."""
    (folder / "videos").mkdir(parents=True)
    for clip in shipped_clips("tabletop-demo"):
        shutil.copy(clip.path, folder / "videos" / clip.file)
    return folder


def video_ids(client: httpx.Client) -> dict[str, str]:
    """The ids of the videos to annotate, by their names."""
    return {video["name"]: video["id"] for video in client.get("/v1/steps").json()["videos"]}


def put_steps(client: httpx.Client, video: str, tag: str, content: Json, annotator: str = "main") -> httpx.Response:
    """Replace the steps of a version."""
    return client.put(f"/v1/steps/{video}?annotator={annotator}", json=content, headers={"If-Match": tag})


def add_step(client: httpx.Client, video: str, name: str) -> int:
    """Append a step and return how many there are when it is confirmed."""
    answer = client.get(f"/v1/steps/{video}").raise_for_status()
    steps = answer.json()["steps"]
    new = {"step": name, "start_s": len(steps), "end_s": len(steps) + 1}
    content = {"task": "make eggs", "steps": [*steps, new]}
    return len(put_steps(client, video, answer.headers["etag"], content).raise_for_status().json()["steps"])
