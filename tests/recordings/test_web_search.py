"""Recorded answers with web searches: an engine finds what was recorded, pages are what was opened, a Chat
server makes the same calls, and the gateway must show the same items with their events in the same order."""

from typing import Any

import msgspec
import pytest

from bascule.services.fetch import Fetcher, Page
from bascule.testing import Call, Finish, ModelServer, Reply, Request, Step, Text
from bascule.tools import web_search_actions as actions
from bascule.tools import web_search_text as text
from tests.recordings import tally
from tests.recordings.convert import expected, output_of, reasoning_text, request
from tests.recordings.convert import steps as steps_of
from tests.recordings.files import Recording, recordings
from tests.recordings.keys import event_keys, item_keys, response_keys
from tests.recordings.order import comparable, orders
from tests.services.pages.samples import article
from tests.services.search.fakes import Fake, Hit, SearxngFake, running
from tests.serving import Answer, serving
from tests.stream_rules import check_stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

_XAI = "xAI's own shape: arguments and a name in the item, no events of the search"
EXCLUDED = {
    "web_search--vai-xai-web-search-tool.1": _XAI,
    "web_search--vai-xai-web-search-tool.1-stream": _XAI,
}
OTHER_ORDER = {
    "web_search--vai-azure-web-search-preview-tool.1-stream": (
        "Azure ends a search while it is searching, without a completed event"
    ),
}
ALL = [
    r
    for r in recordings("responses")
    if r.family == "web_search" and r.status == 200 and r.name not in EXCLUDED
]
FEWER = "an answer of OpenAI's has more sources than a search has results here"
SERVICES = "sources that are services of OpenAI's own"


def test_the_exclusions_are_there() -> None:
    names = {r.name for r in recordings("responses")}
    for name, reason in EXCLUDED.items():
        assert name in names
        tally.excluded("responses", "web_search", reason)


class Web:
    """What the recording found, and the numbers by which the model cites it here."""

    def __init__(self, items: list[Json], results: int) -> None:
        """`results` of one search are wanted."""
        self._results = results
        self.numbers: dict[str, int] = {}
        self.titles: dict[str, str] = {}
        self.engine: Fake = SearxngFake()
        for annotation in _annotations(items):
            self.titles.setdefault(annotation["url"], annotation["title"])
        left = list(self.titles)
        for call in items:
            if call["type"] != "web_search_call":
                continue
            action = call["action"]
            if action["type"] == "search":
                self._found(action, left)
                left = []
            else:
                self._number(action["url"])

    def _found(self, action: Json, cited: list[str]) -> None:
        queries = queries_of(action)
        urls = [s["url"] for s in action.get("sources") or () if s["type"] == "url"]
        kept = list(dict.fromkeys([*cited, *urls]))[: self._results * len(queries)]
        urls = sorted(kept, key=lambda url: urls.index(url) if url in urls else -1)
        for at, query in enumerate(queries):
            found = [
                Hit(url, self.titles.get(url, ""), "It says so.")
                for url in urls[at :: len(queries)]
            ]
            self.engine.by_query[query] = found
        for url in urls:
            self._number(url)

    def _number(self, url: str) -> None:
        self.numbers.setdefault(url, len(self.numbers) + 1)

    def page(self, url: str) -> Page:
        body = article(title=self.titles.get(url, "A page")).encode()
        return Page(url, "text/html", None, body)

    def cited(self, part: Json) -> str:
        """The part's text as a model says it here: markers in place of links."""
        said: str = part["text"]
        for annotation in sorted(part["annotations"], key=lambda a: -a["start_index"]):
            start, end = annotation["start_index"], annotation["end_index"]
            said = f"{said[:start]}[cite:{self.numbers[annotation['url']]}]{said[end:]}"
        return said


def asking(recording: Recording) -> Json:
    """The request; one that was not recorded asks for all the sources that its answer has."""
    fields = request(recording)
    if recording.request is None:
        fields["tools"] = [{**tool, "search_context_size": "high"} for tool in fields["tools"]]
        fields["include"] = ["web_search_call.action.sources"]
    return fields


def queries_of(action: Json) -> list[str]:
    return action.get("queries") or [action["query"]]


def _annotations(items: list[Json]) -> list[Json]:
    parts = [p for item in items if item["type"] == "message" for p in item["content"]]
    return [a for part in parts for a in part["annotations"]]


def without_links(part: Json) -> str:
    """The part's text without what stands for its citations."""
    said: str = part["text"]
    for annotation in sorted(part["annotations"], key=lambda a: -a["start_index"]):
        said = said[: annotation["start_index"]] + said[annotation["end_index"] :]
    return said


def rounds_of(items: list[Json], found: Web) -> list[Reply]:
    """What the model says: an answer for each search, and the last one."""
    replies: list[Reply] = []
    steps: list[Step] = []
    for number, item in enumerate(items):
        if item["type"] == "web_search_call":
            arguments = {k: v for k, v in item["action"].items() if k not in ("type", "sources")}
            call = Call("web_search", arguments, id=f"call_{number}", split=3)
            replies.append(Reply(*steps, call, Finish("tool_calls")))
            steps = []
        elif item["type"] == "message":
            steps += [Text(found.cited(part), chunks=5) for part in item["content"]]
        else:
            steps += steps_of(item)
    calls = any(isinstance(step, Call) for step in steps)
    return [*replies, Reply(*steps, Finish("tool_calls" if calls else "stop"))]


