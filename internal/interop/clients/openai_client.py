# Uses a server by the openai package: chat, stream, tools, JSON schema, embeddings, errors, cancel.
import json, sys
from openai import OpenAI, BadRequestError, NotFoundError, AuthenticationError

url, key = sys.argv[1:]
client = OpenAI(base_url=url, api_key=key, max_retries=0)
talk = [{"role": "user", "content": "what is in the sea"}]
tools = [{"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": {"type": "object", "additionalProperties": False,
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}]

names = [m.id for m in client.models.list()]
assert names == ["tiny"], names
whole = client.chat.completions.create(model="tiny", messages=talk, temperature=0, max_tokens=12)
assert whole.choices[0].finish_reason in ("stop", "length") and whole.usage.completion_tokens > 0, whole
chunks = list(client.chat.completions.create(model="tiny", messages=talk, temperature=0, max_tokens=12, stream=True, stream_options={"include_usage": True}))
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
assert text == whole.choices[0].message.content, (text, whole)
assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, chunks[-1]

for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
    call = client.chat.completions.create(model="tiny", messages=talk, tools=tools, tool_choice=choice, parallel_tool_calls=False, temperature=0, max_tokens=200).choices[0]
    assert call.finish_reason == "tool_calls", call
    assert json.loads(call.message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Rome"), call
with client.chat.completions.stream(model="tiny", messages=talk, tools=tools, tool_choice="required", parallel_tool_calls=False, temperature=0, max_tokens=200) as stream:
    final = stream.get_final_completion().choices[0]
assert final.message.tool_calls[0].function.name == "get_weather", final
answer = client.chat.completions.create(model="tiny", messages=talk + [final.message.model_dump(exclude_none=True, exclude={"parsed": True}) | {"content": ""},
    {"role": "tool", "tool_call_id": final.message.tool_calls[0].id, "content": "rain"}], temperature=0, max_tokens=4)
assert answer.usage.prompt_tokens > whole.usage.prompt_tokens, answer

schema = {"name": "n", "strict": True, "schema": {"type": "object", "properties": {"kind": {"enum": ["fish", "ship"]}, "many": {"type": "boolean"}}, "required": ["kind", "many"], "additionalProperties": False}}
value = json.loads(client.chat.completions.create(model="tiny", messages=talk, response_format={"type": "json_schema", "json_schema": schema}, temperature=0, max_tokens=200).choices[0].message.content)
assert value["kind"] in ("fish", "ship") and isinstance(value["many"], bool), value

probabilities = client.chat.completions.create(model="tiny", messages=talk, temperature=0, max_tokens=2, logprobs=True, top_logprobs=3).choices[0].logprobs
assert len(probabilities.content[0].top_logprobs) == 3, probabilities
assert client.completions.create(model="tiny", prompt="the sea", max_tokens=3, temperature=0).usage.completion_tokens <= 3
vectors = client.embeddings.create(model="tiny", input=["sea", "hen"]).data  # in base64
assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0].embedding) - 1) < 1e-3, vectors

for wanted, call in (
    (NotFoundError, lambda: client.chat.completions.create(model="none", messages=talk)),
    (BadRequestError, lambda: client.chat.completions.create(model="tiny", messages=[])),
    (BadRequestError, lambda: client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "sea " * 4000}])),
    (AuthenticationError, lambda: OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list()),
):
    try:
        call()
    except wanted as error:
        assert error.body["message"], error
    else:
        raise AssertionError(wanted)

with client.completions.create(model="tiny", prompt="the sea", temperature=0, max_tokens=100000, stream=True, extra_body={"ignore_eos": True}) as stream:
    next(iter(stream))
print("ok")
