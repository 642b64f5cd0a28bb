"""A small sound file of every annotation format: the same two steps of one video, `kitchen`."""

from __future__ import annotations

import json
from fractions import Fraction

from p3iv.readers.tools.spans import Clock, ToolOptions, VideoFacts

STEPS = (("boil water", 1.0, 3.0), ("pour water", 4.0, 6.0))

FPS = 25


def _label_studio() -> object:
    regions = [(step, round(start * FPS) + 1, round(end * FPS)) for step, start, end in STEPS]
    results = [
        {
            "id": f"r{number}",
            "type": "timelinelabels",
            "from_name": "steps",
            "to_name": "video",
            "value": {"ranges": [{"start": start, "end": end}], "timelinelabels": [step]},
        }
        for number, (step, start, end) in enumerate(regions)
    ]
    box = {"type": "videorectangle", "value": {"sequence": [], "labels": ["hand"]}}
    guess = {"type": "timelinelabels", "value": {"ranges": [{"start": 1, "end": 9}], "timelinelabels": ["guess"]}}
    cancelled = {"was_cancelled": True, "result": [guess]}
    task = {"id": 7, "data": {"video": "/data/upload/3/1a2b3c4d-kitchen.mp4"}}
    return [{**task, "annotations": [cancelled, {"result": [*results, box]}], "predictions": [{"result": [guess]}]}]


def _label_studio_min() -> object:
    labels = [
        {"ranges": [{"start": round(start * FPS) + 1, "end": round(end * FPS)}], "timelinelabels": [step]}
        for step, start, end in STEPS
    ]
    return [{"id": 7, "video": "/data/local-files/?d=films/kitchen.mp4", "videoLabels": labels, "annotator": 1}]


def _label_studio_audio() -> object:
    results = [
        {"type": "labels", "value": {"start": start, "end": end, "channel": 0, "labels": [step]}}
        for step, start, end in STEPS
    ]
    return [{"data": {"audio": "https://x.org/films/kitchen.mp4?a=1"}, "annotations": [{"result": results}]}]


def _via() -> object:
    options = {str(number): step for number, (step, *_) in enumerate(STEPS)}
    segments = {
        f"1_{number}": {"vid": "1", "flg": 0, "z": [start, end], "xy": [], "av": {"1": str(number)}}
        for number, (_, start, end) in enumerate(STEPS)
    }
    still = {"vid": "1", "flg": 0, "z": [2.5], "xy": [2, 1, 1, 9, 9], "av": {"2": "hand"}}
    return {
        "project": {"pname": "tea", "vid_list": ["1"]},
        "attribute": {
            "1": {"aname": "step", "type": 4, "options": options},
            "2": {"aname": "object", "type": 1, "options": {}},
        },
        "file": {"1": {"fid": "1", "fname": "kitchen.mp4", "type": 4, "loc": 1, "src": ""}},
        "view": {"1": {"fid_list": ["1"]}},
        "metadata": {**segments, "1_still": still},
    }


VIA_CSV = r"""# Exported using VGG Image Annotator (http://www.robots.ox.ac.uk/~vgg/software/via)
# - metadata of {""1"":""3""} indicates attribute with id "1" set to an attribute option with id "3"
# ATTRIBUTE = {"1":{"aname":"step","type":4,"options":{"0":"boil water","1":"pour water"}}}
# CSV_HEADER = metadata_id,file_list,flags,temporal_coordinates,spatial_coordinates,metadata
"1_a","[""kitchen.mp4""]",0,"[1,3]","[]","{""1"":""0""}"
"1_b","[""kitchen.mp4""]",0,"[4.0,6.0]","[]","{""1"":""1""}"
"1_c","[""kitchen.mp4""]",0,"[2.5]","[2,1,1,9,9]","{""1"":""1""}"
"""

