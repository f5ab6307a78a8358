# Uses a server by langchain-openai: chat, stream, tools, structured output, embeddings.
import sys
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

url, key = sys.argv[1:]
model = ChatOpenAI(base_url=url, api_key=key, model="tiny", temperature=0, max_tokens=200, max_retries=0)
short = model.bind(max_tokens=8)
whole = short.invoke("what is in the sea").content
assert "".join(c.content for c in short.stream("what is in the sea")) == whole


class get_weather(BaseModel):
    """Weather of a city."""

    city: str


class Thing(BaseModel):
    many: bool


call = model.bind_tools([get_weather], tool_choice="get_weather").invoke("what is in the sea", max_tokens=400)
assert call.tool_calls and call.tool_calls[0]["name"] == "get_weather" or call.invalid_tool_calls, call
assert isinstance(model.with_structured_output(Thing, method="json_schema").invoke("what is in the sea"), Thing)
vectors = OpenAIEmbeddings(base_url=url, api_key=key, model="tiny", check_embedding_ctx_length=False).embed_documents(["sea", "hen"])
assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1])
print("ok")
