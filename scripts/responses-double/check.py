"""Holds the project's double of the Responses API against the official client.

    check.py PROGRAM [ARGUMENTS…]    the program prints {"url", "key"} and ends with its standard input

What the client parses, refuses and resumes here is what it would with the API; a double that invented its own wire
would fail. Each story is a function; its first failure ends the run.
"""

import json
import subprocess
import sys
import urllib.request

import openai
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

MODEL = "test-model"
TOOL = {
    "type": "function",
    "name": "propose_files",
    "description": "Proposes changes to files.",
    "parameters": {"type": "object", "properties": {"files": {"type": "array"}}},
    "strict": False,
}


class Double:
    """The running program, with its scripting routes."""

    def __init__(self, ready):
        self.url = ready["url"]
        self.key = ready["key"]
        # Without repeats, so that each request is seen once.
        self.client = OpenAI(base_url=self.url, api_key=self.key, max_retries=0, timeout=20)

    def post(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url.removesuffix("/v1") + path,
            data=data,
            method="POST",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.read()

    def script(self, *lines):
        self.post("/_script", list(lines))

    def ledger(self):
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/_ledger", timeout=20) as reply:
            return json.load(reply)


def a_response_is_created(double):
    response = double.client.responses.create(
        model=MODEL,
        input=[{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
        instructions="be brief",
        temperature=0.5,
        metadata={"turn": "t1"},
        store=True,
    )

    assert response.output_text == "turn 1: hello", response.output_text
    assert response.status == "completed"
    assert response.metadata == {"turn": "t1"}
    assert response.instructions == "be brief"
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    strictly(Response, response)


def a_stream_is_followed_to_its_end(double):
    double.script({"answer": {"output": [{"reasoning": "thinking"}, {"text": "grüße aus dem norden"}], "chunk_chars": 5}})
    deltas, summary, numbers, last = [], [], [], None

    for event in double.client.responses.create(model=MODEL, input="hello", stream=True):
        strictly(ResponseStreamEvent, event)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            deltas.append(event.delta)
        if event.type == "response.reasoning_summary_text.delta":
            summary.append(event.delta)
        last = event

    assert "".join(deltas) == "grüße aus dem norden", deltas
    assert len(deltas) == 4
    assert "".join(summary) == "thinking"
    assert numbers == list(range(len(numbers))), numbers
    assert last.type == "response.completed"
    assert last.response.output_text == "grüße aus dem norden"


def the_clients_own_accumulator_agrees_with_the_stream(double):
    with double.client.responses.stream(model=MODEL, input="accumulate") as stream:
        for _event in stream:
            pass
        final = stream.get_final_response()

    assert final.output_text == "turn 1: accumulate", final.output_text


def a_chain_is_continued(double):
    first = double.client.responses.create(model=MODEL, input="one")
    second = double.client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
    third = double.client.responses.create(model=MODEL, input="three", previous_response_id=second.id)

    assert third.output_text == "turn 3: three", third.output_text
    assert third.previous_response_id == second.id
    assert third.usage.input_tokens_details.cached_tokens > 0


def the_output_of_one_response_is_the_input_of_the_next(double):
    first = double.client.responses.create(model=MODEL, input="one")
    history = [{"role": "user", "content": "one"}]
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append({"role": "user", "content": "two"})

    second = double.client.responses.create(model=MODEL, input=history)

    assert second.output_text == "turn 2: two", second.output_text


def a_lost_chain_is_a_bad_request_with_its_code(double):
    first = double.client.responses.create(model=MODEL, input="one")
    double.post(f"/_forget/{first.id}")

    error = raised(
        openai.BadRequestError,
        lambda: double.client.responses.create(model=MODEL, input="two", previous_response_id=first.id),
    )

    assert error.code == "previous_response_not_found", error.code
    assert error.param == "previous_response_id"
    assert error.type == "invalid_request_error"
    assert error.status_code == 400
    assert error.request_id.startswith("req_")


def errors_have_the_clients_classes(double):
    wrong_key = OpenAI(base_url=double.url, api_key="sk-wrong", max_retries=0)
    create = double.client.responses.create

    raised(openai.AuthenticationError, lambda: wrong_key.responses.create(model=MODEL, input="a"))
    raised(openai.NotFoundError, lambda: double.client.responses.retrieve("resp_unknown"))
    unknown = raised(
        openai.BadRequestError, lambda: create(model=MODEL, input="a", extra_body={"colour": "red"})
    )
    assert (unknown.code, unknown.param) == ("unknown_parameter", "colour")
    double.script({"refuse": {"status": 429, "headers": {"retry-after": "3"}}}, {"refuse": {"status": 500}})
    limited = raised(openai.RateLimitError, lambda: create(model=MODEL, input="a"))
    assert limited.response.headers["retry-after"] == "3"
    raised(openai.InternalServerError, lambda: create(model=MODEL, input="a"))


def the_client_repeats_after_a_429(double):
    double.script({"refuse": {"status": 429, "headers": {"retry-after": "0"}}, "times": 2})
    patient = double.client.with_options(max_retries=3)

    response = patient.responses.create(model=MODEL, input="again", metadata={"turn": "patient"})

    assert response.output_text == "turn 1: again"
    started = [d for d in double.ledger()["dispatches"] if (d["metadata"] or {}).get("turn") == "patient"]
    assert len(started) == 1, started


def a_background_response_is_taken_up_again(double):
    double.script(
        {
            "answer": {
                "output": [{"text": "abcdefgh"}],
                "chunk_chars": 2,
                "holds": [{"before": 7, "gate": "background"}],
            },
            "wire": {"cut_after": 7},
        }
    )
    seen = []

    def follow():
        for event in double.client.responses.create(model=MODEL, input="x", background=True, stream=True):
            seen.append(event)

    raised(openai.APIConnectionError, follow)
    response_id = seen[0].response.id
    assert double.client.responses.retrieve(response_id).status == "in_progress"
    double.post("/_gates/background")
    last = seen[-1].sequence_number
    for event in double.client.responses.retrieve(response_id, stream=True, starting_after=last):
        seen.append(event)

    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert "".join(e.delta for e in seen if e.type == "response.output_text.delta") == "abcdefgh"
    assert seen[-1].type == "response.completed"
    assert double.client.responses.retrieve(response_id).output_text == "abcdefgh"


def a_background_response_is_cancelled_and_deleted(double):
    double.script({"answer": {"holds": [{"before": 3, "gate": "never"}]}})

    response = double.client.responses.create(model=MODEL, input="x", background=True)
    cancelled = double.client.responses.cancel(response.id)
    double.client.responses.delete(response.id)

    assert response.status == "queued", response.status
    assert cancelled.status == "cancelled", cancelled.status
    raised(openai.NotFoundError, lambda: double.client.responses.retrieve(response.id))


def a_tool_is_called_and_answered(double):
    arguments = {"files": [{"path": "a.txt", "action": "create", "content": "hi"}]}
    double.script({"answer": {"output": [{"tool_call": {"name": "propose_files", "arguments": arguments}}]}})
    events = list(
        double.client.responses.create(
            model=MODEL, input="edit", tools=[TOOL], tool_choice="auto", stream=True
        )
    )
    response = events[-1].response
    [call] = response.output
    deltas = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")

    for event in events:
        strictly(ResponseStreamEvent, event)
    assert call.type == "function_call" and call.name == "propose_files"
    assert json.loads(call.arguments) == arguments == json.loads(deltas)
    # The API wants an output for each call before it goes on.
    raised(
        openai.BadRequestError,
        lambda: double.client.responses.create(model=MODEL, input="go", previous_response_id=response.id),
    )
    answered = double.client.responses.create(
        model=MODEL,
        previous_response_id=response.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "done"}],
    )
    assert answered.output_text == "turn 2: edit", answered.output_text


def endings_are_told(double):
    double.script(
        {"answer": {"output": [{"text": "half"}], "ending": {"incomplete": "max_output_tokens"}}},
        {"answer": {"ending": {"failed": {"code": "server_error", "message": "it broke"}}}},
        {"answer": {"ending": {"error": {"code": "server_error", "message": "it broke"}}}},
    )
    ends = [
        list(double.client.responses.create(model=MODEL, input="x", stream=True))[-1] for _ in range(3)
    ]

    for end in ends:
        strictly(ResponseStreamEvent, end)
    assert [end.type for end in ends] == ["response.incomplete", "response.failed", "error"], ends
    assert ends[0].response.incomplete_details.reason == "max_output_tokens"
    assert ends[1].response.error.message == "it broke"
    assert ends[2].message == "it broke"


def models_are_listed(double):
    assert MODEL in [model.id for model in double.client.models.list()]


STORIES = [
    a_response_is_created,
    a_stream_is_followed_to_its_end,
    the_clients_own_accumulator_agrees_with_the_stream,
    a_chain_is_continued,
    the_output_of_one_response_is_the_input_of_the_next,
    a_lost_chain_is_a_bad_request_with_its_code,
    errors_have_the_clients_classes,
    the_client_repeats_after_a_429,
    a_background_response_is_taken_up_again,
    a_background_response_is_cancelled_and_deleted,
    a_tool_is_called_and_answered,
    endings_are_told,
    models_are_listed,
]


def strictly(kind, value):
    """The client takes a missing field or another type as it comes; its own types, asked to validate, do not."""
    TypeAdapter(kind).validate_json(value.to_json())


def raised(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def main(command):
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        double = Double(json.loads(program.stdout.readline()))
        for story in STORIES:
            try:
                story(double)
            except Exception:
                print(f"scripts/responses-double: failed: {story.__name__}", file=sys.stderr, flush=True)
                raise
    finally:
        program.stdin.close()
        code = program.wait(timeout=20)
    assert code == 0, f"the program ended with {code}"
    print(f"scripts/responses-double: openai {openai.__version__}: {len(STORIES)} stories passed")


if __name__ == "__main__":
    main(sys.argv[1:])