@pytest.mark.requirement("recordings:responses:items", "recordings:responses:order")
@pytest.mark.parametrize("recording", ALL, ids=str)
async def test_the_gateway_answers_as_recorded(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, items = output_of(recording)
    fields = asking(recording)
    wide = any(tool.get("search_context_size") == "high" for tool in fields.get("tools") or ())
    found = Web(items, text.RESULTS["high" if wide else "medium"])
    replies = rounds_of(items, found)
    wanted = expected(items)

    async def get(_: Fetcher, url: str, __: Any) -> Page:
        return found.page(url)

    monkeypatch.setattr(Fetcher, "get", get)

    def answers(asked: Request) -> Reply:
        return replies[asked.number - 1]

    async with running(found.engine) as engine, ModelServer(answers) as model:
        options = {"engine": "searxng", "base_url": engine.url}
        async with serving(model.url, tools={"web_search": options}) as api:
            answer = await api.create(**fields)
    assert answer.status == 200, answer.body
    if recording.streamed:
        # By the rules of every stream: the Open Responses document has no searches.
        check_stream(answer.frames)
    response = answer.response
    assert response["status"] == recorded["status"]
    output = [i for i in response["output"] if i["type"] != "reasoning" or reasoning_text(i)]
    assert [item["type"] for item in output] == wanted.types
    for theirs, mine in zip(wanted.items, output, strict=True):
        assert item_keys(theirs, mine) == []
        if theirs["type"] == "web_search_call":
            _compare_call(recording, theirs, mine)
        elif theirs["type"] == "message":
            _compare_message(theirs, mine)
    if recording.provider.startswith(("openai", "azure")):
        assert response_keys(recorded, response) == []
    if recording.streamed:
        _compare_events(recording, answer, items)
    for note in wanted.notes:
        tally.adapted(note)
    tally.replayed("responses", "web_search", recording.name)


def _compare_call(recording: Recording, theirs: Json, mine: Json) -> None:
    for key, value in theirs["action"].items():
        if key != "sources":
            assert mine["action"][key] == value
    if recording.name not in OTHER_ORDER:
        assert mine["status"] == theirs["status"]
    asked = asking(recording).get("include") or ()
    sources = theirs["action"].get("sources")
    if "web_search_call.action.sources" not in asked:
        assert "sources" not in mine["action"]
    elif sources is not None:
        urls = [source["url"] for source in sources if source["type"] == "url"]
        ours = [source["url"] for source in mine["action"]["sources"]]
        assert [url for url in urls if url in ours] == [url for url in ours if url in urls]
        assert all(source.keys() == {"type", "url"} for source in mine["action"]["sources"])
        if len(ours) < len(urls):
            tally.adapted(FEWER)
        else:
            assert set(ours) >= set(urls)
        if len(urls) < len(sources):
            tally.adapted(SERVICES)


def _compare_message(theirs: Json, mine: Json) -> None:
    for said, part in zip(theirs["content"], mine["content"], strict=True):
        assert "".join(part["text"].split()) == "".join(without_links(said).split())
        for theirs_, ours in zip(said["annotations"], part["annotations"], strict=True):
            assert ours.keys() == theirs_.keys()
            assert (ours["url"], ours["title"]) == (theirs_["url"], theirs_["title"])
            assert 0 <= ours["start_index"] < ours["end_index"] <= len(part["text"])


def _compare_events(recording: Recording, answer: Answer, items: list[Json]) -> None:
    assert event_keys(recording.decoded_events, answer.events) == []
    theirs, ours = orders(recording.decoded_events), orders(answer.events)
    shown = [
        at for at, item in enumerate(items) if item["type"] != "reasoning" or reasoning_text(item)
    ]
    recorded = [comparable(theirs[at], items[at])[0] for at in shown]
    mine = [
        ours[at] for at, item in enumerate(answer.response["output"]) if item["type"] != "reasoning"
    ]
    if recording.name in OTHER_ORDER:
        assert mine != recorded, "the recording is not an exception any more"
        tally.adapted(f"the order of events was not compared: {OTHER_ORDER[recording.name]}")
    else:
        assert [_repeatless(types) for types in mine] == [_repeatless(types) for types in recorded]


def _repeatless(types: list[str]) -> list[str]:
    """Deltas and annotations alternate as the chunks are cut."""
    several = ("output_text.delta", "output_text.annotation.added")
    first = {name: types.index(name) for name in several if name in types}
    return [name for at, name in enumerate(types) if first.get(name, at) == at]


def test_every_recorded_action_is_one_that_a_model_can_ask_for() -> None:
    for recording in ALL:
        for item in output_of(recording)[1]:
            if item["type"] == "web_search_call":
                action = {k: v for k, v in item["action"].items() if k not in ("type", "sources")}
                assert not isinstance(actions.read(msgspec.json.encode(action).decode()), str)
