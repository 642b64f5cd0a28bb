"""/openapi.json describes every route, and every answer is as it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest

from p3iv.serving.routes import router
from soak.service_process import ServiceProcess

Json = dict[str, Any]
METHODS = {"get", "put", "post", "delete"}


@pytest.fixture(scope="module")
def description(service: ServiceProcess) -> Json:
    return dict(httpx.get(f"{service.url}/openapi.json").json())


def schemas_in(part: Any) -> list[Json]:
    """Every schema below a part of the description."""
    if isinstance(part, list):
        return [found for each in part for found in schemas_in(each)]
    if not isinstance(part, dict):
        return []
    own = [part["schema"]] if isinstance(part.get("schema"), dict) else []
    return own + [found for each in part.values() for found in schemas_in(each)]


def validate(description: Json, path: str, answer: httpx.Response) -> None:
    """Fail unless an answer is as its route describes it."""
    responses = description["paths"][path][answer.request.method.lower()]["responses"]
    described = responses.get(str(answer.status_code)) or responses[f"{answer.status_code // 100}XX"]
    if answer.status_code == 204:
        assert "content" not in described
        return
    media_type = answer.headers["content-type"].partition(";")[0]
    assert {media_type, f"{media_type.partition('/')[0]}/*"} & set(described["content"])
    if media_type == "application/json":
        schema = {**described["content"][media_type]["schema"], "components": description["components"]}
        jsonschema.validate(answer.json(), schema, cls=jsonschema.Draft202012Validator)


def test_the_description_is_valid(description: Json) -> None:
    assert description["openapi"].startswith("3.1")
    assert set(description) >= {"openapi", "info", "paths", "components"}
    for schema in [*description["components"]["schemas"].values(), *schemas_in(description["paths"])]:
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "\\n" not in schema.get("description", "")


def test_every_reference_points_to_something(description: Json) -> None:
    def references(part: Any) -> list[str]:
        if isinstance(part, list):
            return [found for each in part for found in references(each)]
        if not isinstance(part, dict):
            return []
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for each in part.values() for found in references(each)]

    names = description["components"]["schemas"]
    assert {reference.removeprefix("#/components/schemas/") for reference in references(description)} <= set(names)


def test_every_route_is_described(description: Json) -> None:
    described = {(method, path) for path, item in description["paths"].items() for method in item}
    routes = {
        (method.lower(), getattr(route, "path", ""))
        for route in router.routes
        for method in getattr(route, "methods", ())
        if getattr(route, "include_in_schema", True)
    }
    assert described == routes
    hidden = {getattr(route, "path", "") for route in router.routes if not getattr(route, "include_in_schema", True)}
    assert hidden == {"/", "/annotate", "/static/{name}"}  # the pages


def test_every_operation_has_a_summary_and_describes_its_errors(description: Json) -> None:
    names = []
    for item in description["paths"].values():
        for method, operation in item.items():
            assert method in METHODS
            assert operation["description"]
            names.append(operation["operationId"])
            for status in ("4XX", "5XX"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}
    assert len(set(names)) == len(names)


def test_answers_are_as_described(
    client: httpx.Client, queries_client: httpx.Client, description: Json, clip: Path
) -> None:
    example = client.get("/v1/info").json()["example"]
    moments = {name: {"video": example["video"], "t": example[name]} for name in ("start", "goal")}
    plan = client.post("/v1/plan", json=moments).json()["plan"]
    video = client.put("/v1/videos?name=a.mp4", content=clip.read_bytes()).json()["id"]
    picture = client.get(f"/v1/videos/{video}/frame?t=1").content
    kept = client.put("/v1/pictures", content=picture)
    queries_video = queries_client.get("/v1/videos").json()["videos"][-1]["id"]
    place, events = f"/v1/videos/{video}", {"Accept": "text/event-stream"}
    answers = [
        ("/healthz", client.get("/healthz")),
        ("/readyz", client.get("/readyz")),
        ("/v1/session", client.post("/v1/session", json={"token": ""})),
        ("/v1/session", client.post("/v1/session", json={"token": "wrong"})),
        ("/v1/info", client.get("/v1/info")),
        ("/v1/videos", client.get("/v1/videos")),
        ("/v1/videos", client.put("/v1/videos", content=clip.read_bytes())),
        ("/v1/videos", client.put("/v1/videos", content=b"x")),
        ("/v1/videos/{video}", client.get(place)),
        ("/v1/videos/{video}", client.get("/v1/videos/nothing")),
        ("/v1/videos/{video}/file", client.get(f"{place}/file")),
        ("/v1/videos/{video}/file", client.get(f"{place}/file", headers={"Range": "bytes=0-9"})),
        ("/v1/videos/{video}/file", client.get(f"{place}/file", headers={"Range": "bytes=999999999-"})),
        ("/v1/videos/{video}/frame", client.get(f"{place}/frame?t=1")),
        ("/v1/videos/{video}/frame", client.get(f"{place}/frame?t=x")),
        ("/v1/videos/{video}/strip", client.get(f"{place}/strip")),
        ("/v1/pictures", kept),
        ("/v1/pictures/{picture}", client.get(f"/v1/pictures/{kept.json()['id']}")),
        ("/v1/steps/{index}/picture", client.get("/v1/steps/0/picture")),
        ("/v1/steps/{index}/picture", client.get("/v1/steps/900/picture")),
        ("/v1/plan", client.post("/v1/plan", json=moments | {"samples": 5, "graph": "horizontal"})),
        ("/v1/plan", client.post("/v1/plan", json=moments, headers=events)),
        ("/v1/plan", client.post("/v1/plan", json={})),
        ("/v1/follow", client.post("/v1/follow", json={"video": video})),  # which this planner cannot
        ("/v1/follow", queries_client.post("/v1/follow", json={"video": queries_video})),
        ("/v1/follow", client.post("/v1/follow", json={})),
        ("/v1/probability", client.post("/v1/probability", json=moments | {"plan": plan})),
        ("/v1/probability", client.post("/v1/probability", json=moments | {"plan": ["x"]})),
        ("/v1/videos/{video}", client.delete(place)),
    ]
    for path, answer in answers:
        validate(description, path, answer)
    assert {path for path, _ in answers} == set(description["paths"])


def test_questions_in_the_form_of_the_description_are_understood(client: httpx.Client, description: Json) -> None:
    """What the description allows is not refused for its form."""
    schema = {**description["components"]["schemas"]["PlanRequest"], "components": description["components"]}
    question = {
        "start": {"features": [0.0] * 3},
        "goal": {"video": "0" * 32, "t": 0},
        **{"number": 1, "samples": 1, "mode": "chain", "seed": 0, "horizon": 3, "graph": None},
    }
    jsonschema.validate(question, schema, cls=jsonschema.Draft202012Validator)
    assert client.post("/v1/plan", json=question).status_code in (404, 422)
    conditions = {"with": ["a"], "at": [[1, "b"]], "before": [["a", "b"]], "first": "a", "done": []}
    query = {"goal": {"text": "tea"}, "procedure": "tea", "history": False, "why": True, "conditions": conditions}
    jsonschema.validate(question | query, schema, cls=jsonschema.Draft202012Validator)
    assert client.post("/v1/plan", json=question | query).status_code == 422
    wrongs: list[Json] = [{"seed": -1}, {"mode": "x"}, {"start": {}}, {"other": 1}, {"goal": {"video": "x", "t": 0}}]
    wrongs += [{"start": {"text": "tea"}}, {"goal": {"text": ""}}, {"conditions": {"at": [[1, "a", "b"]]}}]
    wrongs += [{"conditions": {"including": ["a"]}}, {"history": "off"}, {"why": None}, {"procedure": "x" * 501}]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(question | wrong, schema, cls=jsonschema.Draft202012Validator)
        assert client.post("/v1/plan", json=question | wrong).status_code == 400
