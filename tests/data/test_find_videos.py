from __future__ import annotations

from pathlib import Path

from p3iv.data.folder import find_videos


def test_the_first_file_by_name_is_used_and_a_broken_link_only_if_it_is_alone(tmp_path: Path) -> None:
    for name in ("tea.mp4", "tea.MKV", "tea.txt", "soup.avi", ".egg.mp4.abcd1234.part"):
        (tmp_path / name).touch()
    (tmp_path / "soup.3gp").touch()
    (tmp_path / "soup.MOV").symlink_to("nowhere")
    (tmp_path / "egg.ts").symlink_to("nowhere")
    found = {stem: path.name for stem, path in find_videos(tmp_path).items()}
    assert found == {"tea": "tea.MKV", "soup": "soup.avi", "egg": "egg.ts"}
    assert find_videos(tmp_path / "missing") == {}