VIA_SEGMENTS_CSV = r"""# Exported using VGG Image Annotator (http://www.robots.ox.ac.uk/~vgg/software/via)
# CSV_HEADER = metadata_id,file_list,temporal_segment_start,temporal_segment_end,metadata
"1_a","[""kitchen.mp4""]",1.0,3.0,"{""STEPS"":""boil water""}"
"1_b","[""kitchen.mp4""]",4.0,6.0,"{""STEPS"":""pour water""}"
"""

ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2024-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0">
 <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
  <MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/kitchen.wav" MIME_TYPE="audio/x-wav"/>
  <MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/x/kitchen.mp4" MIME_TYPE="video/mp4" TIME_ORIGIN="500"/>
  <PROPERTY NAME="lastUsedAnnotationId">3</PROPERTY>
 </HEADER>
 <TIME_ORDER>
  <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="500"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="2500"/>
  <TIME_SLOT TIME_SLOT_ID="ts3" TIME_VALUE="3500"/><TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="5500"/>
  <TIME_SLOT TIME_SLOT_ID="ts5"/>
 </TIME_ORDER>
 <TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="actions">
  <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
   <ANNOTATION_VALUE>boil water</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
  <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2" TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4">
   <ANNOTATION_VALUE>pour water</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
 </TIER>
 <TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="empty"/>
 <LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="default-lt" TIME_ALIGNABLE="true"/>
</ANNOTATION_DOCUMENT>
"""

CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations>
 <version>1.1</version>
 <meta><task><name>tea</name><size>30</size><mode>interpolation</mode><start_frame>5</start_frame>
  <frame_filter>step=5</frame_filter><source>kitchen.mp4</source></task></meta>
 <track id="0" label="boil water">
  <box frame="25" outside="0" occluded="0" keyframe="1" xtl="1" ytl="1" xbr="9" ybr="9"/>
  <box frame="30" outside="0" occluded="0" keyframe="0" xtl="1" ytl="1" xbr="9" ybr="9"/>
  <box frame="75" outside="1" occluded="0" keyframe="1" xtl="1" ytl="1" xbr="9" ybr="9"/>
 </track>
 <track id="1" label="pour water">
  <box frame="100" outside="0" occluded="0" keyframe="1" xtl="1" ytl="1" xbr="9" ybr="9"/>
  <box frame="145" outside="0" occluded="0" keyframe="0" xtl="1" ytl="1" xbr="9" ybr="9"/>
 </track>
</annotations>
"""

VIDAT = {
    "version": "2.0.3",
    "annotation": {
        "video": {"src": "video/kitchen.mp4", "fps": 10, "frames": 100, "duration": 10.0},
        "actionAnnotationList": [
            {"start": start, "end": end, "action": number, "object": 0, "description": ""}
            for number, (_, start, end) in enumerate(STEPS, start=3)
        ],
    },
    "config": {"actionLabelData": [{"id": number, "name": step} for number, (step, *_) in enumerate(STEPS, start=3)]},
}

CHAPTERS = "How to make tea, see https://x.org\n\n0:00 Welcome\n(0:01) - boil water\n0:03 - wait\n00:00:04 pour water\n"

YT_DLP = {
    "id": "abc",
    "title": "How to make tea",
    "chapters": [{"start_time": start, "end_time": end, "title": step} for step, start, end in STEPS],
}

WEBVTT = """WEBVTT Kind: captions

NOTE somebody wrote this

STYLE
::cue { color: lime }

1
00:00:01.000 --> 00:00:03.000 align:start
<v Anna>boil water</v>

00:04.000 --> 00:06.000
pour
water
"""

SRT = "1\r\n00:00:01,000 --> 00:00:03,000\r\nboil water\r\n\r\n2\r\n00:00:04,000 --> 00:00:06,000\r\npour water\r\n"

WHISPER = {
    "text": " boil water pour water",
    "language": "en",
    "segments": [
        {"id": number, "start": start, "end": end, "text": f" {step}", "tokens": [1]}
        for number, (step, start, end) in enumerate(STEPS)
    ],
}

ACTIVITYNET = {
    "kitchen": {
        "subset": "training",
        "duration": 10.0,
        "annotations": [
            {"segment": [0, 1], "label": "SIL"},
            *({"segment": [start, end], "label": step} for step, start, end in STEPS),
        ],
    }
}

