"""Speed of feature extraction: decoding alone, encoding alone, and both together as in `p3iv extract --jobs 1`.

Decodes tabletop videos and encodes them with the first encoder, with one decoding and one encoding thread; for the
other encoders it measures encoding only. S3D and CLIP (ViT-B/32) have random weights: the speed is the same.
Wall time, the best of several rounds of decode only, encode only and end to end: other programs can only slow a round
down. `end_to_end_over_slower` in the JSON line is 1 if decoding and encoding overlap perfectly.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import make_parser, wall_seconds
from p3iv.encoders.base import EncoderOptions, VideoEncoder, clip_moments
from p3iv.encoders.registry import build_encoder
from p3iv.encoders.s3d import S3D, WORDS_FILE
from p3iv.extraction.request import VideoTask
from p3iv.extraction.worker import encode_videos
from p3iv.features.pictures import frame_picture
from p3iv.features.video import VideoReader
from p3iv.tabletop.make import make_tabletop


def decode_clips(tasks: Sequence[VideoTask], encoder: VideoEncoder) -> tuple[int, int]:
    """Decode and resize every clip of every video; return the numbers of decoded frames and of frames in clips."""
    num_decoded = num_shown = 0
    for task in tasks:
        with VideoReader(task.path) as reader:
            moments = [moment for second in range(reader.num_seconds) for moment in clip_moments(encoder, second)]
            for picture in reader.frames_at(moments):
                frame_picture(picture, encoder.framing)
                num_shown += 1
            num_decoded += reader.num_decoded
    return num_decoded, num_shown


def encode_clips(num_clips: int, encoder: VideoEncoder) -> None:
    """Encode random clips one after the other, as extraction does."""
    size = encoder.framing.size
    clip = np.random.default_rng(0).integers(0, 256, (1, encoder.frames_per_clip, 3, size, size), np.uint8)
    for _ in range(num_clips):
        encoder.encode(clip)


def extract(tasks: Sequence[VideoTask], encoder: VideoEncoder) -> int:
    faults = [encoded.fault for encoded in encode_videos(tasks, encoder, "float16") if encoded.fault]
    if faults:
        raise SystemExit(faults[0])
    return len(tasks)


def build(name: str, folder: Path) -> VideoEncoder:
    if name == "s3d":
        return build_s3d(folder)
    return build_clip(folder / "clip") if name == "clip" else build_encoder(name)


def build_clip(folder: Path) -> VideoEncoder:
    from transformers import CLIPConfig, CLIPModel  # noqa: PLC0415 - takes seconds to import

    CLIPModel(CLIPConfig()).save_pretrained(folder)
    marks = {"<pad>": 0, "<unk>": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}
    (folder / "vocab.json").write_text(json.dumps(marks), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    about = {"tokenizer_class": "CLIPTokenizer", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    (folder / "preprocessor_config.json").write_text("{}", encoding="utf-8")
    return build_encoder("clip", EncoderOptions(str(folder)))


def build_s3d(folder: Path) -> VideoEncoder:
    words = ["open", "door"]
    np.save(folder / WORDS_FILE, np.array(words))
    torch.save(S3D(words).state_dict(), folder / "s3d.pth")
    return build_encoder("s3d", EncoderOptions(str(folder / "s3d.pth")))


def measure(tasks: Sequence[VideoTask], encoder: VideoEncoder, repeats: int) -> dict[str, float]:
    """The best times of several rounds, in which decoding, encoding and both take turns."""
    num_decoded, num_shown = decode_clips(tasks, encoder)
    num_clips = num_shown // encoder.frames_per_clip
    encode_clips(3, encoder)
    decode_s, encode_s, both_s = [], [], []
    for _ in range(repeats):
        decode_s.append(wall_seconds(lambda: decode_clips(tasks, encoder)))
        encode_s.append(wall_seconds(lambda: encode_clips(num_clips, encoder)))
        both_s.append(wall_seconds(lambda: extract(tasks, encoder)))
    slower_s = max(min(decode_s), min(encode_s))
    print(f"decode only   {min(decode_s):7.2f} s  {num_decoded / min(decode_s):8.0f} frames decoded per second")
    print(f"encode only   {min(encode_s):7.2f} s  {num_shown / min(encode_s):8.1f} frames encoded per second")
    print(f"end to end    {min(both_s):7.2f} s  {len(tasks) / min(both_s):8.2f} videos per second")
    return {
        "videos": len(tasks),
        "rows": num_clips,
        "decode_s": round(min(decode_s), 2),
        "encode_s": round(min(encode_s), 2),
        "end_to_end_s": round(min(both_s), 2),
        "decoded_frames_per_s": round(num_decoded / min(decode_s)),
        "encoded_frames_per_s": round(num_shown / min(encode_s), 1),
        "end_to_end_over_slower": round(min(both_s) / slower_s, 2),
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=int, default=20)
    parser.add_argument(
        "--encoders", default="efficientnet-lite0,s3d,clip", help="the first one is measured end to end"
    )
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tabletop(folder / "tabletop", num_videos=args.videos, encoder="none")
        tasks = [VideoTask(path.stem, path) for path in sorted((folder / "tabletop" / "videos").iterdir())]
        first, *others = args.encoders.split(",")
        print(f"{first}, {args.videos} tabletop videos")
        result = measure(tasks, build(first, folder), args.repeats)
        rates = {first: result["encoded_frames_per_s"]}
        for other in others:
            encoder = build(other, folder)
            encode_clips(1, encoder)
            seconds = min(wall_seconds(partial(encode_clips, 1, encoder)) for _ in range(5))
            rates[other] = round(encoder.frames_per_clip / seconds, 1)
            print(f"{other:<14}{rates[other]:8.1f} frames encoded per second, {1 / seconds:.2f} rows")
    print(json.dumps({**result, "encoded_frames_per_s": rates}))


if __name__ == "__main__":
    main()