GOALSTEP = {
    "version": "1.0",
    "videos": [
        {
            "video_uid": "kitchen",
            "goal_category": "COOKING:TEA",
            "goal_description": "Makes tea",
            "segments": [
                {
                    "start_time": start,
                    "end_time": end,
                    "step_category": step,
                    "step_description": f"Somebody does: {step}",
                    "is_relevant": "essential",
                    "segments": [
                        {
                            "start_time": start,
                            "end_time": start + 1,
                            "step_category": f"begin to {step}",
                            "segments": [],
                        }
                    ],
                }
                for step, start, end in STEPS
            ],
        }
    ],
}

EPIC = """narration_id,video_id,start_timestamp,stop_timestamp,narration,verb,verb_class,noun,all_nouns
k_0,kitchen,00:00:01.00,00:00:03.000,boil the water,boil,3,water,"['water', 'pan']"
k_1,kitchen,00:00:04.00,00:00:06.000,pour it,pour,4,water,['water']
"""

CAPTAINCOOK = {
    "kitchen": {
        "recording_id": "kitchen",
        "activity_name": "Tea",
        "steps": [
            {"step_id": 9, "start_time": -1.0, "end_time": -1.0, "description": "add sugar", "has_errors": True},
            *(
                {"step_id": number, "start_time": start, "end_time": end, "description": step, "has_errors": False}
                for number, (step, start, end) in enumerate(STEPS)
            ),
        ],
    }
}

CSV = "video,task,step,start_s,end_s\n" + "".join(f"kitchen,tea,{step},{start},{end}\n" for step, start, end in STEPS)

FRAMES = "\n".join(["SIL"] * 25 + ["boil water"] * 50 + ["background"] * 25 + ["pour water"] * 50) + "\n"

# File -> content, and the format that it is recognised as.
EXAMPLES: dict[str, tuple[str, str]] = {
    "ls/kitchen.json": (json.dumps(_label_studio()), "label-studio"),
    "ls-min/kitchen.json": (json.dumps(_label_studio_min()), "label-studio"),
    "ls-audio/kitchen.json": (json.dumps(_label_studio_audio()), "label-studio"),
    "via/kitchen.json": (json.dumps(_via()), "via"),
    "via/kitchen.csv": (VIA_CSV, "via-csv"),
    "via-segments/kitchen.csv": (VIA_SEGMENTS_CSV, "via-csv"),
    "kitchen.eaf": (ELAN, "elan"),
    "cvat/kitchen.xml": (CVAT, "cvat"),
    "vidat/kitchen.json": (json.dumps(VIDAT), "vidat"),
    "kitchen.txt": (CHAPTERS, "chapters"),
    "kitchen.info.json": (json.dumps(YT_DLP), "yt-dlp"),
    "kitchen.en.vtt": (WEBVTT, "webvtt"),
    "kitchen.srt": (SRT, "srt"),
    "whisper/kitchen.json": (json.dumps(WHISPER), "whisper"),
    "activitynet/kitchen.json": (json.dumps(ACTIVITYNET), "activitynet"),
    "mstcn/groundTruth/kitchen.txt": (FRAMES, "frame-labels"),
    "mstcn/mapping.txt": ("0 SIL\n1 boil water\n2 pour water\n3 background\n", ""),  # read with the labels
    "goalstep/kitchen.json": (json.dumps(GOALSTEP), "goalstep"),
    "epic/kitchen.csv": (EPIC, "epic-kitchens"),
    "captaincook/kitchen.json": (json.dumps(CAPTAINCOOK), "captaincook4d"),
    "csv/kitchen.csv": (CSV, "csv"),
}

OPTIONS = ToolOptions(cues_are_steps=True, task="tea")

CLOCK = Clock(OPTIONS, lambda _: VideoFacts("kitchen.mp4", Fraction(FPS), Fraction(6)))  # a video of six seconds
